"""Decides when the owner reference of an object that is not applied any more has to name another version of its owner,
and how an object loses it.

Promises:
- An object that is not applied (`apply: Once`, `IfNotPresent`, a held prune, a suspended parent) names its parent in
  the version in which the operator reads the parent. It gets no other change.
- A patch of an owner reference tests that the object and the owner are those that were read.

The garbage collector resolves an owner by the version in the reference. If the cluster no longer serves that version,
it never deletes the object.
"""

from __future__ import annotations

import json

from ssa_operator.objects.identity import join_api_version, split_api_version
from ssa_operator.objects.live_object import LiveObject


def owner_version_patch(live: LiveObject, parent: LiveObject) -> bytes | None:
    """The JSON patch that changes an object's owner reference to the parent's version, None if it has that version or
    no such reference.
    """
    group = parent.identity.group
    wanted = join_api_version(group, parent.version)
    for position, owner in enumerate(live.owner_references):
        if owner.uid == parent.uid and owner.api_version != wanted and split_api_version(owner.api_version)[0] == group:
            return _patch(live, position, "replace", "/apiVersion", value=wanted)
    return None


def orphan_patch(live: LiveObject, parent_uid: str) -> bytes | None:
    """The JSON patch that removes an object's owner reference to a parent, None if it has none."""
    for position, owner in enumerate(live.owner_references):
        if owner.uid == parent_uid:
            return _patch(live, position, "remove")
    return None


def _patch(live: LiveObject, position: int, operation: str, path: str = "", **value: str) -> bytes:
    """The JSON patch that changes one owner reference of an object, at a path below it."""
    reference = f"/metadata/ownerReferences/{position}"
    tests = {"/metadata/uid": live.uid, f"{reference}/uid": live.owner_references[position].uid}
    operations = [{"op": "test", "path": tested, "value": uid} for tested, uid in tests.items()]
    operations.append({"op": operation, "path": reference + path, **value})
    return json.dumps(operations, separators=(",", ":")).encode()
