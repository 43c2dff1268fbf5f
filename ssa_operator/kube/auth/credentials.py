"""Where the API server is and how to show it who asks.

Kubeconfigs and service accounts grant access (`kubeconfig`, `incluster`); here, what they grant is kept fresh.

Promises:
- Headers are asked for with every request; what expires is renewed before that,
  and what gives no expiry (a token file) is read again every 60 s.
- After a 401 the same is done once more at once, but not for every request of a server that always says 401.
- Errors name the kubeconfig and the field, and never a token.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from ssa_operator.kube.auth.credential_types import Credential, CredentialsError, CredentialSource, Endpoint, Trust
from ssa_operator.kube.clock import SYSTEM, Clock

__all__ = ["Credentials", "CredentialsError", "load"]

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet puts a pod's token, CA certificate and namespace."""

REREAD = 60.0
"""Seconds after which a token file is read again: the kubelet rotates tokens long before they expire."""

EXPIRY_MARGIN = 30.0
"""Seconds before its expiry that a token is no longer used."""

RENEWAL_PAUSE = 10.0
"""Seconds between two attempts to renew what keeps failing or expires at once: an exec plugin is a process."""


class Credentials:
    """An endpoint, and the headers and TLS settings to reach it with."""

    def __init__(self, endpoint: Endpoint, source: CredentialSource, trust: Trust, clock: Clock = SYSTEM) -> None:
        self.endpoint = endpoint
        self._source = source
        self._trust = trust
        self._clock = clock
        self._renewal = asyncio.Lock()
        self._grant: Credential | None = None
        self._read_at = 0.0
        self._tried_at = 0.0
        self._refused_at = -math.inf
        self._ssl: ssl.SSLContext | None = None

    @property
    def server(self) -> str:
        return self.endpoint.server

    @property
    def namespace(self) -> str:
        """The context's default namespace, `default` where it names none."""
        return self.endpoint.namespace

    @property
    def ssl(self) -> ssl.SSLContext | None:
        """The TLS settings of the last grant: another object after the client certificate changed, None for http."""
        return self._ssl

    async def headers(self) -> Mapping[str, str]:
        """The headers of one request.

        Raises CredentialsError where there never were any, or where they have expired and can't be renewed.
        """
        if self._grant is None or self._stale(self._grant):
            async with self._renewal:
                if self._grant is None or self._stale(self._grant):
                    await self._renew()
        assert self._grant is not None
        return self._grant.headers

    async def refused(self, headers: Mapping[str, str]) -> bool:
        """The server answered 401 to these headers: read once more. Returns whether another attempt may differ."""
        if not self._source.renewable:
            return False
        async with self._renewal:
            if self._grant is not None and self._grant.headers is not headers:
                return True  # somebody else has renewed them meanwhile
            if self._clock.monotonic() - self._refused_at < RENEWAL_PAUSE:
                return False  # the last renewal did not help either
            self._refused_at = self._clock.monotonic()
            before = self._grant
            await self._renew()
            return self._grant is not before

    def _stale(self, grant: Credential) -> bool:
        if not self._source.renewable:
            return False
        if self._clock.monotonic() - self._tried_at < RENEWAL_PAUSE:
            return False
        if grant.expires is not None:
            return self._clock.now() >= grant.expires - EXPIRY_MARGIN
        return self._clock.monotonic() - self._read_at >= REREAD

    async def _renew(self) -> None:
        self._tried_at = self._clock.monotonic()
        try:
            grant = await self._source.grant()
        except CredentialsError as error:
            expired = (
                self._grant is not None and self._grant.expires is not None and self._grant.expires <= self._clock.now()
            )
            if self._grant is None or expired:
                raise
            log.warning("credentials could not be renewed, the old ones stay in use: %s", error)
            return
        self._read_at = self._clock.monotonic()
        if self._grant is None or grant.certificate != self._grant.certificate:
            self._ssl = self._trust(grant.certificate)
        self._grant = grant


async def load(kubeconfig: str | None = None, context: str | None = None, clock: Clock = SYSTEM) -> Credentials:
    """The credentials that kubectl would use: this kubeconfig, else KUBECONFIG's files, else ~/.kube/config, else, in a
    pod, its service account.

    They are read once before this returns, so that wrong ones are told here. Raises CredentialsError.
    """
    # Here, because reading kubeconfigs imports a YAML parser.
    from ssa_operator.kube.auth import in_cluster  # noqa: PLC0415
    from ssa_operator.kube.auth import kubeconfig as files  # noqa: PLC0415

    paths = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    in_pod = (
        kubeconfig is None and context is None and not files.exists(paths) and in_cluster.available(SERVICE_ACCOUNT)
    )
    credentials = Credentials(*(in_cluster.read(SERVICE_ACCOUNT) if in_pod else files.read(paths, context)), clock)
    await credentials.headers()
    return credentials
