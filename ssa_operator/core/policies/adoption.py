"""What is there before we are: objects that somebody else made, and what becomes of them.

Promises:
- An object that another controller owns is never touched.
- An object that is taken over loses the fields that only its former managers wrote: those of kubectl's client-side
  commands and of the managers that the folder names. What anybody else wrote stays, and so does what was written
  through a subresource.
- Taking over is one change of ownership with the version that was read as its precondition, made before the first
  apply: whatever moment a process dies at, the next one goes on from there.

An apply removes only what its manager owned (kubernetes/kubernetes#99003), hence the change of ownership; client-go
makes the same one in util/csaupgrade.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from ssa_operator.core.objects.identity import split_api_version
from ssa_operator.core.objects.json_encoding import encode
from ssa_operator.core.objects.live_object import MANAGER, LiveObject, OwnerReference
from ssa_operator.core.objects.manifest import Manifest

KUBECTL = frozenset({"kubectl-client-side-apply", "kubectl-create", "kubectl-replace"})
"""The managers that write whole manifests by Update: `kubectl apply`, `create` and `replace`. Those that change a field
or two (`kubectl-edit`, `kubectl-scale`, `kubectl-rollout`) are somebody's decision of a moment, and left alone.
"""

UNMANAGED = "before-first-apply"
"""What the API server calls the manager of everything in an object that had no managers when it was first applied.
Controllers wrote part of it (a claim's volumeName): only what `kubectl apply` recorded is its own.
"""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

_NEVER = "1"
"""A resourceVersion that no object has: etcd counts from 1, and its first write gives 2."""


def only_if_absent(manifest: Manifest) -> bytes:
    """The body of an apply that makes the object, and is a conflict where there is one.

    A resourceVersion is a precondition for an object that exists, and none for one that doesn't.
    """
    return encode({**manifest.body, "metadata": {**manifest.body["metadata"], "resourceVersion": _NEVER}})


def other_controller(live: LiveObject, parent: LiveObject) -> OwnerReference | None:
    """The controller that an object has, where that is neither the parent nor a former one of the same name."""
    for owner in live.metadata.owner_references:
        if owner.controller and owner.uid != parent.uid and not _names(owner, live, parent):
            return owner
    return None


def belongs_to_former_parent(live: LiveObject, parent: LiveObject) -> bool:
    """Whether an object was made for a former parent of the same name: the garbage collector is about to delete it."""
    return live.parent_uid not in ("", parent.uid) and any(
        owner.controller and owner.uid == live.parent_uid and _names(owner, live, parent)
        for owner in live.metadata.owner_references
    )


def adopt_fields_patch(live: LiveObject, api_version: str, former: AbstractSet[str] = frozenset()) -> bytes | None:
    """The merge patch that makes the fields of an object's former managers ours; None where it has none.

    former: managers whose Update and Apply entries are taken over, beside kubectl's Update entries. api_version: what
    is applied. Of entries in several versions only those of one can be joined, ours or else the one that is applied;
    the others' fields are nobody's afterwards, as in csaupgrade.
    """
    entries: list[dict[str, Any]] = []
    left: list[dict[str, Any]] = []
    for entry in live.body["metadata"].get("managedFields") or ():
        if not entry.get("subresource") and _is_former(entry, former):
            left.append(entry)
        elif not entry.get("subresource") and entry.get("manager") == UNMANAGED:
            recorded, rest = _split(entry.get("fieldsV1") or {}, _last_applied(live))
            left += [{**entry, "fieldsV1": recorded}] if recorded else []
            entries += [{**entry, "fieldsV1": rest}] if rest else []
        else:
            entries.append(entry)
    if not left:
        return None
    ours = [entry for entry in entries if not entry.get("subresource") and _is_ours(entry)]
    candidates = [*ours, *sorted(left, key=lambda entry: entry.get("apiVersion") != api_version)]
    joined = [entry for entry in candidates if entry.get("apiVersion") == candidates[0].get("apiVersion")]
    fields = _union([entry.get("fieldsV1") or {} for entry in joined])
    taken = {**candidates[0], "manager": MANAGER, "operation": "Apply", "fieldsV1": fields}
    return _patch(live, [taken, *(entry for entry in entries if entry not in ours)])


def in_version(live: LiveObject, api_version: str, *, instead_of: str) -> bytes:
    """The merge patch that makes the fields of one version in an object's managedFields those of another."""
    entries = live.body["metadata"].get("managedFields") or ()
    return _patch(
        live,
        [{**entry, "apiVersion": api_version} if entry.get("apiVersion") == instead_of else entry for entry in entries],
    )


def _patch(live: LiveObject, entries: Sequence[Mapping[str, Any]]) -> bytes:
    metadata = {"resourceVersion": live.resource_version, "managedFields": entries}
    return json.dumps({"metadata": metadata}, separators=(",", ":")).encode()


def _names(owner: OwnerReference, live: LiveObject, parent: LiveObject) -> bool:
    """Whether an object's owner has the name of the parent, and so is the parent or what it took the name of."""
    me = parent.identity
    named = (split_api_version(owner.api_version)[0], owner.kind, owner.name)
    return named == (me.group, me.kind, me.name) and me.namespace in ("", live.identity.namespace)


def _is_former(entry: Mapping[str, Any], former: AbstractSet[str]) -> bool:
    manager, operation = entry.get("manager"), entry.get("operation")
    return manager in former or (manager in KUBECTL and operation == "Update")


def _is_ours(entry: Mapping[str, Any]) -> bool:
    return entry.get("manager") == MANAGER and entry.get("operation") == "Apply"


def _last_applied(live: LiveObject) -> Any:
    """What `kubectl apply` says it wrote, and where it says so; nothing where it says nothing."""
    text = live.metadata.annotations.get(LAST_APPLIED)
    try:
        body = json.loads(text) if text else {}
    except ValueError:
        body = {}
    if not body or not isinstance(body, dict):
        return {}
    metadata = body.get("metadata") or {}
    annotations = {**(metadata.get("annotations") or {}), LAST_APPLIED: text}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def _split(fields: Mapping[str, Any], body: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A fieldsV1 tree in two: the fields that a body has, and the others."""
    within: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, below in fields.items():
        items = list(_named(name, body))
        if not items:
            others[name] = below
        elif not below:
            within[name] = below
        else:
            inner, outer = _split(below, items[0])
            if inner:
                within[name] = inner
            if outer:
                others[name] = outer
    return within, others


def _named(name: str, body: Any) -> Iterator[Any]:
    """What an element of a fieldsV1 path (`f:spec`, `k:{"name":"a"}`, `v:"a"`) names in a body, if there is such a
    thing.
    """
    kind, _, key = name.partition(":")
    if kind == "f" and isinstance(body, Mapping) and key in body:
        yield body[key]
    elif kind == "k" and isinstance(body, list):
        keys = json.loads(key)
        # What an item doesn't say is a key that has a default, as a port's protocol.
        for item in body:
            if isinstance(item, Mapping) and all(item.get(field, value) == value for field, value in keys.items()):
                yield item
    elif kind == "v" and isinstance(body, list):
        yield from (each for each in body if each == json.loads(key))


def _union(fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of all these fieldsV1 trees."""
    names = dict.fromkeys(name for each in fields for name in each)
    return {name: _union([each[name] for each in fields if name in each]) for name in names}
