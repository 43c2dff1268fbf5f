"""Decides whether the children of a parent that is being deleted are left behind (`kubectl delete --cascade=orphan`).

Promises:
- While the parent has Kubernetes' finalizer `orphan`, and after any process has seen it there, none of its children is
  deleted and none of its finalize hooks runs.
- If the parent has the operator's finalizer, no child keeps an owner reference that an apply gave back. Such an apply
  was in flight when the garbage collector orphaned the child.
- A process that starts after the garbage collector has removed that finalizer recognizes the orphaning by the children:
  they have lost the owner references that the operator gave them.

The garbage collector removes the owner references of the children, and then its finalizer from the parent, within
milliseconds (https://kubernetes.io/docs/concepts/architecture/garbage-collection/#orphaned-dependents).
"""

from __future__ import annotations

import json

from ssa_operator.objects.live_object import LiveObject

CHILDREN_STAY = (
    "the parent is being deleted without its children (--cascade=orphan): they stay, and no finalize hook runs; a "
    "parent that is created again under this name takes them back"
)
"""What the status and an Event say of the parent."""


def orphan_patch(live: LiveObject, parent_uid: str) -> bytes | None:
    """The JSON patch that removes an object's owner reference to a parent, None if it has none. The patch tests that
    the object and the owner are those that were read.
    """
    for position, owner in enumerate(live.owner_references):
        if owner.uid == parent_uid:
            path = f"/metadata/ownerReferences/{position}"
            operations = [
                {"op": "test", "path": "/metadata/uid", "value": live.uid},
                {"op": "test", "path": f"{path}/uid", "value": owner.uid},
                {"op": "remove", "path": path},
            ]
            return json.dumps(operations, separators=(",", ":")).encode()
    return None
