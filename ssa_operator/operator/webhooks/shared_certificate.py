"""The certificate of a webhook, which the operator makes and renews itself.

Promises:
- A pair is renewed RENEWAL before it expires. Replicas share the pair and the trusted authorities in a Secret in the
  operator's namespace.
- API servers trust a new pair and the previous one, until that one expires. So replicas may change one after another.
- If replicas create a pair at the same time, they agree on one: the API server stores one, and the others read it.
- If the Secret is deleted or loses its content while an operator runs, the operator writes what it knows. So the seal
  stays.
- The authority that signs a pair signs nothing else: its key is never stored.
- The path of the webhook has a random part that can't be guessed and that no renewal changes. So no other pod can ask
  the operator how it judges objects.
"""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import logging
import secrets
import ssl
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from msgspec import Struct

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.conflicts import retry_on_conflict
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.certificate_authority import CertificateAuthority
from ssa_operator.kube.auth.server_config import load_key_pair
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.permissions.operator_needs import CERTIFICATE

log = logging.getLogger("ssa_operator")

LIFETIME = dt.timedelta(days=90)
RENEWAL = dt.timedelta(days=30)

SECRETS = Resource(group="", version="v1", kind="Secret", plural="secrets", namespaced=True)

Now = Callable[[], float]
"""Seconds since 1970."""


class WebhookCertificate(Struct, frozen=True, kw_only=True):
    """A certificate, its key, and the data that API servers need. All but the token is PEM. The repr shows nothing."""

    certificate: bytes
    key: bytes
    authorities: bytes
    """The authorities that API servers trust."""
    token: str
    """The part of the webhook's path that can't be guessed."""
    seal: bytes = b""
    """The key with which the webhook signs its own texts; no API server has it, and no renewal changes it."""

    def __repr__(self) -> str:
        return "WebhookCertificate(...)"

    @property
    def data(self) -> dict[str, str]:
        """The data of a Secret."""
        values = (self.certificate, self.key, self.authorities, self.token.encode(), self.seal)
        return {name: base64.b64encode(value).decode() for name, value in zip((*_KEYS, _SEAL), values, strict=True)}

    @property
    def expires(self) -> float:
        """In seconds since 1970."""
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc.timestamp()

    def expires_soon(self, now: float) -> bool:
        return self.expires - now < RENEWAL.total_seconds()

    def is_for(self, host: str) -> bool:
        """Whether the certificate is valid for a DNS name or an IP address."""
        names = x509.load_pem_x509_certificate(self.certificate).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
        addresses = (str(each) for each in names.value.get_values_for_type(x509.IPAddress))
        return host in (*names.value.get_values_for_type(x509.DNSName), *addresses)

    def context(self) -> ssl.SSLContext:
        """The TLS context of a server. Raises ssl.SSLError."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        load_key_pair(context, self.certificate, self.key)
        return context


def new_certificate(
    host: str, now: float, before: WebhookCertificate | None = None, *, name: str = CERTIFICATE
) -> WebhookCertificate:
    """A certificate for a DNS name or an IP address, which succeeds the previous one."""
    authority = CertificateAuthority(name, dt.datetime.fromtimestamp(now, dt.UTC), LIFETIME)
    names, addresses = ((), (host,)) if _is_address(host) else ((host,), ())
    # Kubernetes limits a common name to 64 characters, and reads the alternative names only.
    pair = authority.server(name, names, addresses)
    return WebhookCertificate(
        certificate=pair.certificate,
        key=pair.key,
        authorities=authority.certificate + (_still_valid(before.authorities, now) if before else b""),
        # The path of a Service's webhook has lower-case letters and digits only.
        token=before.token if before else secrets.token_hex(24),
        seal=(before.seal if before else b"") or secrets.token_bytes(32),
    )


def read_certificate(data: Mapping[str, str]) -> WebhookCertificate | None:
    """The certificate in the data of a Secret, None if it has no usable one."""
    try:
        certificate, key, authorities, token = (base64.b64decode(data[name]) for name in _KEYS)
        found = WebhookCertificate(
            certificate=certificate,
            key=key,
            authorities=authorities,
            token=token.decode(),
            seal=base64.b64decode(data.get(_SEAL, "")),
        )
        found.context()
        x509.load_pem_x509_certificates(found.authorities)
    except (KeyError, ValueError, ssl.SSLError):
        return None
    return found if found.token else None


_KEYS = ("tls.crt", "tls.key", "ca.crt", "token")
_SEAL = "seal"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _still_valid(authorities: bytes, now: float) -> bytes:
    found: Iterable[x509.Certificate] = x509.load_pem_x509_certificates(authorities)
    return b"".join(each.public_bytes(Encoding.PEM) for each in found if each.not_valid_after_utc.timestamp() > now)


class KeptCertificate:
    """The certificate of a webhook, valid for `host`. All replicas share it in a Secret; without a client, each process
    has its own.
    """

    def __init__(
        self, client: Client | None, namespace: str, now: Now, *, name: str = CERTIFICATE, host: str | None = None
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._now = now
        self._name = name
        # By default any Service of the namespace, so that replicas with another option agree, too.
        self._host = host or f"*.{namespace}.svc"
        self._known: WebhookCertificate | None = None
        """The last one that the Secret had."""

    async def current(self) -> WebhookCertificate:
        """The certificate, created or renewed if necessary. Raises ApiError."""
        if self._client is None:
            self._known = await self._stored(None)
        else:
            self._known = await retry_on_conflict(
                partial(self._client.find, SECRETS, self._name, self._namespace), self._stored
            )
        return self._known

    async def _stored(self, live: LiveObject | None) -> WebhookCertificate:
        """The usable certificate of the Secret, or else one that is stored there."""
        found = read_certificate(live.body.get("data") or {}) if live is not None else None
        if found is not None and found.seal and self._is_usable(found):
            return found
        before = self._known if found is None or not found.seal else found
        if before is not None and self._is_usable(before):
            made = before
        else:
            made = new_certificate(self._host, self._now(), before or found, name=self._name)
        if self._client is not None:
            await self._store(self._client, made, live)
            log.info("the certificate of the webhook is %s", "made" if before is None else "renewed")
        return made

    def _is_usable(self, certificate: WebhookCertificate) -> bool:
        return not certificate.expires_soon(self._now()) and certificate.is_for(self._host)

    async def _store(self, client: Client, made: WebhookCertificate, live: LiveObject | None) -> None:
        metadata = {"name": self._name, "namespace": self._namespace}
        if live is not None:
            metadata["resourceVersion"] = live.resource_version
        body = encode(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {**metadata, "labels": {"app.kubernetes.io/name": "ssa-operator"}},
                "data": made.data,
            }
        )
        if live is None:
            await client.create(SECRETS, self._namespace, body)
        else:
            await client.send(calls.update(SECRETS, self._namespace, self._name, body))
