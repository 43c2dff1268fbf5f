"""Each bucket of parents belongs to exactly one shard, and each shard knows which others are alive."""
