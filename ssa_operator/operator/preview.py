"""A preview: what a reconcile of each parent would do, from the informers of an operator, without writing.

Promises:
- A preview observes, renders and plans by the functions of the operator. Its writes are dry runs.
- `diff`, `plan`, the web view and rollouts get the same plan and the same outcomes for a parent.
- The claims and histories of a preview end with it. One that shares the informers of a running operator shares its
  claims, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.informers.parents import Parent, ParentKey
from ssa_operator.kube.api.client import DryRunClient
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Document, Rendered, StatusFields
from ssa_operator.objects.secret_fields import NO_SECRETS, ParentSecrets
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.operator.folder_controllers import FolderControllers
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.queue import Queue
from ssa_operator.operator.shared_informers import SharedInformers
from ssa_operator.reconcile import act
from ssa_operator.reconcile.child import Child
from ssa_operator.reconcile.current_reconcile import Reconcile, SharedCluster
from ssa_operator.reconcile.finalization.rules import Finalization, make_finalization
from ssa_operator.reconcile.idle_reports import idle_verdict
from ssa_operator.reconcile.observe import observe
from ssa_operator.reconcile.observed import Observed, RenderHistory
from ssa_operator.reconcile.parent_records.requests import without_unrecordable
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.plan import Plan, make_plan, steps_of
from ssa_operator.reconcile.planner import plan_deletion, plan_parent
from ssa_operator.reconcile.renderer import render_status, render_traced
from ssa_operator.reconcile.secrets.redacted_report import with_render
from ssa_operator.reconcile.suspension import is_suspended, outcomes_while_suspended
from ssa_operator.rendering.folder.loaded_folders import Folder, Sources


class Planned(Struct, frozen=True, kw_only=True):
    """What a reconcile of one parent would do now."""

    parent: Parent
    rendered: Rendered
    """What the templates render for the parent, finalize hooks included."""
    plan: Plan
    """The plan; for a parent that is being deleted, that of its finalization."""
    secrets: ParentSecrets
    """Where the templates put the contents of Secrets."""
    finalization: Finalization | None = None
    """Set for a parent that is being deleted."""
    refusal: str | None = None
    """Why a reconcile would apply and delete nothing, as for a parent with unreadable records."""

    @property
    def observed(self) -> Observed:
        """What the plan was made of."""
        return self.plan.observed

    @property
    def rendered_steps(self) -> tuple[Child, ...]:
        """The steps of what the templates render, finalize hooks included."""
        standing = [step for step in self.plan.steps if step.location is not None]
        if self.finalization is not None:
            standing = steps_of(self.observed, self.rendered.without_hooks)
        return (*standing, *steps_of(self.observed, self.rendered.finalizing))

    @property
    def exists(self) -> bool:
        """Whether the parent is in the cluster."""
        return self.parent.live.resource_version != ""

    @property
    def suspended(self) -> bool:
        """Whether a reconcile would apply nothing because the parent is suspended."""
        return is_suspended(self.parent.live, self.parent.folder.settings.suspend_when)

    @property
    def renders(self) -> RenderHistory:
        """What a process remembers of the templates after it has rendered this plan, and nothing else."""
        rendered = frozenset(step.identity for step in self.plan.steps if step.location is not None)
        return RenderHistory(digest=self.rendered.digest, rendered=rendered)

    @property
    def standing_outcomes(self) -> tuple[Child, ...] | None:
        """The outcomes of a reconcile that carries out no step, None for one that does."""
        if self.finalization is not None or self.refusal:
            return ()
        return outcomes_while_suspended(self.plan) if self.suspended else None


def plan_observed(
    parent: Parent,
    observed: Observed,
    rendered: Rendered,
    secrets: ParentSecrets = NO_SECRETS,
    refusal: str | None = None,
) -> Planned:
    """What a reconcile would do that observes nothing else, as one without a cluster."""
    deleting = parent.live.deleting
    decision = make_finalization(observed, rendered, observed.now) if deleting else make_plan(observed, rendered)
    return _planned(parent, rendered, decision, secrets, refusal)


def _planned(
    parent: Parent, rendered: Rendered, decision: Plan | Finalization, secrets: ParentSecrets, refusal: str | None
) -> Planned:
    finalization = decision if isinstance(decision, Finalization) else None
    return Planned(
        parent=parent,
        rendered=rendered,
        plan=decision.plan if isinstance(decision, Finalization) else without_unrecordable(decision, parent),
        secrets=secrets,
        finalization=finalization,
        refusal=refusal,
    )


def stored_parent(live: LiveObject, folder: Folder, resource: Resource) -> Parent:
    """A parent of a file, which no cluster has."""
    return Parent(
        live=live,
        folder=folder,
        resource=resource,
        writes_status=False,
        status_schema=None,
        shows_conditions=False,
        unreported="",
        cache=Cache(),
    )


class Preview:
    """Plans parents. `opened` gives one whose informers have synced."""

    def __init__(self, client: DryRunClient, shared: SharedInformers) -> None:
        self.shared = shared
        self.cluster: SharedCluster = replace(shared.cluster, operator_client=client, dry_run=True)
        """The informers of children and lookups, and a client whose writes are dry runs."""

    @property
    def controllers(self) -> FolderControllers:
        """The informers of parents by folder, and the loaded templates."""
        return self.shared.controllers

    async def plan(self, parent: Parent, state: ParentState | None = None) -> Planned:
        """What a reconcile of the parent would do. `state` is what a process remembers of it, by default nothing.

        Raises ApiError.
        """
        state = state or ParentState()
        reconcile = Reconcile.begin(self.cluster, parent, state, Cause.PARENT)
        idle = None if parent.live.deleting else idle_verdict(reconcile)
        observed, rendered = await observe(reconcile)
        decide = plan_deletion if parent.live.deleting else plan_parent
        decision = await decide(reconcile, observed, rendered)
        planned = _planned(parent, rendered, decision, reconcile.state.secrets, idle.message if idle else None)
        if any(fields.name_object for fields in planned.secrets.children.values()):
            # A name that is made of the parent's only is no content, which a traced render knows.
            traced = self.render_traced(planned)
            if not traced.problems:
                known = with_render(state.secrets, traced, parent, self.cluster.children)
                planned = replace(planned, secrets=replace(planned.secrets, children=known.children))
        return planned

    async def dry_run(self, planned: Planned, *, as_resumed: bool = False) -> tuple[Child, ...]:
        """The outcome of each step in a dry run, in the order of the plan's steps. The steps of a parent that is being
        deleted or refused are not tried, and those of a suspended one only with `as_resumed`.
        """
        standing = planned.standing_outcomes
        if standing is None or (as_resumed and planned.suspended and not planned.refusal):
            return await self.try_steps(planned)
        return standing

    async def try_steps(self, planned: Planned) -> tuple[Child, ...]:
        """The outcome of each step in a dry run, although a reconcile may carry out none now. Raises ApiError."""
        state = ParentState(secrets=planned.secrets)
        return await act.dry_run(planned.plan, Reconcile.begin(self.cluster, planned.parent, state, Cause.PARENT))

    def render_traced(self, planned: Planned) -> Rendered:
        """What the templates render for the parent, with the origin of each field."""
        return render_traced(self.cluster, planned.parent, planned.observed)

    async def render_status(self, planned: Planned) -> StatusFields:
        """What the folder's status template renders with the present children. Raises ApiError."""
        reconcile = Reconcile.begin(self.cluster, planned.parent, ParentState(), Cause.PARENT)
        return await render_status(reconcile, planned.observed.children.own, planned.rendered.ready_when)

    def placed(self, planned: Planned) -> Callable[[Identity], Identity]:
        """Completes the identity of a child whose template names no namespace."""
        kinds, namespace = planned.observed.children.kinds, planned.parent.live.identity.namespace

        def complete(child: Identity) -> Identity:
            if child.group_kind in kinds and not kinds[child.group_kind].namespaced:
                return replace(child, namespace="")
            return child if child.namespace else replace(child, namespace=namespace)

        return complete

    def steps(self, planned: Planned) -> tuple[Child, ...]:
        """A step for each manifest that the templates render, finalize hooks included. Each manifest's document has the
        origin of its fields, if it could be rendered once more with them.
        """
        rendered, observed = planned.rendered, planned.observed
        again = self.render_traced(planned)
        traced = {_key(document): document for document in again.documents}
        documents = tuple(_traced_document(document, traced.get(_key(document))) for document in rendered.documents)
        rendered = dataclasses.replace(rendered, documents=documents)
        return (*steps_of(observed, rendered.without_hooks), *steps_of(observed, rendered.finalizing))


def _key(document: Document) -> tuple[SourceLocation, str]:
    return document.location, repr(document.body)


def _traced_document(document: Document, traced: Document | None) -> Document:
    return document if traced is None else dataclasses.replace(document, origin_of=traced.origin_of)


@contextlib.asynccontextmanager
async def synced_informers(
    client: DryRunClient,
    mapper: RESTMapper,
    options: Options,
    clock: Clock = SYSTEM,
    sources: Sources | None = None,
) -> AsyncIterator[SharedInformers]:
    """Informers of a preview's own that have synced, or can't, for the templates of the options or for `sources`.
    Raises ApiError and ParentError.
    """
    queue: Queue[ParentKey] = Queue(clock.monotonic)
    shared = SharedInformers(client, mapper, options, Metrics(), queue, clock)
    async with shared.synced(mapper, sources):
        yield shared
