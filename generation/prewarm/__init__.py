"""Computing beforehand what prompts are likely to begin with, at low priority."""
