"""Decides what the end of a namespace proves about the objects in it.

Promises:
- In a namespace that is gone, or that was created again after the parent's deletion began, nothing of the parent is
  left.
- What can't be read or deleted in a namespace that is being deleted goes with the namespace: nothing waits for it. No
  finalize hook runs there (reconcile.finalization.hooks).

An account whose permissions are a RoleBinding in a namespace loses them when the namespace is deleted, often before
its objects are (kubernetes/kubernetes#115070).
"""

from __future__ import annotations

from msgspec import Struct

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.scalars import seconds_of


class EndingNamespace(Struct, frozen=True, kw_only=True):
    """A namespace that ends, or has ended."""

    reason: str
    """A text that follows "which": `is being deleted`."""
    is_gone: bool = False
    """Whether all of its former objects are gone."""
    takes_parent: bool = False
    """Whether its deletion began before that of the parent. Kubernetes deletes no object of a namespace without its
    children.
    """
    accepts_objects: bool = False
    """Whether new objects can be created in the namespace that has its name now."""


def namespace_end(found: LiveObject | None, parent: LiveObject) -> EndingNamespace | None:
    """How a namespace of a parent's children ends, None if it doesn't. `found` is the namespace, None if there is
    none.
    """
    if found is None:
        return EndingNamespace(reason="is gone", is_gone=True)
    began, ends = seconds_of(parent.metadata.deletion_timestamp), seconds_of(found.metadata.deletion_timestamp)
    if ends is not None:
        return EndingNamespace(reason="is being deleted", takes_parent=began is not None and ends <= began)
    created = seconds_of(found.metadata.creation_timestamp)
    if began is not None and created is not None and began < created:
        return EndingNamespace(reason="was created again after that", is_gone=True, accepts_objects=True)
    return None
