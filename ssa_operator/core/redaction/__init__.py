"""What is secret, and reports without it."""
