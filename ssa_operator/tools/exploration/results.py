"""What an exploration plays and finds: a subject, a sequence, the states of a parent, and a broken rule.

Promises:
- A change that is refused or fails may change what it renders and applies, and nothing else.
- While a child can't be applied, no child is deleted.
- The status of a failed parent names each child that can't be applied, and in its message a child or a template line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Document
from ssa_operator.reconcile.outcome import Result
from ssa_operator.reconcile.status.report import Report
from ssa_operator.schema.spec_changes import SpecChange
from ssa_operator.tools.exploration.child_comparison import ChildDifference, ChildState, children_differences


class ExplorationRule(StrEnum):
    """A rule that a sequence breaks."""

    DIFFERS = "DiffersFromNew"
    """The children differ from those of a new parent with the same spec."""
    STUCK = "NotReadyAsNew"
    """A new parent becomes ready, and this one doesn't; or the other way round."""
    ROLLBACK = "NoRecovery"
    """The last good spec doesn't lead back from an error state."""
    BROKEN = "BrokenByInvalid"
    """A change that was refused or failed deleted or changed a child that it could not replace."""
    UNNAMED = "UnnamedFailure"
    """The status of a failed parent doesn't name the child or the template line that failed."""
    ENDLESS = "EndlessChange"
    """Reconciles of one spec change a child again and again."""
    CRASH = "Crash"
    """A reconcile ended with a bug."""
    REPEATED = "ChangedByRepeat"
    """A second reconcile of the same spec changes a child."""


class Phase(StrEnum):
    """The result of a spec."""

    READY = "ready"
    UNREADY = "unready"
    """Applied, and not ready in this cluster."""
    FAILED = "failed"
    """The parent reports an error that only another spec repairs."""
    REFUSED = "refused"
    """The API server refuses the parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploredObject:
    """The explored objects: the parent that every sequence begins with, and the objects beside it."""

    folder: str
    """The name of the template folder."""
    parent: Document
    beside: tuple[Document, ...] = ()
    """Objects that the templates look up; each parent gets its own."""
    shared: tuple[Document, ...] = ()
    """Objects that the templates look up in a namespace that they name, or in all; all parents have the same."""
    namespaced: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A rule that a sequence breaks."""

    rule: ExplorationRule
    step: int
    """The position of the change, 0 for the parent as it begins."""
    message: str
    differences: tuple[ChildDifference, ...] = ()


@dataclass(slots=True, kw_only=True)
class Played:
    """The result of a sequence."""

    changes: list[SpecChange] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    """The phase after each change."""
    failure: Failure | None = None
    invalid: str = ""
    """Why the sequence can't be played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A parent that doesn't change any more, and its children."""

    phase: Phase
    message: str
    children: tuple[ChildState, ...] = ()
    identities: Mapping[Identity, str] = field(default_factory=dict)
    """The name of each child in `children`."""
    failed: frozenset[Identity] = frozenset()
    """The children that could not be applied."""
    rendered: frozenset[Identity] = frozenset()
    """The children that the templates render."""
    unnamed: tuple[str, ...] = ()
    """The parts of a failure that the status doesn't name."""
    once_unready: bool = False
    """Whether an object that is applied only once, or only if it is absent, is not ready."""
    comparable: bool = True
    """False if the children depend on the time, or belong to another parent."""
    crash: str = ""
    endless: str = ""


_TEMPLATE_LINE = re.compile(r"\.ya?ml(\.j2)?:\d+")


def own_failure(state: Settled, step: int) -> Failure | None:
    """The rule that a state breaks whatever the states before were."""
    if state.crash:
        return Failure(rule=ExplorationRule.CRASH, step=step, message=f"a reconcile ended with {state.crash}")
    if state.endless:
        message = f"reconciles of the same spec change {state.endless}"
        return Failure(rule=ExplorationRule.ENDLESS, step=step, message=message)
    if state.unnamed:
        message = f"the status doesn't name {', '.join(state.unnamed)}: {state.message}"
        return Failure(rule=ExplorationRule.UNNAMED, step=step, message=message)
    return None


def unnamed_failures(report: Report) -> tuple[str, ...]:
    """What the status of a failed parent should name and doesn't."""
    failed = [outcome.step.identity for outcome in report.outcomes if outcome.result is Result.FAILED]
    reported = {child.identity for child in report.children if child.failed and child.readiness.message}
    unnamed = [str(identity) for identity in failed if identity not in reported]
    message = report.verdict.message
    names = [child.identity.name for child in report.children]
    if not _TEMPLATE_LINE.search(message) and not any(name in message for name in names):
        unnamed.append("a child or a template line in its message")
    return tuple(unnamed)


def broken_by_invalid(before: Settled, after: Settled, step: int) -> Failure | None:
    """What a change that was refused or failed did to the children that it could not replace."""
    if not after.comparable:
        return None
    refused = after.phase is Phase.REFUSED
    ours, theirs = ({child.name: child for child in state.children} for state in (before, after))
    kept = {
        name
        for identity, name in before.identities.items()
        if refused or identity in after.failed or identity not in after.rendered
    }
    lost = [child for name, child in ours.items() if name not in theirs and not _replaced(child, after)]
    recreated = [ours[name] for name in kept if name in theirs and ours[name].uid != theirs[name].uid]
    what = "is refused" if refused else "fails"
    for children, verb in ((lost, "deletes"), (recreated, "recreates")):
        if children:
            named = ", ".join(sorted(child.name for child in children))
            message = f"the change {what}, and {verb} {named}: {after.message}"
            return Failure(rule=ExplorationRule.BROKEN, step=step, message=message)
    same = [name for name in kept if name in theirs]
    differences = children_differences([theirs[name] for name in same], [ours[name] for name in same])
    if differences:
        message = f"the change {what}, and still changes children: {after.message}"
        return Failure(rule=ExplorationRule.BROKEN, step=step, message=message, differences=tuple(differences))
    return None


def _replaced(child: ChildState, after: Settled) -> bool:
    """Whether everything was applied, and a new child of the same kind took the place of a deleted one: a child that
    is applied may still fail, as a Job does.
    """
    if after.phase is Phase.REFUSED or after.failed:
        return False
    kind = child.name.partition("/")[0]
    return any(other.name.partition("/")[0] == kind for other in after.children)
