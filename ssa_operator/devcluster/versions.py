"""The programs of the control plane and their versions, and the error of a source that doesn't have them."""

from __future__ import annotations

KUBERNETES = "1.36.3"
ETCD = "3.6.8"
"""The version that Kubernetes' own go.mod of this release requires."""
KWOK = "0.8.0"
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")


class UnavailableError(Exception):
    """One source of the programs is unavailable. The message has the reason."""
