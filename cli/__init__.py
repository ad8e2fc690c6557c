"""The command line, and the embedded shape that `longleaf up` runs."""
