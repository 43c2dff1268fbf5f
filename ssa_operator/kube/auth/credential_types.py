"""The types that kubeconfigs and service accounts share: a server's address, its TLS settings, and a credential.

Promises:
- A fetched credential is a value, so that two of them can be compared.
- No `repr` shows a token or a key.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from msgspec import Struct


class CredentialsError(Exception):
    """The operator can't connect to the API server. The text names the file and field, and what to do."""


def header_value(text: str, origin: str) -> str:
    """The text as the value of a header. Raises CredentialsError if it has a character that ends the header."""
    if not text.isprintable():
        raise CredentialsError(f"{origin} has a line break or another character that no header can have")
    return text


class ServerConfig(Struct, frozen=True, kw_only=True):
    """The API server of a kubeconfig context or of a pod."""

    server: str
    """Its URL, without a slash at the end."""

    namespace: str
    """The context's default namespace."""

    context: str

    proxy: str | None
    """The URL of the proxy, None for a direct connection."""

    tls_server_name: str | None
    """The name that the server's certificate must have, None for the URL's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """A client certificate with its key, both PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedCredential:
    """Headers and a client certificate, as a provider returned them."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    certificate: Certificate | None = None

    expires: float | None = None
    """Seconds since 1970, None if unknown."""


class CredentialProvider(Protocol):
    """A token file, an exec plugin, an auth provider or the plain values of a kubeconfig."""

    @property
    def renewable(self) -> bool:
        """Whether `fetch` can return another credential later."""

    async def fetch(self) -> FetchedCredential:
        """The present credential. Raises CredentialsError."""


class TLSContextFactory(Protocol):
    """Creates the TLS context for a client certificate. It returns None for plain http."""

    def __call__(self, certificate: Certificate | None) -> ssl.SSLContext | None: ...
