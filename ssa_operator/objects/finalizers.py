"""The finalizers of a parent: the operator's own, and the one with which its children are left behind.

reconcile.finalization.rules decides when the operator's own goes.
"""

from __future__ import annotations

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.live_object import LiveObject

FINALIZER = f"{PREFIX}cleanup"
"""The finalizer of a parent that has finalize hooks, or children that Kubernetes can't delete."""


ORPHAN_FINALIZER = "orphan"
"""The finalizer by which the API server asks the garbage collector to orphan an object's dependents."""


def orphans_children(parent: LiveObject) -> bool:
    """Whether a parent is being deleted without its children."""
    return parent.deleting and ORPHAN_FINALIZER in parent.metadata.finalizers
