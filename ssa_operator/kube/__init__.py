"""The client of an API server: credentials, requests, discovery, watches and caches."""
