"""The REST edge: FastAPI application, routes by noun, problem details, streaming."""
