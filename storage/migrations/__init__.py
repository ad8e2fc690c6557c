"""Alembic's scripts. `storage.migrate` runs them; `storage.migrations.draft` writes the next one."""
