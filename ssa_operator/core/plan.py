"""What to do with every child of a parent, and why: one value that status, logs, diff, tree and dry run speak from.

Promises:
- One step a child: nothing is both applied and pruned, and no child is left out.
- A manifest that breaks a rule is refused alone; everything that does not depend on it is applied.
- Manifests that depend on each other in a circle are refused, each with the path.
- Pruning is planned only where it is proven right: every template rendered, nothing refused or waiting, every watch
  synced, and the object still carries our label and our managedFields. A changed template set that leaves nothing is
  held back until somebody confirms it, whatever becomes of the operator meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import assert_never

from ssa_operator.core import once
from ssa_operator.core.drift import Proof, proven
from ssa_operator.core.existing import is_former_self, other_controller
from ssa_operator.core.fight import Feud, Intrusion
from ssa_operator.core.graph import Edge, Graph, graph
from ssa_operator.core.identity import GroupKind, Identity
from ssa_operator.core.instruction import ApplyPolicy, Recreate, Reference
from ssa_operator.core.live import Live
from ssa_operator.core.manifest import Manifest, ManifestError, Rules, group_kind, manifest
from ssa_operator.core.place import Place
from ssa_operator.core.readiness import Readiness, State
from ssa_operator.core.recreation import Recreation, leaving
from ssa_operator.core.rendered import Awaited, Document, Rendered, Use, Wait
from ssa_operator.core.unrest import Unrest
from ssa_operator.core.upkeep import Hold, Records, key


class Action(StrEnum):
    """What is done with one child in one pass."""

    APPLY = "Apply"
    UNCHANGED = "Unchanged"
    WAIT = "Wait"
    RECREATE = "Recreate"
    PRUNE = "Prune"
    KEEP = "Keep"
    REFUSE = "Refuse"


class Demand(StrEnum):
    """Which manifests a pass applies: all of them, or only those that are not proven unchanged."""

    EVERYTHING = "Everything"
    UNPROVEN = "Unproven"


class Problem(StrEnum):
    """Why a step is refused or fails; the reasons of the condition Ready."""

    DEPENDENCY_CYCLE = "DependencyCycle"
    INVALID_MANIFEST = "InvalidManifest"
    CONFLICT = "Conflict"
    APPLY_FAILED = "ApplyFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What the cluster says of a kind: `namespaced`, whether its watch is `synced`, and else the `problem` with it.

    barred: whether the problem stays until somebody grants a right. announces: whether its objects are ready only once
    their status was written.
    """

    namespaced: bool
    synced: bool
    problem: str = ""
    barred: bool = False
    announces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything that a pass knows of the cluster before it renders.

    objects: every watched object, whoever's it is. strangers: what was found to exist without our label, and no watch
    shows. hidden: why others could not be looked at. own: those with this parent's label. kinds: the kinds of these,
    of what is rendered and of what was last reported; one that is not here is unknown to the cluster. proofs: what our
    last applies left behind. left: the objects when they were last as we want them. recreations: what was deleted to
    be made anew. parents: all parents that exist, by uid; everyone: whether all of them are known already. claims: the
    uid of the parent for which each identity was last rendered. converged: the digest of the template set that this
    parent was last brought to, None where this process has not done so yet; settled: the children that it then had.
    cluster_scope: the folder's setting. reconcile_at: what the parent's annotation of that name says. successors: for
    an object that is no longer rendered, those of its kind that were made in its stead. records: what the parent keeps
    for us. outlived: what the same templates rendered for the parent before, from other data or at another time.
    feuds: what others did to children of ours. unrest: those that change each time they are applied. begun: whether
    this process has looked at the parent before. confidential: whether fields of children must not be named, as their
    names may hold a Secret's content. now: seconds since the epoch.
    """

    parent: Live
    objects: Mapping[Identity, Live]
    own: Sequence[Live]
    kinds: Mapping[GroupKind, Kind]
    proofs: Mapping[Identity, Proof]
    demand: Demand
    parents: Mapping[str, Identity] = field(default_factory=dict)
    everyone: bool = True
    claims: Mapping[Identity, str] = field(default_factory=dict)
    recreations: Mapping[Identity, Recreation] = field(default_factory=dict)
    converged: str | None = None
    settled: frozenset[Identity] | None = None
    cluster_scope: bool = False
    reconcile_at: str = ""
    successors: Mapping[Identity, frozenset[Identity]] = field(default_factory=dict)
    records: Records = field(default_factory=Records)
    strangers: Mapping[Identity, Live] = field(default_factory=dict)
    hidden: Mapping[Identity, str] = field(default_factory=dict)
    outlived: frozenset[Identity] = frozenset()
    left: Mapping[Identity, Live] = field(default_factory=dict)
    feuds: Mapping[Identity, Feud] = field(default_factory=dict)
    begun: bool = False
    unrest: Mapping[Identity, Unrest] = field(default_factory=dict)
    confidential: bool = False
    now: float = 0.0

    @property
    def confirmed(self) -> bool:
        """Whether somebody confirmed the deletion that was held."""
        return self.records.held is not None and self.records.held.asked != self.reconcile_at


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One child: the action and the reason for it, in words that can stand in a status.

    successors: of a prune, what takes the object's place and has to be ready before. after: the other steps that have
    to come first. lost: what has to come first and is no step, with the reason. awaited: what it waits for. proven:
    whether the manifest is applied already and nobody changed our fields. intrusion: the foreign change that it puts
    back. contest: what is said of a fight over the child, '' where there is none. recreation: that the object was
    deleted to be made anew before, None where it wasn't. standing: what the object counts as whether it is there or
    not; None where it is judged as it is. barred: whether only a change by somebody else can help a refused step.
    announces: whether the object is ready only once its status was written. unrest: what is said of a child that
    changes each time it is applied, '' of any other. taken: whether it is
    refused for another parent has the object.
    """

    action: Action
    identity: Identity
    reason: str = ""
    manifest: Manifest | None = None
    live: Live | None = None
    problem: Problem | None = None
    place: Place | None = None
    successors: frozenset[Identity] = frozenset()
    after: tuple[Edge, ...] = ()
    lost: tuple[tuple[Reference, str], ...] = ()
    awaited: tuple[Awaited, ...] = ()
    proven: bool = False
    recreation: Recreation | None = None
    standing: Readiness | None = None
    barred: bool = False
    announces: bool = False
    unrest: str = ""
    intrusion: Intrusion | None = None
    contest: str = ""
    taken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps of one pass, in the order of the templates, prunes last; and what became of pruning.

    observed: what it was made from. held: why children that are no longer rendered are kept until somebody confirms, ''
    where nothing is held. blocked: what else keeps them for now. hold: what the parent has to keep of a held deletion.
    """

    steps: tuple[Step, ...]
    rendered: Rendered
    observed: Observed
    held: str = ""
    blocked: str = ""
    hold: Hold | None = None

    @property
    def unseen(self) -> tuple[Identity, ...]:
        """What is made only where it is absent, and what the watches don't show: it may exist without our label."""
        return tuple(step.identity for step in self.steps if step.live is None and self._may_exist(step))

    def _may_exist(self, step: Step) -> bool:
        if step.manifest is None or step.manifest.instructions.apply is ApplyPolicy.ALWAYS:
            return False
        if step.action is Action.APPLY:
            return True
        before = once.made(self.observed.records, step.identity) if step.standing is not None else None
        return before is not None and before.found

    @property
    def prunes(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.action is Action.PRUNE)


def make_plan(observed: Observed, rendered: Rendered) -> Plan:
    """The plan of one pass over a parent that stays; of one that is being deleted, core.finalization makes it."""
    rendered = rendered.standing
    steps: list[Step] = []
    places: dict[Identity, Place] = {}
    uses: list[tuple[Use, ...]] = []
    for document in rendered.documents:
        step = step_of(observed, document)
        if step.identity in places and step.manifest is not None:
            step = _refusal(step.identity, f"is rendered twice, first at {places[step.identity]}", document)
        places.setdefault(step.identity, document.place)
        steps.append(step)
        uses.append(document.uses)
    for wait in rendered.waits:
        if wait.identity is not None:
            step = step_of_wait(observed, wait, wait.identity)
            places.setdefault(step.identity, wait.place)
            steps.append(step)
            uses.append(wait.uses)
    steps = ordered(steps, uses, rendered)
    left = [live for live in sorted(observed.own, key=_by_identity) if _is_left(observed, live, places)]
    steps += [_going(live) for live in left if live.deleting]
    orphans = [_orphan(live, _successors(observed, live, steps)) for live in left if not live.deleting]
    # What is mistrusted stays so, whatever else keeps it for now: it must not slip through when that is over.
    hold = observed.records.held
    if orphans and _mistrusted(observed, rendered, orphans, places.keys()):
        hold = Hold.of(hold.asked if hold else observed.reconcile_at, (step.identity for step in orphans))
        held = _held_text(observed, len(orphans))
        orphans = [
            replace(step, action=Action.KEEP, reason="is no longer rendered; its deletion is held") for step in orphans
        ]
        return Plan(steps=(*steps, *orphans), rendered=rendered, observed=observed, held=held, hold=hold)
    # Who confirmed it did so for all that it takes; what can't be rendered now may still want to delete.
    hold = hold if observed.confirmed or not rendered.complete else None
    blocked = _prune_blocked(observed, rendered, steps)
    if orphans and blocked:
        reason = f"is no longer rendered; kept because {blocked}"
        orphans = [replace(step, action=Action.KEEP, reason=reason) for step in orphans]
        return Plan(steps=(*steps, *orphans), rendered=rendered, observed=observed, blocked=blocked, hold=hold)
    return Plan(steps=(*steps, *orphans), rendered=rendered, observed=observed, hold=hold)


def step_of(observed: Observed, document: Document) -> Step:
    """What one document asks for, apart from all others."""
    kind = observed.kinds.get(group_kind(document))
    provisional = identity_of(observed, document)
    if kind is None:
        return _refusal(
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
        return _refusal(provisional, str(error), document)
    if kind.problem:
        refused = _refusal(made.identity, kind.problem, document, Problem.APPLY_FAILED)
        return replace(refused, barred=kind.barred)
    if made.identity in observed.hidden:
        why = f"may exist already, and can't be looked at: {observed.hidden[made.identity]}"
        return _refusal(made.identity, why, document, Problem.APPLY_FAILED)
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
    return judged(observed, step, live)


def judged(observed: Observed, step: Step, live: Live | None) -> Step:
    """The step of a manifest whose object is `live`, or isn't there: also where that turned out only when it was to be
    made.
    """
    made = step.manifest
    assert made is not None
    step = replace(step, live=live)
    # A hook is applied until it is done, and has a record of its own for that.
    policy = ApplyPolicy.ALWAYS if made.instructions.finalize else made.instructions.apply
    if policy is ApplyPolicy.ALWAYS:
        owner = _other_parent(observed, made.identity, live)
        if owner:
            why = f"belongs to {owner} already; give it another name"
            return replace(_refusal(made.identity, why, made.document), taken=True)
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
        return _refusal(made.identity, why, made.document, Problem.CONFLICT)
    return _present(observed, step, live, feud)


_FOUGHT_OVER = "is fought over, and is put back after a pause"
_RESTLESS = "changes each time it is applied, and is applied after a pause"


def _restless(observed: Observed, identity: Identity) -> bool:
    unrest = observed.unrest.get(identity)
    return unrest is not None and unrest.held(observed.now)


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


def ordered(steps: Sequence[Step], uses: Sequence[Sequence[Use]], rendered: Rendered) -> list[Step]:
    """The steps, each with its uses, with what has to come before each; those that are in a circle are refused."""
    if not any(uses):
        return [*steps]
    found = graph((step.identity, own) for step, own in zip(steps, uses, strict=True))
    paths: dict[Identity, str] = {}
    for cycle in found.cycles():
        for identity in cycle:
            paths.setdefault(identity, found.path(cycle))
    return [_after(step, found, paths, rendered) for step in steps]


def _after(step: Step, found: Graph, paths: Mapping[Identity, str], rendered: Rendered) -> Step:
    identity = step.identity
    if identity in paths and step.action is not Action.REFUSE:
        reason = f"is in a dependency cycle: {paths[identity]}; remove one of these dependencies"
        return replace(step, action=Action.REFUSE, reason=reason, problem=Problem.DEPENDENCY_CYCLE)
    lost = tuple((child, _why_lost(child, rendered)) for child in found.elsewhere.get(identity, ()))
    return replace(step, after=found.edges[identity], lost=lost)


def _why_lost(child: Reference, rendered: Rendered) -> str:
    """Why no step is the child that is asked for: there is one for each that a template renders."""
    for problem in rendered.problems:
        if any((each.kind, each.name) == (child.kind, child.name) for each in problem.of):
            return f"it can't be rendered: {problem}"
    if rendered.problems:
        return f"a template that failed may render it: {rendered.problems[0]}"
    return next((f"a template may render it that is {wait}" for wait in rendered.waits if wait.identity is None), "")


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


def identity_of(observed: Observed, document: Document) -> Identity:
    """What a document is called, whether it can be applied or not."""
    kind = group_kind(document)
    metadata = document.body["metadata"]
    namespace = metadata.get("namespace") or observed.parent.identity.namespace
    known = observed.kinds.get(kind)
    return Identity(kind.group, kind.kind, namespace if known is None or known.namespaced else "", metadata["name"])


def _refusal(identity: Identity, reason: str, document: Document, problem: Problem = Problem.INVALID_MANIFEST) -> Step:
    return Step(action=Action.REFUSE, identity=identity, reason=reason, problem=problem, place=document.place)


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


def _by_identity(live: Live) -> Identity:
    return live.identity


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


def _orphan(live: Live, successors: frozenset[Identity]) -> Step:
    reason = "is no longer rendered"
    return Step(action=Action.PRUNE, identity=live.identity, live=live, reason=reason, successors=successors)


def _successors(observed: Observed, live: Live, steps: Sequence[Step]) -> frozenset[Identity]:
    """What takes the place of an object that is no longer rendered: those of its kind that are made in the passes in
    which it goes. A child that got another name is never gone before the new one is ready.
    """
    before = observed.successors.get(live.identity, frozenset())
    return frozenset(
        step.identity
        for step in steps
        if step.manifest is not None
        and step.manifest.instructions.wait
        and step.identity.group_kind == live.identity.group_kind
        and (step.identity in before or (step.action is Action.APPLY and step.live is None))
    )


def _going(live: Live) -> Step:
    return Step(action=Action.KEEP, identity=live.identity, live=live, reason="is no longer rendered and being deleted")


def _is_left(observed: Observed, live: Live, places: Mapping[Identity, Place]) -> bool:
    """Whether no template renders an object that carries our label, and it is we who made it.

    The label alone is no proof: Kubernetes copies a Service's labels to its EndpointSlices.
    """
    return live.identity not in places and _made_for(observed, live)


def is_owned(live: Live) -> bool:
    """Whether Kubernetes collects it with its parent."""
    return any(owner.controller and owner.uid == live.parent_uid for owner in live.metadata.owner_references)


def _made_for(observed: Observed, live: Live) -> bool:
    """Whether our apply made it with an owner, or recorded it; a manifest with `prune: "false"` has neither, and its
    object stays.
    """
    return (is_owned(live) or live.identity in observed.records.inventory) and bool(live.owned_fields())


def _prune_blocked(observed: Observed, rendered: Rendered, steps: list[Step]) -> str:
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
    for kind, known in observed.kinds.items():
        if not known.synced:
            return f"the watch of {kind} is not synced"
    return ""


def _mistrusted(observed: Observed, rendered: Rendered, orphans: list[Step], stay: AbstractSet[Identity]) -> bool:
    """Whether the end of (almost) all children may be the templates' fault rather than what the data decided.

    The data decides where the very same template set rendered them before, or is the one that this parent was brought
    to. After a restart nothing is known of either: a spec that changed meanwhile proves nothing of the templates. What
    is held stays so, also where others have taken its place by now.
    """
    if observed.confirmed or not rendered.complete or observed.converged == rendered.digest:
        return False
    if all(step.identity in observed.outlived for step in orphans):
        return False
    hold, left = observed.records.held, {step.identity for step in orphans}
    if hold is not None and any(key(step.identity) in hold.children for step in orphans):
        return True
    # What is never pruned can't be lost, and says nothing of the others. What only these templates made, while some
    # of them waited, takes the place of what would go.
    there = sum(
        1
        for live in observed.own
        # What is rendered and being deleted is made anew.
        if (not live.deleting or live.identity in stay)
        and _made_for(observed, live)
        and (observed.settled is None or live.identity in observed.settled or live.identity in left)
    )
    return (there - len(orphans)) * 10 <= len(orphans)


def _held_text(observed: Observed, count: int) -> str:
    children = "a child" if count == 1 else f"{count} children"
    if observed.converged is not None:
        why = f"the templates changed and would now delete {children}"
    else:
        why = (
            f"the templates now delete {children}, and an operator that started meanwhile can't know whether the data "
            "or changed templates decided that"
        )
    return f"{why}; set the annotation ssa-operator.dev/reconcile-at to a new value to confirm, or repair the templates"
