"""What becomes of objects that no template renders any more.

Promises:
- Pruning is planned only where it is proven right: every template rendered, nothing refused or waiting, every watch
  synced, and the object still carries our label and our managedFields.
- A changed template set that leaves nothing is held back until somebody confirms it, whatever becomes of the operator
  meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import assert_never

from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.render_result import Rendered
from ssa_operator.core.planning.observed import Observed
from ssa_operator.core.planning.step import Action, Step
from ssa_operator.core.policies.parent_records import HeldPrune, identity_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """A step for each object that is no longer rendered, and what became of pruning.

    held: why the objects are kept until somebody confirms, '' where nothing is held. blocked: what else keeps them for
    now. hold: what the parent has to keep of a held deletion.
    """

    steps: tuple[Step, ...]
    held: str = ""
    blocked: str = ""
    hold: HeldPrune | None = None


def pruning(observed: Observed, rendered: Rendered, steps: Sequence[Step], stay: AbstractSet[Identity]) -> Pruning:
    """What becomes of the objects that no template renders. `steps` are those of what is rendered, `stay` is what they
    are about.
    """
    left = [live for live in sorted(observed.children.own, key=_by_identity) if _is_left(observed, live, stay)]
    going = [_going(live) for live in left if live.deleting]
    orphans = [_orphan(live, _successors(observed, live, steps)) for live in left if not live.deleting]
    # What is mistrusted stays so, whatever else keeps it for now: it must not slip through when that is over.
    hold = observed.records.held_prune
    if orphans and _mistrusted(observed, rendered, orphans, stay):
        hold = HeldPrune.of(hold.reconcile_at if hold else observed.reconcile_at, (step.identity for step in orphans))
        kept = _kept(orphans, "is no longer rendered; its deletion is held")
        return Pruning(steps=(*going, *kept), held=_held_text(observed, len(orphans)), hold=hold)
    # Who confirmed it did so for all that it takes; what can't be rendered now may still want to delete.
    hold = hold if observed.confirmed or not rendered.complete else None
    blocked = _blocked(observed, rendered, steps) if orphans else ""
    if blocked:
        kept = _kept(orphans, f"is no longer rendered; kept because {blocked}")
        return Pruning(steps=(*going, *kept), blocked=blocked, hold=hold)
    return Pruning(steps=(*going, *orphans), hold=hold)


def is_owned(live: LiveObject) -> bool:
    """Whether Kubernetes collects it with its parent."""
    return any(owner.controller and owner.uid == live.parent_uid for owner in live.metadata.owner_references)


def _by_identity(live: LiveObject) -> Identity:
    return live.identity


def _is_left(observed: Observed, live: LiveObject, stay: AbstractSet[Identity]) -> bool:
    """Whether no template renders an object that carries our label, and it is we who made it.

    The label alone is no proof: Kubernetes copies a Service's labels to its EndpointSlices.
    """
    return live.identity not in stay and _made_for(observed, live)


def _made_for(observed: Observed, live: LiveObject) -> bool:
    """Whether our apply made it with an owner, or recorded it; a manifest with `prune: "false"` has neither, and its
    object stays.
    """
    return (is_owned(live) or live.identity in observed.records.inventory) and bool(live.owned_fields())


def _going(live: LiveObject) -> Step:
    return Step(action=Action.KEEP, identity=live.identity, live=live, reason="is no longer rendered and being deleted")


def _orphan(live: LiveObject, successors: frozenset[Identity]) -> Step:
    reason = "is no longer rendered"
    return Step(action=Action.PRUNE, identity=live.identity, live=live, reason=reason, successors=successors)


def _kept(orphans: Iterable[Step], reason: str) -> list[Step]:
    return [replace(step, action=Action.KEEP, reason=reason) for step in orphans]


def _successors(observed: Observed, live: LiveObject, steps: Sequence[Step]) -> frozenset[Identity]:
    """What takes the place of an object that is no longer rendered: those of its kind that are made in the passes in
    which it goes. A child that got another name is never gone before the new one is ready.
    """
    before = observed.renders.successors.get(live.identity, frozenset())
    return frozenset(
        step.identity
        for step in steps
        if step.manifest is not None
        and step.manifest.instructions.wait
        and step.identity.group_kind == live.identity.group_kind
        and (step.identity in before or (step.action is Action.APPLY and step.live is None))
    )


def _blocked(observed: Observed, rendered: Rendered, steps: Sequence[Step]) -> str:
    if not rendered.complete:
        return "a template failed" if rendered.problems else "a template waits"
    for step in steps:
        match step.action:
            case Action.REFUSE | Action.WAIT:
                return f"{step.identity} {step.reason}"
            case Action.APPLY | Action.UNCHANGED | Action.RECREATE | Action.PRUNE | Action.KEEP:
                continue
            case _:
                assert_never(step.action)
    for kind, known in observed.children.kinds.items():
        if not known.synced:
            return f"the watch of {kind} is not synced"
    return ""


def _mistrusted(observed: Observed, rendered: Rendered, orphans: list[Step], stay: AbstractSet[Identity]) -> bool:
    """Whether the end of (almost) all children may be the templates' fault rather than what the data decided.

    The data decides where the very same template set rendered them before, or is the one that this parent was brought
    to. After a restart nothing is known of either: a spec that changed meanwhile proves nothing of the templates. What
    is held stays so, also where others have taken its place by now.
    """
    if observed.confirmed or not rendered.complete or observed.renders.converged == rendered.digest:
        return False
    if all(step.identity in observed.rendered_before for step in orphans):
        return False
    hold, left = observed.records.held_prune, {step.identity for step in orphans}
    if hold is not None and any(identity_key(step.identity) in hold.children for step in orphans):
        return True
    # What is never pruned can't be lost, and says nothing of the others. What only these templates made, while some
    # of them waited, takes the place of what would go.
    there = sum(
        1
        for live in observed.children.own
        # What is rendered and being deleted is made anew.
        if (not live.deleting or live.identity in stay)
        and _made_for(observed, live)
        and (observed.renders.settled is None or live.identity in observed.renders.settled or live.identity in left)
    )
    return (there - len(orphans)) * 10 <= len(orphans)


def _held_text(observed: Observed, count: int) -> str:
    children = "a child" if count == 1 else f"{count} children"
    if observed.renders.converged is not None:
        why = f"the templates changed and would now delete {children}"
    else:
        why = (
            f"the templates now delete {children}, and an operator that started meanwhile can't know whether the data "
            "or changed templates decided that"
        )
    return f"{why}; set the annotation ssa-operator.dev/reconcile-at to a new value to confirm, or repair the templates"
