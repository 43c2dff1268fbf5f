"""Commands that run the operator, and what it needs in a cluster."""
