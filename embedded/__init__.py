"""The embedded shape: every process of a service on one machine, started, watched and stopped."""
