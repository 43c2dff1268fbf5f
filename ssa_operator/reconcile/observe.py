"""The first step of a reconcile: what the caches hold around the parent, and what its templates render from that.

Promises:
- Everything comes from caches. The operator starts an informer for every kind that a template first reads or renders,
  and waits until it has synced, up to a deadline.
- A reconcile renders the folder at most ROUNDS times.

How it works:
`observe` reads what is recorded on the parent and watches what these records name, before the templates run: `child`
has to find those objects, and generated values have to be known.

Then the folder is rendered until the caches have everything that the render reads. Each round renders at one moment of
the caches (RenderMoment), and its result lists the queries, the kinds, and the objects with generated values. The
operator watches these, waits for the first sync, reads what no cache holds as a whole, and asks for missing answers
about the account's permissions. If any of this gives the templates something new, the next round renders again.
Otherwise the result is what the caches give now. If a render defers long texts, they are parsed in a thread, and the
next round renders again.

After the last round, even if it was stopped by ROUNDS, `follow` records the versions of the answers that were rendered.
If one differs from the present answer, the parent is requeued at once. So neither the limit nor a change during the
last round leaves a parent with an old answer.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import nullcontext
from typing import TypeVar, cast

from msgspec.structs import replace

from ssa_operator.informers.lookup_index import AnswerVersion, Dependent, LookupQuery
from ssa_operator.informers.parents import Parent
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import Clock
from ssa_operator.objects.annotations import PREFIX, Reference
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.causes import APPLY_ALL, Cause
from ssa_operator.objects.cluster_view import Availability, ClusterView
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import may_own
from ssa_operator.objects.predicate import Predicate
from ssa_operator.objects.render_result import Rendered, StatusFields
from ssa_operator.objects.secret_fields import NO_SECRETS, ParentSecrets
from ssa_operator.reconcile import promises
from ssa_operator.reconcile.act import run_all
from ssa_operator.reconcile.adoption.rules import may_adopt, may_be_child
from ssa_operator.reconcile.apply_once import rules as apply_once
from ssa_operator.reconcile.child_history import Observation
from ssa_operator.reconcile.child_needs import (
    recorded_needs,
    rendered_identities,
    rendered_kinds,
    rendered_needs,
    unrendered_needs,
    versions_of,
)
from ssa_operator.reconcile.cluster_access import SharedCluster
from ssa_operator.reconcile.context import Stage, stage
from ssa_operator.reconcile.field_conflicts.memory import observe_conflicts
from ssa_operator.reconcile.field_conflicts.requests import applied_children, observe_foreign_changes
from ssa_operator.reconcile.generated_values.requests import restore_kept_values
from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.observed import ApplyScope, Observed, ObservedChildren, ObservedParents
from ssa_operator.reconcile.parent_records.lost_records import unknown_notice, were_lost
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.parent_view import ParentView
from ssa_operator.reconcile.plan import make_plan
from ssa_operator.reconcile.recreate.memory import Recreations
from ssa_operator.reconcile.render_moment import RenderMoment
from ssa_operator.reconcile.render_turns import RenderTurns
from ssa_operator.reconcile.resync.memory import ApplyRecords
from ssa_operator.reconcile.secrets.parent_secrets import with_render, with_status
from ssa_operator.reconcile.settings import ApplyMode, ReconcileSettings
from ssa_operator.reconcile.shards.unlabelled_objects import NO_OBJECTS, UnlabelledObjects, get_unlabelled
from ssa_operator.reconcile.status.previous_status import reported_children, reported_kinds, reported_successors
from ssa_operator.reconcile.step_record import StepRecord
from ssa_operator.reconcile.suspension.rules import is_suspended
from ssa_operator.reconcile.turn import Turn
from ssa_operator.rendering.determinism import verified
from ssa_operator.rendering.jinja.template_api import creation_time
from ssa_operator.rendering.render import render, render_status, render_traced
from ssa_operator.rendering.yaml.documents import DEFERRALS, ParsedTexts

ROUNDS = 8
"""Renders in one reconcile: the answer to a lookup may lead to another lookup. The events of their watches bring the
others."""

RECONCILE_AT = f"{PREFIX}reconcile-at"
"""The annotation whose new value, whatever it is, has everything applied now. It confirms a held prune."""


Result = TypeVar("Result")


class Observer:
    """Observes parents. `claims` knows the other parents, and what they render."""

    def __init__(
        self,
        cluster: SharedCluster,
        claims: ObjectClaims,
        settings: ReconcileSettings,
        clock: Clock,
        record: StepRecord | None = None,
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._now = clock.now
        self._monotonic = clock.monotonic
        self._claims = claims
        self._renders = RenderTurns(record)

    async def observe(self, turn: Turn) -> tuple[Observed, Rendered]:
        """Everything that the plan follows from."""
        with stage(Stage.OBSERVE):
            records = self._records(turn)
            await self.watch_recorded(turn)
            if records.kept_values:
                await restore_kept_values(turn)
            recorded = await self._get_recorded(turn, records)
            rendered, unlabelled, as_rendered = await self._render(turn, recorded.objects)
            await self._observe_children(turn, rendered)
            observed = self._observed(turn, rendered, records, unlabelled, recorded)
            self._forget_if_gone(turn)
            return replace(observed, children=replace(observed.children, as_rendered=as_rendered)), rendered

    async def render_unstored(self, parent: Parent, *, children_known: bool) -> tuple[Rendered, ParentSecrets] | None:
        """What the templates render for a parent that may never be stored, and where it has contents of Secrets.
        Nothing is watched or remembered for it, so a manifest waits for what is not watched yet. Raises ApiError.

        None where the templates read children that are not known, and where the parent's account may not read what
        they ask for, or that is not known.
        """
        await self._cluster.lookups.discover()
        turn = Turn.begin(self._cluster, parent, ParentState(), Cause.PARENT)
        moment = RenderMoment(lambda: self._view(turn, own_children(turn)))
        rendered = await self._render_in_turn(parent, moment)
        account = moment.view.account
        if account is not None and account.denies:
            return None
        if not children_known and any(isinstance(query, Reference) for query in rendered.queries):
            return None
        return rendered, with_render(NO_SECRETS, rendered, parent, self._cluster.children)

    async def render_status(
        self, turn: Turn, children: Sequence[LiveObject], ready_when: Mapping[Reference, Predicate] | None = None
    ) -> StatusFields:
        """The status fields of the folder's status template. The operator watches everything that they look up.
        `ready_when` has the children with a rule of readiness of their own.
        """
        lookups = self._cluster.lookups
        await self._discover(turn.parent)
        parent = turn.parent
        for _ in range(ROUNDS):
            moment = RenderMoment(lambda: self._view(turn, children))
            own = await self._renders.run(
                turn.uid, moment, lambda seen: render_status(parent.folder, parent.live.body, seen, ready_when)
            )
            view = moment.view
            reviewed = view.account is None or not view.account.pending
            turn.remember_secrets(with_status(turn.state.secrets, own))
            versions = lookups.watch(view.readable(own.queries), view.parent_lookup, own.secret_queries)
            if view.account is not None and view.account.pending:
                await view.account.review()
            await lookups.wait_for_sync(versions)
            if reviewed and lookups.watch(versions, hidden=own.secret_queries) == versions:
                break
        turn.learn_permissions(view.account)
        self.follow(turn.parent, Cause.CHILD, moment.versions(versions), own.apis)
        return own

    async def rendered_at_creation(self, turn: Turn, observed: Observed) -> frozenset[Identity]:
        """The objects that the templates rendered when the parent was created, or would have rendered."""
        created = creation_time(turn.parent.live.body["metadata"])
        moment = RenderMoment(
            lambda: replace(self._view(turn, observed.children.own), now=self._now() if created is None else created)
        )
        earlier = make_plan(observed, await self._render_in_turn(turn.parent, moment))
        return frozenset(step.identity for step in earlier.steps if step.manifest is not None)

    def render_traced(self, parent: Parent, observed: Observed) -> Rendered:
        """What the templates render, with the origin of each field. Nothing else is watched for it."""
        turn = Turn.begin(self._cluster, parent, ParentState(), Cause.PARENT)
        view = replace(self._view(turn, observed.children.own), unlabelled=observed.children.unlabelled)
        return render_traced(parent.folder, parent.live.body, view)

    async def _render_in_turn(self, parent: Parent, moment: RenderMoment, texts: ParsedTexts | None = None) -> Rendered:
        """The folder, rendered for a parent in its turn. With `texts`, long texts may be left to be parsed."""

        def rendered(seen: ClusterView) -> Rendered:
            with stage(Stage.RENDER), nullcontext() if texts is None else texts.used():
                return render(parent.folder, parent.live.body, seen)

        return await self._renders.run(parent.live.uid, moment, rendered)

    async def judged(self, turn: Turn, work: Callable[[], Result]) -> Result:
        """The result of pure work that judges objects by expressions of authors. It is repeated where they take long,
        after a thread has judged these objects. Raises Postponed.
        """
        result = work()
        while turn.judgements.missing:
            await self._renders.in_thread(turn.judgements.judge_missing)
            result = work()
        return result

    async def get_unlabelled(self, turn: Turn, versions: Mapping[Identity, str | None]) -> UnlabelledObjects:
        """The objects of these names that exist without the operator's label, so that no informer holds them. They are
        read as the parent's account, in these versions (None: the preferred one).
        """
        return await get_unlabelled(versions, turn.cluster.client, turn.cluster.children)

    def follow(
        self,
        parent: Parent,
        cause: Cause,
        queries: Mapping[LookupQuery, AnswerVersion],
        apis: Mapping[ApiKind, Availability] | None = None,
    ) -> None:
        """Requeue the parent when an answer changes, unless it was deleted while it was rendered."""
        uid = parent.live.uid
        known = uid in self._claims.parents
        self._cluster.lookups.set_queries(Dependent(uid, cause), queries if known else {})
        self._cluster.lookups.served.set_uses(Dependent(uid, cause), (apis or {}) if known else {})

    def _records(self, turn: Turn) -> ParentRecords:
        """The records on the parent, with those that could not be written there yet."""
        records = replace(turn.records, selector=self._settings.selector)
        if turn.parent.live.deleting:
            return records
        once = {**records.once_records, **turn.state.unrecorded_once}
        records = replace(records, once_records=once, held_prune=records.held_prune or turn.state.renders.held_prune)
        return apply_once.with_final_states(records, turn.uid, self._cluster.children.last_seen, self._now())

    async def watch_recorded(self, turn: Turn) -> None:
        """Watch the children that are recorded or reported, also where no template renders them now."""
        children, reported = self._cluster.children, turn.state.unseen_kinds
        if not turn.state.reconciled_before:
            applied = turn.records.applied
            recorded = frozenset[GroupKind]() if applied is None else applied.kinds
            reported = recorded | reported_kinds(turn.parent.live)
        needs = recorded_needs(turn.parent, turn.records, children, reported)
        await children.watch(turn.uid, needs, _hidden_namespaces(turn))
        unseen = frozenset(kind for kind, known in self._kinds(turn, reported).items() if not known.synced)
        turn.state = replace(turn.state, unseen_kinds=unseen)
        self._forget_if_gone(turn)

    def _forget_if_gone(self, turn: Turn) -> None:
        """Need nothing for a parent that was deleted meanwhile: no event would stop its watches."""
        if turn.uid not in self._claims.parents:
            self._cluster.children.forget(turn.uid)

    async def _get_recorded(self, turn: Turn, records: ParentRecords) -> UnlabelledObjects:
        """The recorded children that no informer shows although they exist, or that can't be read. They are not taken
        for deleted ones.

        The watch of their kind is behind, as it can be after a restore of etcd; or, under `--shard`, another client
        changed their bucket label.
        """
        children, identities = self._cluster.children, {*records.inventory}
        if self._settings.sharded:
            identities |= turn.state.children[ApplyRecords].by_child.keys()
        served = (each for each in identities if children.namespaced(each.group_kind) is not None)
        known = (each for each in served if not children.is_awaited(each, turn.uid))
        unwatched = sorted(each for each in known if each not in children)
        # The operator records no more than that, and whoever may edit the parent may write any number of names.
        limit = turn.parent.folder.settings.max_children
        found = await self.get_unlabelled(turn, dict.fromkeys(unwatched[:limit]))
        own = {identity: live for identity, live in found.objects.items() if live.parent_uid == turn.uid}
        unread = dict.fromkeys(unwatched[limit:], f"more than `maxChildren: {limit}` children are recorded")
        return UnlabelledObjects(own, {**found.unreadable, **unread}, found.forbidden)

    async def _render(
        self, turn: Turn, recorded: Mapping[Identity, LiveObject]
    ) -> tuple[Rendered, UnlabelledObjects, Mapping[Identity, LiveObject | None]]:
        """The folder, rendered for the parent, and `ObservedChildren.as_rendered`. The operator watches every kind that
        it renders and all that it looks up; objects that hold generated values are read first, because the values are
        kept.
        """
        parent, children, lookups = turn.parent, self._cluster.children, self._cluster.lookups
        unlabelled, read, deleted = NO_OBJECTS, set[Identity](), turn.state.children[Recreations].deleted_with_values
        await self._discover(parent)
        texts = ParsedTexts()
        for _ in range(ROUNDS + DEFERRALS):
            shown = children.shown_versions(turn.uid)
            known = {**deleted, **recorded, **_adoptable(parent, unlabelled.objects)}
            moment = RenderMoment(
                lambda known=known: replace(  # type: ignore[misc]
                    self._view(turn, (*own_children(turn), *recorded.values())), unlabelled=known
                )
            )
            rendered = await self._render_in_turn(parent, moment, texts)
            view = moment.view
            # The caches change while the operator waits.
            as_rendered = _as_rendered(rendered, moment, {**recorded, **unlabelled.objects})
            if texts.missing:
                await self._renders.in_thread(texts.parse)
                continue
            await turn.steps.rest()
            turn.remember_secrets(with_render(turn.state.secrets, rendered, parent, children))
            hidden = rendered.secret_queries
            versions = lookups.watch(view.readable(rendered.queries), view.parent_lookup, hidden)
            if view.account is not None and view.account.pending:
                await view.account.review()
                continue
            needs = rendered_needs(rendered, parent)
            # Another parent may have started their informers just now.
            former = recorded_needs(parent, turn.records, children, turn.state.unseen_kinds, needs)
            new = await children.watch(turn.uid, needs | former, _hidden_namespaces(turn))
            written = versions_of(rendered, parent, needs, children)
            needs |= former
            needs |= unrendered_needs(own_children(turn), needs)
            children.need_only(turn.uid, needs, written)
            await lookups.wait_for_sync(versions)
            live = any(isinstance(query, Reference) for query in rendered.queries)
            was_read, unreadable = await self._read_partial(turn, rendered)
            unlabelled |= UnlabelledObjects({}, unreadable)
            if was_read and (live or rendered.waits or rendered.generated):
                continue
            # What the render waited for or found absent may exist. Or it read objects in another version.
            other = new or children.shown_versions(turn.uid) != shown
            if (other and (rendered.waits or live or rendered.generated)) or lookups.watch(
                versions, hidden=hidden
            ) != versions:
                continue
            generated = {identity: written.get(identity) for identity in rendered.generated if identity not in read}
            more = await self.get_unlabelled(turn, generated)
            read.update(rendered.generated)
            unlabelled |= more
            if not more.objects:
                break
        if turn.state.renders.applied_digest != rendered.digest or Cause.PARENT in turn.causes:
            moment.keep()
            rendered = await self._verify_in_turn(parent, moment, rendered, texts)
            await turn.steps.rest()
        turn.learn_permissions(view.account)
        self.follow(parent, Cause.TEMPLATE, moment.versions(versions), rendered.apis)
        return rendered, unlabelled, as_rendered

    async def _verify_in_turn(
        self, parent: Parent, moment: RenderMoment, rendered: Rendered, texts: ParsedTexts
    ) -> Rendered:
        """What was rendered, without what another render in its turn gives otherwise."""

        def checked(seen: ClusterView) -> Rendered:
            with texts.used(defer=False):
                return verified(parent.folder, parent.live.body, seen, rendered)

        return await self._renders.run(parent.live.uid, moment, checked)

    async def _read_partial(self, turn: Turn, rendered: Rendered) -> tuple[bool, Mapping[Identity, str]]:
        """Read the objects that the templates render or read and of which only metadata is kept. Returns whether there
        are any, and why others can't be read.
        """
        children = self._cluster.children
        identities = rendered_identities(rendered, turn.parent, children)
        asked = {(query.kind, query.name) for query in rendered.queries if isinstance(query, Reference)}
        own = own_children(turn) if asked else ()
        identities |= {each.identity for each in own if (each.identity.kind, each.identity.name) in asked}
        children.expect(turn.uid, identities)
        partial = [live for each in sorted(identities) if (live := children.get(each)) is not None and live.partial]
        answers = await run_all(self._try_to_read(live) for live in partial)
        failures = {live.identity: why for live, why in zip(partial, answers, strict=True) if why}
        return len(failures) < len(partial), failures

    async def _try_to_read(self, partial: LiveObject) -> str:
        """Read an object whole. Returns why that fails, '' if it doesn't."""
        try:
            await self._cluster.children.read_whole(partial)
        except (CredentialsError, ApiError) as error:
            return str(error)
        return ""

    def _observed(
        self,
        turn: Turn,
        rendered: Rendered,
        records: ParentRecords,
        unlabelled: UnlabelledObjects,
        recorded: UnlabelledObjects,
    ) -> Observed:
        live, state, monotonic = turn.parent.live, turn.state, self._monotonic()
        children = self._cluster.children.of(turn.uid)
        # An informer may show them by now.
        unwatched = {identity: child for identity, child in recorded.objects.items() if identity not in children}
        if unwatched:
            children = ChainMap(unwatched, cast("MutableMapping[Identity, LiveObject]", children))
        own = (*own_children(turn), *unwatched.values())
        named = {child.identity.group_kind for child in own} | rendered_kinds(rendered) | reported_kinds(live)
        named |= {identity.group_kind for identity in records.inventory}
        named |= records.applied.kinds if records.applied is not None else set()
        reconcile_at, renewed = _reconcile_at(turn)
        renders = state.renders
        records_lost = False
        if not state.reconciled_before:
            renders = replace(renders, successors=reported_successors(live, own))
            if records.applied is not None and records.applied.templates:
                renders = replace(renders, applied_digest=records.applied.templates)
            records_lost = were_lost(live, has_children=_has_children(live, own))
        if records_lost:
            turn.state = replace(state, records_notice=unknown_notice(_unrecorded(live, own, rendered), monotonic))
        return Observed(
            parent=live,
            children=ObservedChildren(
                objects=children,
                own=own,
                kinds=self._kinds(turn, named),
                unlabelled=unlabelled.objects,
                unreadable={**recorded.unreadable, **unlabelled.unreadable},
                forbidden=recorded.forbidden,
            ),
            parents=ObservedParents(
                existing=self._claims.parents,
                all_parents_known=self._claims.all_parents_known(),
                unread_namespaces=self._claims.unread_namespaces(),
                claims=self._claims,
                ancestors=self._claims.ancestors(live),
                crds=self._claims.waits.crds,
            ),
            records=records,
            history=state.children,
            renders=renders,
            rendered_before=renders.rendered if renders.digest == rendered.digest else frozenset(),
            reconciled_before=state.reconciled_before,
            records_lost=records_lost,
            apply_scope=self._apply_scope(turn, renewed=renewed),
            renewed=renewed,
            settings=turn.parent.folder.settings,
            sharded=self._settings.sharded,
            confidential=is_confidential(turn.parent, rendered),
            reconcile_at=reconcile_at,
            now=self._now(),
            monotonic=monotonic,
        )

    async def _observe_children(self, turn: Turn, rendered: Rendered) -> None:
        """Update what is remembered of the children by what the caches show."""
        live, now = turn.parent.live, self._monotonic()
        changed = Cause.PARENT in turn.causes or (
            turn.state.reconciled_before and turn.state.renders.digest != rendered.digest
        )
        seen = Observation(
            now=now,
            changed_by_user=changed and not live.deleting,
            deleting=live.deleting,
            suspended=is_suspended(live, turn.parent.folder.settings.suspend_when),
        )
        history = promises.begin(turn.state.children, seen)
        if not seen.suspended:
            _, renewed = _reconcile_at(turn)
            history = await observe_foreign_changes(
                lambda: applied_children(history, self._cluster.children, turn.uid),
                lambda seen: observe_conflicts(history, seen, now, self._settings.conflict_policy, renewed=renewed),
                self._renders.in_thread,
            )
        turn.state = replace(turn.state, children=history)

    def _kinds(self, turn: Turn, kinds: Iterable[GroupKind]) -> dict[GroupKind, KindState]:
        """What is known of those of these kinds that the cluster serves."""
        states = {kind: self._cluster.children.kind_state(kind, turn.uid) for kind in kinds}
        known = ((kind, state) for kind, state in states.items() if state is not None)
        return {kind: replace(state, reports_status=self._cluster.reports_status(kind)) for kind, state in known}

    async def _discover(self, parent: Parent) -> None:
        templates = parent.folder.templates
        if templates is not None and templates.queries_cluster:
            await self._cluster.lookups.discover()

    def _view(self, turn: Turn, children: Sequence[LiveObject]) -> ParentView:
        watched, now, parent = self._cluster.children, self._now(), turn.parent.live
        return ParentView(
            now=now,
            parent=parent,
            lookups=self._cluster.lookups,
            children=children,
            objects=watched.of(parent.uid),
            informers=watched,
            kind_reports_status=self._cluster.reports_status,
            account=turn.cluster.account_view(),
            once=apply_once.with_final_states(turn.records, parent.uid, watched.last_seen, now).once_records,
        )

    def _apply_scope(self, turn: Turn, *, renewed: bool) -> ApplyScope:
        causes = Cause.CHILD if turn.parent.live.deleting else turn.causes
        always = self._settings.apply is ApplyMode.ALWAYS and causes & (APPLY_ALL | Cause.RESYNC)
        return ApplyScope.ALL if renewed or always else ApplyScope.CHANGED


def _reconcile_at(turn: Turn) -> tuple[str, bool]:
    """The parent's `reconcile-at`, and whether it is new."""
    text = turn.parent.live.metadata.annotations.get(RECONCILE_AT, "")
    return text, text != turn.state.reconcile_at


def _has_children(parent: LiveObject, own: Iterable[LiveObject]) -> bool:
    """Whether the operator has applied a child of the parent that exists, or that the status names with its uid."""
    reported = reported_children(parent) or ()
    return any(live.owned_fields() for live in own) or any(entry.get("uid") for entry in reported)


def _unrecorded(parent: LiveObject, own: Iterable[LiveObject], rendered: Rendered) -> list[Identity]:
    """The objects that the operator applied, that the parent can't own and that no template renders. Only the lost
    records knew whether they go with the parent.
    """
    named = {(document.body["kind"], document.body["metadata"]["name"]) for document in rendered.documents}
    return [
        live.identity
        for live in own
        if live.owned_fields()
        and not may_own(parent.identity.namespace, live.identity.namespace)
        and (live.identity.kind, live.identity.name) not in named
    ]


def own_children(turn: Turn) -> tuple[LiveObject, ...]:
    """The watched objects that have the parent's label and may be its children. Those of its namespace come first, then
    those that are recorded, and then the oldest: `child` reads the first one of its kind and name.
    """
    live, recorded = turn.parent.live, turn.records.inventory
    namespace, cluster_scope = live.identity.namespace, turn.parent.folder.settings.cluster_scope

    def order(child: LiveObject) -> tuple[bool, bool, str]:
        outside = child.identity.namespace != namespace
        return outside, child.identity not in recorded, child.metadata.creation_timestamp or ""

    labelled = turn.cluster.children.by_parent(live.uid)
    own = (each for each in labelled if may_be_child(each, live, recorded, cluster_scope=cluster_scope))
    return tuple(sorted(own, key=order))


def _adoptable(parent: Parent, unlabelled: Mapping[Identity, LiveObject]) -> dict[Identity, LiveObject]:
    """Those of these objects whose values a render may keep, because the parent may have them."""
    policy = parent.folder.settings.adopt
    return {identity: live for identity, live in unlabelled.items() if may_adopt(live, parent.live, policy)}


def _as_rendered(
    rendered: Rendered, moment: RenderMoment, unlabelled: Mapping[Identity, LiveObject]
) -> dict[Identity, LiveObject | None]:
    """What a render has just read: `ObservedChildren.as_rendered`."""
    references = {(query.kind, query.name) for query in rendered.queries if isinstance(query, Reference)}
    read: dict[Identity, LiveObject | None] = {
        live.identity: live
        for live in moment.view.children
        if references and (live.identity.kind, live.identity.name) in references
    }
    for identity in rendered.generated:
        read[identity] = moment.watched(identity) or unlabelled.get(identity)
    return read


def _hidden_namespaces(turn: Turn) -> frozenset[str]:
    """The namespaces that contents of Secrets name."""
    children = turn.state.secrets.children
    return frozenset(identity.namespace for identity, fields in children.items() if fields.names_namespace)


def is_confidential(parent: Parent, rendered: Rendered) -> bool:
    """Whether what was rendered may hold a Secret's content, in whatever kind of object."""
    asked = any(query.kind == "Secret" for query in rendered.queries)
    return asked or parent.resource.confidential or bool(rendered.generated_values)
