"""`python -m cli`: the same as `longleaf`."""

from cli.main import app

app()
