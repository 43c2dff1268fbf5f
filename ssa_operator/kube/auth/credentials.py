"""The address of the API server and its credentials, renewed before they expire.

A kubeconfig (`kubeconfig`) or the service account of a pod provides the credential.

Promises:
- Every fetch of a service account's token reads its file, because the kubelet rotates it. So does every TLS context
  the certificate authorities.
- Every request reads the headers here. A credential with an expiry is renewed before it expires; one without (a token
  file) is read again every 60 s.
- After a 401 the credential is renewed at once. A server that always answers 401 causes one renewal every 10 s.
- If the server's certificate is not trusted, the certificate authorities are read again at once, at most every 10 s.
- Errors name the kubeconfig and the field, and never show a token.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from ssa_operator.kube.auth.server_config import (
    CredentialProvider,
    CredentialsError,
    FetchedCredential,
    ServerConfig,
    TLSConfig,
    TLSContextFactory,
    header_value,
    proxy_for,
)
from ssa_operator.kube.clock import SYSTEM, Clock


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


def has_service_account(folder: Path) -> bool:
    """Whether this process runs in a pod with a service account."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (folder / "token").is_file()


def read_service_account(folder: Path) -> tuple[ServerConfig, CredentialProvider, TLSContextFactory]:
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


__all__ = ["Credentials", "CredentialsError", "load"]

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder into which the kubelet mounts a pod's token, CA certificate and namespace."""

REREAD = 60.0
"""Seconds after which a token file is read again: the kubelet rotates tokens long before they expire."""

EXPIRY_MARGIN = 30.0
"""Seconds before its expiry at which a credential is renewed."""

RENEWAL_PAUSE = 10.0
"""Seconds between two renewals of a credential that fails or expires at once: an exec plugin is a process."""


class Credentials:
    """The address of an API server, and the headers and TLS context of each request to it."""

    def __init__(
        self,
        config: ServerConfig,
        provider: CredentialProvider,
        create_tls_context: TLSContextFactory,
        clock: Clock = SYSTEM,
    ) -> None:
        self.config = config
        self._provider = provider
        self._renewable = provider.renewable
        self._create_tls_context = create_tls_context
        self._clock = clock
        self._renewal = asyncio.Lock()
        self._credential: FetchedCredential | None = None
        self._fetched_at = 0.0
        self._tried_at = 0.0
        self._renewed_after_401_at = -math.inf
        self._read_authorities_at = -math.inf
        self._ssl: ssl.SSLContext | None = None

    @property
    def server(self) -> str:
        return self.config.server

    @property
    def namespace(self) -> str:
        """The context's default namespace, `default` if it names none."""
        return self.config.namespace

    @property
    def ssl(self) -> ssl.SSLContext | None:
        """The TLS context. A new client certificate replaces it by another object. None for http."""
        return self._ssl

    async def headers(self) -> Mapping[str, str]:
        """The headers of one request, renewed if they expire soon.

        Raises CredentialsError if the first fetch fails, or if they have expired and the renewal fails.
        """
        if self._credential is None or (self._renewable and self._is_due(self._credential)):
            async with self._renewal:
                if self._credential is None or self._is_due(self._credential):
                    await self._renew()
        assert self._credential is not None
        return self._credential.headers

    async def renew_after_401(self, headers: Mapping[str, str]) -> bool:
        """Renew the credential, because the server answered 401 to these headers. Returns whether a retry can have
        another result.
        """
        if not self._renewable:
            return False
        async with self._renewal:
            if self._credential is not None and self._credential.headers is not headers:
                return True  # another request has renewed them in the meantime
            if self._clock.monotonic() - self._renewed_after_401_at < RENEWAL_PAUSE:
                return False  # the last renewal did not help either
            self._renewed_after_401_at = self._clock.monotonic()
            before = self._credential
            await self._renew()
            return self._credential is not before

    def renew_authorities(self) -> bool:
        """Read the certificate authorities again, because the server's certificate is not trusted. Returns whether
        another attempt can have another result.
        """
        if self._credential is None or self._clock.monotonic() - self._read_authorities_at < RENEWAL_PAUSE:
            return False
        self._read_authorities_at = self._clock.monotonic()
        try:
            self._ssl = self._create_tls_context(self._credential.certificate)
        except CredentialsError as error:
            log.warning("the certificate authorities could not be read again, the old ones stay in use: %s", error)
            return False
        return True

    def _is_due(self, credential: FetchedCredential) -> bool:
        if self._clock.monotonic() - self._tried_at < RENEWAL_PAUSE:
            return False
        if credential.expires is not None:
            return self._clock.now() >= credential.expires - EXPIRY_MARGIN
        return self._clock.monotonic() - self._fetched_at >= REREAD

    async def _renew(self) -> None:
        self._tried_at = self._clock.monotonic()
        old = self._credential
        try:
            new = await self._provider.fetch()
        except CredentialsError as error:
            if old is None or (old.expires is not None and old.expires <= self._clock.now()):
                raise
            log.warning("credentials could not be renewed, the old ones stay in use: %s", error)
            return
        self._fetched_at = self._clock.monotonic()
        if old is None or new.certificate != old.certificate:
            self._ssl = self._create_tls_context(new.certificate)
        self._credential = new


async def load(kubeconfig: str | None = None, context: str | None = None, clock: Clock = SYSTEM) -> Credentials:
    """The credentials that kubectl uses: this kubeconfig, else KUBECONFIG's files, else ~/.kube/config, else, in a
    pod, its service account.

    They are fetched once, so that wrong credentials fail here. Raises CredentialsError.
    """
    # Imported here, because reading kubeconfigs imports a YAML parser.
    from ssa_operator.kube.auth import kubeconfig as files  # noqa: PLC0415

    paths = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    in_pod = kubeconfig is None and context is None and not files.exists(paths) and has_service_account(SERVICE_ACCOUNT)
    credentials = Credentials(*(read_service_account(SERVICE_ACCOUNT) if in_pod else files.read(paths, context)), clock)
    await credentials.headers()
    return credentials


def is_configured() -> bool:
    """Whether `load` without arguments finds a kubeconfig or a service account, or the user has set KUBECONFIG."""
    from ssa_operator.kube.auth import kubeconfig as files  # noqa: PLC0415

    in_pod = has_service_account(SERVICE_ACCOUNT)
    return bool(os.environ.get("KUBECONFIG")) or files.exists("~/.kube/config") or in_pod
