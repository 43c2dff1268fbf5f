"""The users of one control plane, and its service account key.

Promises:
- Each component has a client certificate of its own, with the user name that Kubernetes' default roles are bound to.
"""

from __future__ import annotations

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ssa_operator.kube.auth.certificate_authority import CertificateSubject, KeyPair, encode_key

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
