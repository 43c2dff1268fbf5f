"""The order of steps: what has to come before each, and whether its turn has come.

Promises:
- Manifests that depend on each other in a circle are refused, each with the path.
- What is judged is the dependency after this pass applied it: a change of both goes through one after the other, also
  where the old state of the first one was ready.
- A dependency that failed, is refused, or waits itself holds back everything that depends on it.
- A manifest that says `wait: "false"` is only asked to be there.
- What is applied already and unchanged is not held back: there is nothing to do for it.
- What a pass itself wrote and a template reads is known afterwards: no event would tell of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ssa_operator.core.objects.annotations import Reference
from ssa_operator.core.objects.cluster_view import Query
from ssa_operator.core.objects.dependency_graph import Edge, Graph, graph, waves
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.render_result import Dependency, Rendered, WaitTarget
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.planning.step import Action, FailureReason, Step
from ssa_operator.core.policies.backoff import backoff
from ssa_operator.core.policies.feedback_loops import answers
from ssa_operator.core.readiness.rules import ReadinessState, readiness

LINKS = 1000
"""Links of the longest chain that is made without a pause."""

CHANGED = frozenset({Result.CREATED, Result.CONFIGURED, Result.RECREATED})
"""What becomes of a step that made or changed an object."""


def ordered(steps: Sequence[Step], uses: Sequence[Sequence[Dependency]], rendered: Rendered) -> list[Step]:
    """The steps, each with its uses, with what has to come before each; those that are in a circle are refused."""
    if not any(uses):
        return [*steps]
    found = graph((step.identity, own) for step, own in zip(steps, uses, strict=True))
    paths: dict[Identity, str] = {}
    for cycle in found.cycles():
        for identity in cycle:
            paths.setdefault(identity, found.path(cycle))
    return [_after(step, found, paths, rendered) for step in steps]


def depths(steps: Sequence[Step]) -> Mapping[Identity, int]:
    """How many others have to come before each step, one after the other; {} where none has to."""
    if not any(step.after for step in steps):
        return {}
    found = waves({step.identity: [edge.target for edge in step.after] for step in steps})
    return {identity: depth for depth, wave in enumerate(found) for identity in wave}


def waiting_outcome(step: Step, outcomes: Mapping[Identity, Outcome], now: float) -> Outcome | None:
    """What becomes of a step whose turn hasn't come, None where it has. `outcomes` are those of the steps before it;
    `now` is in seconds since the epoch.
    """
    if step.action is not Action.APPLY and step.action is not Action.RECREATE:
        return None
    awaited = [WaitTarget(child, state="be ready") for child, _ in step.missing]
    awaited += [_awaited(edge) for edge in step.after if not _met(edge, outcomes.get(edge.target), now)]
    if not awaited:
        return None
    if step.unchanged:
        return Outcome(step=step, result=Result.UNCHANGED, live=step.live)
    waiting = replace(step, awaited=tuple(awaited))
    message = "waiting for " + " and ".join(map(str, awaited))
    return Outcome(step=waiting, result=Result.WAITING, live=step.live, message=message)


@dataclass(frozen=True, slots=True)
class Requeues:
    """So many passes in a row that each changed what templates read: a chain is made link by link."""

    passes: int = 0

    @property
    def continued(self) -> Requeues:
        """The series with another pass."""
        return Requeues(self.passes + 1)

    @property
    def at_once(self) -> bool:
        """Whether another pass follows without a pause."""
        return bool(self.passes) and not self.pause

    @property
    def pause(self) -> float:
        """Seconds until the next pass; what may have no end is slowed down. (What changes the same again and again is
        so by core.policies.feedback_loops, much earlier.)
        """
        endless = self.passes - LINKS
        return backoff(endless, 0.0) if endless > 0 else 0.0


def inputs_changed(rendered: Rendered, outcomes: Sequence[Outcome], now: float) -> bool:
    """Whether the pass changed what templates read, be it of itself, so that another render may give something else."""
    return bool(rendered.asked) and any(
        outcome.result in CHANGED and any(_is_read(outcome, query, rendered, now) for query in rendered.asked)
        for outcome in outcomes
    )


def _after(step: Step, found: Graph, paths: Mapping[Identity, str], rendered: Rendered) -> Step:
    identity = step.identity
    if identity in paths and step.action is not Action.REFUSE:
        reason = f"is in a dependency cycle: {paths[identity]}; remove one of these dependencies"
        return replace(step, action=Action.REFUSE, reason=reason, problem=FailureReason.DEPENDENCY_CYCLE)
    lost = tuple((child, _why_lost(child, rendered)) for child in found.elsewhere.get(identity, ()))
    return replace(step, after=found.edges[identity], missing=lost)


def _why_lost(child: Reference, rendered: Rendered) -> str:
    """Why no step is the child that is asked for: there is one for each that a template renders."""
    for problem in rendered.problems:
        if any((each.kind, each.name) == (child.kind, child.name) for each in problem.of):
            return f"it can't be rendered: {problem}"
    if rendered.problems:
        return f"a template that failed may render it: {rendered.problems[0]}"
    return next((f"a template may render it that is {wait}" for wait in rendered.waits if wait.identity is None), "")


def _is_read(outcome: Outcome, query: Query, rendered: Rendered, now: float) -> bool:
    identity, live = outcome.step.identity, outcome.live
    if isinstance(query, Reference):
        read = query in rendered.read_unready or _usable(outcome, now)
        return read and query == Reference(identity.kind, identity.name)
    return live is not None and answers(query, live)


def _met(edge: Edge, outcome: Outcome | None, now: float) -> bool:
    if outcome is None or outcome.result is Result.FAILED or outcome.result is Result.WAITING:
        return False
    if outcome.step.standing is not None:
        return outcome.step.standing.state is ReadinessState.CURRENT
    if outcome.live is None:
        return False
    return not edge.ready or _usable(outcome, now)


def _usable(outcome: Outcome, now: float) -> bool:
    """Whether a child may be read: it is ready, or its readiness counts for nobody."""
    made, live = outcome.step.manifest, outcome.live
    if live is None:
        return False
    if made is not None and not made.instructions.wait:
        return True
    return readiness(live.body, now, reports_status=outcome.step.reports_status).usable


def _awaited(edge: Edge) -> WaitTarget:
    return WaitTarget(edge.use.query, state="be ready" if edge.ready else "be applied")
