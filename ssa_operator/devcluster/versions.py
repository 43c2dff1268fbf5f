"""The programs of the control plane and their versions, and the error of an unavailable source."""

from __future__ import annotations

KUBERNETES = "1.36.3"
ETCD = "3.6.8"
"""The version that Kubernetes' own go.mod of this release requires."""
KWOK = "0.8.0"
STORAGE = ("etcd", "kube-apiserver")
"""The programs that answer requests. With them alone, an operator can reconcile."""
CONTROLLERS = ("kube-controller-manager", "kube-scheduler", "kwok")
"""The programs that make pods of Deployments and collect garbage."""
PROGRAMS = STORAGE + CONTROLLERS

ENVTEST = "1.36.2"
"""The newest envtest archive of this minor version. It has kube-apiserver for macOS; Kubernetes' releases do not."""
ENVTEST_SHA512 = {
    "darwin-amd64": "b4fe9f973cd1992e3880f8b230ed32c0c243b83371591e3e3315f4404df2cdbef8ee94eeb9bb245b7e5feb987d5c4a76"
    "c43e0877654ab73f00d7bbc2b9984514",
    "darwin-arm64": "9278f9e5af556b2f1f2d139769c1f0d717c7b4426917fdebdba898bcb725a916e4910d6160886194ff9be9589ea7c5c3"
    "2c2b8ae0754703874b7c8ba8ddfc41ce",
}
"""Its checksums by platform, from envtest-releases.yaml in kubernetes-sigs/controller-tools."""


class UnavailableError(Exception):
    """One source of the programs is unavailable. The message has the reason."""
