"""What one manifest asks for: whether it is applied now, left alone, made anew, waits or is refused.

Promises:
- A manifest that breaks a rule is refused alone, and says where it was written.
- Each is judged apart from all others; how they stand to each other is for core.planning.ordering and core.planning.plan.
- What another parent or another controller has is never applied to.
"""

from __future__ import annotations

from dataclasses import replace

from ssa_operator.core.policies import apply_once as once
from ssa_operator.core.policies.unchanged import proven
from ssa_operator.core.policies.adoption import is_former_self, other_controller
from ssa_operator.core.policies.field_conflicts import Feud
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.annotations import ApplyPolicy, Recreate
from ssa_operator.core.objects.live_object import Live
from ssa_operator.core.objects.manifest import Manifest, ManifestError, Rules, group_kind, manifest
from ssa_operator.core.planning.observed import Demand, Observed
from ssa_operator.core.readiness.rules import Readiness, State
from ssa_operator.core.policies.recreate import leaving
from ssa_operator.core.objects.render_result import Document, Wait
from ssa_operator.core.planning.step import Action, Problem, Step


def step_of(observed: Observed, document: Document) -> Step:
    """What one document asks for, apart from all others."""
    kind = observed.kinds.get(group_kind(document))
    provisional = identity_of(observed, document)
    if kind is None:
        return refusal(
            provisional,
            f"the cluster has no kind {group_kind(document)}; install its CRD or correct apiVersion and kind",
            document,
            Problem.APPLY_FAILED,
        )
    try:
        made = manifest(
            document, observed.parent, Rules(namespaced=kind.namespaced, cluster_scope=observed.cluster_scope)
        )
    except ManifestError as error:
        return refusal(provisional, str(error), document)
    if kind.problem:
        refused = refusal(made.identity, kind.problem, document, Problem.APPLY_FAILED)
        return replace(refused, barred=kind.barred)
    if made.identity in observed.hidden:
        why = f"may exist already, and can't be looked at: {observed.hidden[made.identity]}"
        return refusal(made.identity, why, document, Problem.APPLY_FAILED)
    live = observed.objects.get(made.identity) or observed.strangers.get(made.identity)
    step = Step(
        action=Action.APPLY,
        identity=made.identity,
        manifest=made,
        live=live,
        place=document.place,
        recreation=observed.recreations.get(made.identity),
        announces=kind.announces,
    )
    if not kind.synced:
        return replace(step, action=Action.WAIT, reason=f"waits: the watch of {group_kind(document)} is not synced yet")
    return judged(observed, step)


def step_of_wait(observed: Observed, wait: Wait, identity: Identity) -> Step:
    """What a document asks for that waits."""
    known = observed.kinds.get(identity.group_kind)
    if known is not None and not known.namespaced:
        identity = replace(identity, namespace="")
    elif not identity.namespace:
        identity = replace(identity, namespace=observed.parent.identity.namespace)
    live = observed.objects.get(identity)
    return Step(
        action=Action.WAIT, identity=identity, reason=str(wait), live=live, place=wait.place, awaited=wait.awaited
    )


def judged(observed: Observed, step: Step) -> Step:
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
            return replace(refusal(made.identity, why, made.document), taken=True)
        if live is not None and live.parent_uid not in ("", observed.parent.uid) and not observed.everyone:
            reason = "waits: it isn't known yet whether the parent whose label it carries still exists"
            return replace(step, action=Action.WAIT, reason=reason)
    if made.once and (kept := _made_once(observed, step, made)) is not None:
        return kept
    feud = _feud(observed, made) if live is None or policy is ApplyPolicy.ALWAYS else None
    step = _contested(step, feud, observed)
    unrest = observed.unrest.get(made.identity)
    if unrest is not None and unrest.endless:
        step = replace(step, unrest=unrest.text(made.identity))
    if live is None:
        return _absent(observed, step, feud)
    if live.deleting:
        return replace(step, action=Action.WAIT, reason=leaving(live, step.recreation))
    if policy is not ApplyPolicy.ALWAYS and is_former_self(live, observed.parent):
        # Its owner is gone for certain, as the parent has its name: the garbage collector deletes it, sooner or later.
        reason = f"was left by a former {observed.parent.identity}; it is made anew"
        return replace(step, action=Action.RECREATE, reason=reason)
    if policy is ApplyPolicy.IF_NOT_PRESENT:
        return replace(step, action=Action.KEEP, reason="exists and is left alone")
    controller = other_controller(live, observed.parent)
    if controller is not None:
        who = f"{controller.kind} {controller.name}"
        why = f"is controlled by {who}; give it another name, or remove the owner reference to {who} from it"
        return refusal(made.identity, why, made.document, Problem.CONFLICT)
    return _present(observed, step, live, feud)


def identity_of(observed: Observed, document: Document) -> Identity:
    """What a document is called, whether it can be applied or not."""
    kind = group_kind(document)
    metadata = document.body["metadata"]
    namespace = metadata.get("namespace") or observed.parent.identity.namespace
    known = observed.kinds.get(kind)
    return Identity(kind.group, kind.kind, namespace if known is None or known.namespaced else "", metadata["name"])


def refusal(identity: Identity, reason: str, document: Document, problem: Problem = Problem.INVALID_MANIFEST) -> Step:
    """The step of a document that is not applied; `reason` follows its name."""
    return Step(action=Action.REFUSE, identity=identity, reason=reason, problem=problem, place=document.place)


def _absent(observed: Observed, step: Step, feud: Feud | None) -> Step:
    """The step of what is not there."""
    if feud is not None and feud.held(observed.now):
        return replace(step, action=Action.WAIT, reason=_FOUGHT_OVER)
    if _restless(observed, step.identity):
        return replace(step, action=Action.WAIT, reason=_RESTLESS)
    if step.recreation is not None and not step.recreation.made:
        return replace(step, reason=step.recreation.why or "was deleted to be made anew")
    return replace(step, reason="was deleted" if step.intrusion is not None else "does not exist")


def _present(observed: Observed, step: Step, live: Live, feud: Feud | None) -> Step:
    """The step of what is there and ours to apply to."""
    made = step.manifest
    assert made is not None
    if feud is not None and feud.held(observed.now):
        return replace(step, action=Action.UNCHANGED, reason=_FOUGHT_OVER)
    if proven(made, live, observed.proofs.get(made.identity), observed.left.get(made.identity)):
        if observed.demand is Demand.UNPROVEN:
            return replace(step, action=Action.UNCHANGED, reason="is proven unchanged")
        return replace(step, reason="everything is applied now", proven=True)
    if _restless(observed, step.identity):
        return replace(step, action=Action.UNCHANGED, reason=_RESTLESS)
    return replace(step, reason=_why_apply(made, live, observed))


_FOUGHT_OVER = "is fought over, and is put back after a pause"


_RESTLESS = "changes each time it is applied, and is applied after a pause"


def _restless(observed: Observed, identity: Identity) -> bool:
    unrest = observed.unrest.get(identity)
    return unrest is not None and unrest.held(observed.now)


def _contested(step: Step, feud: Feud | None, observed: Observed) -> Step:
    """The step with what others did to its object, and what is said of it where it is a fight."""
    if feud is None:
        return step
    text = feud.text(step.identity.group_kind, confidential=observed.confidential) if feud.fighting else ""
    return replace(step, intrusion=feud.pending, contest=text)


def _feud(observed: Observed, made: Manifest) -> Feud | None:
    """What others did to this child. What they did to another manifest's object doesn't count against this one."""
    feud = observed.feuds.get(made.identity)
    return feud if feud is not None and feud.digest == made.digest else None


def _made_once(observed: Observed, step: Step, made: Manifest) -> Step | None:
    """The step of a manifest that is made once; None where it has to be made, now or when it is gone."""
    before = once.made(observed.records, made.identity)
    changed = before is not None and before.digest != once.digest(made.document, observed.parent)
    live = step.live
    if live is not None and is_former_self(live, observed.parent):
        return None
    if live is None or live.deleting:
        if before is not None and not changed:
            standing = before.standing
        elif before is None and live is not None and live.parent_uid == observed.parent.uid:
            # A process made it that died before it could say so; how it ended is known when this pass has recorded it.
            standing = Readiness(State.TERMINATING, "was made once and is being deleted")
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


def _why_apply(made: Manifest, live: Live, observed: Observed) -> str:
    held = observed.proofs.get(made.identity)
    if held is None:
        if not live.owned_fields():
            return "exists already and is taken over"
        return "was not applied in the last pass" if observed.begun else "was not applied by this process yet"
    if held.uid != live.uid:
        return "was replaced"
    if held.digest != made.digest:
        return "its manifest changed"
    feud = _feud(observed, made)
    if feud is not None and feud.pending is not None:
        return feud.pending.text(confidential=observed.confidential)
    if held.entry != live.own_entry():
        return "somebody changed our fields"
    return "everything is applied now"


def _other_parent(observed: Observed, identity: Identity, live: Live | None) -> str:
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
