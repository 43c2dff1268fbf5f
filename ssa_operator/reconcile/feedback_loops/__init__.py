"""The operator slows down templates that react to their own changes, and names the objects that they read."""
