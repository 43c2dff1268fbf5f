"""The session of `dev`: a local cluster, the operator, and a screen with keys."""
