"""The permissions that template folders need, derived from everything that their templates can render and look up.

Promises:
- A permission follows from a request that the operator sends: without it, a feature of a template in the folder fails.
- Every permission names its purpose, and the template line that needs it, if a template does.
- A lookup of one name needs only that name, and a lookup in one namespace only that namespace.
- An operator that is limited to namespaces needs permissions for the whole cluster only for what is cluster-scoped, for
  lookups in all namespaces, and for parents that may get the finalizer: the roles in a namespace go before its objects
  when it is deleted (kubernetes/kubernetes#115070), and the finalizer has to be taken off after that.
- With `--impersonate`, each permission to change or read a child, or to read what a template looks up, is a need of the
  account in the parent's namespace. The operator itself needs to fill its caches (list, watch), and to impersonate.
- A value that only a render can determine is a warning with its template line. It never widens a permission.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.kinds import Permission, ServedKind
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.objects.template_contents import (
    PARENT_NAMESPACE,
    PossibleLookup,
    PossibleManifest,
    TemplateContents,
    UnknownPart,
)
from ssa_operator.operator.permissions.operator_needs import WATCH, PermissionNeed, needs
from ssa_operator.reconcile.pod_failures.rules import WORKLOADS
from ssa_operator.reconcile.pod_failures.workload_events import CLUSTER_SCOPED, has_events

RBAC = "rbac.authorization.k8s.io"

_STATEFUL_SET = GroupKind("apps", "StatefulSet")
_ROLES = frozenset({GroupKind(RBAC, "Role"), GroupKind(RBAC, "ClusterRole")})
_BINDINGS = frozenset({GroupKind(RBAC, "RoleBinding"), GroupKind(RBAC, "ClusterRoleBinding")})


class ParentKind(Struct, frozen=True, kw_only=True):
    """The parents of a template folder."""

    folder: str
    """The folder's name."""
    group: str
    resource: str
    """The plural."""
    namespaced: bool
    writes_status: bool
    """Whether the operator writes their status."""
    cluster_scope: bool = False
    """Whether the folder's settings allow children outside of the parent's namespace."""


def folder_needs(
    parent: ParentKind,
    contents: TemplateContents,
    kinds: Mapping[GroupKind, ServedKind],
    namespaces: Sequence[str],
    impersonate: str = "",
) -> tuple[tuple[PermissionNeed, ...], tuple[UnknownPart, ...]]:
    """The permissions that the templates of a folder need, and what can't be derived from them.

    `kinds` are the served kinds; a kind that isn't among them needs nothing yet. `namespaces` are those that the
    operator is limited to, none for all. `impersonate` is the name of the account that it impersonates, '' for none.
    """
    derivation = _Derivation(parent, contents, kinds, tuple(namespaces), impersonate)
    found = [*derivation.for_parents(contents.manifests)]
    if impersonate and not parent.namespaced and not parent.cluster_scope:
        return tuple(dict.fromkeys(found)), ()  # the operator refuses these parents
    for manifest in contents.manifests:
        found += derivation.for_manifest(manifest)
    for lookup in contents.lookups:
        found += derivation.for_lookup(lookup)
    return tuple(dict.fromkeys(found)), tuple(dict.fromkeys(derivation.warnings))


class _Derivation:
    """Derives the needs of one folder. What can't be derived is added to `warnings`."""

    def __init__(
        self,
        parent: ParentKind,
        contents: TemplateContents,
        kinds: Mapping[GroupKind, ServedKind],
        namespaces: tuple[str, ...],
        impersonate: str,
    ) -> None:
        self.warnings: list[UnknownPart] = []
        self._own_roles = {each.name for each in contents.manifests if each.name and each.rules is not None}
        """The roles of the folder whose rules are known. The operator has their permissions, so it may bind them."""
        self._parent = parent
        self._kinds = kinds
        self._limited = bool(namespaces)
        self._warns = contents.warns
        """Whether the templates emit Events on objects that they read."""
        self._watched = namespaces or ("",)
        """The namespaces of the parents, '' for all."""
        self._account = impersonate if parent.namespaced else ""
        """The name of the account that the operator acts as for the folder's parents, '' for the operator itself."""

    def for_parents(self, manifests: Iterable[PossibleManifest]) -> Iterator[PermissionNeed]:
        """What every folder needs: to read its parents, to record on them, to report."""
        parent = self._parent
        finalized = any(map(self._needs_finalizer, manifests))
        where = self._watched if parent.namespaced and not finalized else ("",)
        yield from self._needs("parents", parent.group, parent.resource, where, ("get", *WATCH))
        yield from self._needs("records on parents", parent.group, parent.resource, where, ("patch",))
        if parent.writes_status:
            yield from self._needs("status of parents", parent.group, f"{parent.resource}/status", where, ("patch",))
        # An Event is in the namespace of its object, and for a cluster-scoped object in `default`.
        events = self._watched if parent.namespaced else ("default",)
        yield from self._needs("Events on parents", "events.k8s.io", "events", events, ("create", "patch"))

    def _needs_finalizer(self, manifest: PossibleManifest) -> bool:
        """Whether the parents get the finalizer because of a manifest: it is a finalize hook, or the parent can't own
        its object.
        """
        served = self._kinds.get(manifest.group_kind)
        if served is None or not self._parent.namespaced:
            return served is not None and manifest.finalize_hook
        outside = not served.namespaced or manifest.namespace != PARENT_NAMESPACE
        return manifest.finalize_hook or (manifest.pruned and self._parent.cluster_scope and outside)

    def for_manifest(self, manifest: PossibleManifest) -> Iterator[PermissionNeed]:
        served = self._kinds.get(manifest.group_kind)
        if served is None:
            return
        if self._parent.namespaced and not served.namespaced and not self._parent.cluster_scope:
            self._warn(
                f"{manifest.group_kind} is cluster-scoped, and the operator refuses it; set `clusterScope: true` in "
                "the folder's _settings.yaml to allow it",
                manifest.location,
            )
            return
        where, location = self._where(served, manifest.namespace, manifest.location), manifest.location
        # One watch shows the children in all namespaces that the operator watches.
        watched = tuple(dict.fromkeys((*(self._watched if served.namespaced else ("",)), *where)))
        children = partial(self._needs, "children", manifest.group_kind.group, served.resource, location=location)
        yield from children(watched, WATCH)
        yield from self._for_warnings(served, where, location)
        deleted = manifest.pruned or manifest.recreated or manifest.finalize_hook
        where = self._where_acting(served, manifest.namespace, location, where)
        # Before a deletion, the children that templates read are read again, wherever they are.
        yield from children(where if self._account else watched, ("get",), acting=True)
        yield from children(where, ("create", "patch", *(("delete",) if deleted else ())), acting=True)
        yield from self._for_owner_references(manifest, served)
        yield from self._for_special_kinds(manifest, where)
        if self._needs_finalizer(manifest) and (served.namespaced or self._parent.namespaced):
            purpose = "namespaces in deletion, for whose objects no parent waits"
            yield from self._needs(purpose, "", "namespaces", ("",), ("get",), location)

    def for_lookup(self, lookup: PossibleLookup) -> Iterator[PermissionNeed]:
        served = self._kinds.get(lookup.group_kind)
        if served is None:
            return
        where = self._where(served, lookup.namespace, lookup.location)
        if served.namespaced and lookup.namespace not in (PARENT_NAMESPACE, None):
            where = (lookup.namespace,)
        yield from self._for_warnings(served, where, lookup.location)
        lookups = partial(self._needs, "lookups", lookup.group_kind.group, served.resource)
        name = lookup.name or ""
        yield from lookups(where, WATCH, lookup.location, name)
        if self._account:
            where = self._where_acting(served, lookup.namespace, lookup.location, where)
            yield from lookups(where, ("list" if lookup.selects else "get",), lookup.location, name, acting=True)

    def _for_warnings(
        self, served: ServedKind, where: tuple[str, ...], location: SourceLocation
    ) -> Iterator[PermissionNeed]:
        """The operator itself writes the Events of `warn`, in the namespaces of their objects."""
        if self._warns:
            events = where if served.namespaced else (CLUSTER_SCOPED,)
            yield from self._needs("Events of warn", "events.k8s.io", "events", events, ("create", "patch"), location)

    def _for_owner_references(self, manifest: PossibleManifest, served: ServedKind) -> Iterator[PermissionNeed]:
        """The admission plugin OwnerReferencesPermissionEnforcement requires it for `blockOwnerDeletion`."""
        parent = self._parent
        if manifest.pruned and (served.namespaced or not parent.namespaced):
            where = self._watched if parent.namespaced and not self._account else ("",)
            finalizers = f"{parent.resource}/finalizers"
            purpose = "owner references that block deletion"
            yield from self._needs(purpose, parent.group, finalizers, where, ("update",), acting=True)

    def _for_special_kinds(self, manifest: PossibleManifest, where: tuple[str, ...]) -> Iterator[PermissionNeed]:
        kind, needs_acting = manifest.group_kind, partial(self._needs, location=manifest.location, acting=True)
        if kind in WORKLOADS:
            yield from needs_acting("pods of workloads that aren't ready", "", "pods", where, ("list",))
        if has_events(kind) and (self._kinds[kind].namespaced or not self._account):
            events = where if self._kinds[kind].namespaced else (CLUSTER_SCOPED,)
            yield from needs_acting("Events on objects that aren't ready", "", "events", events, ("list",))
        if kind == _STATEFUL_SET and manifest.recreated:
            purpose = "volumes to grow before a StatefulSet is recreated"
            yield from needs_acting(purpose, "", "persistentvolumeclaims", where, ("list", "patch"))
            purpose = "pods that a recreated StatefulSet can't adopt or update"
            yield from needs_acting(purpose, "", "pods", where, ("patch", "delete"))
        if manifest.recreated and manifest.generated_values:
            purpose = "Secrets that keep generated values while their object is recreated"
            parents = self._watched if self._parent.namespaced and not self._account else where
            yield from needs_acting(purpose, "", "secrets", parents, ("get", "create", "patch", "delete"))
        if kind in _BINDINGS:
            yield from self._for_binding(manifest, where)
        if kind in _ROLES:
            yield from self._for_role(manifest, where)

    def _for_binding(self, manifest: PossibleManifest, where: tuple[str, ...]) -> Iterator[PermissionNeed]:
        role = manifest.role
        if role is None and manifest.role_name in self._own_roles:
            return
        if role is None:
            self._warn(
                f"this {manifest.group_kind.kind} grants a role that only a render knows. Kubernetes refuses the "
                "binding unless the operator has all permissions of that role, or the verb bind on it; grant one of "
                "them yourself",
                manifest.location,
            )
            return
        resource = "clusterroles" if role.kind == "ClusterRole" else "roles"
        purpose, location = "roles that templates grant", manifest.location
        yield from self._needs(purpose, RBAC, resource, where, ("bind",), location, role.name, acting=True)

    def _for_role(self, manifest: PossibleManifest, where: tuple[str, ...]) -> Iterator[PermissionNeed]:
        """Kubernetes refuses a role with permissions that the operator doesn't have itself."""
        granted = [_granted(rule) for rule in manifest.rules] if manifest.rules is not None else [None]
        for permissions in granted:
            if permissions is None:
                self._warn(
                    f"this {manifest.group_kind.kind} has rules that only a render knows. Kubernetes refuses them "
                    "unless the operator has these permissions itself, or the verb escalate on the role; grant one "
                    "of them yourself",
                    manifest.location,
                )
                continue
            purpose, location = "permissions that templates grant", manifest.location
            for each in permissions:
                yield from self._needs(
                    purpose, each.group, each.resource, where, (each.verb,), location, each.name, acting=True
                )

    def _where(self, served: ServedKind, namespace: str | None, location: SourceLocation) -> tuple[str, ...]:
        """The namespaces of an object, '' for all or for a cluster-scoped one."""
        if not served.namespaced or not self._limited:
            return ("",)
        if namespace is None:
            self._warn(
                f"the namespace of this {served.resource} object is computed; the roles allow it only in "
                f"{', '.join(self._watched)}",
                location,
            )
        return self._watched if namespace in (PARENT_NAMESPACE, None) else (str(namespace),)

    def _where_acting(
        self, served: ServedKind, namespace: str | None, location: SourceLocation, where: tuple[str, ...]
    ) -> tuple[str, ...]:
        """The namespaces of an object for the account that writes or reads it: `where` for the operator itself, '' for
        the namespace of the account, none where only a binding for the whole cluster can grant it.
        """
        if not self._account:
            return where
        if not served.namespaced or namespace == "":
            self._warn(
                f"the account {self._account} needs {served.resource} in the whole cluster, which a RoleBinding can't "
                "grant; bind a ClusterRole to the accounts that may have it",
                location,
            )
            return ()
        return ("",) if namespace in (PARENT_NAMESPACE, None) else (namespace,)

    def _needs(
        self,
        purpose: str,
        group: str,
        resource: str,
        where: Iterable[str],
        verbs: Iterable[str],
        location: SourceLocation | None = None,
        name: str = "",
        *,
        acting: bool = False,
    ) -> Iterable[PermissionNeed]:
        """The needs of the operator; with `acting`, of the account that it acts as, if it does."""
        found = needs(purpose, group, resource, verbs, where, (name,), folder=self._parent.folder, location=location)
        if not acting or not self._account:
            return found
        purpose = f"{purpose}, as the account {self._account}"
        return (replace(need, purpose=purpose, by_account=True) for need in found)

    def _warn(self, message: str, location: SourceLocation) -> None:
        self.warnings.append(UnknownPart(message, location))


def _granted(rule: Mapping[str, Any]) -> list[Permission] | None:
    """The permissions of a role's rule, None if it has others than on resources."""
    parts = [rule.get(field, []) for field in ("apiGroups", "resources", "verbs", "resourceNames")]
    if "nonResourceURLs" in rule or not all(
        isinstance(part, list) and all(isinstance(each, str) for each in part) for part in parts
    ):
        return None
    groups, resources, verbs, names = parts
    return [
        Permission(group=group, resource=resource, verb=verb, name=name)
        for group, resource, verb, name in itertools.product(groups, resources, verbs, names or [""])
    ]
