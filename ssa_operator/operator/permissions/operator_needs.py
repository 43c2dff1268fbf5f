"""The permissions that the operator itself needs, whatever its templates render, and the value that says why one is
needed.

Promises:
- Every permission names its purpose.
- An operator that elects no leader, serves no other hosts and has no webhook needs to watch CRDs, and one ConfigMap.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

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


def operator_needs() -> tuple[PermissionNeed, ...]:
    """The permissions that the operator needs with any templates."""
    group, resource = "apiextensions.k8s.io", "customresourcedefinitions"
    return tuple(
        PermissionNeed(permission=Permission(group=group, resource=resource, verb=verb), purpose="CRDs")
        for verb in WATCH
    )


def kind_needs(namespace: str) -> tuple[PermissionNeed, ...]:
    """The permissions to record in the operator's namespace which kinds each folder has applied. Without them, each
    parent has the record.
    """
    config_map = Permission(group="", resource="configmaps", namespace=namespace, name=FOLDER_KINDS, verb="get")
    permissions = [replace(config_map, verb=verb) for verb in ("get", "create", "patch")]
    return tuple(PermissionNeed(permission=each, purpose="the kinds that were applied") for each in permissions)


def lease_needs(namespace: str) -> tuple[PermissionNeed, ...]:
    """The permissions that leader election needs in the operator's namespace."""
    lease = Permission(group="coordination.k8s.io", resource="leases", namespace=namespace, verb="create")
    # RBAC can't restrict a create by POST to a name.
    named = [replace(lease, verb=verb, name=LEASE) for verb in ("get", "watch", "update")]
    return tuple(PermissionNeed(permission=each, purpose="the Lease of leader election") for each in (lease, *named))


def http_needs() -> tuple[PermissionNeed, ...]:
    """The permissions that the HTTP server needs to authenticate and authorize clients, if other hosts can reach it."""
    reviews = (("authentication.k8s.io", "tokenreviews"), ("authorization.k8s.io", "subjectaccessreviews"))
    return tuple(
        PermissionNeed(
            permission=Permission(group=group, resource=resource, verb="create"),
            purpose="who may read /metrics and /objects",
        )
        for group, resource in reviews
    )


def admission_needs(namespace: str) -> tuple[PermissionNeed, ...]:
    """The permissions that the validating webhook needs behind a Service in the operator's namespace."""
    group, resource = "admissionregistration.k8s.io", "validatingwebhookconfigurations"
    # An apply that creates an object has its name, so RBAC can restrict it to the name.
    registration = [
        Permission(group=group, resource=resource, name=CONFIGURATION, verb=verb) for verb in ("create", "patch")
    ]
    return (
        *(PermissionNeed(permission=each, purpose="the registration of the webhook") for each in registration),
        *_secret_needs(namespace, CERTIFICATE, "the certificate of the webhook"),
    )


def conversion_needs(namespace: str, crds: Sequence[str]) -> tuple[PermissionNeed, ...]:
    """The permissions that the conversion webhook needs for these CRDs."""
    crd = Permission(group="apiextensions.k8s.io", resource="customresourcedefinitions", verb="patch")
    return (
        *(
            PermissionNeed(permission=replace(crd, name=name), purpose="the conversion of CRDs", folder=name)
            for name in crds
        ),
        *_secret_needs(namespace, CONVERSION, "the certificate of conversions"),
    )


def _secret_needs(namespace: str, name: str, purpose: str) -> tuple[PermissionNeed, ...]:
    """The permissions to create and renew a Secret."""
    secret = Permission(group="", resource="secrets", namespace=namespace, verb="create")
    permissions = [secret, *(replace(secret, verb=verb, name=name) for verb in ("get", "update"))]
    return tuple(PermissionNeed(permission=each, purpose=purpose) for each in permissions)


def rollout_needs(namespace: str) -> tuple[PermissionNeed, ...]:
    """The permissions that rollouts need in the operator's namespace, where a folder has the setting `rollout`."""
    revisions = Permission(group="apps", resource="controllerrevisions", namespace=namespace, verb="get")
    verbs = ("get", *WATCH, "create", "patch", "delete")
    events = Permission(group="events.k8s.io", resource="events", namespace=namespace, verb="create")
    permissions = [replace(revisions, verb=verb) for verb in verbs] + [
        replace(events, verb=verb) for verb in ("create", "patch")
    ]
    return tuple(PermissionNeed(permission=each, purpose="revisions of templates") for each in permissions)


def impersonation_needs(account: str, namespaces: Sequence[str]) -> tuple[PermissionNeed, ...]:
    """The permissions that the operator needs to act as the service accounts of this name in these namespaces, none for
    all.
    """
    accounts = [
        Permission(group="", resource="serviceaccounts", namespace=namespace, name=account, verb="impersonate")
        for namespace in namespaces or ("",)
    ]
    reviews = Permission(group="authorization.k8s.io", resource="subjectaccessreviews", verb="create")
    return (
        *(PermissionNeed(permission=each, purpose="act as the accounts of parents' namespaces") for each in accounts),
        PermissionNeed(permission=reviews, purpose="what these accounts may read"),
    )
