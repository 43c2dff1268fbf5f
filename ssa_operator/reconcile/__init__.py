"""One reconcile of one parent, from its observation to its published status."""
