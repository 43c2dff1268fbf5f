"""A parent is reconciled by the shard of its bucket. A process without shards knows all parents; a shard has to ask."""
