"""Reads the service account that the kubelet mounts into a pod.

Promises:
- Every fetch reads the token from its file, because the kubelet rotates it. So does every TLS context the certificate
  authorities.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from ssa_operator.kube.auth.credential_types import (
    CredentialProvider,
    CredentialsError,
    FetchedCredential,
    ServerConfig,
    TLSContextFactory,
    header_value,
)
from ssa_operator.kube.auth.proxy import proxy_for
from ssa_operator.kube.auth.tls import TLSConfig


class TokenFile(Struct, frozen=True):
    """A bearer token in a file that the kubelet rotates."""

    path: Path
    renewable: bool = True

    async def fetch(self) -> FetchedCredential:
        try:
            token = self.path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CredentialsError(f"the token file {self.path} can't be read: {error}") from error
        if not token:
            raise CredentialsError(f"the token file {self.path} is empty")
        return FetchedCredential(
            headers={"Authorization": header_value(f"Bearer {token}", f"the token file {self.path}")}
        )


def is_available(folder: Path) -> bool:
    """Whether this process runs in a pod with a service account."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (folder / "token").is_file()


def read(folder: Path) -> tuple[ServerConfig, CredentialProvider, TLSContextFactory]:
    """The pod's API server. Raises CredentialsError if the pod's variables or files are incomplete."""
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{name}") for name in ("HOST", "PORT"))
    if not host or not port:
        raise CredentialsError("this pod has no KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT; name a kubeconfig")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    authority, namespace = folder / "ca.crt", folder / "namespace"
    try:
        pem = authority.read_text()
        config = ServerConfig(
            server=server,
            namespace=namespace.read_text().strip() if namespace.is_file() else "default",
            context="in-cluster",
            proxy=proxy_for(server, os.environ),
            tls_server_name=None,
        )
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsError(f"the pod's service account in {folder} can't be read: {error}") from error
    if not pem.strip():
        raise CredentialsError(f"the pod's certificate authority {authority} is empty")
    return config, TokenFile(folder / "token"), TLSConfig(str(authority), pem, file=authority)
