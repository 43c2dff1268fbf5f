"""What a reconcile does with every child, and why."""
