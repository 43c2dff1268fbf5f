"""Lists and watches, and the caches that they fill."""
