"""Encodes kubeconfigs of the local control plane: one user, one cluster and one context, with the certificates as data.

Promises:
- A kubeconfig has the certificate authority, so that every client verifies the server's certificate.
"""

from __future__ import annotations

import base64
from typing import Any

import yaml

from ssa_operator.kube.auth.certificate_authority import KeyPair


def encode(name: str, url: str, authority: bytes, user: KeyPair) -> bytes:
    """The kubeconfig with one context `name`, for the server `url` and the certificate `user`. `authority` is PEM."""
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": _base64(authority)}}],
        "users": [
            {
                "name": name,
                "user": {"client-certificate-data": _base64(user.certificate), "client-key-data": _base64(user.key)},
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }
    return yaml.safe_dump(content, sort_keys=False).encode()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
