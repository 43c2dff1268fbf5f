"""The objects and namespaces that a command names."""
