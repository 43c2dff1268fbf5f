"""Writes the certificates, keys and kubeconfigs of one cluster as files for its components and users."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

from ssa_operator.devcluster import certificates
from ssa_operator.devcluster import encoded_kubeconfig as kubeconfig
from ssa_operator.devcluster.components import SERVICE_ADDRESS, Layout
from ssa_operator.kube.auth.certificate_authority import CertificateAuthority

_SERVING_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
_COMPONENT_USERS = {
    "kube-controller-manager": certificates.CONTROLLER_MANAGER,
    "kube-scheduler": certificates.SCHEDULER,
    "kwok": certificates.KWOK,
}


def write(name: str, layout: Layout, url: str, now: dt.datetime) -> None:
    """Writes a new cluster's certificates and kubeconfigs. The user's context is ssa-operator-NAME."""
    context = f"ssa-operator-{name}"
    authority = CertificateAuthority(context, now)
    admin = authority.client(certificates.ADMIN)
    pairs = {
        "kube-apiserver": authority.server("kube-apiserver", _SERVING_NAMES, ("127.0.0.1", SERVICE_ADDRESS)),
        "etcd": authority.server("etcd", ("localhost",), ("127.0.0.1",)),
        "etcd-client": authority.client(certificates.ETCD_CLIENT),
        "service-account": certificates.service_account_key(),
        "admin": admin,
    }
    _write_private(Path(layout.certificate("ca")), authority.certificate)
    for pair_name, pair in pairs.items():
        _write_private(Path(layout.certificate(pair_name)), pair.certificate)
        _write_private(Path(layout.key(pair_name)), pair.key)
    for component, user in _COMPONENT_USERS.items():
        content = kubeconfig.encode(component, url, authority.certificate, authority.client(user))
        _write_private(layout.component_kubeconfig(component), content)
    _write_private(layout.kubeconfig, kubeconfig.encode(context, url, authority.certificate, admin))


def _write_private(path: Path, content: bytes) -> None:
    """Writes a new file that only its owner can ever read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
