"""How a client reaches an API server: its address, its proxy, its TLS settings, and the values of a credential.

Promises:
- A fetched credential is a value, so that two of them can be compared.
- No `repr` shows a token or a key.
- HTTPS_PROXY applies to https, HTTP_PROXY to http, and NO_PROXY names hosts, domains, addresses and CIDRs
  (golang.org/x/net/http/httpproxy).
- The environment's proxy never applies to `localhost` and loopback addresses; a kubeconfig's `proxy-url` does.
- A file of certificate authorities is read for each context, because it is replaced when the authority is rotated.
- The client verifies the server's certificate, unless the kubeconfig has `insecure-skip-tls-verify`. Then it warns.
- A private key that the operator has as data is on disk only while OpenSSL reads it, in a folder that only the
  operator's user can read.
"""

from __future__ import annotations

import ipaddress
import logging
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

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


def proxy_for(server: str, environment: Mapping[str, str]) -> str | None:
    """The URL of the proxy for an API server's URL, None for a direct connection."""
    url = urlsplit(server)
    host = (url.hostname or "").rstrip(".")
    port = url.port or (443 if url.scheme == "https" else 80)
    proxy = _variable(environment, f"{url.scheme}_proxy")
    if not proxy or _is_loopback(host) or _is_excluded(host, port, _variable(environment, "no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name) or ""


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_excluded(host: str, port: int, no_proxy: str) -> bool:
    return any(_excludes(entry.strip().lower(), host.lower(), port) for entry in no_proxy.split(","))


def _excludes(entry: str, host: str, port: int) -> bool:
    if not entry:
        return False
    if entry == "*":
        return True
    address = _address(host)
    if "/" in entry:
        try:
            network = ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
        return address is not None and address in network
    name, colon, wanted = entry.rpartition(":")
    if colon and wanted.isdigit() and (":" not in name or name.startswith("[")):
        if int(wanted) != port:
            return False
        entry = name
    entry = entry.strip("[]")
    if address is not None:
        return _address(entry) == address
    if entry.startswith("*."):
        entry = entry[1:]
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")


log = logging.getLogger("ssa_operator")


class TLSConfig(Struct, frozen=True):
    """How the client verifies the server's certificate. A call creates the TLS context for a client certificate."""

    origin: str
    """The kubeconfig's entry or the file, for errors."""

    pem: str = ""
    """The trusted certificate authorities, '' for those of the system."""

    file: Path | None = None
    """The file of `pem`, which may have others later. None if they can't change."""

    verify: bool = True

    def __call__(self, certificate: Certificate | None) -> ssl.SSLContext:
        """The TLS context with a client certificate. Raises CredentialsError for unusable certificates and keys."""
        try:
            context = ssl.create_default_context(cadata=self._authorities() or None)
        except (ssl.SSLError, ValueError) as error:
            raise CredentialsError(
                f"{self.origin}: the certificate authority is not a PEM certificate: {error}"
            ) from error
        # This flag is a default since Python 3.13; many clusters' authorities have no key usage extension.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if not self.verify:
            log.warning(
                "%s has insecure-skip-tls-verify: the API server's certificate is not verified, so an attacker in "
                "between can read and change everything; set certificate-authority-data instead",
                self.origin,
            )
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            self._load(context, certificate)
        return context

    def _authorities(self) -> str:
        """The certificate authorities as the file has them now."""
        if self.file is None:
            return self.pem
        try:
            pem = self.file.read_text("ascii", "ignore")
        except OSError as error:
            raise CredentialsError(f"{self.origin}: the certificate authority can't be read: {error}") from error
        if not pem.strip():
            # Without authorities of its own, the context would trust those of the system.
            raise CredentialsError(f"{self.origin}: the certificate authority {self.file} is empty")
        return pem

    def _load(self, context: ssl.SSLContext, certificate: Certificate) -> None:
        try:
            load_key_pair(context, certificate.certificate, certificate.key)
        except (ssl.SSLError, ValueError) as error:
            message = f"{self.origin}: the client certificate and its key can't be used together: {error}"
            raise CredentialsError(message) from error
        except OSError as error:
            message = f"{self.origin}: the client certificate needs a temporary file: {error.strerror}"
            raise CredentialsError(message) from error


def load_key_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate and its key, PEM, into a context. Raises ssl.SSLError, OSError or ValueError."""
    with tempfile.TemporaryDirectory(prefix="ssa-operator-") as folder:
        chain_file, key_file = Path(folder, "tls.crt"), Path(folder, "tls.key")
        chain_file.write_bytes(certificate)
        key_file.write_bytes(key)
        context.load_cert_chain(chain_file, key_file)
