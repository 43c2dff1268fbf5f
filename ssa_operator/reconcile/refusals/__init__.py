"""A refused apply is read with the live object and its managedFields before anything is said or deleted."""
