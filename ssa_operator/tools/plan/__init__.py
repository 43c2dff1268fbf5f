"""What an apply would change, from a cluster or from a snapshot of it."""
