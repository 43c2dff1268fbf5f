"""Plans the prune: a step for each object that no template renders any more.

Promises:
- An object is pruned only if it carries the operator's label and has fields of the operator, and only while every
  template is rendered, no step is refused or waits, and every watch has synced.
- A recorded child in a namespace that can't be watched is refused and not forgotten, because it may exist; so is a
  recorded kind of children that can't be watched and that no template renders any more.
- Objects that the parent lives in are kept, and their steps say why.
- An object that another child names stays until that child is ready with its new manifest: running pods may need it.
- If a changed template set deletes almost all children, the prune is held until a user confirms it, even across
  restarts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import Any, assert_never

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import POD_SPECS
from ssa_operator.objects.render_result import Rendered
from ssa_operator.reconcile.child import Action, Child, FailureReason
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.parent_records.rules import HeldPrune, identity_key


class PrunePlan(Struct, frozen=True, kw_only=True):
    """The steps of the objects that no template renders any more, and whether the prune is held or blocked."""

    steps: tuple[Child, ...]
    unrendered: tuple[Child, ...] = ()
    """Those of objects that are deleted now, or could be once nothing blocks or holds that any more."""
    hold_message: str | None = None
    """Why the objects are kept until a user confirms, None if nothing is held."""
    blocked: str | None = None
    """Why the objects are kept for now, None if nothing blocks the prune."""
    held_prune: HeldPrune | None = None
    """The record of the held prune that the parent has to keep."""


def plan_prune(
    observed: Observed, rendered: Rendered, steps: Sequence[Child], planned: AbstractSet[Identity]
) -> PrunePlan:
    """The plan for the objects that no template renders. `steps` are those of what is rendered, `planned` are their
    identities.
    """
    records, own = observed.records, observed.children.own
    recorded = records.applied.kinds if records.applied is not None else frozenset()
    kinds = recorded.difference([step.identity.group_kind for step in steps])
    others = [live for live in own if live.identity not in planned]
    if not (others or kinds or records.held_prune or records.inventory.keys() - planned):
        return PrunePlan(steps=())
    unwatched = _unwatched_steps(observed, planned)
    planned = planned | {step.identity for step in unwatched}
    # The label alone is no proof: Kubernetes copies a Service's labels to its EndpointSlices.
    others = sorted((live for live in others if live.identity not in planned), key=attrgetter("identity"))
    unrendered = [live for live in others if is_prunable(observed, live)]
    unread = [*_unlisted_steps(observed, kinds), *unwatched]
    deleting = [
        *unread,
        *_kept_steps(observed, others),
        *(_deleting_step(live) for live in unrendered if live.deleting),
    ]
    pruned = [live for live in unrendered if not live.deleting]
    successors = _Successors(observed, steps, pruned) if pruned else None
    prunes = [_prune_step(live, successors.of(live)) for live in pruned if successors is not None]
    # Whether to hold is decided first: a prune that a template or a watch blocks now must still be held after that.
    hold = observed.records.held_prune
    if prunes and _must_be_held(observed, rendered, prunes, planned):
        hold = HeldPrune.of(hold.reconcile_at if hold else observed.reconcile_at, (step.identity for step in prunes))
        kept = _keep(prunes, "is no longer rendered; its deletion is held")
        return PrunePlan(
            steps=(*deleting, *kept),
            unrendered=_unrendered(unread, kept, rendered),
            hold_message=_held_message(observed, len(prunes)),
            held_prune=hold,
        )
    # A confirmation covers the whole prune. While a template can't be rendered, the prune may still want to delete
    # more, so its record stays.
    hold = hold if observed.confirmed or not rendered.complete else None
    blocked = _why_blocked(observed, rendered, steps) if prunes else None
    if blocked:
        kept = _keep(prunes, f"is no longer rendered; kept because {blocked}")
        lost = _unrendered(unread, kept, rendered)
        return PrunePlan(steps=(*deleting, *kept), unrendered=lost, blocked=blocked, held_prune=hold)
    return PrunePlan(steps=(*deleting, *prunes), unrendered=(*unread, *prunes), held_prune=hold)


def _unrendered(unread: Iterable[Child], prunes: Sequence[Child], rendered: Rendered) -> tuple[Child, ...]:
    """The steps of objects that could be deleted. An object that a failure may hide isn't one, because nothing is
    deleted while a template fails, and the parent isn't Ready: a failure that names the object, or a file that writes
    as many documents of its kind as are missing. What a file that waits would render is unknown.
    """
    if not rendered.problems:
        return (*unread, *prunes)
    named = {(each.group_kind, each.name) for problem in rendered.problems for each in problem.of}
    hidden = Counter(kind for problem in rendered.problems for kind in problem.kinds)
    missing = [step for step in prunes if (step.identity.group_kind, step.identity.name) not in named]
    count = Counter(step.identity.kind for step in missing)
    lost = (step for step in missing if count[step.identity.kind] > hidden[step.identity.kind])
    return (*unread, *lost)


def _unwatched_steps(observed: Observed, planned: AbstractSet[Identity]) -> list[Child]:
    """A step for each recorded child that no template renders and whose watch fails."""
    steps = []
    for identity in sorted(observed.records.inventory.keys() - planned):
        kind = observed.children.kinds.get(identity.group_kind)
        watch = None if kind is None else kind.within(identity.namespace)
        if observed.is_gone(identity):
            continue
        if watch is not None and watch.problem and not watch.synced:
            steps.append(
                Child(
                    action=Action.REFUSE,
                    identity=identity,
                    reason=f"is no longer rendered, and can't be deleted: {watch.problem}",
                    problem=FailureReason.APPLY_FAILED,
                    needs_permission=watch.needs_permission,
                )
            )
    return steps


def _unlisted_steps(observed: Observed, kinds: Iterable[GroupKind]) -> list[Child]:
    """A step for each of these recorded kinds, which no template renders, whose objects can't be listed."""
    states = observed.children.kinds
    return [
        Child(
            action=Action.REFUSE,
            identity=observed.parent.identity,
            reason=f"may have children of kind {kind}, which no template renders any more: {states[kind].problem}",
            problem=FailureReason.APPLY_FAILED,
            needs_permission=states[kind].needs_permission,
        )
        for kind in sorted(kinds)
        if kind in states and states[kind].problem
    ]


def is_owned(live: LiveObject, uid: str) -> bool:
    """Whether the garbage collector deletes a child with the parent of that uid, or with its last owner."""
    shared = live.shared is not None
    return any(owner.uid == uid and (owner.controller or shared) for owner in live.owner_references)


def is_prunable(observed: Observed, live: LiveObject) -> bool:
    """Whether an apply of the operator gave the object its owner reference or recorded it. An object with
    `prune: "false"` has neither, and stays.
    """
    collected = is_owned(live, observed.parent.uid) or live.identity in observed.records.inventory
    return collected and bool(live.owned_fields()) and not observed.why_kept(live.identity)


def _kept_steps(observed: Observed, others: Iterable[LiveObject]) -> list[Child]:
    """A step for each of these objects, which no template renders any more, that the parent lives in."""
    reason = "is no longer rendered, and stays"
    return [
        Child(
            action=Action.KEEP,
            identity=live.identity,
            live=live,
            reason=f"{reason}: {why}",
            why_kept=why,
            is_above=observed.is_above(live.identity),
        )
        for live in others
        if live.owned_fields() and (why := observed.why_kept(live.identity))
    ]


def _deleting_step(live: LiveObject) -> Child:
    reason = "is no longer rendered and is being deleted"
    return Child(action=Action.KEEP, identity=live.identity, live=live, reason=reason)


def _prune_step(live: LiveObject, successors: frozenset[Identity]) -> Child:
    reason = "is no longer rendered"
    return Child(action=Action.PRUNE, identity=live.identity, live=live, reason=reason, successors=successors)


def _keep(prunes: Iterable[Child], reason: str) -> list[Child]:
    return [replace(step, action=Action.KEEP, reason=reason) for step in prunes]


_OF_PODS = frozenset(GroupKind("", kind) for kind in ("ConfigMap", "Secret", "PersistentVolumeClaim", "ServiceAccount"))
"""The kinds whose objects running pods need, and whose names stand anywhere in a manifest."""


class _Successors:
    """The children that must be ready before an object that is no longer rendered is deleted:

    - those of its kind that are created while it is pruned: a child that was renamed goes after the new one is ready;
    - those that name the object until this reconcile changes them: running pods have the former template, and need what
      it names. What replaces a child that names it counts, too;
    - of what pods need, all workloads, where a new process can't know what these named before they changed.

    Objects with the same successors share one set, so that a thousand renamed children have one of a thousand names.
    """

    def __init__(self, observed: Observed, steps: Iterable[Child], pruned: Sequence[LiveObject]) -> None:
        self._earlier = observed.renders.successors
        created: dict[GroupKind, set[Identity]] = {}
        awaited = [step for step in steps if step.manifest is not None and step.manifest.instructions.wait]
        for step in awaited:
            if step.creates:
                created.setdefault(step.identity.group_kind, set()).add(step.identity)
        self._awaited = frozenset(step.identity for step in awaited)
        self._created = created
        unknown = () if observed.reconciled_before else self._awaited
        self._workloads = frozenset(each for each in unknown if each.group_kind in POD_SPECS)
        self._naming: dict[tuple[str, str], frozenset[Identity]] = {}
        """By a kind ('' for any of what pods need) and a name: the successors of what has it."""
        names = {each for live in pruned for each in _names_of(live.identity)}
        self._shared: dict[tuple[object, ...], frozenset[Identity]] = {}
        siblings = [(step.live, frozenset((step.identity,))) for step in awaited if step.live is not None]
        for live, successors in (*siblings, *((live, self._replacing(live)) for live in pruned)):
            for name in names.intersection(_names_in(live)) if successors else ():
                self._naming[name] = self._naming.get(name, _NONE) | successors

    def of(self, live: LiveObject) -> frozenset[Identity]:
        """The successors of one object."""
        named = [self._naming[name] for name in _names_of(live.identity) if name in self._naming]
        found = self._replacing(live)
        if live.identity.group_kind in _OF_PODS:
            named.append(self._workloads)
        return found.union(*named) if any(named) else found

    def _replacing(self, live: LiveObject) -> frozenset[Identity]:
        kind, earlier = live.identity.group_kind, self._earlier.get(live.identity, _NONE)
        found = self._shared.get((kind, earlier))
        if found is None:
            found = frozenset(self._created.get(kind, _NONE) | (self._awaited & earlier))
            self._shared[kind, earlier] = found
        return found


def _names_of(identity: Identity) -> tuple[tuple[str, str], ...]:
    """What of `_names_in` means an object."""
    reference = (identity.kind, identity.name)
    return (("", identity.name), reference) if identity.group_kind in _OF_PODS else (reference,)


def _names_in(live: LiveObject) -> Iterator[tuple[str, str]]:
    """The texts of an object that may be names, each with '', and the references that have a kind."""
    if live.identity.kind in ("ConfigMap", "Secret"):
        return  # their texts are data
    left: list[Any] = [value for field, value in live.body.items() if field not in _NO_REFERENCES]
    while left:
        value = left.pop()
        if isinstance(value, str):
            yield "", value
        elif isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            if isinstance(name := value.get("name"), str) and isinstance(kind := value.get("kind"), str):
                yield kind, name
            left += (below for field, below in value.items() if field not in _NO_REFERENCES)


_NO_REFERENCES = frozenset({"metadata", "status", "selector"})
_NONE: frozenset[Identity] = frozenset()


def _why_blocked(observed: Observed, rendered: Rendered, steps: Sequence[Child]) -> str | None:
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
    for kind, state in observed.children.kinds.items():
        if not state.synced:
            return f"the watch of {kind} is not synced"
    return None


def _must_be_held(
    observed: Observed, rendered: Rendered, prunes: Sequence[Child], planned: AbstractSet[Identity]
) -> bool:
    """Whether the prune deletes (almost) all children and may be the fault of the templates.

    If this very template set rendered the children before, or was applied completely to this parent, the data caused
    the prune, and the prune isn't held. A rollout counts and confirms it for all parents together. A process that has
    just started knows none of these. A changed spec is no proof either, because the templates may have changed as well.
    A prune that is held stays held, even if other children have taken the place of those that it deletes.
    """
    if observed.confirmed or observed.planned or not rendered.complete:
        return False
    if observed.renders.applied_digest == rendered.digest:
        return False
    if all(step.identity in observed.rendered_before for step in prunes):
        return False
    hold = observed.records.held_prune
    if hold is not None and any(identity_key(step.identity) in hold.children for step in prunes):
        return True
    remaining = _count_prunable(observed, prunes, planned) - len(prunes)
    return remaining * 10 <= len(prunes)


def _count_prunable(observed: Observed, prunes: Sequence[Child], planned: AbstractSet[Identity]) -> int:
    """How many children count when a prune is judged. Those that are never pruned don't count, and neither do those
    that only the new template set created, while some of its manifests waited: they take the place of what it prunes.
    """
    settled, pruned = observed.renders.applied_children, {step.identity for step in prunes}
    return sum(
        1
        for live in observed.children.own
        # A child that is rendered and is being deleted is recreated.
        if (not live.deleting or live.identity in planned)
        and is_prunable(observed, live)
        and (settled is None or live.identity in settled or live.identity in pruned)
    )


def _held_message(observed: Observed, count: int) -> str:
    children = "a child" if count == 1 else f"{count} children"
    if observed.renders.applied_digest is not None:
        why = f"the templates changed and would now delete {children}"
    else:
        why = (
            f"the templates would now delete {children}, and after a restart the operator can't know whether the data "
            "or changed templates caused that"
        )
    return f"{why}; set the annotation ssa-operator.dev/reconcile-at to a new value to confirm, or repair the templates"
