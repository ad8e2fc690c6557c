"""From uploaded bytes to searchable chunks."""
