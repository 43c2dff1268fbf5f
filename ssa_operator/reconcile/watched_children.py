"""The objects that may be a parent's children: what a parent needs to know of them by its manifests, its records and
its objects, which of them the operator watches, and which it reads one by one.

Promises:
- The operator starts an informer for every kind that a template first renders, and waits until it has synced, up to a
  deadline.
- What is recorded on a parent, and what an earlier process reported, is watched even if no template renders it now.
- An object is needed in the version of its manifest, and in its namespace alone. A kind that no manifest names in a
  version is needed in any version: that of another manifest, if there is one.
- A recorded child that no informer shows is read. It is not taken for a deleted one.
- For a parent that was deleted meanwhile, nothing is watched.

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
from typing import NamedTuple

from msgspec.structs import replace

from ssa_operator.informers.child_informers import ChildInformers
from ssa_operator.informers.parents import Parent
from ssa_operator.informers.watch_scopes import ChildNeed
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Rendered
from ssa_operator.reconcile.adoption import may_be_child
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.long_steps import run_all
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.parent_state import NamedObject, RecordedNeeds, SettledNeeds
from ssa_operator.reconcile.shards.unlabelled_objects import NO_OBJECTS, UnlabelledObjects, get_unlabelled
from ssa_operator.reconcile.status.previous_status import reported_kinds


class WatchedRender(NamedTuple):
    """What became of the watches that a render needs."""

    new: bool
    """Whether something is watched for the first time."""
    written: Mapping[Identity, str]
    """The `versions_of` its manifests."""
    was_read: bool
    """Whether an object was read of which only metadata was kept."""
    unreadable: Mapping[Identity, str]
    """Why others can't be read."""


async def watch_recorded(reconcile: Reconcile) -> None:
    """Watch the children that are recorded or reported, even if no template renders them now."""
    children, reported, settled = reconcile.cluster.children, reconcile.state.unseen_kinds, reconcile.state.needs
    unknown = reconcile.state.kinds_unknown
    if settled is not None and not (reported or unknown) and _is_unchanged(reconcile, settled):
        return
    if unknown or not reconcile.state.reconciled_before:
        reported = await _recorded_kinds(reconcile) | reported_kinds(reconcile.parent.live)
    needs = recorded_needs(reconcile.parent, reconcile.records, children, reported)
    await children.watch(reconcile.uid, needs, _hidden_namespaces(reconcile))
    unseen = frozenset(kind for kind, known in kind_states(reconcile, reported).items() if not known.synced)
    reconcile.state = replace(reconcile.state, unseen_kinds=unseen)
    forget_if_gone(reconcile)


async def _recorded_kinds(reconcile: Reconcile) -> frozenset[GroupKind]:
    """The kinds that a former process may have applied for a parent, as far as they can be read. Raises ApiError and
    CredentialsError.
    """
    applied, folder_kinds, live = reconcile.records.applied, reconcile.cluster.folder_kinds, reconcile.parent.live
    recorded = frozenset() if applied is None else applied.kinds
    inherited: frozenset[GroupKind] | None = frozenset()
    if applied is None or applied.incomplete:
        inherited = None  # `ssa-operator apply` reads no record of the folder
        if folder_kinds is not None:
            inherited = await folder_kinds.inherited(reconcile.parent.folder.name, live.metadata.creation_timestamp)
    reconcile.state = replace(reconcile.state, kinds_unknown=inherited is None)
    return recorded | (inherited or frozenset())


async def watch_rendered(
    reconcile: Reconcile,
    rendered: Rendered,
    named: Sequence[NamedObject],
    references: AbstractSet[tuple[str, str]],
) -> WatchedRender:
    """Watch what a render names, and nothing that the parent doesn't need any more. Read the objects that the
    templates render or read and of which only metadata is kept. `references` are the kinds and names of those that
    they read.
    """
    settled = reconcile.state.needs
    if settled is not None and _is_still_settled(reconcile, settled, rendered, named):
        return WatchedRender(False, settled.written, False, NOTHING)
    recorded = _recorded(reconcile)
    new, written, moment = await _watch(reconcile, rendered, named)
    objects = rendered_identities(named, reconcile.parent, reconcile.cluster.children)
    was_read, unreadable = await _read_partial(reconcile, objects, references)
    settled = SettledNeeds(
        recorded=recorded,
        named=named,
        generated=rendered.generated,
        objects=objects,
        written=written,
        moment=moment,
    )
    reconcile.state = replace(reconcile.state, needs=None if moment is None else settled)
    return WatchedRender(new, written, was_read, unreadable)


def _is_still_settled(
    reconcile: Reconcile, settled: SettledNeeds, rendered: Rendered, named: Sequence[NamedObject]
) -> bool:
    """Whether a render needs what the last one needed, and the parent's objects are those of its manifests."""
    return (
        settled.named == named
        and settled.generated == rendered.generated
        and _is_unchanged(reconcile, settled)
        and settled.objects == {live.identity for live in labelled_children(reconcile) if not live.partial}
    )


def _is_unchanged(reconcile: Reconcile, settled: SettledNeeds) -> bool:
    """Whether neither the records nor the watches changed since."""
    moment = reconcile.cluster.children.watch_moment(reconcile.uid)
    return settled.moment == moment and settled.recorded == _recorded(reconcile)


async def _watch(
    reconcile: Reconcile, rendered: Rendered, named: Sequence[NamedObject]
) -> tuple[bool, Mapping[Identity, str], object]:
    """Watch what a render names. Returns whether something is watched for the first time, `versions_of`, and the
    `watch_moment` if synced watches show all that the parent needs, otherwise None.
    """
    parent, children = reconcile.parent, reconcile.cluster.children
    needs = rendered_needs(named, parent)
    # Another parent may have started their informers just now.
    former = recorded_needs(parent, reconcile.records, children, reconcile.state.unseen_kinds, needs)
    new = await children.watch(reconcile.uid, needs | former, _hidden_namespaces(reconcile))
    written = versions_of(named, rendered.generated, parent, needs, children)
    needs |= former
    needs |= unrendered_needs(labelled_children(reconcile), needs)
    moment = children.need_only(reconcile.uid, needs, written)
    served = _recorded(reconcile).kinds <= {need.kind for need in needs}
    return new, written, moment if served and not reconcile.state.unseen_kinds else None


def forget_if_gone(reconcile: Reconcile) -> None:
    """Need nothing for a parent that was deleted meanwhile: no event would stop its watches."""
    if reconcile.uid not in reconcile.cluster.claims.parents:
        reconcile.cluster.children.forget(reconcile.uid)


async def get_recorded(reconcile: Reconcile, records: ParentRecords) -> UnlabelledObjects:
    """The recorded children that no informer shows although they exist, or that can't be read. They are not taken
    for deleted ones.

    The watch of their kind is behind, as it can be after a restore of etcd; or, under `--shard`, another client
    changed their bucket label.
    """
    children, identities = reconcile.cluster.children, {*records.inventory}
    if reconcile.cluster.settings.sharded:
        identities |= reconcile.state.children.applied
    if not identities:
        return NO_OBJECTS
    served = (each for each in identities if children.namespaced(each.group_kind) is not None)
    known = (each for each in served if not children.is_awaited(each, reconcile.uid))
    unwatched = sorted(each for each in known if each not in children)
    # The operator records no more than that, and a user who may edit the parent may write any number of names.
    limit = reconcile.parent.folder.settings.max_children
    found = await get_unlabelled(reconcile, dict.fromkeys(unwatched[:limit]))
    own = {identity: live for identity, live in found.objects.items() if live.belongs_to(reconcile.uid)}
    unread = dict.fromkeys(unwatched[limit:], f"more than `maxChildren: {limit}` children are recorded")
    return UnlabelledObjects(own, {**found.unreadable, **unread}, found.forbidden)


async def _read_partial(
    reconcile: Reconcile, objects: frozenset[Identity], references: AbstractSet[tuple[str, str]]
) -> tuple[bool, Mapping[Identity, str]]:
    """Read those of these objects of which only metadata is kept. Returns whether there are any, and why others
    can't be read.
    """
    children = reconcile.cluster.children
    identities = objects
    if references:
        own = (live.identity for live in labelled_children(reconcile))
        identities |= {each for each in own if (each.kind, each.name) in references}
    children.expect(reconcile.uid, identities)
    partial = [live for each in sorted(identities) if (live := children.get(each)) is not None and live.partial]
    answers = await run_all(_try_to_read(reconcile, live) for live in partial)
    failures = {live.identity: why for live, why in zip(partial, answers, strict=True) if why}
    return len(failures) < len(partial), failures


async def _try_to_read(reconcile: Reconcile, partial: LiveObject) -> str | None:
    """Read an object whole. Returns why that fails, None if it doesn't."""
    try:
        await reconcile.cluster.children.read_whole(partial)
    except (CredentialsError, ApiError) as error:
        return str(error)
    return None


def kind_states(reconcile: Reconcile, kinds: Iterable[GroupKind]) -> dict[GroupKind, KindState]:
    """What is known of those of these kinds that the cluster serves."""
    found = {}
    for kind in kinds:
        if (state := reconcile.cluster.children.kind_state(kind, reconcile.uid)) is not None:
            found[kind] = replace(state, reports_status=reconcile.cluster.reports_status(kind))
    return found


def labelled_children(reconcile: Reconcile) -> list[LiveObject]:
    """The watched objects that have the parent's label and may be its children."""
    live, recorded = reconcile.parent.live, reconcile.records.inventory
    cluster_scope = reconcile.parent.folder.settings.cluster_scope
    labelled = reconcile.cluster.children.by_parent(live.uid)
    return [each for each in labelled if may_be_child(each, live, recorded, cluster_scope=cluster_scope)]


def own_children(reconcile: Reconcile) -> tuple[LiveObject, ...]:
    """These objects in order: those of the parent's namespace come first, then those that are recorded, and then the
    oldest. `child` reads the first one of its kind and name.
    """
    namespace, recorded = reconcile.parent.live.identity.namespace, reconcile.records.inventory

    def order(child: LiveObject) -> tuple[bool, bool, str]:
        outside = child.identity.namespace != namespace
        return outside, child.identity not in recorded, child.metadata.creation_timestamp or ""

    found = tuple(labelled_children(reconcile))
    known, ordered = reconcile.own_children
    if known != (found, recorded):
        ordered = tuple(sorted(found, key=order))
        reconcile.own_children = (found, recorded), ordered
    return ordered


def _recorded(reconcile: Reconcile) -> RecordedNeeds:
    applied = reconcile.records.applied
    return RecordedNeeds(
        reconcile.records.inventory,
        frozenset() if applied is None else applied.kinds,
        reconcile.parent.folder.settings.cluster_scope,
        reconcile.state.secrets.children,
    )


def _hidden_namespaces(reconcile: Reconcile) -> frozenset[str]:
    """The namespaces that contents of Secrets name."""
    children = reconcile.state.secrets.children
    return frozenset(identity.namespace for identity, fields in children.items() if fields.names_namespace)


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
