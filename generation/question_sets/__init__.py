"""Many questions in one job: files of them, and asking them a few at a time."""
