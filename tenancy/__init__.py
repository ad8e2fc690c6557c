"""Who may do what: tenants, API keys, scopes."""
