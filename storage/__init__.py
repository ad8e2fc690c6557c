"""SQL and blobs: the truth. Everything else is derived from here and can be rebuilt."""
