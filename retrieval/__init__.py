"""Owns the indexes: ingest writes them, generation searches them. Start at `pipeline.py`."""
