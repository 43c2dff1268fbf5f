"""A warning of the API server is shown once."""
