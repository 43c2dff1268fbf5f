"""Checks of templates and CRDs before a cluster sees them. Nothing here does I/O."""
