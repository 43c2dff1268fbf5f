"""Parents that create parents stop at a limit, even across shards and after a restart."""
