"""A parent, its children, and what Kubernetes made below them."""
