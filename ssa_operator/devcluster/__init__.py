"""The local control plane: real Kubernetes processes on loopback, without containers."""
