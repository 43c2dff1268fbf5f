"""Requests to an API server: each call as a value, the transport, errors and retries."""
