"""Which manifests wait for which, as nodes and edges."""
