"""Parents that create parents end at a bound, even over shards and after a restart."""
