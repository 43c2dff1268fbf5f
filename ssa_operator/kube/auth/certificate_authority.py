"""A certificate authority in memory, which signs client and serving certificates.

Promises:
- The authority's own key never leaves the process.
- A serving certificate is valid for the given names and addresses only.

It needs the package `cryptography`, which is no dependency of the operator; import this module only where it is needed.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=365)
_CLOCK_SKEW = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class CertificateSubject:
    """The user of a client certificate: the common name is the user's name, the organization the group."""

    name: str
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPair:
    """A certificate and its key, both PEM. The repr shows neither."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "KeyPair(...)"


class CertificateAuthority:
    """A certificate authority in memory. Its certificates are valid from an hour before `now`."""

    def __init__(self, name: str, now: dt.datetime, lifetime: dt.timedelta = LIFETIME) -> None:
        self._now = now
        self._lifetime = lifetime
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = _usage(certificates=True)
        self._certificate = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def certificate(self) -> bytes:
        """The authority's own certificate, PEM."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def client(self, user: CertificateSubject) -> KeyPair:
        """A certificate for TLS client authentication as `user`."""
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, user.name)]
        if user.group is not None:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, user.group))
        return self._sign(x509.Name(attributes), (ExtendedKeyUsageOID.CLIENT_AUTH,), ())

    def server(self, common_name: str, names: tuple[str, ...], addresses: tuple[str, ...]) -> KeyPair:
        """A serving certificate for DNS `names` and IP `addresses`. It is a client certificate, too, because an etcd
        member connects to itself.
        """
        alternatives: tuple[x509.GeneralName, ...] = (
            *(x509.DNSName(name) for name in names),
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
        )
        usages = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
        return self._sign(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]), usages, alternatives)

    def _sign(
        self, subject: x509.Name, usages: tuple[x509.ObjectIdentifier, ...], alternatives: tuple[x509.GeneralName, ...]
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            self._builder(subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        )
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return KeyPair(certificate=signed.public_bytes(serialization.Encoding.PEM), key=encode_key(key))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        # OpenSSL 3 requires both key identifiers under VERIFY_X509_STRICT, a default since Python 3.13.
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _CLOCK_SKEW)
            .not_valid_after(self._now + self._lifetime)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key without encryption, PEM."""
    # kube-apiserver's --service-account-signing-key-file has to be an "EC PRIVATE KEY"; other flags take both formats.
    plain = serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, plain)


def _usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=certificates,
        crl_sign=certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
