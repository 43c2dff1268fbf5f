"""A parent is reconciled by the shard of its bucket. What one process knows of all parents, a shard asks for."""
