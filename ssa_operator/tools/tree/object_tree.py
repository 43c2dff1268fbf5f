"""An object and everything below it, down to pods, for `ssa-operator tree`.

Promises:
- Any object can be shown. The states of a parent's children are those that the operator reported. The states of other
  objects are judged by the same rules.
- Only kinds that can be below the given owners are read, each once per namespace. One that the user may not read is
  named with the reason.
- An object is shown once, below its controller, or below its first owner if it has no controller.
- A ReplicaSet of an earlier rollout, which wants no pods and has none, is not shown.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.request import Scope
from ssa_operator.objects.identity import GroupKind, Identity, read_group_kind, read_identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import ReadinessState, conditions_of, readiness
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.reconcile.status.previous_status import reported_children
from ssa_operator.rendering.folder.folder_settings import Settings
from ssa_operator.tools.command_target import FoundObject
from ssa_operator.tools.owners import first_owner
from ssa_operator.tools.tree.listings import FORBIDDEN, Listings
from ssa_operator.tools.tree.object_history import unready_since
from ssa_operator.tools.tree.parent_entries import ListedParent, completed_phase, parent_entries
from ssa_operator.tools.tree.tree_view import entry, urgency

_POD = GroupKind("", "Pod")
_CLAIM = GroupKind("", "PersistentVolumeClaim")
_REPLICA_SET = GroupKind("apps", "ReplicaSet")
_JOB = GroupKind("batch", "Job")

BELOW: Mapping[GroupKind, tuple[GroupKind, ...]] = {
    GroupKind("apps", "Deployment"): (_REPLICA_SET,),
    GroupKind("apps", "DaemonSet"): (_POD,),
    GroupKind("apps", "StatefulSet"): (_POD, _CLAIM),
    GroupKind("batch", "CronJob"): (_JOB,),
    GroupKind("", "ReplicationController"): (_POD,),
    _REPLICA_SET: (_POD,),
    _JOB: (_POD,),
    _POD: (_CLAIM,),
}
"""The kinds of the objects that Kubernetes' own controllers create below an object of a kind."""

_WORKLOADS = (*BELOW, _CLAIM)
"""The kinds that the controller of a custom resource may create below it, beside those that its status lists."""


class Owner(Struct, frozen=True):
    """An object whose owned objects are to be found. `live` is None if only its identity is known."""

    identity: Identity
    uid: str
    live: LiveObject | None = None


class OwnedObjects(Struct, frozen=True):
    """The trees below some owners."""

    below: Mapping[str, Sequence[Mapping[str, Any]]]
    """The data of the objects, by the owner's uid. Each has those below it as `objects`."""

    notes: Sequence[str] = ()
    """The kinds that can't be read, with the reason."""


async def owned_objects(listings: Listings, mapper: RESTMapper, owners: Iterable[Owner], now: float) -> OwnedObjects:
    """The objects below each owner. `now` is in seconds since the epoch. Raises ApiError."""
    owners = list(owners)
    found: dict[str, LiveObject] = {}
    problems: dict[str, list[str]] = defaultdict(list)
    wanted, read = await _scopes(mapper, owners), set[Scope]()
    while new := wanted - read:
        read |= new
        for scope, listing in (await listings.read(sorted(new, key=str))).items():
            if listing.problem:
                problems[FORBIDDEN if listing.forbidden else listing.problem].append(scope.resource.name)
            found |= {live.uid: live for live in listing.objects}
        reachable = _reachable(owners, _by_owner(found.values()))
        wanted |= await _scopes(mapper, [Owner(live.identity, live.uid, live) for live in reachable])
    by_owner = _by_owner(found.values())
    seen = {owner.uid for owner in owners}
    return OwnedObjects(
        {owner.uid: list(_nodes(owner.uid, by_owner, seen, now)) for owner in owners if owner.uid},
        [
            f"objects of these kinds are not shown, because {why}: {', '.join(sorted(set(names)))}"
            for why, names in problems.items()
        ],
    )


async def _scopes(mapper: RESTMapper, owners: Iterable[Owner]) -> set[Scope]:
    """The scopes in which objects below some owners may be. They are in the owner's namespace."""
    wanted = {
        (kind, owner.identity.namespace) for owner in owners if owner.identity.namespace for kind in _kinds_below(owner)
    }
    scopes = set()
    for kind, namespace in wanted:
        try:
            resource = await mapper.resource(kind)
        except UnknownKind:
            continue
        if resource.namespaced and "list" in resource.verbs:
            scopes.add(Scope(resource, namespace, metadata_only=resource.confidential))
    return scopes


def _kinds_below(owner: Owner) -> Iterable[GroupKind]:
    kind = owner.identity.group_kind
    if kind in BELOW:
        return BELOW[kind]
    if not _is_custom(kind):
        return ()
    reported = reported_children(owner.live) or () if owner.live is not None else ()
    return (*_WORKLOADS, *filter(None, map(read_group_kind, reported)))


def _is_custom(kind: GroupKind) -> bool:
    # As `Resource.built_in`, for a kind alone.
    return "." in kind.group and not kind.group.endswith(".k8s.io")


def _by_owner(objects: Iterable[LiveObject]) -> Mapping[str, list[LiveObject]]:
    owned: dict[str, list[LiveObject]] = defaultdict(list)
    for live in sorted(objects, key=lambda live: (live.identity, live.uid)):
        if owner := first_owner(live):
            owned[owner.uid].append(live)
    return owned


def _reachable(owners: Iterable[Owner], by_owner: Mapping[str, list[LiveObject]]) -> list[LiveObject]:
    found, queue, seen = [], [owner.uid for owner in owners], set[str]()
    while queue:
        uid = queue.pop()
        if uid not in seen:
            seen.add(uid)
            found += by_owner.get(uid, [])
            queue += [live.uid for live in by_owner.get(uid, [])]
    return found


def _nodes(uid: str, by_owner: Mapping[str, list[LiveObject]], seen: set[str], now: float) -> Iterator[dict[str, Any]]:
    for live in by_owner.get(uid, ()):
        if live.uid in seen:
            continue
        seen.add(live.uid)
        below = list(_nodes(live.uid, by_owner, seen, now))
        if below or not _is_replaced(live):
            yield object_data(live, now) | {"objects": below}


def _is_replaced(live: LiveObject) -> bool:
    """Whether it is a ReplicaSet that wants no pods."""
    return live.identity.group_kind == _REPLICA_SET and live.body.get("spec", {}).get("replicas") == 0


def object_data(live: LiveObject, now: float) -> dict[str, Any]:
    """The data to show of an object, judged by the rules of readiness, with the restarts of a pod."""
    found = readiness(live.body, now)
    data: dict[str, Any] = {
        **asdict(live.identity),
        "uid": live.uid,
        "state": found.state.value,
        "message": found.message,
        "creationTimestamp": live.metadata.creation_timestamp,
    }
    if found.state is not ReadinessState.CURRENT:
        data["since"] = unready_since(live.body)
    if live.identity.group_kind == _POD:
        data["restarts"], data["restartedAt"] = restarts(live.body)
        data["phase"] = completed_phase(live)
    return {key: value for key, value in data.items() if value not in ("", None)}


def restarts(pod: Mapping[str, Any]) -> tuple[int, str | None]:
    """How often the containers of a pod restarted, and when the last restart was, as kubectl counts.

    While an init container runs, only init containers count. Later, of those only sidecars do (printPod in
    k8s.io/kubernetes/pkg/printers/internalversion).
    """
    spec, status = pod.get("spec", {}), pod.get("status", {})
    sidecars = {each["name"] for each in spec.get("initContainers", ()) if each.get("restartPolicy") == "Always"}
    init = status.get("initContainerStatuses") or []
    initializing = any(
        each["name"] not in sidecars and each.get("state", {}).get("terminated", {}).get("exitCode") != 0
        for each in init
    )
    counted = init if initializing else [each for each in init if each["name"] in sidecars]
    if not initializing:
        counted = [*counted, *(status.get("containerStatuses") or [])]
    times = [each.get("lastState", {}).get("terminated", {}).get("finishedAt") for each in counted]
    return sum(each.get("restartCount", 0) for each in counted), max(filter(None, times), default=None)


async def object_tree(
    listings: Listings, mapper: RESTMapper, found: FoundObject, folder: Settings | None, now: float
) -> dict[str, Any]:
    """The data of an object and everything below it; `folder` has the settings of its template folder, None without
    one. `now` is in seconds since the epoch.

    Raises ApiError and CommandError.
    """
    live = found.live
    if folder is None and reported_children(live) is None:
        below = await owned_objects(listings, mapper, [Owner(live.identity, live.uid, live)], now)
        own = object_data(live, now) if not found.resource.confidential else {}
        data = entry(live, {"conditions": conditions_of(live.body)}) | own
        return data | {"resources": below.below.get(live.uid, []), "notes": list(below.notes)}
    cluster_scope = folder is not None and folder.cluster_scope
    parent = ListedParent(live=live, resource=found.resource, cluster_scope=cluster_scope)
    return await _parent_tree(listings, mapper, parent, now)


async def _parent_tree(listings: Listings, mapper: RESTMapper, parent: ListedParent, now: float) -> dict[str, Any]:
    (data,) = await parent_entries(listings, mapper, [parent], now, whole=True)
    lives = await _custom_objects(listings, mapper, data["resources"])
    below = await owned_objects(listings, mapper, owners_of(data["resources"], lives), now)
    return with_objects(data, below) | {"notes": [*data["notes"], *below.notes]}


def with_objects(parent: Mapping[str, Any], found: OwnedObjects) -> dict[str, Any]:
    """A parent's data with the objects below its children."""
    children = parent["resources"]
    return {**parent, "resources": [{**each, "objects": found.below.get(each.get("uid", ""), [])} for each in children]}


async def parent_trees(
    listings: Listings, mapper: RESTMapper, parents: Iterable[ListedParent], now: float
) -> list[dict[str, Any]]:
    """The data of parents and everything below them, the parents that are not ready first. `now` is in seconds since
    the epoch. Raises ApiError and CommandError.
    """
    return sorted([await _parent_tree(listings, mapper, each, now) for each in parents], key=urgency)


def owners_of(children: Iterable[Mapping[str, Any]], lives: Mapping[str, LiveObject] = NOTHING) -> list[Owner]:
    """The children that exist, each with its live object by its uid, where that is known."""
    named = ((each.get("uid"), read_identity(each)) for each in children)
    return [Owner(identity, uid, lives.get(uid)) for uid, identity in named if uid and identity is not None]


async def _custom_objects(
    listings: Listings, mapper: RESTMapper, children: Iterable[Mapping[str, Any]]
) -> Mapping[str, LiveObject]:
    """The live children of custom kinds by uid: their status may list what they own."""
    scopes = []
    for owner in owners_of(children):
        with contextlib.suppress(UnknownKind):
            resource = await mapper.resource(owner.identity.group_kind)
            if not resource.built_in:
                scopes.append(Scope(resource, owner.identity.namespace, name=owner.identity.name))
    found = await listings.read(scopes)
    return {live.uid: live for listing in found.values() for live in listing.objects}


async def read_again(listings: Listings, found: FoundObject) -> FoundObject:
    """The object as it is now. Raises CommandError once it is gone, and ApiError."""
    identity = found.live.identity
    scope = Scope(found.resource, identity.namespace, name=identity.name)
    listing = (await listings.read([scope]))[scope]
    if listing.problem:
        raise CommandError(listing.problem)
    if not listing.objects:
        raise CommandError(f"{identity} was deleted")
    return replace(found, live=listing.objects[0])
