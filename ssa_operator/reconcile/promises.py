"""What the promises about children learn from one reconcile for the next one, a child at a time.

Promises:
- A warning of the API server is shown once, as long as the child is rendered.
- What became of a recreation, a refusal or a failed hook is remembered even if the reconcile fails later: a child that
  was deleted must come back, with its generated values.
- A change of the parent or of its templates ends every feedback loop: what the user wants is applied at once.
- Of a child that is no longer rendered, only its bucket of changes is remembered, until it is full, and how often its
  hook failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.child_memory import NO_MEMORY, ChildMemories, ChildMemory
from ssa_operator.reconcile.feedback_loops.rules import changes_after, names_after
from ssa_operator.reconcile.field_conflicts.rules import conflict_after
from ssa_operator.reconcile.observed import ObservedParents
from ssa_operator.reconcile.pod_failures.rules import PodCheck
from ssa_operator.reconcile.resync.rules import record_after

_NO_OTHERS = ObservedParents()


def begin(
    memories: ChildMemories, *, now: float, changed_by_user: bool, deleting: bool, suspended: bool
) -> ChildMemories:
    """What a reconcile begins with. `changed_by_user` is whether a user changed the parent or its templates."""
    changed = {}
    for identity, row in memories.by_child.items():
        changes = None if row.changes is None or changed_by_user or row.changes.is_full(now) else row.changes
        pods = None if deleting else row.pods
        if changes is not row.changes or pods is not row.pods:
            changed[identity] = replace(row, changes=changes, pods=pods)
    if memories.new_names:
        names = {kind: each for kind, each in memories.new_names.items() if not (changed_by_user or each.is_full(now))}
        memories = replace(memories, new_names=names or NOTHING)
    if suspended and memories.follows:
        # Users may change the children of a suspended parent by hand, and no reconcile follows.
        memories = replace(memories, follows=False)
    return memories.with_children(changed) if changed else memories


def after_act(memories: ChildMemories, outcomes: Sequence[Child]) -> ChildMemories:
    """What is remembered even if the reconcile fails later: what requests changed in the rows of their steps."""
    changed: dict[Identity, ChildMemory] = {}
    for outcome in outcomes:
        known = memories.by_child.get(outcome.identity, NO_MEMORY)
        row = known if outcome.manifest is None else outcome.memory
        if outcome.action is Action.RECREATE and outcome.result is Result.RECREATED:
            row = replace(row, hook_failures=row.hook_failures + 1)
        if row is not known:
            changed[outcome.identity] = row
    return memories.with_children(changed) if changed else memories


def with_pods(memories: ChildMemories, checks: Mapping[Identity, PodCheck]) -> ChildMemories:
    """The memories with these checks of pods and no others."""
    changed = {
        identity: replace(row, pods=None)
        for identity, row in memories.by_child.items()
        if row.pods is not None and identity not in checks
    }
    for identity, pods in checks.items():
        row = memories.of(identity)
        if row.pods is not pods:
            changed[identity] = replace(row, pods=pods)
    return memories.with_children(changed) if changed else memories


def after(
    memories: ChildMemories,
    outcomes: Sequence[Child],
    parents: ObservedParents = _NO_OTHERS,
    *,
    now: float,
    follows: bool = False,
) -> ChildMemories:
    """What is remembered of a reconcile that came to its end. `follows` is whether another one has to follow, because
    this one changed what templates read.
    """
    rows: dict[Identity, ChildMemory] = {}
    for outcome in outcomes:
        identity = outcome.identity
        if outcome.manifest is not None or identity not in rows:  # the second document of a name is refused
            rows[identity] = _row_after(memories.by_child.get(identity, NO_MEMORY), outcome, now)
    for identity, row in memories.by_child.items():
        if identity not in rows and (row.changes is not None or row.hook_failures):
            rows[identity] = ChildMemory(changes=row.changes, hook_failures=row.hook_failures)
    for identity, changes in changes_after(memories, outcomes, parents, now).items():
        rows[identity] = replace(rows[identity], changes=changes)
    names = names_after(memories, outcomes, now)
    return replace(memories, new_names=names, follows=follows).with_rows(rows)


def _row_after(row: ChildMemory, outcome: Child, now: float) -> ChildMemory:
    applied = record_after(outcome, row.applied)
    conflict = row.conflict and conflict_after(outcome, row.conflict, now)
    refusal = row.refusal if outcome.manifest is not None and outcome.live is not None else None
    warned = row.warned.union(outcome.warnings) if outcome.warnings else row.warned
    if applied is row.applied and conflict is row.conflict and refusal is row.refusal and warned == row.warned:
        return row
    return replace(row, applied=applied, conflict=conflict, refusal=refusal, warned=warned)


def news(memories: ChildMemories, outcomes: tuple[Child, ...]) -> tuple[Child, ...]:
    """The outcomes without what was logged of earlier ones."""
    return tuple([
        _without_old(each, memories.of(each.identity)) if each.warnings or each.counted else each
        for each in outcomes
    ])  # fmt: skip


def _without_old(outcome: Child, row: ChildMemory) -> Child:
    logged = row.applied is not None and bool(row.applied.counted_version)
    return replace(
        outcome,
        counted=outcome.counted and not logged,
        warnings=tuple(each for each in outcome.warnings if each not in row.warned),
    )
