"""The certificates of one control plane: an authority of its own, what it signs, and the service account key.

Promises:
- Every key is made new for every cluster, is readable by its owner only, and never leaves the cluster's folder.
- The serving certificate names loopback and the in-cluster names, and nothing else.
- Each component has a client certificate of its own, with the user name that Kubernetes' default roles are bound to.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = dt.timedelta(days=365)
_CLOCK_SKEW = dt.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class User:
    """Who a client certificate speaks for: the common name is the user, the organization its group."""

    name: str
    group: str | None = None


ADMIN = User("admin", "system:masters")
# https://kubernetes.io/docs/reference/access-authn-authz/rbac/#default-roles-and-role-bindings
CONTROLLER_MANAGER = User("system:kube-controller-manager", "system:masters")
"""Its own role is enough only with --use-service-account-credentials, by which controllers start 8 s later."""
SCHEDULER = User("system:kube-scheduler")
KWOK = User("kwok", "system:masters")
"""kwok plays kubelets and a volume provisioner, which no default role covers together."""
ETCD_CLIENT = User("kube-apiserver-etcd-client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A certificate and its key, both PEM. The key is no part of the repr."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Pair(...)"


class Authority:
    """A certificate authority in memory only; what it signs is valid from an hour before `now` for a year."""

    def __init__(self, name: str, now: dt.datetime) -> None:
        self._now = now
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

    def client(self, user: User) -> Pair:
        """A certificate for TLS client authentication as `user`."""
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, user.name)]
        if user.group is not None:
            attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, user.group))
        return self._sign(x509.Name(attributes), (ExtendedKeyUsageOID.CLIENT_AUTH,), ())

    def server(self, common_name: str, names: tuple[str, ...], addresses: tuple[str, ...]) -> Pair:
        """A serving certificate for DNS `names` and IP `addresses`; for clients too, as an etcd member calls itself."""
        alternatives: tuple[x509.GeneralName, ...] = (
            *(x509.DNSName(name) for name in names),
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
        )
        usages = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
        return self._sign(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)]), usages, alternatives)

    def _sign(
        self, subject: x509.Name, usages: tuple[x509.ObjectIdentifier, ...], alternatives: tuple[x509.GeneralName, ...]
    ) -> Pair:
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
        return Pair(certificate=signed.public_bytes(serialization.Encoding.PEM), key=_encode_key(key))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        # OpenSSL 3 under Python 3.13's VERIFY_X509_STRICT wants both key identifiers.
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _CLOCK_SKEW)
            .not_valid_after(self._now + _LIFETIME)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def service_account_key() -> Pair:
    """The key that signs service account tokens; `certificate` is its public half, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return Pair(certificate=public, key=_encode_key(key))


def _encode_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    # kube-apiserver's --service-account-signing-key-file wants an "EC PRIVATE KEY"; the others read both formats.
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
