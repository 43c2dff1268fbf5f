"""The report of a reconcile: the status of the parent, and Events."""
