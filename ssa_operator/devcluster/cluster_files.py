"""The files of one cluster: certificates, keys and kubeconfigs, and the record by which other processes find it.

Promises:
- The record is complete or does not exist. The starter writes it when the cluster is ready.
- Each component has a client certificate of its own, with the user name that Kubernetes' default roles are bound to.
- A kubeconfig has the certificate authority, so that every client verifies the server's certificate.
"""

from __future__ import annotations

import base64
import datetime as dt
import os
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ssa_operator.devcluster.components import SERVICE_ADDRESS, Layout
from ssa_operator.devcluster.processes import ProcessCommand
from ssa_operator.kube.auth.certificate_authority import CertificateAuthority, CertificateSubject, KeyPair, encode_key
from ssa_operator.rendering.yaml.to_yaml import yaml_document

_NAME = "cluster.json"


class ClusterRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A running cluster."""

    specification: dict[str, Any]
    """The fields of its ClusterSpec."""

    url: str

    pids: dict[str, int]
    """By component."""

    commands: dict[str, tuple[str, ...]]
    """The arguments of each component, the program first."""

    def command(self, name: str, directory: Path) -> ProcessCommand:
        """The command that started the component `name`."""
        return ProcessCommand(name=name, argv=self.commands[name], log=directory / f"{name}.log", directory=directory)


def write_record(directory: Path, record: ClusterRecord) -> None:
    """Writes the record into the cluster's folder atomically."""
    new = directory / f"{_NAME}.new"
    new.write_bytes(msgspec.json.format(msgspec.json.encode(record)))
    new.rename(directory / _NAME)


def read_record(directory: Path) -> ClusterRecord | None:
    """The record in a cluster's folder, or None."""
    try:
        return msgspec.json.decode((directory / _NAME).read_bytes(), type=ClusterRecord)
    except FileNotFoundError:
        return None


def encode_kubeconfig(name: str, url: str, authority: bytes, user: KeyPair) -> bytes:
    """The kubeconfig with one context `name`, for the server `url` and the certificate `user`. `authority` is PEM."""
    content: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": _base64(authority)}}],
        "users": [
            {
                "name": name,
                "user": {"client-certificate-data": _base64(user.certificate), "client-key-data": _base64(user.key)},
            }
        ],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}],
        "current-context": name,
    }
    return yaml_document(content).encode()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


ADMIN = CertificateSubject("admin", "system:masters")
# https://kubernetes.io/docs/reference/access-authn-authz/rbac/#default-roles-and-role-bindings
CONTROLLER_MANAGER = CertificateSubject("system:kube-controller-manager", "system:masters")
"""Its own role is enough only with --use-service-account-credentials, which starts the controllers 8 s later."""
SCHEDULER = CertificateSubject("system:kube-scheduler")
KWOK = CertificateSubject("kwok", "system:masters")
"""kwok simulates kubelets and a volume provisioner. No default role has the permissions of both."""
ETCD_CLIENT = CertificateSubject("kube-apiserver-etcd-client")


def service_account_key() -> KeyPair:
    """The key that signs service account tokens. `certificate` is its public half, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return KeyPair(certificate=public, key=encode_key(key))


_SERVING_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_COMPONENT_USERS = {
    "kube-controller-manager": CONTROLLER_MANAGER,
    "kube-scheduler": SCHEDULER,
    "kwok": KWOK,
}


def write_credentials(name: str, layout: Layout, url: str, now: dt.datetime) -> None:
    """Writes a new cluster's certificates and kubeconfigs. The user's context is ssa-operator-NAME."""
    context = f"ssa-operator-{name}"
    authority = CertificateAuthority(context, now)
    admin = authority.client(ADMIN)
    pairs = {
        "kube-apiserver": authority.server("kube-apiserver", _SERVING_NAMES, ("127.0.0.1", SERVICE_ADDRESS)),
        "etcd": authority.server("etcd", ("localhost",), ("127.0.0.1",)),
        "etcd-client": authority.client(ETCD_CLIENT),
        "service-account": service_account_key(),
        "admin": admin,
    }
    _write_private(Path(layout.certificate("ca")), authority.certificate)
    for pair_name, pair in pairs.items():
        _write_private(Path(layout.certificate(pair_name)), pair.certificate)
        _write_private(Path(layout.key(pair_name)), pair.key)
    for component, user in _COMPONENT_USERS.items():
        content = encode_kubeconfig(component, url, authority.certificate, authority.client(user))
        _write_private(layout.component_kubeconfig(component), content)
    _write_private(layout.kubeconfig, encode_kubeconfig(context, url, authority.certificate, admin))


def _write_private(path: Path, content: bytes) -> None:
    """Writes a new file that only its owner can ever read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
