"""Requests to an API server: each call as a value, its transport, errors and retries."""
