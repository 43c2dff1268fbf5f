"""Parses rendered text as YAML and validates its manifests; each field keeps its template line."""
