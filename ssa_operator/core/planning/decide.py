"""What one manifest asks for: whether it is applied now, left alone, made anew, waits or is refused.

Promises:
- A manifest that breaks a rule is refused alone, and says where it was written.
- Each manifest is decided apart from all others; core.planning.ordering and core.planning.plan put them in order.
- What another parent or another controller has is never applied to.
"""

from __future__ import annotations

from dataclasses import replace

from ssa_operator.core.objects.annotations import ApplyPolicy, Recreate
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.manifest import Manifest, ManifestError, Rules, group_kind, manifest
from ssa_operator.core.objects.render_result import Document, Wait
from ssa_operator.core.planning.observed import ApplyScope, Observed
from ssa_operator.core.planning.step import Action, FailureReason, Step
from ssa_operator.core.policies import apply_once
from ssa_operator.core.policies.adoption import belongs_to_former_parent, other_controller
from ssa_operator.core.policies.field_conflicts import ConflictHistory
from ssa_operator.core.policies.recreate import deletion_message
from ssa_operator.core.policies.unchanged import is_unchanged
from ssa_operator.core.readiness.rules import Readiness, ReadinessState


def step_for_document(observed: Observed, document: Document) -> Step:
    """What one document asks for, apart from all others."""
    kind = observed.kinds.get(group_kind(document))
    provisional = identity_of(observed, document)
    if kind is None:
        return refused_step(
            provisional,
            f"the cluster has no kind {group_kind(document)}; install its CRD or correct apiVersion and kind",
            document,
            FailureReason.APPLY_FAILED,
        )
    try:
        made = manifest(
            document, observed.parent, Rules(namespaced=kind.namespaced, cluster_scope=observed.cluster_scope)
        )
    except ManifestError as error:
        return refused_step(provisional, str(error), document)
    if kind.problem:
        refused = refused_step(made.identity, kind.problem, document, FailureReason.APPLY_FAILED)
        return replace(refused, needs_permission=kind.needs_permission)
    if made.identity in observed.unreadable:
        why = f"may exist already, and can't be looked at: {observed.unreadable[made.identity]}"
        return refused_step(made.identity, why, document, FailureReason.APPLY_FAILED)
    live = observed.objects.get(made.identity) or observed.unlabelled.get(made.identity)
    step = Step(
        action=Action.APPLY,
        identity=made.identity,
        manifest=made,
        live=live,
        location=document.location,
        recreation=observed.recreations.get(made.identity),
        reports_status=kind.reports_status,
    )
    if not kind.synced:
        return replace(step, action=Action.WAIT, reason=f"waits: the watch of {group_kind(document)} is not synced yet")
    return decide_step(observed, step)


def step_for_wait(observed: Observed, wait: Wait, identity: Identity) -> Step:
    """What a document asks for that waits."""
    known = observed.kinds.get(identity.group_kind)
    if known is not None and not known.namespaced:
        identity = replace(identity, namespace="")
    elif not identity.namespace:
        identity = replace(identity, namespace=observed.parent.identity.namespace)
    live = observed.objects.get(identity)
    return Step(
        action=Action.WAIT, identity=identity, reason=str(wait), live=live, location=wait.location, awaited=wait.awaited
    )


def decide_step(observed: Observed, step: Step) -> Step:
    """What is done about a manifest, whose object is there or not, as the step has it: also where that turned out only
    when it was to be made.
    """
    made, live = step.manifest, step.live
    assert made is not None
    # A hook is applied until it is done, and has a record of its own for that.
    policy = ApplyPolicy.ALWAYS if made.instructions.finalize else made.instructions.apply
    if policy is ApplyPolicy.ALWAYS:
        owner = _other_parent(observed, made.identity, live)
        if owner:
            why = f"belongs to {owner} already; give it another name"
            return replace(refused_step(made.identity, why, made.document), claimed_by_other=True)
        if live is not None and live.parent_uid not in ("", observed.parent.uid) and not observed.all_parents_known:
            reason = "waits: it isn't known yet whether the parent whose label it carries still exists"
            return replace(step, action=Action.WAIT, reason=reason)
    if made.once and (kept := _made_once(observed, step, made)) is not None:
        return kept
    history = _feud(observed, made) if live is None or policy is ApplyPolicy.ALWAYS else None
    step = _contested(step, history, observed)
    feedback_loops = observed.feedback_loops.get(made.identity)
    if feedback_loops is not None and feedback_loops.slowed_down:
        step = replace(step, feedback_loops=feedback_loops.text(made.identity))
    if live is None:
        return _absent(observed, step, history)
    if live.deleting:
        return replace(step, action=Action.WAIT, reason=deletion_message(live, step.recreation))
    if policy is not ApplyPolicy.ALWAYS and belongs_to_former_parent(live, observed.parent):
        # Its owner is gone for certain, as the parent has its name: the garbage collector deletes it, sooner or later.
        reason = f"was left by a former {observed.parent.identity}; it is made anew"
        return replace(step, action=Action.RECREATE, reason=reason)
    if policy is ApplyPolicy.IF_NOT_PRESENT:
        return replace(step, action=Action.KEEP, reason="exists and is left alone")
    controller = other_controller(live, observed.parent)
    if controller is not None:
        who = f"{controller.kind} {controller.name}"
        why = f"is controlled by {who}; give it another name, or remove the owner reference to {who} from it"
        return refused_step(made.identity, why, made.document, FailureReason.CONFLICT)
    return _present(observed, step, live, history)


def identity_of(observed: Observed, document: Document) -> Identity:
    """What a document is called, whether it can be applied or not."""
    kind = group_kind(document)
    metadata = document.body["metadata"]
    namespace = metadata.get("namespace") or observed.parent.identity.namespace
    known = observed.kinds.get(kind)
    return Identity(kind.group, kind.kind, namespace if known is None or known.namespaced else "", metadata["name"])


def refused_step(
    identity: Identity, reason: str, document: Document, problem: FailureReason = FailureReason.INVALID_MANIFEST
) -> Step:
    """The step of a document that is not applied; `reason` follows its name."""
    return Step(action=Action.REFUSE, identity=identity, reason=reason, problem=problem, location=document.location)


def _absent(observed: Observed, step: Step, history: ConflictHistory | None) -> Step:
    """The step of what is not there."""
    if history is not None and history.revert_delayed(observed.now):
        return replace(step, action=Action.WAIT, reason=_FOUGHT_OVER)
    if _restless(observed, step.identity):
        return replace(step, action=Action.WAIT, reason=_RESTLESS)
    if step.recreation is not None and not step.recreation.made:
        return replace(step, reason=step.recreation.why or "was deleted to be made anew")
    return replace(step, reason="was deleted" if step.foreign_change is not None else "does not exist")


def _present(observed: Observed, step: Step, live: LiveObject, history: ConflictHistory | None) -> Step:
    """The step of what is there and ours to apply to."""
    made = step.manifest
    assert made is not None
    if history is not None and history.revert_delayed(observed.now):
        return replace(step, action=Action.UNCHANGED, reason=_FOUGHT_OVER)
    if is_unchanged(made, live, observed.apply_records.get(made.identity), observed.left.get(made.identity)):
        if observed.apply_scope is ApplyScope.CHANGED:
            return replace(step, action=Action.UNCHANGED, reason="is proven unchanged")
        return replace(step, reason="everything is applied now", unchanged=True)
    if _restless(observed, step.identity):
        return replace(step, action=Action.UNCHANGED, reason=_RESTLESS)
    return replace(step, reason=_why_apply(made, live, observed))


_FOUGHT_OVER = "is fought over, and is put back after a pause"


_RESTLESS = "changes each time it is applied, and is applied after a pause"


def _restless(observed: Observed, identity: Identity) -> bool:
    feedback_loops = observed.feedback_loops.get(identity)
    return feedback_loops is not None and feedback_loops.apply_delayed(observed.now)


def _contested(step: Step, history: ConflictHistory | None, observed: Observed) -> Step:
    """The step with what others did to its object, and what is said of it where it is a fight."""
    if history is None:
        return step
    text = history.text(step.identity.group_kind, confidential=observed.confidential) if history.in_conflict else ""
    return replace(step, foreign_change=history.unreverted, conflict=text)


def _feud(observed: Observed, made: Manifest) -> ConflictHistory | None:
    """What others did to this child. What they did to another manifest's object doesn't count against this one."""
    history = observed.conflict_histories.get(made.identity)
    return history if history is not None and history.digest == made.digest else None


def _made_once(observed: Observed, step: Step, made: Manifest) -> Step | None:
    """The step of a manifest that is made once; None where it has to be made, now or when it is gone."""
    before = apply_once.once_record(observed.records, made.identity)
    changed = before is not None and before.digest != apply_once.digest(made.document, observed.parent)
    live = step.live
    if live is not None and belongs_to_former_parent(live, observed.parent):
        return None
    if live is None or live.deleting:
        if before is not None and not changed:
            standing = before.readiness_when_gone
        elif before is None and live is not None and live.parent_uid == observed.parent.uid:
            # A process made it that died before it could say so; how it ended is known when this pass has recorded it.
            standing = Readiness(ReadinessState.TERMINATING, "was made once and is being deleted")
        else:
            return None
        return replace(step, action=Action.KEEP, reason=standing.message, standing=standing)
    origin = before.origin if before is not None else "was made once"
    if before is None and live.parent_uid != observed.parent.uid:
        origin = "exists already, would be made once,"
    if not changed:
        return replace(step, action=Action.KEEP, reason=f"{origin} and is left alone")
    if made.instructions.recreate is not Recreate.NEVER:
        return None
    reason = f"{origin} and is left alone; its manifest changed, and is made when it is gone"
    return replace(step, action=Action.KEEP, reason=reason)


def _why_apply(made: Manifest, live: LiveObject, observed: Observed) -> str:
    held = observed.apply_records.get(made.identity)
    if held is None:
        if not live.owned_fields():
            return "exists already and is taken over"
        return (
            "was not applied in the last pass" if observed.reconciled_before else "was not applied by this process yet"
        )
    if held.uid != live.uid:
        return "was replaced"
    if held.digest != made.digest:
        return "its manifest changed"
    history = _feud(observed, made)
    if history is not None and history.unreverted is not None:
        return history.unreverted.text(confidential=observed.confidential)
    if held.own_entry != live.own_entry():
        return "somebody changed our fields"
    return "everything is applied now"


def _other_parent(observed: Observed, identity: Identity, live: LiveObject | None) -> str:
    """Who else has this object, in words; '' where nobody has. What a vanished parent left behind is free to be taken
    over.
    """
    mine = observed.parent.uid
    claimant = observed.claims.get(identity, mine)
    if claimant != mine and claimant in observed.parents:
        return str(observed.parents[claimant])
    if live is None or live.parent_uid in ("", mine):
        return ""
    if live.parent_uid in observed.parents:
        return str(observed.parents[live.parent_uid])
    me = observed.parent.identity
    for owner in live.metadata.owner_references:
        if owner.controller and (owner.kind, owner.name) != (me.kind, me.name):
            return f"{owner.kind} {owner.name}"
    return ""
