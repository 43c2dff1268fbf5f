"""An object is recreated only if its manifest says so, for an immutable field, with a new manifest that the API server
accepts.
"""
