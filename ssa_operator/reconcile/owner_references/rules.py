"""Decides when the owner reference of an object that is not applied any more has to name another version of its owner.

Promises:
- An object that is not applied (`apply: Once`, `IfNotPresent`, a held prune, a suspended parent) names its parent in
  the version in which the operator reads the parent. It gets no other change.

The garbage collector resolves an owner by the version in the reference. If the cluster no longer serves that version,
it never deletes the object.
"""

from __future__ import annotations

import json
from typing import Any

from ssa_operator.objects.identity import join_api_version, split_api_version
from ssa_operator.objects.live_object import LiveObject


def owner_version_patch(live: LiveObject, parent: LiveObject) -> bytes | None:
    """The JSON patch that changes an object's owner reference to the parent's version, None if it has that version or
    no such reference. The patch tests that the object is the one that was read.
    """
    wanted = join_api_version(parent.identity.group, parent.version)
    for position, owner in enumerate(live.owner_references):
        if owner.uid != parent.uid or owner.api_version == wanted:
            continue
        if split_api_version(owner.api_version)[0] != parent.identity.group:
            continue
        path = f"/metadata/ownerReferences/{position}"
        operations: list[dict[str, Any]] = [
            {"op": "test", "path": "/metadata/uid", "value": live.uid},
            {"op": "test", "path": f"{path}/uid", "value": owner.uid},
            {"op": "replace", "path": f"{path}/apiVersion", "value": wanted},
        ]
        return json.dumps(operations, separators=(",", ":")).encode()
    return None
