"""Builds everything from Settings, once. Nothing else constructs a service."""
