"""A manifest that is applied once is not applied again, not even after a restart."""
