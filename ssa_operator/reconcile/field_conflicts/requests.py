"""Finds other managers' changes in a parent's children: in a thread if the children are large.

A client that may write a child may fill it up to the API server's limit, and change it again and again. Finding the
changed fields takes time that is linear in the sizes of the child before and after.

Promises:
- On the event loop, LARGE bytes are compared at most.
- The comparison shows the state of the caches when it ends. If one changes during each of ATTEMPTS
  comparisons, it shows that child as it was before the last one; the next reconcile has its change.
- A child that still equals the result of its last apply is compared once for each of its versions.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from functools import partial

from ssa_operator.informers.child_informers import ChildInformers
from ssa_operator.objects.identity import Identity
from ssa_operator.reconcile.child_memory import ChildMemories
from ssa_operator.reconcile.field_conflicts.rules import AppliedChildren

LARGE = 2**16
"""Bytes of encoded objects. Comparing them takes some 20 milliseconds, usual children a twentieth of that."""

ATTEMPTS = 3

InThread = Callable[[Callable[[], ChildMemories]], Awaitable[ChildMemories]]
"""Runs a function in a thread."""


async def observe_foreign_changes(
    look: Callable[[], AppliedChildren],
    observe: Callable[[AppliedChildren], ChildMemories],
    in_thread: InThread,
) -> ChildMemories:
    """The result of `observe` for the children, or what is remembered already if there is nothing to observe. `look`
    returns their present state.
    """
    seen = look()
    if not seen.touched:
        return seen.memories
    for _ in range(ATTEMPTS):
        if seen.compared_bytes <= LARGE:
            return observe(seen)
        found = await in_thread(partial(observe, seen))
        now = look()
        if all(now.live.get(identity) is live for identity, live in seen.live.items()):
            break
        seen = now
    return found


def applied_children(memories: ChildMemories, children: ChildInformers, parent_uid: str) -> AppliedChildren:
    """A parent's children after their last applies, and in the present caches. Every thread may read it."""
    applied = memories.applied
    shown = children.of(parent_uid)
    live = {identity: found for identity in applied if (found := shown.get(identity)) is not None}
    known: AbstractSet[Identity] = live.keys()
    if len(live) < len(applied):
        known |= frozenset(filter(children.has_synced, applied - known))
    return AppliedChildren(memories=memories, live=live, synced=known.__contains__)
