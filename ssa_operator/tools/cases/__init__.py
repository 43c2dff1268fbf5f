"""Golden cases: a parent, what a cluster has, and the manifests that its templates render."""
