"""What a process remembers of a parent's children between two reconciles.

Promises:
- It is one frozen value. A reconcile returns the next one and changes none.
- A process that loses it applies each child once more, and nothing else changes.
- Each foreign change is counted once. A change that stands while the operator pauses is reverted in the end.
- A new value of the parent's `reconcile-at` ends every pause.
- Times are in seconds on the process's monotonic clock, so that a wall clock that is set changes no pause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.kube.api.backoff import earliest
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.json_encoding import NOTHING
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.render_result import Rendered
from ssa_operator.reconcile.feedback_loops.rules import (
    Changes,
    FeedbackLoop,
    follows_others,
    with_changes,
    without_settled,
)
from ssa_operator.reconcile.field_conflicts.rules import (
    AppliedChildren,
    ConflictHistory,
    ConflictPolicy,
    update_histories,
    with_revert,
)
from ssa_operator.reconcile.ordering import CHANGED, FollowUps
from ssa_operator.reconcile.outcome import Outcome, Result
from ssa_operator.reconcile.pod_failures.rules import PodCheck
from ssa_operator.reconcile.recreate.rules import Recreation
from ssa_operator.reconcile.refusals.memory import KnownRefusal
from ssa_operator.reconcile.renames.rules import RenameSeries, with_created, without_settled_names
from ssa_operator.reconcile.resync.unchanged import ApplyRecord, apply_record
from ssa_operator.reconcile.step import Action


class ChildHistory(Struct, frozen=True, kw_only=True):
    """The memory of each feature that concerns children, by child."""

    apply_records: Mapping[Identity, ApplyRecord] = NOTHING
    """What the last apply of each child left behind."""
    refusals: Mapping[Identity, KnownRefusal] = NOTHING
    """What the API server refuses of the children's manifests, although these are not at fault."""
    recreations: Mapping[Identity, Recreation] = NOTHING
    """The children that were deleted to be recreated."""
    conflicts: Mapping[Identity, ConflictHistory] = NOTHING
    """What other managers changed."""
    conflicts_observed_at: float = 0.0
    """When a reconcile last looked for foreign changes."""
    shown_warnings: Mapping[Identity, frozenset[str]] = NOTHING
    """The API server's warnings that were shown already."""
    feedback_loops: Mapping[Identity, FeedbackLoop] = NOTHING
    """The children that change each time they are applied."""
    renames: Mapping[GroupKind, RenameSeries] = NOTHING
    """The kinds whose children get other names again and again."""
    follow_ups: FollowUps = field(default_factory=FollowUps)
    """Reconciles in a row that each changed what templates read."""
    pod_checks: Mapping[Identity, PodCheck] = NOTHING
    """The workloads that are not ready, with what their pods showed."""
    hook_failures: Mapping[Identity, int] = NOTHING
    """How often the Job of a finalize hook was replaced."""

    @property
    def deleted_with_values(self) -> dict[Identity, LiveObject]:
        """The objects that were deleted to be recreated and whose generated values the new ones keep."""
        return {
            identity: recreation.old
            for identity, recreation in self.recreations.items()
            if recreation.old is not None and not recreation.created
        }


def without_empty(history: ChildHistory) -> ChildHistory:
    """The same history with one shared empty mapping for all features that remember nothing."""
    return replace(
        history,
        refusals=history.refusals or NOTHING,
        recreations=history.recreations or NOTHING,
        conflicts=history.conflicts or NOTHING,
        shown_warnings=history.shown_warnings or NOTHING,
        feedback_loops=history.feedback_loops or NOTHING,
        renames=history.renames or NOTHING,
        pod_checks=history.pod_checks or NOTHING,
        hook_failures=history.hook_failures or NOTHING,
    )


def observe_loops(history: ChildHistory, now: float, *, reset: bool) -> ChildHistory:
    """The history without feedback loops that have settled. With `reset` (a user changed the parent or its templates)
    there are none: what the user wants is applied at once.
    """
    if reset:
        return replace(history, feedback_loops={}, renames={})
    loops, names = without_settled(history.feedback_loops, now), without_settled_names(history.renames, now)
    return replace(history, feedback_loops=loops, renames=names)


def observe_conflicts(
    history: ChildHistory, children: AppliedChildren, now: float, policy: ConflictPolicy, *, renewed: bool
) -> ChildHistory:
    """The history with the foreign changes that the caches show, and with the newest versions of untouched children.
    `renewed` is whether `reconcile-at` has a new value: then nothing waits for the end of a pause.
    """
    children = children.newest()
    conflicts: Mapping[Identity, ConflictHistory] = update_histories(history.conflicts, children, now, policy)
    if renewed:
        conflicts = {identity: replace(each, revert_due=now) for identity, each in conflicts.items()}
    return replace(history, apply_records=children.apply_records, conflicts=conflicts, conflicts_observed_at=now)


def after_recreations(history: ChildHistory, outcomes: Iterable[Outcome]) -> ChildHistory:
    """The history with the children that were deleted to be recreated, and the hooks that were replaced. It is kept
    also where the reconcile fails later: a child that was deleted must come back with its generated values.
    """
    recreations, failures = {}, dict(history.hook_failures)
    for outcome in outcomes:
        step = outcome.step
        recreation = step.history.recreation if step.manifest is not None else history.recreations.get(step.identity)
        if recreation is not None:
            recreations[step.identity] = recreation
        if step.action is Action.RECREATE and outcome.result is Result.RECREATED:
            failures[step.identity] = failures.get(step.identity, 0) + 1
    return replace(history, recreations=recreations, hook_failures=failures)


def after_creations(history: ChildHistory, outcomes: Sequence[Outcome], now: float) -> ChildHistory:
    """The history with the children that got other names; `history` is that of before `after_outcomes`."""
    known = history.apply_records
    created = [
        outcome.step.identity
        for outcome in outcomes
        if outcome.result is Result.CREATED and outcome.step.identity not in known
    ]
    if not created:
        return history
    rendered = {outcome.step.identity for outcome in outcomes if outcome.step.location is not None}
    pruned = {outcome.step.identity for outcome in outcomes if outcome.step.action is Action.PRUNE}
    unrendered = (pruned | known.keys()) - rendered
    return replace(history, renames=with_created(history.renames, created, unrendered, now))


def after_outcomes(history: ChildHistory, outcomes: Iterable[Outcome]) -> ChildHistory:
    """The history with what the applies left behind, and what was refused of them."""
    records: dict[Identity, ApplyRecord] = {}
    refusals: dict[Identity, KnownRefusal] = {}
    for outcome in outcomes:
        step, live = outcome.step, outcome.live
        if step.manifest is None or live is None:
            continue
        if step.history.refusal is not None:
            refusals[step.identity] = step.history.refusal
        if step.action is Action.APPLY and outcome.result not in (Result.FAILED, Result.WAITING):
            records[step.identity] = _after_apply(step.manifest, live, history.apply_records, counted=outcome.counted)
        elif step.identity in history.apply_records and (
            outcome.result is Result.WAITING or step.action is Action.UNCHANGED
        ):
            # It was not applied now; what an earlier apply left behind is as good as before.
            record = history.apply_records[step.identity]
            # Of an object that is as it was applied, only the newest version is kept.
            newer = step.unchanged and record.applied is not live
            records[step.identity] = replace(record, applied=live) if newer else record
    return replace(history, apply_records=records, refusals=refusals)


def _after_apply(
    made: Manifest, live: LiveObject, before: Mapping[Identity, ApplyRecord], *, counted: bool
) -> ApplyRecord:
    record, earlier = apply_record(made, live), before.get(made.identity)
    if counted:
        return replace(record, counted_version=live.resource_version)
    # The version of an earlier apply of the same manifest says that the operator has logged it.
    is_same = earlier is not None and earlier.digest == record.digest and earlier.uid == record.uid
    return replace(record, counted_version=earlier.counted_version) if earlier is not None and is_same else record


def only_newly_counted(outcomes: Sequence[Outcome], before: Mapping[Identity, ApplyRecord]) -> tuple[Outcome, ...]:
    """The outcomes of which only those are `counted` that were not before. `before` are the records of before."""
    known = {identity for identity, record in before.items() if record.counted_version}
    return tuple(
        replace(each, counted=False) if each.counted and each.step.identity in known else each for each in outcomes
    )


def after_reverts(history: ChildHistory, outcomes: Sequence[Outcome], now: float) -> ChildHistory:
    """The history with the foreign changes that were reverted, without those of children that are not rendered."""
    done = {outcome.step.identity: outcome for outcome in outcomes}
    conflicts = {
        identity: with_revert(each, now) if _is_applied(done[identity]) else each
        for identity, each in history.conflicts.items()
        if identity in done and _is_about(each, done[identity])
    }
    return replace(history, conflicts=conflicts)


def after_warnings(history: ChildHistory, outcomes: Sequence[Outcome]) -> tuple[ChildHistory, tuple[Outcome, ...]]:
    """The history with the API server's warnings, and the outcomes with only those warnings that are new."""
    identities = {outcome.step.identity for outcome in outcomes}
    shown = {identity: texts for identity, texts in history.shown_warnings.items() if identity in identities}
    fresh_only = []
    for outcome in outcomes:
        known = shown.get(outcome.step.identity, frozenset())
        if outcome.warnings:
            shown[outcome.step.identity] = known | frozenset(outcome.warnings)
        fresh = tuple(text for text in outcome.warnings if text not in known)
        fresh_only.append(replace(outcome, warnings=fresh) if fresh != outcome.warnings else outcome)
    return replace(history, shown_warnings=shown), tuple(fresh_only)


def after_changes(
    history: ChildHistory,
    rendered: Rendered,
    outcomes: Sequence[Outcome],
    now: float,
    *,
    follows: bool,
    apply_records: Mapping[Identity, ApplyRecord],
    read_by: Mapping[Identity, Collection[Identity]],
) -> ChildHistory:
    """The history with the children that changed again. `follows` is whether another reconcile has to follow, because
    this one changed what templates read. `apply_records` are those of before the reconcile. `read_by` has what each
    child of any parent reads by name.
    """
    # Templates that read nothing of the cluster are in no loop.
    ours = (outcome for outcome in outcomes if rendered.queries and outcome.step.history.foreign_change is None)
    changed = {
        outcome.step.identity: follows_others(apply_records.get(outcome.step.identity), outcome.step.live, outcome.live)
        for outcome in ours
        if outcome.result in CHANGED and outcome.live is not None
    }
    changes = Changes(
        changed=[*changed],
        followed=[identity for identity, followed in changed.items() if followed],
        lives=[outcome.live for outcome in outcomes if outcome.live is not None],
        read_by=read_by,
    )
    return replace(
        history,
        feedback_loops=with_changes(history.feedback_loops, rendered, changes, now),
        follow_ups=history.follow_ups.continued if follows else FollowUps(),
    )


def next_revert_at(history: ChildHistory) -> float | None:
    """When a foreign change has to be reverted, or a conflict is found to be over."""
    return earliest(*(each.again_at(history.conflicts_observed_at) for each in history.conflicts.values()))


def next_check_at(history: ChildHistory) -> float | None:
    """When the pods of a workload that isn't ready are checked again."""
    return earliest(*(check.due for check in history.pod_checks.values()))


def next_loop_at(history: ChildHistory, now: float) -> float | None:
    """When a child of a feedback loop is applied again, or another reconcile follows this one."""
    series = (*history.feedback_loops.values(), *history.renames.values())
    moment = earliest(*(each.again_at(now) for each in series))
    return earliest(moment, now + history.follow_ups.pause) if history.follow_ups.count else moment


def _is_about(history: ConflictHistory, outcome: Outcome) -> bool:
    return outcome.step.manifest is not None and outcome.step.manifest.digest == history.digest


def _is_applied(outcome: Outcome) -> bool:
    return outcome.step.action is Action.APPLY and outcome.result not in (Result.FAILED, Result.WAITING)
