"""Models and engines: what tokenizes, embeds and generates, behind protocols."""
