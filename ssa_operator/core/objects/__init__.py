"""What things are: Kubernetes objects, manifests, and what a render gave, as values."""
