"""What a parent needs to know of its possible children: by its manifests, by its records, and by its objects.

Promises:
- An object is needed in the version of its manifest, and in its namespace alone.
- A kind that no manifest names in a version is needed in any version: that of another manifest, if there is one.

How it works:
Before the render, `recorded_needs` says what the parent's records need; the render may read those children. After it,
`rendered_needs` says what the manifests need, in which versions, and `unrendered_needs` what is left of former renders.
Nearly all renders need what the last one needed. So `SettledNeeds` keeps what these needs followed from, once watches
show all of it: a reconcile in which that is equal has nothing to watch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.informers.child_informers import ChildInformers
from ssa_operator.informers.parents import Parent
from ssa_operator.informers.watch_scopes import ChildNeed
from ssa_operator.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Rendered
from ssa_operator.objects.secret_fields import SecretFields
from ssa_operator.reconcile.parent_records.rules import ParentRecords

NamedObject = tuple[Identity, str | None]
"""The object of a manifest, and its version, None if unknown. The namespace is '' if the manifest names none."""


class RecordedNeeds(Struct, frozen=True):
    """What the needs of a parent follow from, apart from its manifests and objects."""

    inventory: Mapping[Identity, int]
    kinds: frozenset[GroupKind]
    """The recorded kinds."""
    cluster_scope: bool
    """Whether the folder's settings allow children in other namespaces."""
    secrets: Mapping[Identity, SecretFields]
    """Where the children have contents of Secrets, which may name their namespaces."""


class SettledNeeds(Struct, frozen=True, kw_only=True):
    """What a parent's needs followed from when synced watches showed all of them."""

    recorded: RecordedNeeds
    named: Sequence[NamedObject]
    generated: Sequence[Identity]
    """The objects with generated values."""
    objects: frozenset[Identity]
    """The objects of the manifests, each in its namespace. If these are the parent's, and no others, and none of them
    is partial, the objects need nothing else.
    """
    written: Mapping[Identity, str]
    """The `versions_of` these."""
    moment: object
    """The `watch_moment` then."""


def named_objects(rendered: Rendered) -> tuple[NamedObject, ...]:
    """The objects of the manifests of a render, including those that wait."""
    documents = [(each.identity, split_api_version(each.body["apiVersion"])[1]) for each in rendered.documents]
    waits = [(wait.identity, wait.version) for wait in rendered.waits if wait.identity is not None]
    return (*documents, *waits)


def rendered_needs(named: Iterable[NamedObject], parent: Parent) -> set[ChildNeed]:
    """What manifests need."""
    own = parent.live.identity.namespace
    return {ChildNeed(each.group_kind, each.namespace or own, version) for each, version in named}


def rendered_kinds(named: Iterable[NamedObject]) -> set[GroupKind]:
    """The kinds of manifests."""
    return {identity.group_kind for identity, _ in named}


def recorded_needs(
    parent: Parent,
    records: ParentRecords,
    children: ChildInformers,
    reported: Collection[GroupKind],
    rendered: Collection[ChildNeed] = (),
) -> set[ChildNeed]:
    """What the records of a parent need, and the kinds that an earlier process reported; `rendered` is what its
    manifests need. The event of its CRD requeues the parent for a recorded kind that the cluster doesn't serve now.

    Other namespaces are needed only where the folder's settings allow children there: otherwise such records are a
    user's, or are left of other settings, and their objects are read one by one. A cluster-scoped parent may have had
    objects of a recorded kind in any namespace: an operator that is limited to namespaces looks for them in these, and
    where the manifests are now.
    """
    namespace, inventory = parent.live.identity.namespace, records.inventory
    places = {(identity.group_kind, namespace) for identity in inventory}
    if parent.folder.settings.cluster_scope:
        places |= {(identity.group_kind, identity.namespace) for identity in inventory}
    applied = records.applied.kinds if records.applied is not None else frozenset()
    kinds = (*reported, *filter(children.is_served, applied))
    namespaces = {namespace} if namespace else {"", *(need.namespace for need in rendered)}
    places |= {(kind, each) for kind in kinds for each in namespaces}
    versions = {need.kind: need.version for need in sorted(rendered, key=_version, reverse=True)}
    return {ChildNeed(kind, place, versions.get(kind)) for kind, place in places}


def _version(need: ChildNeed) -> str:
    return need.version or ""


def unrendered_needs(own: Iterable[LiveObject], rendered: AbstractSet[ChildNeed]) -> set[ChildNeed]:
    """What the objects that the operator applied for a parent need, if they are of a kind or in a namespace that its
    manifests don't need now: they are to be deleted, and may have to wait for that.
    """
    known = {(need.kind, need.namespace) for need in rendered}
    others = (live for live in own if (live.identity.group_kind, live.identity.namespace) not in known)
    return {
        ChildNeed(live.identity.group_kind, live.identity.namespace, live.version)
        for live in others
        if live.owned_fields()
    }


def versions_of(
    named: Iterable[NamedObject],
    generated: Iterable[Identity],
    parent: Parent,
    needs: Iterable[ChildNeed],
    children: ChildInformers,
) -> dict[Identity, str]:
    """The version of each manifest of a kind that the parent needs in several versions, or that is in `generated`, the
    objects with generated values.
    """
    versions = Counter(kind for kind, _ in {(need.kind, need.version) for need in needs})
    kinds = {kind for kind, count in versions.items() if count > 1} | {each.group_kind for each in generated}
    written = ((each, version) for each, version in named if version is not None and each.group_kind in kinds)
    return {_placed(each, parent, children): version for each, version in written} if kinds else {}


def rendered_identities(named: Iterable[NamedObject], parent: Parent, children: ChildInformers) -> frozenset[Identity]:
    """The objects of manifests, each in its namespace."""
    return frozenset([_placed(each, parent, children) for each, _ in named])


def _placed(identity: Identity, parent: Parent, children: ChildInformers) -> Identity:
    namespace = identity.namespace or parent.live.identity.namespace
    if children.namespaced(identity.group_kind) is False:
        namespace = ""
    return identity if namespace == identity.namespace else replace(identity, namespace=namespace)
