"""Questions with known answers: asked, scored, reported, compared."""
