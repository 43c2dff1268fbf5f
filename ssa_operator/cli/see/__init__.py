"""Commands that show what a cluster has, and why."""
