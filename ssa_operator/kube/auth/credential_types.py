"""What the ways to an API server have in common: an endpoint, and a source that grants access to it.

Promises:
- A grant is a value; whoever holds an old one can compare it with a new one.
- Neither tokens nor keys are in any `repr`.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


class CredentialsError(Exception):
    """No way to the API server: what is missing or wrong, where, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The server that a context names, the context's default namespace, and the proxy (None: a direct connection)."""

    server: str
    namespace: str
    context: str
    proxy: str | None
    tls_server_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A client certificate with its key, both PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """What a source gave: headers, a client certificate, and when they expire (seconds since 1970, None if unknown)."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    certificate: Certificate | None = None
    expires: float | None = None


class CredentialSource(Protocol):
    """Where a grant comes from: a token file, an exec plugin, plain values."""

    @property
    def renewable(self) -> bool:
        """Whether another reading can give another grant."""

    async def grant(self) -> Credential:
        """Read it now. Raises CredentialsError."""


class Trust(Protocol):
    """Makes the TLS settings for a client certificate, None for plain http."""

    def __call__(self, certificate: Certificate | None) -> ssl.SSLContext | None: ...
