"""Slows down templates that give children of a kind other names again and again: a name that contains a counter in the
status, a resourceVersion, or the number of objects that the name itself changes.

Promises:
- The operator delays only children that it has not created before. It applies, recreates and reverts all others at
  once.
- A child counts as renamed if it is new while another child of its kind is no longer rendered. Children that are added
  while all others stay are no series, however many they are (reconcile.child_limit).
- A series may have as many changes without a pause as a feedback loop has, and then the same pauses.
- A change of the parent or of its templates ends the series.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.child_memory import ChildMemories
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.renames.rename_series import RenameSeries


def without_settled_names(series: Mapping[GroupKind, RenameSeries], now: float) -> Mapping[GroupKind, RenameSeries]:
    """The series that are not over."""
    return {kind: each for kind, each in series.items() if now < each.settles_at}


def renames_after(memories: ChildMemories, outcomes: Sequence[Child], now: float) -> Mapping[GroupKind, RenameSeries]:
    """The series after a reconcile."""
    created = [
        outcome.identity
        for outcome in outcomes
        if outcome.result is Result.CREATED and memories.of(outcome.identity).applied is None
    ]
    if not created:
        return memories.renames
    rendered = {outcome.identity for outcome in outcomes if outcome.location is not None}
    pruned = {outcome.identity for outcome in outcomes if outcome.action is Action.PRUNE}
    return with_created(memories.renames, created, (pruned | memories.applied) - rendered, now)


def with_created(
    series: Mapping[GroupKind, RenameSeries], created: Iterable[Identity], unrendered: Collection[Identity], now: float
) -> Mapping[GroupKind, RenameSeries]:
    """The series after a reconcile that created these children, which had not been created before. `unrendered` are the
    children that are no longer rendered since then.
    """
    dropped = {identity.group_kind for identity in unrendered}
    newest = {identity.group_kind: identity for identity in sorted(created)}
    found = dict(series)
    for kind, identity in newest.items():
        before = series.get(kind)
        if before is not None or kind in dropped:
            changes = before.changes + 1 if before is not None else 1
            found[kind] = RenameSeries(changes=changes, changed_at=now, newest=identity)
    return found


# Rows of the tables in reconcile.decide.


_PAUSED = "takes the place of a child with another name again and again, and is created after a pause"


def with_message(observed: Observed, step: Child) -> Child:
    """The step with the message of a series."""
    names = observed.memory.renames.get(step.identity.group_kind)
    if names is None or not names.slowed_down or not (_is_newly_named(step) or step.identity == names.newest):
        return step
    return replace(step, feedback_loop=names.text)


def awaits_pause(observed: Observed, step: Child) -> Child | None:
    """The next child of a series is created after a pause."""
    names = observed.memory.renames.get(step.identity.group_kind)
    if names is None or not _is_newly_named(step) or not names.apply_delayed(observed.monotonic):
        return None
    return step.waiting(_PAUSED)


def _is_newly_named(step: Child) -> bool:
    """Whether the child doesn't exist, and was not applied before."""
    return step.live is None and step.memory.applied is None
