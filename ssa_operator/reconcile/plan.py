"""Plans what to do with every child of a parent: the one value that a reconcile carries out.

Promises:
- Every child has exactly one step: no child is both applied and pruned.
- A manifest that breaks a rule is refused alone; everything that doesn't depend on it is applied. So is one whose
  object the operator can't handle because of a bug.
- A manifest that would exceed the folder's `maxChildren` creates nothing, and what exists is applied all the same. With
  the children that are not pruned yet, a parent has at most twice as many.
- A parent that has as many parents above it as the folder's `maxDepth` allows creates nothing, and what exists is
  applied all the same.
- A plan lists its prunes last, and reconcile.prune.rules decides on each of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.annotations import ApplyPolicy
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_encoding import NOTHING
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.render_result import Dependency, Document, Rendered
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile.apply_once import rules as apply_once
from ssa_operator.reconcile.decide import (
    decide_step,
    identity_of,
    refused_step,
    step_for_document,
    step_for_wait,
)
from ssa_operator.reconcile.feedback_loops.new_names import UNPRUNED_FACTOR, too_many_message, too_many_unpruned_message
from ssa_operator.reconcile.nested_parents.rules import UNKNOWN_MESSAGE, too_deep_message
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.ordering import order_steps
from ssa_operator.reconcile.parent_records.rules import HeldPrune
from ssa_operator.reconcile.prune.rules import is_prunable, plan_prune
from ssa_operator.reconcile.render_history import RenderHistory
from ssa_operator.reconcile.step import Action, FailureReason, Step


class Plan(Struct, frozen=True, kw_only=True):
    """The steps of one reconcile, in the order of the templates and the prunes last."""

    steps: tuple[Step, ...]
    rendered: Rendered
    observed: Observed
    """The state of the cluster that the plan was made for."""
    has_hooks: bool = False
    """Whether the folder has finalize hooks."""
    hold_message: str = ""
    """Why children that are no longer rendered are kept until a user confirms, '' where nothing is held."""
    blocked: str = ""
    """Why they are kept for now, '' where nothing blocks the prune."""
    held_prune: HeldPrune | None = None
    """The record of a held prune that the parent has to keep."""

    def step_for_existing(self, step: Step, live: LiveObject) -> Step:
        """The step for an object that was planned to be created and turned out to exist."""
        step = decide_step(self.observed, replace(step, live=live))
        if step.action is Action.APPLY and step.manifest is not None and self._is_read_first(step.manifest, live):
            # The next reconcile follows by itself. It reads the values of the object, and keeps them.
            reason = "was created meanwhile; its values are read first"
            return replace(step, action=Action.WAIT, reason=reason)
        return step

    def _is_read_first(self, manifest: Manifest, live: LiveObject) -> bool:
        """Whether a manifest follows from an object that a render can read. `live` reads only the parent's own."""
        own = live.parent_uid == self.observed.parent.uid
        return manifest.document.has_generated_values or (manifest.document.reads_itself and own)

    @property
    def blocking_namespaces(self) -> frozenset[str]:
        """The namespaces of recorded children that no template renders any more and that can't be watched. Their end
        proves that the children are gone.
        """
        unrendered = (step for step in self.steps if step.action is Action.REFUSE and step.location is None)
        recorded = self.observed.records.inventory
        return frozenset(step.identity.namespace for step in unrendered if step.identity in recorded) - {""}

    @property
    def creates(self) -> bool:
        """Whether a child is created."""
        return any(map(_creates, self.steps))

    @property
    def unseen(self) -> dict[Identity, str]:
        """The objects that no watch shows and that may exist without our label, each with the version of its manifest.
        They must not be overwritten.
        """
        steps = (step for step in self.steps if step.live is None and self._may_exist(step))
        return {step.identity: step.manifest.version for step in steps if step.manifest is not None}

    def _may_exist(self, step: Step) -> bool:
        if step.manifest is None or step.manifest.instructions.apply is ApplyPolicy.ALWAYS:
            return False
        if step.action is Action.APPLY:
            return True
        before = (
            apply_once.once_record(self.observed.records, step.identity)
            if step.history.once_readiness is not None
            else None
        )
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
        applied_digest=plan.rendered.digest if complete else history.applied_digest,
        applied_children=rendered if complete else history.applied_children,
        held_prune=None if complete else plan.held_prune,
        successors={step.identity: step.order.successors for step in plan.steps if step.order.successors} or NOTHING,
    )


def make_plan(observed: Observed, rendered: Rendered) -> Plan:
    """The plan for a parent that is not being deleted. For one that is, see reconcile.finalization.rules."""
    has_hooks, rendered = rendered.has_hooks, rendered.without_hooks
    steps = steps_of(observed, rendered)
    prune = plan_prune(observed, rendered, steps, {step.identity for step in steps})
    return Plan(
        steps=(*steps, *prune.steps),
        rendered=rendered,
        observed=observed,
        has_hooks=has_hooks,
        hold_message=prune.hold_message,
        blocked=prune.blocked,
        held_prune=prune.held_prune,
    )


def steps_of(observed: Observed, rendered: Rendered) -> list[Step]:
    """A step for each document and each wait, in that order, with the steps that have to come before it. The second
    document with the same identity is refused.
    """
    steps: list[Step] = []
    locations: dict[Identity, SourceLocation] = {}
    dependencies: list[tuple[Dependency, ...]] = []
    for document in rendered.documents:
        step = _step_for_document(observed, document)
        if step.identity in locations and step.manifest is not None:
            step = refused_step(step.identity, f"is rendered twice, first at {locations[step.identity]}", document)
        locations.setdefault(step.identity, document.location)
        steps.append(step)
        dependencies.append(document.dependencies)
    for wait in rendered.waits:
        if wait.identity is not None:
            step = step_for_wait(observed, wait, wait.identity)
            locations.setdefault(step.identity, wait.location)
            steps.append(step)
            dependencies.append(wait.dependencies)
    return order_steps(_without_too_many(observed, steps), dependencies, rendered)


def _step_for_document(observed: Observed, document: Document) -> Step:
    """The step of one document. What others wrote into its object may meet a bug, which concerns this child alone."""
    try:
        return step_for_document(observed, document)
    except Exception as error:  # noqa: BLE001 - carrying out the step logs it and fails
        return replace(refused_step(identity_of(observed, document), "can't be planned", document), bug=error)


def _without_too_many(observed: Observed, steps: Sequence[Step]) -> list[Step]:
    """The steps; those that would create more children than the folder's settings allow, or that would create any for
    a parent that is nested too deep, are refused. What exists is applied in any case.
    """
    rendered = {step.identity for step in steps}
    new = sum(1 for step in steps if _creates(step))
    above = observed.parents.ancestors
    if new and len(above.line) >= observed.max_depth:
        return _refused_creations(steps, too_deep_message(above.line, observed.parent.identity, observed.max_depth))
    if new and above.missing and not observed.parents.all_parents_known:
        return [replace(step, action=Action.WAIT, reason=UNKNOWN_MESSAGE) if _creates(step) else step for step in steps]
    if not new or len(rendered) + len(observed.children.own) <= observed.max_children:
        return [*steps]
    # What is pruned doesn't count, unless its kind gets new names again and again.
    staying = {
        live.identity
        for live in observed.children.own
        if live.owned_fields()
        and (live.identity.group_kind in observed.history.new_names or not is_prunable(observed, live))
    }
    count = len(rendered | staying)
    # A prune may be held up for as long as the parent's author likes, by a manifest that waits or fails.
    unpruned = len(rendered | {live.identity for live in observed.children.own if live.owned_fields()})
    if count > observed.max_children:
        reason = too_many_message(count, observed.max_children)
    elif unpruned > UNPRUNED_FACTOR * observed.max_children:
        reason = too_many_unpruned_message(unpruned, UNPRUNED_FACTOR * observed.max_children)
    else:
        return [*steps]
    return _refused_creations(steps, reason)


def _refused_creations(steps: Sequence[Step], reason: str) -> list[Step]:
    return [
        replace(step, action=Action.REFUSE, reason=reason, problem=FailureReason.INVALID_MANIFEST)
        if _creates(step)
        else step
        for step in steps
    ]


def _creates(step: Step) -> bool:
    return step.action is Action.APPLY and step.live is None
