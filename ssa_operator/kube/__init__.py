"""Talking to an API server: credentials, requests, discovery, watches and the caches that they fill."""
