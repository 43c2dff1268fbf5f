"""A finding: a problem, its line, and its fix."""
