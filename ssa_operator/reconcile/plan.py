"""Plans what to do with every child of a parent: the one value that a reconcile carries out.

Promises:
- Every child has exactly one step: no child is both applied and pruned.
- A manifest that breaks a rule is refused alone; everything that doesn't depend on it is applied. So is one whose
  object the operator can't handle because of a bug.
- A plan lists its prunes last, and reconcile.prune.rules decides on each of them.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.annotations import APPLIED_EACH_TIME
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.render_result import Dependency, Document, Rendered
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile import apply_once
from ssa_operator.reconcile.child import Action, Child, refused_step
from ssa_operator.reconcile.child_limit import within_child_limit
from ssa_operator.reconcile.decide import decide_step
from ssa_operator.reconcile.document_steps import identity_of, step_for_document, step_for_wait
from ssa_operator.reconcile.nested_parents import NO_ANCESTORS, within_depth
from ssa_operator.reconcile.observed import Observed, RenderHistory
from ssa_operator.reconcile.ordering import order_steps
from ssa_operator.reconcile.parent_records.rules import HeldPrune
from ssa_operator.reconcile.prune.rules import plan_prune


class Plan(Struct, frozen=True, kw_only=True):
    """The steps of one reconcile, in the order of the templates and the prunes last."""

    steps: tuple[Child, ...]
    rendered: Rendered
    observed: Observed
    """The state of the cluster that the plan was made for."""
    unrendered: tuple[Child, ...] = ()
    """Those of objects that it deletes, or could delete once nothing blocks or holds that any more."""
    has_hooks: bool = False
    """Whether the folder has finalize hooks."""
    hold_message: str | None = None
    """Why children that are no longer rendered are kept until a user confirms, None where nothing is held."""
    blocked: str | None = None
    """Why they are kept for now, None where nothing blocks the prune."""
    held_prune: HeldPrune | None = None
    """The record of a held prune that the parent has to keep."""

    def step_for_existing(self, step: Child, live: LiveObject) -> Child:
        """The step for an object that was planned to be created and turned out to exist."""
        step = decide_step(self.observed, replace(step, live=live))
        if step.action is Action.APPLY and step.manifest is not None and self._is_read_first(step.manifest, live):
            # The next reconcile follows by itself. It reads the values of the object, and keeps them.
            reason = "was created meanwhile; its values are read first"
            return replace(step, action=Action.WAIT, reason=reason)
        return step

    def _is_read_first(self, manifest: Manifest, live: LiveObject) -> bool:
        """Whether a manifest follows from an object that a render can read. `live` reads only the parent's own."""
        own = live.belongs_to(self.observed.parent.uid)
        return manifest.document.has_generated_values or (manifest.document.reads_itself and own)

    @property
    def blocking_namespaces(self) -> frozenset[str]:
        """The namespaces of recorded children that no template renders any more and that can't be watched. Their end
        proves that the children are gone.
        """
        recorded = self.observed.records.inventory
        unrendered = (step for step in self.steps if step.action is Action.REFUSE and step.location is None)
        return frozenset(step.identity.namespace for step in unrendered if step.identity in recorded) - {""}

    @property
    def unseen(self) -> dict[Identity, str]:
        """The objects that no watch shows and that may exist without our label, each with the version of its manifest.
        They must not be overwritten. Those with generated values were read for the render.
        """
        return {
            step.identity: step.manifest.version
            for step in self.steps
            if step.live is None
            and step.manifest is not None
            and step.identity not in self.rendered.generated
            and self._may_exist(step, step.manifest)
        }

    def _may_exist(self, step: Child, manifest: Manifest) -> bool:
        if manifest.instructions.apply in APPLIED_EACH_TIME:
            return self.observed.may_be_home(step.identity)  # its age decides whether it is ever deleted
        if step.action is Action.APPLY:
            return True
        before = (
            apply_once.once_record(self.observed.records, step.identity) if step.once_readiness is not None else None
        )
        return before is not None and before.existed_before


def render_history_after(
    plan: Plan, history: RenderHistory, *, complete: bool, known: frozenset[Identity] = frozenset()
) -> RenderHistory:
    """The render history after a plan was carried out; `complete`: whether all that was rendered is applied. Where it
    has just the `known` objects, it refers to these, so that each parent keeps them once.
    """
    now = frozenset(step.identity for step in plan.steps if step.location is not None)
    rendered = now
    if history.digest == plan.rendered.digest:
        rendered |= history.rendered.intersection(live.identity for live in plan.observed.children.own)
    if rendered == known:
        rendered = known
    return RenderHistory(
        digest=plan.rendered.digest,
        rendered=rendered,
        applied_digest=plan.rendered.digest if complete else history.applied_digest,
        applied_children=rendered if complete else history.applied_children,
        held_prune=None if complete else plan.held_prune,
        successors={step.identity: step.successors for step in plan.steps if step.successors} or NOTHING,
    )


def make_plan(observed: Observed, rendered: Rendered) -> Plan:
    """The plan for a parent that is not being deleted. For one that is, see reconcile.finalization.rules."""
    has_hooks = rendered.has_hooks
    rendered = rendered.without_hooks if has_hooks else rendered
    steps = steps_of(observed, rendered)
    prune = plan_prune(observed, rendered, steps, {step.identity for step in steps})
    return Plan(
        steps=(*steps, *prune.steps),
        rendered=rendered,
        observed=observed,
        unrendered=prune.unrendered,
        has_hooks=has_hooks,
        hold_message=prune.hold_message,
        blocked=prune.blocked,
        held_prune=prune.held_prune,
    )


def steps_of(observed: Observed, rendered: Rendered) -> list[Child]:
    """A step for each document and each wait, in that order, with the steps that have to come before it. The second
    document with the same identity is refused.
    """
    steps: list[Child] = []
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
    if observed.parents.ancestors is not NO_ANCESTORS:
        steps = within_depth(observed, steps)
    if len(steps) + len(observed.children.own) > observed.settings.max_children:
        steps = within_child_limit(observed, steps)
    return order_steps(steps, dependencies, rendered) if any(dependencies) else steps


def _step_for_document(observed: Observed, document: Document) -> Child:
    """The step of one document. What others wrote into its object may meet a bug, which concerns this child alone."""
    try:
        return step_for_document(observed, document)
    except Exception as error:  # noqa: BLE001 - carrying out the step logs it and fails
        return replace(refused_step(identity_of(observed, document), "can't be planned", document), bug=error)
