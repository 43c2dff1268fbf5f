"""What a reconcile reports: the status of the parent, and Events."""
