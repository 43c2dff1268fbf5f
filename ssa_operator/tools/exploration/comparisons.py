"""Checks the states of a parent against the rules that no sequence of changes may break.

Promises:
- A change that is refused or fails may change what it renders and applies, and nothing else.
- While a child can't be applied, no child is deleted.
- The status of a failed parent names each child that can't be applied, and in its message a child or a template line.
"""

from __future__ import annotations

import re

from ssa_operator.reconcile.outcome import Result
from ssa_operator.reconcile.status.report import Report
from ssa_operator.tools.exploration.child_comparison import ChildState, children_differences
from ssa_operator.tools.exploration.results import ExplorationRule, Failure, Phase, Settled

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
