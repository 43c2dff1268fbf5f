"""Kubernetes objects, manifests and the result of a render, as values."""
