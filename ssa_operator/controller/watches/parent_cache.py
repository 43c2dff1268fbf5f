"""What a pass is about, and what this process remembers of it until the next one.

Promises:
- A parent that was made again under its name is another one: nothing is remembered of it.
- Losing all of it costs one apply a child, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ssa_operator.controller.watches.conflicts import Rivalry
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.planning.ordering import Requeues
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.planning.plan import Plan
from ssa_operator.core.planning.step import Action
from ssa_operator.core.policies.feedback_loops import FeedbackLoop
from ssa_operator.core.policies.parent_records import HeldPrune
from ssa_operator.core.policies.recreate import Recreation
from ssa_operator.core.policies.unchanged import ApplyRecord, apply_record
from ssa_operator.core.readiness.pod_failures import PodCheck
from ssa_operator.core.redaction.secret_values import NO_SECRETS, Redactor
from ssa_operator.core.status.report import Report
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.rendering.folder.sources import Folder

RECONCILE_AT = "ssa-operator.dev/reconcile-at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parent:
    """The parent of a pass: its live object, the folder that it is rendered through, how it is served, and what its
    status may hold.

    status_schema is None where the status takes everything; writes_status is false where the operator has no business
    in it. shows_conditions: whether the operator's conditions have a place in the status. unreported: what the CRD
    keeps the operator from reporting there, in a sentence. `cache` is where the parent came from, and learns of its new
    status.
    """

    parent: LiveObject
    folder: Folder
    resource: Resource
    writes_status: bool
    status_schema: Mapping[str, object] | None
    shows_conditions: bool
    unreported: str
    cache: Cache


@dataclass(slots=True)
class Memory:
    """What this process remembers of a parent between two passes.

    proofs: what the last apply of each child left behind. recreations: the children that were deleted to be made anew.
    claimed: the identities that it was rendered into. refused: those that another parent has. failures: passes in a
    row that failed in passing. series: those in a row that changed what templates read. converged: the digest of the
    template set that the parent was last brought to. settled: the children that it then had. digest: that of the last
    pass's, and rendered: what it has rendered for the parent. hold: the deletion that is held, also where that can't
    be put on record. unfinished: passes in a row that did not come to their end. trouble: why the last of them did
    not, in words. report: the last one. hook_failures: how often the Job of a finalize hook was made again.
    successors: what has to be ready before an object goes that is no longer rendered. once: what was made once and is
    not on record yet. doubts: the workloads that aren't ready. left: each child when it was last as we want it. asked:
    the value of `reconcile-at` in the last pass. rivalry: what others do to the same objects. unrest: the children
    that change each time they are applied. unwritten: the status that the last pass put off. confided: the
    values of each version of a Secret that was looked at. secrecy: all of them, for a parent and templates that are as
    `spelling` says.
    """

    apply_records: Mapping[Identity, ApplyRecord] = field(default_factory=dict)
    recreations: Mapping[Identity, Recreation] = field(default_factory=dict)
    claimed: frozenset[Identity] = frozenset()
    refused: frozenset[Identity] = frozenset()
    failures: int = 0
    series: Requeues = field(default_factory=Requeues)
    converged: str | None = None
    settled: frozenset[Identity] | None = None
    digest: str = ""
    rendered: frozenset[Identity] = frozenset()
    hold: HeldPrune | None = None
    unfinished: int = 0
    trouble: str = ""
    report: Report | None = None
    unwritten: Mapping[str, Any] | None = None
    hook_failures: dict[Identity, int] = field(default_factory=dict)
    successors: Mapping[Identity, frozenset[Identity]] = field(default_factory=dict)
    once: Mapping[str, str] = field(default_factory=dict)
    pod_checks: Mapping[Identity, PodCheck] = field(default_factory=dict)
    left: Mapping[Identity, LiveObject] = field(default_factory=dict)
    asked: str = ""
    conflicts: Rivalry = field(default_factory=Rivalry)
    confided: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict, repr=False)
    redactor: Redactor = NO_SECRETS
    spelling: tuple[int | None, str] = (None, "")
    feedback_loops: Mapping[Identity, FeedbackLoop] = field(default_factory=dict)


def remember(memory: Memory, plan: Plan, outcomes: tuple[Outcome, ...], report: Report) -> None:
    """Take into the memory what a pass over the parent did."""
    acted(memory, outcomes)
    memory.successors = {step.identity: step.successors for step in plan.steps if step.successors}
    memory.failures = memory.failures + 1 if report.retryable else 0
    memory.rendered = _rendered(memory, plan)
    memory.digest = plan.rendered.digest
    memory.asked = plan.observed.reconcile_at
    memory.hold = None if report.complete else plan.hold
    if report.complete:
        memory.converged, memory.settled = plan.rendered.digest, memory.rendered


def _rendered(memory: Memory, plan: Plan) -> frozenset[Identity]:
    """What this template set has rendered, as far as it is there or rendered now."""
    now = frozenset(step.identity for step in plan.steps if step.location is not None)
    if memory.digest != plan.rendered.digest or memory.rendered <= now:
        return now
    return now | memory.rendered.intersection(live.identity for live in plan.observed.own)


def acted(memory: Memory, outcomes: Iterable[Outcome]) -> None:
    """Take into the memory what became of the children."""
    outcomes = tuple(outcomes)
    apply_records: dict[Identity, ApplyRecord] = {}
    left: dict[Identity, LiveObject] = {}
    for outcome in outcomes:
        step, live = outcome.step, outcome.live
        if step.manifest is None or live is None:
            continue
        if step.action is Action.APPLY and outcome.result not in (Result.FAILED, Result.WAITING):
            apply_records[step.identity], left[step.identity] = apply_record(step.manifest, live), live
        elif step.identity in memory.apply_records and (
            outcome.result is Result.WAITING or step.action is Action.UNCHANGED
        ):
            # It was not applied now; what an earlier apply left behind is as good as before.
            apply_records[step.identity] = memory.apply_records[step.identity]
            same = step.action is Action.UNCHANGED and step.foreign_change is None
            left[step.identity] = live if same else memory.left.get(step.identity, live)
    memory.apply_records, memory.left = apply_records, left
    recreated(memory, outcomes)


def recreated(memory: Memory, outcomes: Iterable[Outcome]) -> None:
    """Take into the memory what was deleted to be made anew: of each child that is still rendered; one that waits or
    is refused keeps what was known. Whatever becomes of the pass, this must not be forgotten.
    """
    found = {}
    for outcome in outcomes:
        step = outcome.step
        recreation = step.recreation if step.manifest is not None else memory.recreations.get(step.identity)
        if recreation is not None:
            found[step.identity] = recreation
    memory.recreations = found


def remembered(memory: Memory) -> dict[Identity, LiveObject]:
    """What was deleted to be made anew, as it was, where the new one gets its generated values."""
    return {
        identity: recreation.old
        for identity, recreation in memory.recreations.items()
        if recreation.old is not None and not recreation.made
    }
