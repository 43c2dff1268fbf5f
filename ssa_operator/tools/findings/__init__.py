"""A finding: what is wrong, at which line, and what fixes it."""
