"""A reconcile that changes what templates read is followed by another one."""
