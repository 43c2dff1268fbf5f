"""A parent that is deleted without its children (`kubectl delete --cascade=orphan`) leaves all of them.

A manifest with `recreate: Orphan` is something else: reconcile.recreate.
"""
