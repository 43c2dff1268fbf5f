"""Decides what is done with one manifest: it is applied, left unchanged, recreated, waits, or is refused.

Promises:
- A manifest that breaks a rule is refused alone, and the refusal names its template line.
- The decision on a manifest depends on no other manifest; reconcile.ordering and reconcile.plan order them.
- The operator never applies to an object of another parent or another controller, nor to one that it did not create and
  that the folder's setting `adopt` excludes.
- The tables CLAIM_RULES, ABSENT_RULES and PRESENT_RULES are the whole decision: the first rule that has an answer gives
  it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.annotations import ApplyPolicy, Recreate
from ssa_operator.objects.buckets import has_bucket_label
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.manifest import Manifest, ManifestError, Rules, group_kind, manifest
from ssa_operator.objects.parent_settings import AdoptPolicy
from ssa_operator.objects.readiness.rules import Readiness, ReadinessState
from ssa_operator.objects.render_result import Document, Wait
from ssa_operator.reconcile.adoption.rules import (
    belongs_to_former_parent,
    follows_from_object,
    may_adopt,
    other_controller,
)
from ssa_operator.reconcile.apply_once import rules as apply_once
from ssa_operator.reconcile.feedback_loops.memory import FeedbackLoops
from ssa_operator.reconcile.feedback_loops.rules import FeedbackLoop
from ssa_operator.reconcile.field_conflicts.memory import Conflicts
from ssa_operator.reconcile.field_conflicts.rules import ConflictHistory
from ssa_operator.reconcile.observed import ApplyScope, Observed
from ssa_operator.reconcile.recreate.memory import Recreations
from ssa_operator.reconcile.recreate.rules import deletion_message
from ssa_operator.reconcile.refusals.known_refusals import recalled, without_kept
from ssa_operator.reconcile.refusals.memory import Refusals
from ssa_operator.reconcile.renames.memory import Renames
from ssa_operator.reconcile.renames.rules import RenameSeries
from ssa_operator.reconcile.resync.memory import ApplyRecords
from ssa_operator.reconcile.resync.unchanged import is_counted_in_vain, is_unchanged
from ssa_operator.reconcile.step import Action, FailureReason, Step, StepHistory, StepOrder


def step_for_document(observed: Observed, document: Document) -> Step:
    """The step of one document, without regard to other documents."""
    kind = observed.children.kinds.get(group_kind(document))
    provisional = identity_of(observed, document)
    if kind is None:
        return refused_step(
            provisional,
            f"the cluster has no kind {group_kind(document)}; install its CRD or correct apiVersion and kind",
            document,
            FailureReason.APPLY_FAILED,
        )
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
    live, history = _live(observed, made), observed.history
    resyncs = observed.apply_scope is ApplyScope.ALL
    known = recalled(history[Refusals].by_child.get(made.identity), made, live, resyncs=resyncs)
    step = Step(
        action=Action.APPLY,
        identity=made.identity,
        manifest=made if known is None else without_kept(made, known.kept),
        live=live,
        location=document.location,
        history=StepHistory(
            recreation=history[Recreations].by_child.get(made.identity),
            replicas=observed.records.replicas.get(made.identity),
            refusal=known,
        ),
        reports_status=kind.reports_status,
        why_kept=made.why_kept,
    )
    if not watch.synced:
        return replace(step, action=Action.WAIT, reason=f"waits: the watch of {group_kind(document)} is not synced yet")
    return decide_step(observed, step)


def _live(observed: Observed, made: Manifest) -> LiveObject | None:
    """The object of a manifest. If values of the manifest were read from the object, it is as it was then, so that the
    API server refuses to apply them if it has changed since.
    """
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


def step_for_wait(observed: Observed, wait: Wait, identity: Identity) -> Step:
    """The step of a document that can't be rendered yet."""
    known = observed.children.kinds.get(identity.group_kind)
    if known is not None and not known.namespaced:
        identity = replace(identity, namespace="")
    elif not identity.namespace:
        identity = replace(identity, namespace=observed.parent.identity.namespace)
    live = observed.children.objects.get(identity)
    return Step(
        action=Action.WAIT,
        identity=identity,
        reason=str(wait),
        live=live,
        location=wait.location,
        order=StepOrder(awaited=wait.awaited),
        ready_when=wait.ready_when,
    )


class _Case(Struct, frozen=True, kw_only=True):
    """What the rules decide: a step with its manifest, and the live object that it may have."""

    observed: Observed
    step: Step
    manifest: Manifest
    policy: ApplyPolicy
    history: ConflictHistory | None
    """What other managers changed in the object, where that counts for this manifest."""
    loop: FeedbackLoop | None
    """Whether the child changes each time it is applied."""

    @property
    def live(self) -> LiveObject:
        assert self.step.live is not None
        return self.step.live

    @property
    def conflict_paused(self) -> bool:
        return self.history is not None and self.history.revert_delayed(self.observed.monotonic)

    @property
    def loop_paused(self) -> bool:
        return self.loop is not None and self.loop.apply_delayed(self.observed.monotonic)

    @property
    def names(self) -> RenameSeries | None:
        """The series of new names of the child's kind."""
        return self.observed.history[Renames].by_kind.get(self.manifest.identity.group_kind)

    @property
    def names_paused(self) -> bool:
        return self.names is not None and self.names.apply_delayed(self.observed.monotonic)

    @property
    def is_newly_named(self) -> bool:
        """Whether the child doesn't exist, and was not applied before."""
        return self.step.live is None and self.manifest.identity not in self.observed.history[ApplyRecords].by_child


_Rule: TypeAlias = Callable[[_Case], Step | None]
"""A rule gives the step, or None where it has no answer."""


def decide_step(observed: Observed, step: Step) -> Step:
    """What is done with a manifest. The step has its live object, also one that turned out to exist only when it was
    to be created.
    """
    made, live = step.manifest, step.live
    assert made is not None
    # A hook is applied until it is done, and has a record of its own for that.
    policy = ApplyPolicy.ALWAYS if made.instructions.finalize else made.instructions.apply
    case = _Case(
        observed=observed,
        step=step,
        manifest=made,
        policy=policy,
        history=_history(observed, made) if live is None or policy is ApplyPolicy.ALWAYS else None,
        loop=observed.history[FeedbackLoops].by_child.get(made.identity),
    )
    decided = _first(CLAIM_RULES, case)
    if decided is None:
        case = replace(case, step=_with_messages(case))
        decided = _first(ABSENT_RULES if live is None else PRESENT_RULES, case)
    assert decided is not None
    return decided


def _first(rules: tuple[_Rule, ...], case: _Case) -> Step | None:
    for rule in rules:
        step = rule(case)
        if step is not None:
            return step
    return None


def identity_of(observed: Observed, document: Document) -> Identity:
    """The identity of a document, also of one that can't be applied."""
    kind = group_kind(document)
    metadata = document.body["metadata"]
    namespace = metadata.get("namespace") or observed.parent.identity.namespace
    known = observed.children.kinds.get(kind)
    return Identity(kind.group, kind.kind, namespace if known is None or known.namespaced else "", metadata["name"])


def refused_step(
    identity: Identity, reason: str, document: Document, problem: FailureReason = FailureReason.INVALID_MANIFEST
) -> Step:
    """The step of a document that is not applied; `reason` follows its name."""
    return Step(action=Action.REFUSE, identity=identity, reason=reason, problem=problem, location=document.location)


# Claims on the object.


def _belongs_to_other_parent(case: _Case) -> Step | None:
    if case.policy is not ApplyPolicy.ALWAYS:
        return None
    owner = _other_parent(case.observed, case.manifest.identity, case.step.live)
    if not owner:
        return None
    why = f"belongs to {owner} already; give it another name"
    refused = refused_step(case.manifest.identity, why, case.manifest.document)
    live, in_other_shards = case.step.live, case.observed.parents.in_other_shards
    elsewhere = live is not None and live.parent_uid in in_other_shards
    return replace(refused, claimed_by_other=True, owner_in_other_shard=elsewhere)


def _owner_may_still_exist(case: _Case) -> Step | None:
    live, observed = case.step.live, case.observed
    if case.policy is not ApplyPolicy.ALWAYS or live is None or live.parent_uid in ("", observed.parent.uid):
        return None
    if not observed.parents.may_exist(live):
        return None
    reason = "waits: it isn't known yet whether the parent whose label it carries still exists"
    return replace(case.step, action=Action.WAIT, reason=reason)


def _is_applied_once(case: _Case) -> Step | None:
    return _step_applied_once(case.observed, case.step, case.manifest) if case.manifest.once else None


# The object is absent.


def _waits_while_paused(case: _Case) -> Step | None:
    if case.conflict_paused:
        return replace(case.step, action=Action.WAIT, reason=_CONFLICT_PAUSED)
    return replace(case.step, action=Action.WAIT, reason=_LOOP_PAUSED) if case.loop_paused else None


def _is_recreated(case: _Case) -> Step | None:
    recreation = case.step.history.recreation
    if recreation is None or recreation.created:
        return None
    return replace(case.step, reason=recreation.why or "was deleted to be recreated")


def _name_is_paused(case: _Case) -> Step | None:
    if not case.is_newly_named or not case.names_paused:
        return None
    return replace(case.step, action=Action.WAIT, reason=_NAMES_PAUSED)


def _is_created(case: _Case) -> Step:
    return replace(
        case.step, reason="was deleted" if case.step.history.foreign_change is not None else "does not exist"
    )


# The object exists.


def _is_being_deleted(case: _Case) -> Step | None:
    if not case.live.deleting:
        return None
    return replace(case.step, action=Action.WAIT, reason=deletion_message(case.live, case.step.history.recreation))


def _was_left_by_a_former_parent(case: _Case) -> Step | None:
    parent = case.observed.parent
    if case.policy is ApplyPolicy.ALWAYS or not belongs_to_former_parent(case.live, parent):
        return None
    if case.observed.why_kept(case.live.identity):
        return None
    # Its owner is gone for certain, because the parent has its name: the garbage collector deletes it sooner or later.
    return replace(case.step, action=Action.RECREATE, reason=f"was left by a former {parent.identity}; it is recreated")


def _is_kept_if_present(case: _Case) -> Step | None:
    if case.policy is not ApplyPolicy.IF_NOT_PRESENT:
        return None
    return replace(case.step, action=Action.KEEP, reason="exists and is left alone")


def _is_controlled_by_other(case: _Case) -> Step | None:
    controller = other_controller(case.live, case.observed.parent)
    if controller is None:
        return None
    who = f"{controller.kind} {controller.name}"
    why = f"is controlled by {who}; give it another name, or remove the owner reference to {who} from it"
    return refused_step(case.manifest.identity, why, case.manifest.document, FailureReason.CONFLICT)


def _is_not_adopted(case: _Case) -> Step | None:
    live, parent = case.live, case.observed.parent
    if may_adopt(live, parent, case.observed.settings.adopt):
        return None
    why = (
        "exists, and the operator did not create it; give the manifest another name, or give the object the label "
        f"{PARENT_UID_LABEL}: {parent.uid}"
    )
    sufficient = (
        policy for policy in (AdoptPolicy.IN_NAMESPACE, AdoptPolicy.ALWAYS) if may_adopt(live, parent, policy)
    )
    if needed := next(sufficient, None):
        why += f", or set `adopt: {needed}` in the folder's _settings.yaml"
    return refused_step(case.manifest.identity, why, case.manifest.document, FailureReason.CONFLICT)


def _conflict_is_paused(case: _Case) -> Step | None:
    return replace(case.step, action=Action.UNCHANGED, reason=_CONFLICT_PAUSED) if case.conflict_paused else None


def _needs_no_apply(case: _Case) -> Step | None:
    record = case.observed.history[ApplyRecords].by_child.get(case.manifest.identity)
    if not is_unchanged(case.manifest, case.live, record):
        return None
    refusal = case.step.history.refusal
    # No event tells when admission lets the manifest pass.
    refused = refusal is not None and bool(refusal.admission)
    if case.observed.apply_scope is ApplyScope.CHANGED and not refused:
        return replace(case.step, action=Action.UNCHANGED, reason="is proven unchanged", unchanged=True)
    if is_counted_in_vain(case.live, record) and not case.observed.renewed:
        return replace(case.step, action=Action.UNCHANGED, reason=_COUNTED, unchanged=True)
    return replace(case.step, reason="this reconcile applies every manifest", unchanged=True)


def _loop_is_paused(case: _Case) -> Step | None:
    return replace(case.step, action=Action.UNCHANGED, reason=_LOOP_PAUSED) if case.loop_paused else None


def _is_applied(case: _Case) -> Step:
    return replace(case.step, reason=_why_apply(case.manifest, case.live, case.observed))


CLAIM_RULES: tuple[_Rule, ...] = (_belongs_to_other_parent, _owner_may_still_exist, _is_applied_once)
ABSENT_RULES: tuple[_Rule, ...] = (_waits_while_paused, _is_recreated, _name_is_paused, _is_created)
PRESENT_RULES: tuple[_Rule, ...] = (
    _is_being_deleted,
    _was_left_by_a_former_parent,
    _is_kept_if_present,
    _is_controlled_by_other,
    _is_not_adopted,
    _conflict_is_paused,
    _needs_no_apply,
    _loop_is_paused,
    _is_applied,
)

_COUNTED = "is as its last apply left it, and the API server counts each apply as a change"
_CONFLICT_PAUSED = "is changed by another manager again and again, and is reverted after a pause"
_NAMES_PAUSED = "takes the place of a child with another name again and again, and is created after a pause"
_LOOP_PAUSED = "changes each time it is applied, and is applied after a pause"


def _with_messages(case: _Case) -> Step:
    """The step with the messages of a field conflict and of a feedback loop."""
    step, history = case.step, case.history
    if history is not None:
        confidential = case.observed.confidential
        text = history.text(step.identity.group_kind, confidential=confidential) if history.in_conflict else ""
        past = replace(step.history, foreign_change=history.unreverted, conflict=text)
        step = replace(step, history=past)
    if case.loop is not None and case.loop.slowed_down:
        step = replace(step, history=replace(step.history, feedback_loop=case.loop.text(step.identity)))
    names = case.names
    if names is not None and names.slowed_down and (case.is_newly_named or step.identity == names.newest):
        step = replace(step, history=replace(step.history, feedback_loop=names.text))
    return step


def _history(observed: Observed, made: Manifest) -> ConflictHistory | None:
    """What other managers changed in this child. What they did to another manifest's object doesn't count."""
    history = observed.history[Conflicts].by_child.get(made.identity)
    return history if history is not None and history.digest == made.digest else None


def _step_applied_once(observed: Observed, step: Step, made: Manifest) -> Step | None:
    """The step of a manifest that is applied once; None where it has to be applied now or when its object is gone."""
    before = apply_once.once_record(observed.records, made.identity)
    changed = before is not None and before.digest != apply_once.digest(made.document, observed.parent)
    live = step.live
    if live is not None and belongs_to_former_parent(live, observed.parent):
        return None
    if live is None or live.deleting:
        if before is not None and not changed:
            standing = before.readiness_when_gone
        elif before is None and live is not None and live.parent_uid == observed.parent.uid:
            # An earlier process created it and died before it recorded that. This reconcile records how it ends.
            standing = Readiness(ReadinessState.TERMINATING, "was applied once and is being deleted")
        elif before is None and live is None and observed.records_lost:
            standing = apply_once.UNKNOWN_OUTCOME
        else:
            return None
        return replace(
            step, action=Action.KEEP, reason=standing.message, history=replace(step.history, once_readiness=standing)
        )
    origin = before.origin if before is not None else "was applied once"
    if before is None and live.parent_uid != observed.parent.uid:
        origin = "exists already, would be applied once,"
    if not changed:
        return replace(step, action=Action.KEEP, reason=f"{origin} and is left alone")
    if made.instructions.recreate is not Recreate.NEVER:
        return None
    reason = f"{origin} and is left alone; its manifest changed and is applied when the object is gone"
    return replace(step, action=Action.KEEP, reason=reason)


def _why_apply(made: Manifest, live: LiveObject, observed: Observed) -> str:
    held = observed.history[ApplyRecords].by_child.get(made.identity)
    if held is None:
        if not live.owned_fields():
            return "exists already and is adopted"
        return (
            "was not applied in the last reconcile"
            if observed.reconciled_before
            else "was not applied by this process yet"
        )
    if held.uid != live.uid:
        return "was replaced"
    if held.digest != made.digest:
        return "its manifest changed"
    history = _history(observed, made)
    if history is not None and history.unreverted is not None:
        return history.unreverted.text(confidential=observed.confidential)
    if held.own_entry != live.own_entry():
        return "another client changed our fields"
    return "this reconcile applies every manifest"


def _other_parent(observed: Observed, identity: Identity, live: LiveObject | None) -> str:
    """The other parent that has the object, as the message names it; '' where none has. An object of a parent that no
    longer exists can be adopted.
    """
    mine = observed.parent.uid
    claimant = observed.parents.claims.get(identity, mine)
    if claimant != mine and claimant in observed.parents.existing:
        return str(observed.parents.existing[claimant])
    if live is None or live.parent_uid in ("", mine):
        return ""
    if (owner_of_label := observed.parents.find(live.parent_uid)) is not None:
        return str(owner_of_label)
    me = observed.parent.identity
    for owner in live.owner_references:
        if owner.controller and (owner.kind, owner.name) != (me.kind, me.name):
            return f"{owner.kind} {owner.name}"
    return ""
