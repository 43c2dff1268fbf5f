"""One pass over one parent: observe, render, plan, act, report, publish.

Promises:
- A pass is a straight line. It reads the cluster from caches, writes children and then the status, and keeps nothing
  but what it remembers of the parent: the proofs of its children and what it last reported.
- Children are not applied while their parent is being deleted or suspended.
- A status is written only when it differs, and never to a parent that was made again meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

from ssa_operator.controller.act import KEPT_UNTIL, act
from ssa_operator.controller.cluster import Cluster
from ssa_operator.controller.diagnosis import diagnosed
from ssa_operator.controller.family import Family
from ssa_operator.controller.options import ApplyMode, Options
from ssa_operator.controller.queue import Cause
from ssa_operator.controller.rivalry import Rivalry
from ssa_operator.controller.strangers import NOBODY, Strangers, meet
from ssa_operator.controller.upkeep import keep
from ssa_operator.controller.users import Asked, Seen, User
from ssa_operator.core import once, upkeep
from ssa_operator.core.drift import Proof, proof
from ssa_operator.core.encoding import encode
from ssa_operator.core.event import events
from ssa_operator.core.fight import Scene
from ssa_operator.core.finalization import make_finalization
from ssa_operator.core.identity import GroupKind, Identity
from ssa_operator.core.instruction import ApplyPolicy
from ssa_operator.core.live import Live
from ssa_operator.core.manifest import group_kind
from ssa_operator.core.order import Series, stirred
from ssa_operator.core.plan import Action, Demand, Observed, Plan, Step, make_plan
from ssa_operator.core.plan import Problem as StepProblem
from ssa_operator.core.pods import Doubt
from ssa_operator.core.recreation import Recreation
from ssa_operator.core.rendered import Rendered, StatusFields
from ssa_operator.core.rewriting import notice
from ssa_operator.core.schema import MISFIT, declared
from ssa_operator.core.status import (
    Outcome,
    Report,
    Result,
    Verdict,
    differs,
    earliest,
    make_deletion_report,
    make_idle_report,
    make_report,
    noted,
    noticed,
    unrecorded,
)
from ssa_operator.core.upkeep import FINALIZER, Records, RecordsError, recorded
from ssa_operator.core.world import Question
from ssa_operator.kube.cache import Cache
from ssa_operator.kube.errors import ApiError
from ssa_operator.kube.resource import Resource
from ssa_operator.rendering.determinism import verified
from ssa_operator.rendering.inquiry import born
from ssa_operator.rendering.render import render, render_status
from ssa_operator.rendering.sources import Folder

ROUNDS = 8
"""So many renders a pass may take: what a lookup gives may lead to another lookup. Those that are left come with the
events of their watches."""

SUSPEND = "ssa-operator.dev/suspend"
RECONCILE_AT = "ssa-operator.dev/reconcile-at"


@dataclass(slots=True)
class Memory:
    """What this process remembers of a parent between two passes.

    proofs: what the last apply of each child left behind. recreations: the children that were deleted to be made anew.
    claimed: the identities that it was rendered into. failures: passes in a row that failed in passing. series: those
    in a row that changed what templates read. converged: the digest of the template set that the parent was last
    brought to. held_at: the value of `reconcile-at` when a prune was first held. unfinished: passes in a row that did
    not come to their end. trouble: why the last of them did not, in words. report: the last one. hook_failures: how
    often the Job of a finalize hook was made again. successors: what has to be ready before an object goes that is no
    longer rendered. once: what was made once and is not on record yet. doubts: the workloads that aren't ready. left:
    each child when it was last as we want it. rivalry: what others do to the same objects.
    """

    proofs: Mapping[Identity, Proof] = field(default_factory=dict)
    recreations: Mapping[Identity, Recreation] = field(default_factory=dict)
    claimed: frozenset[Identity] = frozenset()
    failures: int = 0
    series: Series = field(default_factory=Series)
    converged: str | None = None
    held_at: str | None = None
    unfinished: int = 0
    trouble: str = ""
    report: Report | None = None
    hook_failures: dict[Identity, int] = field(default_factory=dict)
    successors: Mapping[Identity, frozenset[Identity]] = field(default_factory=dict)
    once: Mapping[str, str] = field(default_factory=dict)
    doubts: Mapping[Identity, Doubt] = field(default_factory=dict)
    left: Mapping[Identity, Live] = field(default_factory=dict)
    rivalry: Rivalry = field(default_factory=Rivalry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The parent of a pass: its live object, the folder that it is rendered through, how it is served, and what its
    status may hold.

    status_schema is None where the status takes everything; writes_status is false where the operator has no business
    in it. `cache` is where the parent came from, and learns of its new status.
    """

    parent: Live
    folder: Folder
    resource: Resource
    writes_status: bool
    status_schema: Mapping[str, object] | None
    cache: Cache


class Reconciler:
    """Runs passes. `parents` are the uids of all parents that exist, `everyone` says whether all of them are known
    already; `claims` says which parent an identity was rendered for.
    """

    def __init__(
        self,
        cluster: Cluster,
        parents: AbstractSet[str],
        everyone: Callable[[], bool],
        options: Options,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._cluster = cluster
        self._parents = parents
        self._everyone = everyone
        self._options = options
        self._now = now
        self._claims: dict[Identity, str] = {}

    async def reconcile(self, subject: Subject, memory: Memory, causes: Cause) -> Report:
        """One pass. Raises ApiError where the status can't be written."""
        if subject.parent.deleting and FINALIZER in subject.parent.metadata.finalizers:
            return await self._finalize(subject, memory)
        idle = self._idle_verdict(subject.parent)
        if idle is not None:
            self._use(subject, Cause.TEMPLATE, {})
            children = self._cluster.children.of(subject.parent.uid)
            own = await self._render_status(subject, children)
            report = make_idle_report(subject.parent, idle, children, own, self._now())
            return await self._publish(subject, memory, report, confidential=_is_confidential(subject, own.asked))
        records = upkeep.read(subject.parent)
        records = replace(records, once={**records.once, **memory.once})
        records = once.with_ends(records, self._cluster.children.last_seen, self._now())
        await self._watch_recorded(subject.parent, records, memory)
        rendered, strangers = await self._render(subject, memory, causes)
        observed = self._observe(subject, memory, causes, rendered, records)
        observed = replace(observed, strangers=strangers.found, hidden=strangers.hidden)
        plan = make_plan(observed, rendered)
        more = await self._meet(set(plan.unseen) - set(rendered.generated))
        if more:
            strangers |= more
            plan = make_plan(replace(observed, strangers=strangers.found, hidden=strangers.hidden), rendered)
        if plan.held and rendered.aged:
            plan = make_plan(replace(plan.observed, outlived=self._outlived(subject, plan.observed)), rendered)
        self._claim(memory, subject.parent.uid, plan)
        subject, plan = await self._record(subject, plan, records, hooks=rendered.has_hooks)
        outcomes = await act(plan, self._cluster_for(subject, rendered), self._now())
        subject, outcomes = await self._note(subject, memory, records, outcomes)
        outcomes, memory.doubts = await diagnosed(outcomes, memory.doubts, self._cluster, self._now())
        outcomes = memory.rivalry.acted(outcomes, self._now())
        own = await self._render_status(subject, _lives(outcomes))
        report = make_report(subject.parent, plan, outcomes, own, self._now())
        _remember(memory, subject.parent, plan, outcomes, report)
        subject = await self._let_go(subject, plan, hooks=rendered.has_hooks)
        report = self._followed(memory, report, rendered, outcomes)
        if memory.series.at_once:
            # The next pass knows more: it writes the status.
            self._tell(subject, memory, report)
            memory.report = report
            return report
        confidential = _is_confidential(subject, (*rendered.asked, *own.asked))
        return await self._publish(subject, memory, report, confidential=confidential)

    async def _finalize(self, subject: Subject, memory: Memory) -> Report:
        """One pass over a parent that is being deleted and that our finalizer keeps."""
        changed = False
        while True:
            records = upkeep.read(subject.parent)
            await self._watch_recorded(subject.parent, records, memory)
            rendered, strangers = await self._render(subject, memory, Cause.CHILD)
            observed = self._observe(subject, memory, Cause.CHILD, rendered, records)
            observed = replace(observed, strangers=strangers.found, hidden=strangers.hidden)
            finalization = make_finalization(observed, rendered, self._now(), memory.hook_failures)
            plan = finalization.plan
            self._claim(memory, subject.parent.uid, plan)
            if finalization.finished:
                subject = await self._keep(subject, Records())
                return make_deletion_report(subject.parent, finalization, (), StatusFields(), self._now())
            subject = await self._keep(subject, finalization.records)
            outcomes = await act(plan, self._cluster_for(subject, rendered), self._now())
            replaced = [
                each.step.identity
                for each in outcomes
                if each.step.action is Action.RECREATE and each.result is Result.RECREATED
            ]
            for identity in replaced:
                memory.hook_failures[identity] = memory.hook_failures.get(identity, 0) + 1
            # What we did ourselves wakes nobody. A change may be one that never ends: another pass may follow it, not
            # one after the other.
            stirring = (
                (Result.CREATED, Result.PRUNED) if changed else (Result.CREATED, Result.PRUNED, Result.CONFIGURED)
            )
            if not any(each.result in stirring for each in outcomes):
                break
            changed = any(each.result is Result.CONFIGURED for each in outcomes)
        outcomes = memory.rivalry.acted(outcomes, self._now())
        own = await self._render_status(subject, _lives(outcomes))
        report = make_deletion_report(subject.parent, finalization, outcomes, own, self._now())
        _remember(memory, subject.parent, plan, outcomes, report)
        report = self._followed(memory, report, rendered, outcomes)
        confidential = _is_confidential(subject, (*rendered.asked, *own.asked))
        return await self._publish(subject, memory, report, confidential=confidential)

    async def _watch_recorded(self, parent: Live, records: Records, memory: Memory) -> None:
        """Watch what the parent is known to have, also where no template renders it now."""
        reported = _reported_kinds(parent) if memory.report is None else set()
        places = {(identity.group_kind, identity.namespace) for identity in records.inventory}
        await self._cluster.children.watch(reported | {kind for kind, _ in places}, places)

    def _outlived(self, subject: Subject, observed: Observed) -> frozenset[Identity]:
        """What the templates rendered when the parent was made, or would have."""
        made = born(subject.parent.body["metadata"])
        family = replace(self._family(subject, observed.own), now=self._now() if made is None else made)
        earlier = make_plan(observed, render(subject.folder, subject.parent.body, family))
        return frozenset(step.identity for step in earlier.steps if step.manifest is not None)

    async def _record(self, subject: Subject, plan: Plan, records: Records, *, hooks: bool) -> tuple[Subject, Plan]:
        """Keep on the parent what has to outlive us, before anything is made; what can't be recorded is not made."""
        made = [step.manifest for step in plan.steps if step.manifest is not None and step.action in _MAKING]
        wanted = recorded(records, made, hooks=hooks)
        try:
            return await self._keep(subject, wanted), plan
        except (ApiError, RecordsError) as error:
            if isinstance(error, ApiError) and not error.forbidden:
                raise
            reason = f"can't be recorded on its parent before it is made: {error}"
            steps = [
                _refused(step, reason) if step.manifest is not None and step.manifest.needs_record else step
                for step in plan.steps
            ]
            if hooks:
                identity = subject.parent.identity
                steps.append(
                    _refused(Step(action=Action.REFUSE, identity=identity), f"has hooks to finalize, and {reason}")
                )
            return subject, replace(plan, steps=tuple(steps))

    async def _note(
        self, subject: Subject, memory: Memory, records: Records, outcomes: tuple[Outcome, ...]
    ) -> tuple[Subject, tuple[Outcome, ...]]:
        """Put on record what was made once, as soon as it was: what goes before is made again after a crash."""
        now = self._now()
        for outcome in outcomes:
            records = noted(records, outcome, subject.parent, now)
        if records.once == upkeep.read(subject.parent).once:
            memory.once = {}
            return subject, outcomes
        memory.once = records.once
        records = once.without_forgotten(records, [outcome.step.identity for outcome in outcomes])
        try:
            subject = await self._keep(subject, replace(upkeep.read(subject.parent), once=records.once))
        except (ApiError, RecordsError) as error:
            if isinstance(error, ApiError) and not error.forbidden:
                raise
            return subject, tuple(unrecorded(outcome, str(error)) for outcome in outcomes)
        memory.once = {}
        return subject, outcomes

    async def _let_go(self, subject: Subject, plan: Plan, *, hooks: bool) -> Subject:
        """Take what is gone for good off the records."""
        records = upkeep.read(subject.parent)
        if not records.inventory or not plan.rendered.complete:
            return subject
        children = self._cluster.children
        rendered = {step.identity for step in plan.steps if step.action is not Action.PRUNE}
        kinds = children.kinds
        gone = [
            identity
            for identity in records.inventory.keys() - rendered
            if identity.group_kind in kinds and kinds[identity.group_kind].synced and identity not in children
        ]
        return await self._keep(subject, recorded(records.without_children(gone), (), hooks=hooks))

    async def _keep(self, subject: Subject, records: Records) -> Subject:
        parent = await keep(self._cluster.client, subject.resource, subject.parent, records, subject.cache)
        return replace(subject, parent=parent)

    def _followed(self, memory: Memory, report: Report, rendered: Rendered, outcomes: Sequence[Outcome]) -> Report:
        """The report with the moment of the next pass, where this one changed what templates read."""
        now = self._now()
        changed = stirred(rendered, outcomes, now)
        memory.series = memory.series.continued(changed) if changed else Series()
        if not changed:
            return report
        following = now + memory.series.pause
        return replace(report, again_at=min(following, report.again_at or following))

    def forget(self, memory: Memory) -> None:
        """The parent is gone: what it claimed is free."""
        for identity in memory.claimed:
            self._claims.pop(identity, None)
        memory.claimed = frozenset()

    async def _meet(self, identities: Iterable[Identity]) -> Strangers:
        return await meet(identities, self._cluster.client, self._cluster.children)

    async def _render(self, subject: Subject, memory: Memory, causes: Cause) -> tuple[Rendered, Strangers]:
        """The folder, rendered for the parent, with every kind that it renders and all that it looks up watched. What
        shall hold generated values and isn't watched is looked for first: its values are kept.
        """
        children, lookups, uid = self._cluster.children, self._cluster.lookups, subject.parent.uid
        strangers, met = NOBODY, set[Identity]()
        await self._prepare(subject)
        for _ in range(ROUNDS):
            family = replace(self._family(subject, children.of(uid)), strangers=strangers.found)
            rendered = render(subject.folder, subject.parent.body, family)
            if memory.converged != rendered.digest or Cause.PARENT in causes:
                rendered = verified(subject.folder, subject.parent.body, family, rendered)
            seen = lookups.look(rendered.asked, family.itself)
            kinds = _kinds(rendered)
            unknown = not kinds <= children.kinds.keys()
            await children.watch(kinds, _places(rendered))
            await lookups.settled(seen)
            if (unknown and rendered.waits) or lookups.look(seen) != seen:
                # What was waited for may be there: nobody had looked yet.
                continue
            more = await self._meet(identity for identity in rendered.generated if identity not in met)
            met.update(rendered.generated)
            strangers |= more
            if not more.found:
                break
        self._use(subject, Cause.TEMPLATE, seen)
        return rendered, strangers

    async def _render_status(self, subject: Subject, children: Sequence[Live]) -> StatusFields:
        """The author's status fields, with all that they look up watched."""
        lookups = self._cluster.lookups
        await self._prepare(subject)
        for _ in range(ROUNDS):
            family = self._family(subject, children)
            own = render_status(subject.folder, subject.parent.body, family)
            seen = lookups.look(own.asked, family.itself)
            await lookups.settled(seen)
            if lookups.look(seen) == seen:
                break
        self._use(subject, Cause.CHILD, seen)
        return own

    def _use(self, subject: Subject, cause: Cause, seen: Mapping[Asked, Seen]) -> None:
        """Have the parent woken when what was seen changes, unless it went while it was rendered."""
        uid = subject.parent.uid
        self._cluster.lookups.use(User(uid, cause), seen if uid in self._parents else {})

    async def _prepare(self, subject: Subject) -> None:
        templates = subject.folder.templates
        if templates is not None and templates.asks:
            await self._cluster.lookups.prepare()

    def _family(self, subject: Subject, children: Sequence[Live]) -> Family:
        watched, now = self._cluster.children, self._now()
        return Family(
            now=now,
            parent=subject.parent,
            lookups=self._cluster.lookups,
            children=children,
            objects=watched,
            kinds=watched.kinds,
            once=once.with_ends(upkeep.read(subject.parent), watched.last_seen, now).once,
        )

    def _cluster_for(self, subject: Subject, rendered: Rendered) -> Cluster:
        """Where the plans of one parent are carried out."""
        return replace(
            self._cluster,
            confidential=_is_confidential(subject, rendered.asked),
            former=subject.folder.settings.former_managers,
        )

    def _idle_verdict(self, parent: Live) -> Verdict | None:
        if parent.deleting:
            return Verdict(ready=False, reason="Deleting", message="is being deleted; its children go with it")
        if parent.metadata.annotations.get(SUSPEND) == "true":
            message = f"nothing is applied while the annotation {SUSPEND} is true"
            return Verdict(ready=False, reason="Suspended", message=message, stalled=True)
        return None

    def _observe(
        self, subject: Subject, memory: Memory, causes: Cause, rendered: Rendered, records: Records
    ) -> Observed:
        parent = subject.parent
        own = self._cluster.children.of(parent.uid)
        named = {live.identity.group_kind for live in own} | _kinds(rendered)
        named |= {identity.group_kind for identity in records.inventory}
        known = self._cluster.children.kinds
        now, asked = self._now(), parent.metadata.annotations.get(RECONCILE_AT, "")
        scene = Scene(
            proofs=memory.proofs,
            left=memory.left,
            objects=self._cluster.children,
            synced=lambda kind: kind in known and known[kind].synced,
        )
        confirmed = memory.held_at is not None and asked != memory.held_at
        return Observed(
            parent=parent,
            objects=self._cluster.children,
            own=own,
            kinds={kind: known[kind] for kind in named | _reported_kinds(parent) if kind in known},
            proofs=memory.proofs,
            recreations=memory.recreations,
            demand=self._demand(causes),
            parents=self._parents,
            everyone=self._everyone(),
            claims=self._claims,
            converged=memory.converged,
            cluster_scope=subject.folder.settings.cluster_scope,
            confirmed=confirmed,
            successors=memory.successors if memory.report is not None else _kept_before(parent, own),
            records=records,
            left=memory.left,
            feuds=memory.rivalry.look(asked, scene, now, self._options.tolerance),
            confidential=_is_confidential(subject, rendered.asked),
            now=now,
        )

    def _demand(self, causes: Cause) -> Demand:
        everything = Cause.PARENT | Cause.TEMPLATE | Cause.INITIAL
        if self._options.apply is ApplyMode.ALWAYS:
            everything |= Cause.TICK_GRANTED
        return Demand.EVERYTHING if causes & everything else Demand.UNPROVEN

    def _claim(self, memory: Memory, uid: str, plan: Plan) -> None:
        claimed = frozenset(
            step.identity
            for step in plan.steps
            # What is made only where it is absent takes nothing away from anybody.
            if step.manifest is not None and step.manifest.instructions.apply is ApplyPolicy.ALWAYS
        )
        for identity in memory.claimed - claimed:
            self._claims.pop(identity, None)
        self._claims.update(dict.fromkeys(claimed, uid))
        memory.claimed = claimed

    async def _publish(self, subject: Subject, memory: Memory, report: Report, *, confidential: bool) -> Report:
        rivalry = memory.rivalry
        report = noticed(report, notice(rivalry.look_at_status(subject.parent, self._now(), self._options.tolerance)))
        self._tell(subject, memory, report)
        memory.report = report
        if subject.writes_status:
            await self._write_status(subject, rivalry, report, confidential=confidential)
        memory.report = replace(report, again_at=earliest(report.again_at, rivalry.again_at()))
        return memory.report

    def _tell(self, subject: Subject, memory: Memory, report: Report) -> None:
        self._cluster.recorder.tell(subject.parent, events(memory.report, subject.parent, report))

    async def _write_status(self, subject: Subject, rivalry: Rivalry, report: Report, *, confidential: bool) -> None:
        """Write the status where it differs, unless somebody rewrites it each time and a pause is due."""
        status = declared(report.status, subject.status_schema)
        parent = subject.parent
        if status is MISFIT or not differs(parent, status):
            rivalry.status_stands(self._now())
            return
        if rivalry.status_held:
            return
        body = {
            "apiVersion": subject.resource.api_version,
            "kind": subject.resource.kind,
            # The resourceVersion keeps this status from a parent that was made again under the same name: at /status,
            # a wrong uid is not refused.
            "metadata": {"name": parent.identity.name, "resourceVersion": parent.resource_version},
            "status": status,
        }
        namespace, name = parent.identity.namespace, parent.identity.name
        with subject.cache.writing(namespace, name):
            applied = await self._cluster.client.apply(
                subject.resource, namespace, name, encode(body), subresource="status", confidential=confidential
            )
            subject.cache.written(applied.live)
        rivalry.status_written(status, applied.live, self._now())


_MAKING = frozenset({Action.APPLY, Action.UNCHANGED, Action.RECREATE})


def _refused(step: Step, reason: str) -> Step:
    return replace(step, action=Action.REFUSE, reason=reason, problem=StepProblem.APPLY_FAILED)


def _kinds(rendered: Rendered) -> set[GroupKind]:
    waiting = {wait.identity.group_kind for wait in rendered.waits if wait.identity is not None}
    return {group_kind(document) for document in rendered.documents} | waiting


def _places(rendered: Rendered) -> set[tuple[GroupKind, str]]:
    """Where manifests say that they belong, which may be outside of what the operator looks after."""
    said = {(group_kind(document), document.body["metadata"].get("namespace")) for document in rendered.documents}
    return {(kind, namespace) for kind, namespace in said if namespace}


def _lives(outcomes: Iterable[Outcome]) -> list[Live]:
    return [outcome.live for outcome in outcomes if outcome.live is not None]


def _is_confidential(subject: Subject, asked: Iterable[Question]) -> bool:
    """Whether what was rendered may hold a Secret's content, whatever kind it was put into."""
    return subject.resource.confidential or any(question.kind == "Secret" for question in asked)


def _remember(memory: Memory, parent: Live, plan: Plan, outcomes: tuple[Outcome, ...], report: Report) -> None:
    proofs: dict[Identity, Proof] = {}
    left: dict[Identity, Live] = {}
    for outcome in outcomes:
        step, live = outcome.step, outcome.live
        if step.manifest is None or live is None:
            continue
        if step.action is Action.APPLY and outcome.result not in (Result.FAILED, Result.WAITING):
            proofs[step.identity], left[step.identity] = proof(step.manifest, live), live
        elif step.identity in memory.proofs and (outcome.result is Result.WAITING or step.action is Action.UNCHANGED):
            # It was not applied now; what an earlier apply left behind is as good as before.
            proofs[step.identity] = memory.proofs[step.identity]
            same = step.action is Action.UNCHANGED and step.intrusion is None
            left[step.identity] = live if same else memory.left.get(step.identity, live)
    memory.proofs, memory.left = proofs, left
    memory.successors = {step.identity: step.successors for step in plan.steps if step.successors}
    memory.recreations = _recreations(memory, outcomes)
    memory.failures = memory.failures + 1 if report.passing else 0
    if plan.held:
        if memory.held_at is None:
            memory.held_at = parent.metadata.annotations.get(RECONCILE_AT, "")
    elif report.complete:
        memory.held_at = None
        memory.converged = plan.rendered.digest


def _kept_before(parent: Live, own: Iterable[Live]) -> dict[Identity, frozenset[Identity]]:
    """What an earlier process kept until something else is ready: until all others of its kind are, for all we know."""
    kinds: dict[GroupKind, set[Identity]] = {}
    for live in own:
        kinds.setdefault(live.identity.group_kind, set()).add(live.identity)
    kept = (
        Identity(entry.get("group", ""), entry["kind"], entry.get("namespace", ""), entry.get("name", ""))
        for entry in _reported(parent)
        if KEPT_UNTIL in entry.get("message", "")
    )
    return {identity: frozenset(kinds.get(identity.group_kind, ())) - {identity} for identity in kept}


def _recreations(memory: Memory, outcomes: tuple[Outcome, ...]) -> dict[Identity, Recreation]:
    """What is known of each child that is still rendered; one that waits or is refused keeps what was known."""
    found = {}
    for outcome in outcomes:
        step = outcome.step
        recreation = step.recreation if step.manifest is not None else memory.recreations.get(step.identity)
        if recreation is not None:
            found[step.identity] = recreation
    return found


def _reported_kinds(parent: Live) -> set[GroupKind]:
    """The kinds that an earlier process reported in the parent's status: what it made has to be found again, also
    where no template renders it now.
    """
    return {GroupKind(entry.get("group", ""), entry["kind"]) for entry in _reported(parent)}


def _reported(parent: Live) -> list[Mapping[str, str]]:
    """The entries of `status.resources`."""
    status = parent.body.get("status")
    entries = status.get("resources") if isinstance(status, Mapping) else None
    found = entries if isinstance(entries, list) else []
    return [entry for entry in found if isinstance(entry, Mapping) and isinstance(entry.get("kind"), str)]
