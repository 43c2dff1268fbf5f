"""The credentials that the kubelet puts into every pod.

Promises:
- The token is read from its file each time it is asked for: the kubelet replaces it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ssa_operator.kube.grant import CredentialsError, Endpoint, Grant, Source, Trust
from ssa_operator.kube.official import config
from ssa_operator.kube.proxy import proxy_for
from ssa_operator.kube.trust import Authority


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A bearer token in a file that somebody else replaces."""

    path: Path
    renewable: bool = True

    async def grant(self) -> Grant:
        try:
            token = self.path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CredentialsError(f"the token file {self.path} can't be read: {error}") from error
        if not token:
            raise CredentialsError(f"the token file {self.path} is empty")
        return Grant(headers={"Authorization": f"Bearer {token}"})


def available(folder: Path) -> bool:
    """Whether this process runs in a pod with a service account."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (folder / "token").is_file()


def read(folder: Path) -> tuple[Endpoint, Source, Trust]:
    """The pod's API server. Raises CredentialsError where the pod's variables or files are incomplete."""
    modules = config()
    loader = modules.incluster_config.InClusterConfigLoader(
        token_filename=str(folder / "token"), cert_filename=str(folder / "ca.crt"), environ=os.environ
    )
    settings = _Settings()
    try:
        loader.load_and_set(settings)
    except (modules.config_exception.ConfigException, OSError) as error:
        raise CredentialsError(f"the pod's service account in {folder}: {error}") from error
    namespace = folder / "namespace"
    endpoint = Endpoint(
        server=settings.host,
        namespace=namespace.read_text().strip() if namespace.is_file() else "default",
        context="in-cluster",
        proxy=proxy_for(settings.host, os.environ),
        tls_server_name=None,
    )
    authority = Authority(str(folder / "ca.crt"), Path(settings.ssl_ca_cert).read_text())
    return endpoint, TokenFile(folder / "token"), authority


class _Settings:
    """Takes what the official loader sets on its client's Configuration."""

    def __init__(self) -> None:
        self.host = ""
        self.ssl_ca_cert = ""
        self.api_key: dict[str, str] = {}
        self.refresh_api_key_hook: object = None
