"""Foundations that import nothing of ours: settings, errors, ids, token usage, clock."""
