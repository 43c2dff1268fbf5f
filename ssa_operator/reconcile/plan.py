"""Plans what to do with every child of a parent: the one value that a reconcile carries out.

Promises:
- Every child has exactly one step: no child is both applied and pruned.
- A manifest that breaks a rule, whose kind the cluster lacks, or whose object can't be read, or handled because of a
  bug, is refused alone, with its template line; everything that doesn't depend on it is applied.
- A plan lists its prunes last, and reconcile.prune.rules decides on each of them.
- If values of a manifest were read from its object, the object is as it was then, so that the API server refuses to
  apply them if it has changed since.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.annotations import APPLIED_EACH_TIME
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.kinds import is_in_no_kubernetes, unknown_kind_hint
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest, ManifestError, Rules, group_kind, manifest
from ssa_operator.objects.render_result import Dependency, Document, Rendered, Wait
from ssa_operator.objects.shards import has_bucket_label
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile import apply_once
from ssa_operator.reconcile.adoption import follows_from_object
from ssa_operator.reconcile.child import Action, Child, FailureReason, refused_step
from ssa_operator.reconcile.child_limit import within_child_limit
from ssa_operator.reconcile.decide import decide_step
from ssa_operator.reconcile.nested_parents import NO_ANCESTORS, within_depth
from ssa_operator.reconcile.observed import Observed, RenderHistory
from ssa_operator.reconcile.ordering import order_steps
from ssa_operator.reconcile.parent_records.rules import HeldPrune
from ssa_operator.reconcile.prune.rules import plan_prune
from ssa_operator.reconcile.refusals.known_refusals import recalled, without_kept


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


def step_for_document(observed: Observed, document: Document) -> Child:
    """The step of one document, without regard to other documents."""
    kind = observed.children.kinds.get(group_kind(document))
    provisional = identity_of(observed, document)
    if kind is None:
        missing = group_kind(document)
        hint = unknown_kind_hint(missing.group, missing.kind)
        reason = f"can't be applied: the cluster has no kind {missing}; {hint}"
        # A kind of a CRD, or of a newer Kubernetes, may still come.
        lasting = is_in_no_kubernetes(missing.group, missing.kind)
        problem = FailureReason.INVALID_MANIFEST if lasting else FailureReason.APPLY_FAILED
        step = refused_step(provisional, reason, document, problem)
        return replace(step, location=document.location_of(("apiVersion" if hint.startswith("it is in") else "kind",)))
    rules = Rules(
        namespaced=kind.namespaced,
        cluster_scope=observed.settings.cluster_scope,
        bucket_label=_gets_bucket_label(observed, provisional),
        why_kept=observed.why_kept(provisional),
    )
    try:
        made = manifest(document, observed.parent, rules)
    except ManifestError as error:
        return refused_step(provisional, str(error), document)
    watch = kind.within(made.identity.namespace)
    if watch.problem:
        refused = refused_step(made.identity, watch.problem, document, FailureReason.APPLY_FAILED)
        return replace(refused, needs_permission=watch.needs_permission)
    if made.identity in observed.children.unreadable:
        why = f"may exist already, and can't be read: {observed.children.unreadable[made.identity]}"
        return refused_step(made.identity, why, document, FailureReason.APPLY_FAILED)
    live, memory = _live(observed, made), observed.memory.of(made.identity)
    if (known := memory.refusal) is not None:
        known = recalled(known, made, live, resyncs=observed.applies_all)
        memory = replace(memory, refusal=known)
    step = Child(
        action=Action.APPLY,
        identity=made.identity,
        manifest=made if known is None else without_kept(made, known.kept),
        live=live,
        location=document.location,
        memory=memory,
        replicas=observed.records.replicas.get(made.identity),
        reports_status=kind.reports_status,
        why_kept=made.why_kept,
        is_above=observed.is_above(made.identity),
    )
    if not watch.synced:
        return replace(step, action=Action.WAIT, reason=f"waits: the watch of {group_kind(document)} is not synced yet")
    return decide_step(observed, step)


def _live(observed: Observed, made: Manifest) -> LiveObject | None:
    """The object of a manifest. If values of the manifest were read from the object, it is as it was then."""
    children = observed.children
    if made.identity in children.as_rendered and follows_from_object(made):
        return children.as_rendered[made.identity]
    return children.get(made.identity)


def _gets_bucket_label(observed: Observed, identity: Identity) -> bool:
    """Whether a manifest gets the label with its parent's bucket: under `--shard`, and where its object has the label
    already. So an operator without `--shard`, a diff and an apply leave the labels of shards alone.
    """
    live = observed.children.objects.get(identity)
    return observed.sharded or (live is not None and has_bucket_label(live.metadata.labels, observed.parent.uid))


def step_for_wait(observed: Observed, wait: Wait, identity: Identity) -> Child:
    """The step of a document that can't be rendered yet."""
    known = observed.children.kinds.get(identity.group_kind)
    if known is not None and not known.namespaced:
        identity = replace(identity, namespace="")
    live = observed.children.objects.get(identity)
    return Child(
        action=Action.WAIT,
        identity=identity,
        reason=str(wait),
        live=live,
        location=wait.location,
        awaited=wait.awaited,
        ready_when=wait.ready_when,
    )


def identity_of(observed: Observed, document: Document) -> Identity:
    """The identity of a document, also of one that can't be applied."""
    kind = group_kind(document)
    metadata = document.body["metadata"]
    namespace = metadata.get("namespace") or observed.parent.identity.namespace
    known = observed.children.kinds.get(kind)
    return Identity(kind.group, kind.kind, namespace if known is None or known.namespaced else "", metadata["name"])
