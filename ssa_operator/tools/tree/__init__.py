"""A parent, its children, and the objects that Kubernetes created below them."""
