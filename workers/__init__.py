"""Celery at arm's length: tasks carry a job's id, the job's row is the state."""
