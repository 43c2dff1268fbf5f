"""The permissions that the operator itself needs, whatever its templates render, and the value that says why one is
needed.

Promises:
- Every permission names its purpose.
- An operator that elects no leader, serves no other hosts and has no webhook needs to watch CRDs, and one ConfigMap.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct

from ssa_operator.objects.kinds import Permission
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile.parent_records.rules import FOLDER_KINDS

LEASE = "ssa-operator"
"""The name of the Lease of leader election."""

CONFIGURATION = "ssa-operator"
"""The name of the webhook's ValidatingWebhookConfiguration."""

CERTIFICATE = "ssa-operator-admission"
"""The name of the Secret with the webhook's certificate, in the operator's namespace."""

CONVERSION = "ssa-operator-conversion"
"""The name of the Secret with the certificate of the conversion webhook, in the operator's namespace."""

WATCH = ("list", "watch")
"""The verbs of an informer."""


class PermissionNeed(Struct, frozen=True, kw_only=True):
    """A permission that the operator needs, and why."""

    permission: Permission
    purpose: str
    """The operator's purpose for it, as a heading: `children`, `lookups`."""
    folder: str = ""
    """The template folder that needs it, '' for the operator itself."""
    location: SourceLocation | None = None
    """The template line that needs it, None if the whole folder does."""
    by_account: bool = False
    """Whether the account that the operator impersonates needs it, and not the operator. Without a namespace, it is
    needed in the namespace of each parent.
    """

    @property
    def origin(self) -> str:
        """The template line or the folder that needs it."""
        return str(self.location) if self.location is not None else self.folder


def needs(
    purpose: str,
    group: str,
    resource: str,
    verbs: Iterable[str],
    namespaces: Iterable[str] = ("",),
    names: Sequence[str] = ("",),
    *,
    folder: str = "",
    location: SourceLocation | None = None,
) -> tuple[PermissionNeed, ...]:
    """The needs of a purpose: each verb on each of these names, in each of these namespaces."""
    return tuple(
        PermissionNeed(
            permission=Permission(group=group, resource=resource, namespace=namespace, name=name, verb=verb),
            purpose=purpose,
            folder=folder,
            location=location,
        )
        for namespace, name, verb in itertools.product(namespaces, names, verbs)
    )


def operator_needs() -> tuple[PermissionNeed, ...]:
    """The permissions that the operator needs with any templates."""
    return needs("CRDs", "apiextensions.k8s.io", "customresourcedefinitions", WATCH)


def kind_needs(namespace: str) -> tuple[PermissionNeed, ...]:
    """The permissions to record in the operator's namespace which kinds each folder has applied. Without them, each
    parent has the record.
    """
    verbs = ("get", "create", "patch")
    return needs("the kinds that were applied", "", "configmaps", verbs, (namespace,), (FOLDER_KINDS,))


def lease_needs(namespace: str) -> tuple[PermissionNeed, ...]:
    """The permissions that leader election needs in the operator's namespace."""
    lease = partial(needs, "the Lease of leader election", "coordination.k8s.io", "leases", namespaces=(namespace,))
    # RBAC can't restrict a create by POST to a name.
    return lease(("create",)) + lease(("get", "watch", "update"), names=(LEASE,))


def http_needs() -> tuple[PermissionNeed, ...]:
    """The permissions that the HTTP server needs to authenticate and authorize clients, if other hosts can reach it."""
    reviews = (("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews"))
    created = (needs("who may read /metrics and /objects", *review, ("create",)) for review in reviews)
    return tuple(itertools.chain(*created))


def admission_needs(namespace: str) -> tuple[PermissionNeed, ...]:
    """The permissions that the validating webhook needs behind a Service in the operator's namespace."""
    group, resource = "admissionregistration.k8s.io", "validatingwebhookconfigurations"
    # An apply that creates an object has its name, so RBAC can restrict it to the name.
    verbs, names = ("create", "patch"), (CONFIGURATION,)
    registration = needs("the registration of the webhook", group, resource, verbs, names=names)
    return registration + _secret_needs("the certificate of the webhook", namespace, CERTIFICATE)


def conversion_needs(namespace: str, crds: Sequence[str]) -> tuple[PermissionNeed, ...]:
    """The permissions that the conversion webhook needs for these CRDs."""
    purpose, group, resource = "the conversion of CRDs", "apiextensions.k8s.io", "customresourcedefinitions"
    converted = (needs(purpose, group, resource, ("patch",), names=(name,), folder=name) for name in crds)
    return (*itertools.chain(*converted), *_secret_needs("the certificate of conversions", namespace, CONVERSION))


def _secret_needs(purpose: str, namespace: str, name: str) -> tuple[PermissionNeed, ...]:
    """The permissions to create and renew a Secret."""
    secret = partial(needs, purpose, "", "secrets", namespaces=(namespace,))
    return secret(("create",)) + secret(("get", "update"), names=(name,))


def rollout_needs(namespace: str) -> tuple[PermissionNeed, ...]:
    """The permissions that rollouts need in the operator's namespace, where a folder has the setting `rollout`."""
    purpose, verbs = "revisions of templates", ("get", *WATCH, "create", "patch", "delete")
    revisions = needs(purpose, "apps", "controllerrevisions", verbs, (namespace,))
    return revisions + needs(purpose, "events.k8s.io", "events", ("create", "patch"), (namespace,))


def impersonation_needs(account: str, namespaces: Sequence[str]) -> tuple[PermissionNeed, ...]:
    """The permissions that the operator needs to act as the service accounts of this name in these namespaces, none for
    all.
    """
    purpose, accounts = "act as the accounts of parents' namespaces", (account,)
    acting = needs(purpose, "", "serviceaccounts", ("impersonate",), namespaces or ("",), accounts)
    reviews = needs("what these accounts may read", "authorization.k8s.io", "subjectaccessreviews", ("create",))
    return acting + reviews
