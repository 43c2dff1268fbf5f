"""What to do with every child of a parent: the one value that a pass carries out.

Promises:
- One step a child: nothing is both applied and pruned, and no child is left out.
- A manifest that breaks a rule is refused alone; everything that does not depend on it is applied.
- What is no longer rendered goes last, and only where core.planning.prune has nothing against it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ssa_operator.core.objects.annotations import ApplyPolicy
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.render_result import Dependency, Rendered
from ssa_operator.core.objects.source_location import SourceLocation
from ssa_operator.core.planning.decide import decide_step, refused_step, step_for_document, step_for_wait
from ssa_operator.core.planning.observed import Observed
from ssa_operator.core.planning.ordering import ordered
from ssa_operator.core.planning.prune import pruning
from ssa_operator.core.planning.render_history import RenderHistory
from ssa_operator.core.planning.step import Action, Step
from ssa_operator.core.policies import apply_once
from ssa_operator.core.policies.parent_records import HeldPrune


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps of one reconcile, in the order of the templates, prunes last, and whether pruning is held or
    blocked."""

    steps: tuple[Step, ...]
    rendered: Rendered
    observed: Observed
    """What it was made from."""
    has_hooks: bool = False
    """Whether the folder has finalize hooks."""
    held: str = ""
    """Why children that are no longer rendered are kept until a user confirms, '' where nothing is held."""
    blocked: str = ""
    """What else keeps them for now."""
    hold: HeldPrune | None = None
    """What the parent has to keep of a held prune."""

    def step_for_existing(self, step: Step, live: LiveObject) -> Step:
        """The step for an object that was planned to be created and turned out to exist."""
        step = decide_step(self.observed, replace(step, live=live))
        if step.action is Action.APPLY and step.manifest is not None and step.manifest.document.holder:
            # The next reconcile, which follows by itself, reads the values that it has, and keeps them.
            return replace(step, action=Action.WAIT, reason="appeared meanwhile; its generated values are read first")
        return step

    @property
    def unseen(self) -> tuple[Identity, ...]:
        """What is made only where it is absent, and what the watches don't show: it may exist without our label."""
        return tuple(step.identity for step in self.steps if step.live is None and self._may_exist(step))

    def _may_exist(self, step: Step) -> bool:
        if step.manifest is None or step.manifest.instructions.apply is ApplyPolicy.ALWAYS:
            return False
        if step.action is Action.APPLY:
            return True
        before = apply_once.once_record(self.observed.records, step.identity) if step.standing is not None else None
        return before is not None and before.existed_before


def render_history_after(plan: Plan, history: RenderHistory, *, complete: bool) -> RenderHistory:
    """The render history after a plan was carried out; `complete`: whether all that was rendered is applied."""
    now = frozenset(step.identity for step in plan.steps if step.location is not None)
    rendered = now
    if history.digest == plan.rendered.digest:
        rendered |= history.rendered.intersection(live.identity for live in plan.observed.children.own)
    return RenderHistory(
        digest=plan.rendered.digest,
        rendered=rendered,
        converged=plan.rendered.digest if complete else history.converged,
        settled=rendered if complete else history.settled,
        hold=None if complete else plan.hold,
        successors={step.identity: step.successors for step in plan.steps if step.successors},
    )


def make_plan(observed: Observed, rendered: Rendered) -> Plan:
    """The plan for a parent that is not being deleted; core.planning.finalization has the other one."""
    has_hooks, rendered = rendered.has_hooks, rendered.standing
    steps = steps_of(observed, rendered)
    stay = {step.identity for step in steps}
    left = pruning(observed, rendered, steps, stay)
    return Plan(
        steps=(*steps, *left.steps),
        rendered=rendered,
        observed=observed,
        has_hooks=has_hooks,
        held=left.held,
        blocked=left.blocked,
        hold=left.hold,
    )


def steps_of(observed: Observed, rendered: Rendered) -> list[Step]:
    """A step for each document and each wait, in that order, with what has to come before it. A document with the
    identity of one before it is refused.
    """
    steps: list[Step] = []
    places: dict[Identity, SourceLocation] = {}
    uses: list[tuple[Dependency, ...]] = []
    for document in rendered.documents:
        step = step_for_document(observed, document)
        if step.identity in places and step.manifest is not None:
            step = refused_step(step.identity, f"is rendered twice, first at {places[step.identity]}", document)
        places.setdefault(step.identity, document.location)
        steps.append(step)
        uses.append(document.dependencies)
    for wait in rendered.waits:
        if wait.identity is not None:
            step = step_for_wait(observed, wait, wait.identity)
            places.setdefault(step.identity, wait.location)
            steps.append(step)
            uses.append(wait.dependencies)
    return ordered(steps, uses, rendered)
