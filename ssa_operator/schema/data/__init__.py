"""The schemas of Kubernetes' kinds, for `ssa-operator check`. See the README beside this file."""
