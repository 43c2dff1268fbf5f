"""Renders the folders of parents until the caches have everything that the templates read.

Promises:
- The operator starts an informer for everything that a template first looks up, and waits until it has synced, up to a
  deadline.
- A reconcile renders the folder at most ROUNDS times.

How it works:
Each round renders at one moment of the caches (RenderMoment), and its result lists the queries, the kinds, and the
objects with generated values. The operator watches these, waits for the first sync, reads what no cache holds as a
whole, and asks for missing answers about the account's permissions. If any of this gives the templates something new,
the next round renders again. Otherwise the result is what the caches give now.

After the last round, even if it was stopped by ROUNDS, `follow` records the versions of the answers that were rendered.
If one differs from the present answer, the parent is requeued at once. So neither the limit nor a change during the
last round leaves a parent with an old answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.informers.lookup_index import AnswerVersion, Dependent, LookupQuery
from ssa_operator.informers.parents import Parent
from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.cluster_view import Availability, ClusterView
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.predicate import Predicate
from ssa_operator.objects.render_result import ReconcileResult, Rendered, StatusFields
from ssa_operator.objects.secret_fields import NO_SECRETS, ParentSecrets
from ssa_operator.reconcile import apply_once
from ssa_operator.reconcile.adoption import may_adopt
from ssa_operator.reconcile.context import measured_render
from ssa_operator.reconcile.current_reconcile import Reconcile, SharedCluster
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.parent_state import NamedObject, ParentState
from ssa_operator.reconcile.parent_view import ParentView
from ssa_operator.reconcile.plan import make_plan
from ssa_operator.reconcile.recreate.rules import deleted_with_values
from ssa_operator.reconcile.render_turns import RenderMoment
from ssa_operator.reconcile.secrets.redacted_report import with_render, with_status
from ssa_operator.reconcile.shards.unlabelled_objects import NO_OBJECTS, UnlabelledObjects, get_unlabelled
from ssa_operator.reconcile.watched_children import named_objects, own_children, watch_rendered
from ssa_operator.rendering import render as rendering
from ssa_operator.rendering.determinism import verified
from ssa_operator.rendering.jinja.template_api import creation_time

ROUNDS = 8
"""Renders in one reconcile: the answer to a lookup may lead to another lookup. The events of their watches bring the
others."""

Result = TypeVar("Result")


class RenderedObjects(Struct, frozen=True, kw_only=True):
    """A render of a folder, and the objects that it read."""

    rendered: Rendered
    named: Sequence[NamedObject]
    """Its `named_objects`."""
    unlabelled: UnlabelledObjects
    """The objects with generated values that exist without the operator's label."""
    as_rendered: Mapping[Identity, LiveObject | None]
    """As `ObservedChildren.as_rendered`."""


async def render_folder(reconcile: Reconcile, recorded: Mapping[Identity, LiveObject]) -> RenderedObjects:
    """The folder, rendered for the parent. The operator watches every kind that it renders and all that it looks
    up; objects that hold generated values are read first, because the values are kept. `recorded` are the recorded
    children that no informer shows. Raises ApiError, CredentialsError and Postponed.
    """
    parent, children, lookups = reconcile.parent, reconcile.cluster.children, reconcile.cluster.lookups
    unlabelled, read = NO_OBJECTS, set[Identity]()
    deleted = deleted_with_values(reconcile.state.children)
    templates = parent.folder.templates
    if templates is not None and templates.manifests_query_cluster:
        await reconcile.cluster.lookups.served.discover()
    for _ in range(ROUNDS):
        shown = children.shown_versions(reconcile.uid)
        known = {**deleted, **recorded}
        if unlabelled.objects:
            known |= _adoptable(parent, unlabelled.objects)
        moment = RenderMoment(
            lambda known=known: replace(  # type: ignore[misc]
                parent_view(reconcile, (*own_children(reconcile), *recorded.values())), unlabelled=known
            )
        )
        rendered = await _render_in_turn(reconcile, moment)
        view = moment.view
        # The caches change while the operator waits.
        references = {(query.kind, query.name) for query in rendered.queries if isinstance(query, Reference)}
        as_rendered: Mapping[Identity, LiveObject | None] = (
            _as_rendered(rendered, references, moment, {**recorded, **unlabelled.objects})
            if references or rendered.generated
            else NOTHING
        )
        await reconcile.steps.rest()
        reconcile.remember_secrets(with_render(reconcile.state.secrets, rendered, parent, children))
        hidden = rendered.secret_queries
        asked = view.readable(rendered.queries) if rendered.queries else ()
        versions = lookups.watch(asked, view.parent_lookup, hidden) if asked else NOTHING
        if view.account is not None and view.account.pending:
            await view.account.review()
            continue
        named = named_objects(rendered)
        watched = await watch_rendered(reconcile, rendered, named, references)
        if versions:
            await lookups.wait_for_sync(versions)
        if watched.unreadable:
            unlabelled |= UnlabelledObjects({}, watched.unreadable)
        # What the render waited for or found absent may exist. Or it read objects in another version, or in part.
        other = watched.new or watched.was_read or children.shown_versions(reconcile.uid) != shown
        if (other and (rendered.waits or references or rendered.generated)) or (
            versions and lookups.watch(versions, hidden=hidden) != versions
        ):
            continue
        generated = {each: watched.written.get(each) for each in rendered.generated if each not in read}
        if not generated:
            break
        more = await get_unlabelled(reconcile, generated)
        read.update(rendered.generated)
        unlabelled |= more
        if not more.objects:
            break
    rendered = await _verified_in_turn(reconcile, moment, rendered)
    reconcile.learn_permissions(view.account)
    follow_lookups(reconcile, Cause.TEMPLATE, moment.versions(versions) if versions else NOTHING, rendered.apis)
    return RenderedObjects(rendered=rendered, named=named, unlabelled=unlabelled, as_rendered=as_rendered)


async def _verified_in_turn(reconcile: Reconcile, moment: RenderMoment, rendered: Rendered) -> Rendered:
    """What was rendered, without what another render in its turn gives otherwise, for the first parents of new
    templates, and for some that were edited.
    """
    parent, state = reconcile.parent, reconcile.state
    edited = state.reconciled_before and Cause.PARENT in reconcile.causes
    known = not edited and state.renders.applied_digest == rendered.digest
    if known or reconcile.cluster.trusted.has(parent.folder, edited=edited):
        return rendered
    moment.keep()
    found = await reconcile.cluster.turns.run(
        parent.live.uid, moment, lambda seen: verified(parent.folder, parent.live.body, seen, rendered)
    )
    reconcile.cluster.trusted.learn(parent.folder, same=found is rendered)
    await reconcile.steps.rest()
    return found


async def render_status(
    reconcile: Reconcile,
    children: Sequence[LiveObject],
    ready_when: Mapping[Reference, Predicate] | None = None,
    result: ReconcileResult | None = None,
) -> StatusFields:
    """The status fields of the folder's status template. The operator watches everything that they look up.
    `ready_when` has the children with a rule of readiness of their own; `result` is None where none is known.
    """
    lookups = reconcile.cluster.lookups
    parent = reconcile.parent
    templates = parent.folder.templates
    if templates is not None and templates.queries_cluster:
        await lookups.served.discover()
    for _ in range(ROUNDS):
        moment = RenderMoment(lambda: parent_view(reconcile, children))
        own = await reconcile.cluster.turns.run(
            f"{reconcile.uid} status",  # how long it takes says nothing of the other templates
            moment,
            lambda seen: rendering.render_status(parent.folder, parent.live.body, seen, ready_when, result),
        )
        view = moment.view
        reviewed = view.account is None or not view.account.pending
        reconcile.remember_secrets(with_status(reconcile.state.secrets, own))
        versions = lookups.watch(view.readable(own.queries), view.parent_lookup, own.secret_queries)
        if view.account is not None and view.account.pending:
            await view.account.review()
        await lookups.wait_for_sync(versions)
        if reviewed and lookups.watch(versions, hidden=own.secret_queries) == versions:
            break
    reconcile.learn_permissions(view.account)
    follow_lookups(reconcile, Cause.CHILD, moment.versions(versions), own.apis)
    return own


async def rendered_at_creation(reconcile: Reconcile, observed: Observed) -> frozenset[Identity]:
    """The objects that the templates rendered when the parent was created, or would have rendered."""
    created = creation_time(reconcile.parent.live.body["metadata"])
    moment = RenderMoment(
        lambda: replace(
            parent_view(reconcile, observed.children.own),
            now=reconcile.now() if created is None else created,
        )
    )
    earlier = make_plan(observed, await _render_in_turn(reconcile, moment))
    return frozenset(step.identity for step in earlier.steps if step.manifest is not None)


async def render_unstored(
    cluster: SharedCluster, parent: Parent, *, children_known: bool
) -> tuple[Rendered, ParentSecrets] | None:
    """What the templates render for a parent that may never be stored, and where it has contents of Secrets.
    Nothing is watched or remembered for it, so a manifest waits for what is not watched yet. Raises ApiError.

    None where the templates read children that are not known, and where the parent's account may not read what
    they ask for, or that is not known.
    """
    await cluster.lookups.served.discover()
    reconcile = Reconcile.begin(cluster, parent, ParentState(), Cause.PARENT)
    moment = RenderMoment(lambda: parent_view(reconcile, own_children(reconcile)))
    rendered = await _render_in_turn(reconcile, moment)
    account = moment.view.account
    if account is not None and account.denies:
        return None
    if not children_known and any(isinstance(query, Reference) for query in rendered.queries):
        return None
    return rendered, with_render(NO_SECRETS, rendered, parent, cluster.children)


def render_traced(cluster: SharedCluster, parent: Parent, observed: Observed) -> Rendered:
    """What the templates render, with the origin of each field. Nothing else is watched for it."""
    reconcile = Reconcile.begin(cluster, parent, ParentState(), Cause.PARENT)
    view = replace(parent_view(reconcile, observed.children.own), unlabelled=observed.children.unlabelled)
    return rendering.render_traced(parent.folder, parent.live.body, view)


async def _render_in_turn(reconcile: Reconcile, moment: RenderMoment) -> Rendered:
    """The folder, rendered for the parent in its turn."""
    parent = reconcile.parent

    def rendered(seen: ClusterView) -> Rendered:
        with measured_render():
            return rendering.render(parent.folder, parent.live.body, seen)

    return await reconcile.cluster.turns.run(parent.live.uid, moment, rendered)


async def judged(reconcile: Reconcile, work: Callable[[], Result]) -> Result:
    """The result of pure work that judges objects by expressions of authors. It is repeated where they take long,
    after a thread has judged these objects. Raises Postponed.
    """
    result = work()
    while reconcile.judgements.missing:
        await reconcile.cluster.turns.in_thread(reconcile.judgements.judge_missing)
        result = work()
    return result


def follow_lookups(
    reconcile: Reconcile,
    cause: Cause,
    queries: Mapping[LookupQuery, AnswerVersion],
    apis: Mapping[ApiKind, Availability] | None = None,
) -> None:
    """Requeue the parent when an answer changes, unless it was deleted while it was rendered."""
    uid = reconcile.uid
    known = uid in reconcile.cluster.claims.parents
    dependent, lookups = Dependent(uid, cause), reconcile.cluster.lookups
    if queries or dependent in lookups.followers:
        lookups.set_queries(dependent, queries if known else {})
    if apis or dependent in lookups.served.followers:
        lookups.served.set_uses(dependent, (apis or {}) if known else {})


def parent_view(reconcile: Reconcile, children: Sequence[LiveObject]) -> ParentView:
    """What the templates of a parent see of the caches now. `children` are its own."""
    watched, now, parent = reconcile.cluster.children, reconcile.now(), reconcile.parent.live
    return ParentView(
        now=now,
        parent=parent,
        lookups=reconcile.cluster.lookups,
        children=children,
        objects=watched.of(parent.uid),
        informers=watched,
        kind_reports_status=reconcile.cluster.reports_status,
        account=reconcile.account_view(),
        parent_schema=reconcile.parent.schema,
        schema_of=reconcile.cluster.crds.schema,
        once=(
            apply_once.with_final_states(reconcile.records, parent.uid, watched.last_seen, now).once_records
            if reconcile.records.once_records
            else NOTHING
        ),
    )


def _adoptable(parent: Parent, unlabelled: Mapping[Identity, LiveObject]) -> dict[Identity, LiveObject]:
    """Those of these objects whose values a render may keep, because the parent may have them."""
    policy = parent.folder.settings.adopt
    return {identity: live for identity, live in unlabelled.items() if may_adopt(live, parent.live, policy)}


def _as_rendered(
    rendered: Rendered,
    references: AbstractSet[tuple[str, str]],
    moment: RenderMoment,
    unlabelled: Mapping[Identity, LiveObject],
) -> dict[Identity, LiveObject | None]:
    """What a render has just read: `ObservedChildren.as_rendered`."""
    read: dict[Identity, LiveObject | None] = {}
    if references:
        own = moment.view.children
        read |= {live.identity: live for live in own if (live.identity.kind, live.identity.name) in references}
    for identity in rendered.generated:
        read[identity] = moment.watched(identity) or unlabelled.get(identity)
    return read
