"""The JSON shapes of the API, by noun."""
