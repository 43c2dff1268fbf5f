"""The schemas of kinds: those of a Kubernetes version, or of a cluster."""
