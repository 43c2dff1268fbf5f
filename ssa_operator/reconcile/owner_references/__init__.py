"""Every child has a legal owner reference, in a version of the parent that the cluster serves."""
