"""Decides whether the children of a parent that is being deleted are left behind (`kubectl delete --cascade=orphan`).

Promises:
- While the parent has Kubernetes' finalizer `orphan`, and after any process has seen it there, none of its children is
  deleted and none of its finalize hooks runs.
- If the parent has the operator's finalizer, no child keeps an owner reference that an apply gave back. Such an apply
  was in flight when the garbage collector orphaned the child.
- A process that did not see the deletion begin needs a proof before it deletes a child or runs a hook: a child that has
  its owner reference still, or the record that the children are being deleted. Without one, a user decides.
- A reference proves nothing if an apply may have given it back since the deletion began: that of a process whose view
  of the parent was old.

The garbage collector removes the owner references of the children, and then its finalizer from the parent, within
milliseconds (https://kubernetes.io/docs/concepts/architecture/garbage-collection/#orphaned-dependents).
"""

from __future__ import annotations

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.live_object import LiveObject, split_entry
from ssa_operator.objects.manifest import FOREGROUND
from ssa_operator.objects.messages import MESSAGE_LIMIT, bounded
from ssa_operator.objects.scalars import seconds_of
from ssa_operator.reconcile.finalization.stuck_deletions import kubectl_name
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.prune.rules import is_owned

ANNOTATION = f"{PREFIX}deletion"
"""The annotation by which a user decides what becomes of the children of a parent in deletion, if the operator can't
know it: `Delete` deletes them, `Orphan` leaves them.
"""

_DECISIONS = {"Delete": False, "Orphan": True}

CHILDREN_STAY = (
    "the parent is being deleted without its children (--cascade=orphan): they stay, and no finalize hook runs; a "
    "parent that is created again under this name takes them back"
)
"""What the status and an Event say of the parent."""


def children_stay(observed: Observed, seen: bool | None, proof: LiveObject | None) -> bool | None:
    """Whether the children of a parent in deletion stay, None if a user has to decide. `seen` is how this process saw
    the deletion begin, None if it didn't; `proof` is what `proof_of_deletion` named, as it is now. A child without its
    owner reference proves nothing: a client may have restored it without.
    """
    parent = observed.parent
    if seen is not None:
        return seen
    if _has_begun(observed) or (proof is not None and proves_deletion(proof, parent)):
        return False
    return _DECISIONS.get(parent.metadata.annotations.get(ANNOTATION, ""))


def proof_of_deletion(observed: Observed, seen: bool | None) -> LiveObject | None:
    """The child that shows whether the deletion takes the children along, as the watch shows it; None if there is none,
    or if it would decide nothing.
    """
    if seen is not None or _has_begun(observed):
        return None
    return next((live for live in observed.children.own if proves_deletion(live, observed.parent)), None)


def proves_deletion(live: LiveObject, parent: LiveObject) -> bool:
    """Whether a child shows that the deletion of its parent takes the children along: the garbage collector would have
    removed its owner reference before its finalizer `orphan`, and no apply has given the reference back since. Times
    have no fractions: an apply in the second of the deletion counts as older, because most are.
    """
    applied = seconds_of(split_entry(live.own_entry())[0].decode())
    began = seconds_of(parent.metadata.deletion_timestamp)
    return is_owned(live, parent.uid) and applied is not None and began is not None and applied <= began


def _has_begun(observed: Observed) -> bool:
    """Whether the parent itself shows that its children are being deleted."""
    return FOREGROUND in observed.parent.metadata.finalizers or observed.records.deletes_children


def undecided_message(observed: Observed) -> str:
    """What the status says of a parent in deletion for which a user has to decide."""
    parent, written = observed.parent, observed.parent.metadata.annotations.get(ANNOTATION)
    children = "".join([f", {each}" for each in sorted(observed.records.inventory)]).replace(",", ":", 1)
    refused = f", and {bounded(written, 50)!r} is neither Delete nor Orphan" if written else ""
    message = (
        "waits for a decision, and nothing is deleted until then: the operator did not see the deletion begin, and no "
        f"child with an owner reference from before shows whether it is --cascade=orphan{refused}. "
        f"`kubectl annotate {kubectl_name(parent.identity)} --overwrite {ANNOTATION}=Delete` deletes its children, "
        f"`{ANNOTATION}=Orphan` leaves them{children}"
    )
    return bounded(message, MESSAGE_LIMIT)
