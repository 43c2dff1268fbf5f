"""A preview: what a reconcile of each parent would do, from the informers of an operator, without writing.

Promises:
- A preview observes, renders and plans by the functions of the operator. Its writes are dry runs.
- A parent in a file is planned as if it had been applied: with the API server's defaults and validation, and with the
  uid of the live parent if there is one.
- Two parents that render one object are noticed, even if one of them is only in a file.
- The claims and histories of a preview end with it. One that shares the informers of a running operator shares its
  claims, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.informers.parents import Parent, ParentKey
from ssa_operator.kube.api.client import DryRunClient
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Document, Rendered, RenderProblem, StatusFields
from ssa_operator.objects.secret_fields import ParentSecrets
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.operator.folder_controllers import FolderControllers
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.queue import Queue
from ssa_operator.operator.shared_informers import SharedInformers
from ssa_operator.reconcile import act
from ssa_operator.reconcile.child import Child
from ssa_operator.reconcile.cluster_access import SharedCluster
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.finalization.rules import Finalization
from ssa_operator.reconcile.observe import observe
from ssa_operator.reconcile.observed import Observed, RenderHistory
from ssa_operator.reconcile.parent_records.requests import without_unrecordable
from ssa_operator.reconcile.parent_records.rules import unreadable_records_message
from ssa_operator.reconcile.parent_state import Parents, ParentState
from ssa_operator.reconcile.plan import Plan, steps_of
from ssa_operator.reconcile.planner import plan_deletion, plan_parent
from ssa_operator.reconcile.renderer import render_status, render_traced
from ssa_operator.reconcile.secrets.parent_secrets import with_render
from ssa_operator.reconcile.suspension import is_suspended, outcomes_while_suspended
from ssa_operator.tools.offline.parent_files import apply_parent, folder_of


class Planned(Struct, frozen=True, kw_only=True):
    """What a reconcile of one parent would do now."""

    parent: Parent
    observed: Observed
    rendered: Rendered
    """What the templates render for the parent, finalize hooks included."""
    plan: Plan
    """The plan; for a parent that is being deleted, that of its finalization."""
    secrets: ParentSecrets
    """Where the templates put the contents of Secrets."""
    finalization: Finalization | None = None
    """Set for a parent that is being deleted."""

    @property
    def exists(self) -> bool:
        """Whether the parent is in the cluster."""
        return self.parent.live.resource_version != ""

    @property
    def suspended(self) -> bool:
        """Whether a reconcile would apply nothing because the parent is suspended."""
        return is_suspended(self.parent.live, self.parent.folder.settings.suspend_when)

    @property
    def unreadable_records_message(self) -> str | None:
        """Why a reconcile would do nothing because it can't read records on the parent, None if it can."""
        return unreadable_records_message(self.parent.live)


class Preview:
    """Plans parents. `opened` gives one whose informers have synced."""

    def __init__(self, client: DryRunClient, shared: SharedInformers) -> None:
        self._client = client
        self._shared = shared
        self._cluster: SharedCluster = replace(shared.cluster, operator_client=client, dry_run=True)
        self._created = 0

    def plan_all_parents(self) -> None:
        """From now on, the plans of all parents go by each other, where these share an object."""
        self._shared.claims.planned_shares = {}

    @property
    def controllers(self) -> FolderControllers:
        """The informers of parents by folder, and the loaded templates."""
        return self._shared.controllers

    @property
    def cluster(self) -> SharedCluster:
        """The informers of children and lookups, and a client whose writes are dry runs."""
        return self._cluster

    @property
    def problems(self) -> tuple[str, ...]:
        """The template folders and files that don't load."""
        sources = self.controllers.templates.loaded
        problems = [*sources.problems, *(each for folder in sources.folders.values() for each in folder.problems)]
        return tuple(map(str, problems))

    @property
    def unavailable(self) -> Mapping[str, str]:
        """Why the parents of a folder are not known, by the folder's name."""
        unsynced = {
            name: next((each.problem for each in parents.reflectors if each.problem), "its watch is not synced")
            for name, parents in self.controllers.folders.items()
            if not parents.synced
        }
        return {**self.controllers.missing, **unsynced}

    def parents(self) -> list[Parent]:
        """All live parents, in the order of their folders and names."""
        folders = self.controllers.folders
        return [
            folders[name].parent(live)
            for name in sorted(folders)
            for live in sorted(folders[name], key=lambda live: live.identity)
        ]

    def folder_of(self, kind: GroupKind) -> Parents:
        """The informer of the parents of a kind. Raises ParentError if no folder has templates for it."""
        return folder_of(self.controllers, kind)

    async def as_applied(self, body: Mapping[str, Any], namespace: str) -> Parent:
        """The parent of a file as the API server would store it; `namespace` is that of a parent without one.

        Raises ParentError if it has no templates, and ApiError if the API server refuses it.
        """
        parents = self.folder_of(GroupKind.of(body["apiVersion"], body["kind"]))
        applied = await apply_parent(self._client, parents.served.resource, body, namespace, dry_run=True)
        live = LiveObject.of(self._stored(applied.live, parents, created=applied.created))
        key = ParentKey(parents.folder.name, live.identity.namespace, live.identity.name)
        self._shared.router.parent_added(live, key)
        return parents.parent(live)

    def _stored(self, live: LiveObject, parents: Parents, *, created: bool) -> dict[str, Any]:
        """The object that a dry run would store, in the version that the folder reads."""
        metadata = dict(live.body["metadata"])
        if created:
            # The API server draws a new uid each time. As in an offline render, the uid is all zeros.
            metadata["uid"] = f"00000000-0000-0000-0000-{self._created:012d}"
            metadata.pop("resourceVersion", None)
            self._created += 1
        return {**live.body, "apiVersion": parents.served.resource.api_version, "metadata": metadata}

    async def plan(self, parent: Parent, state: ParentState | None = None) -> Planned:
        """What a reconcile of the parent would do. `state` is what a process remembers of it, by default nothing.

        Raises ApiError.
        """
        state = state or ParentState()
        reconcile = Reconcile.begin(self._cluster, parent, state, Cause.PARENT)
        observed, rendered = await observe(reconcile)
        finalization = None
        if parent.live.deleting:
            finalization = await plan_deletion(reconcile, observed, rendered)
            plan = finalization.plan
        else:
            plan = without_unrecordable(await plan_parent(reconcile, observed, rendered), parent)
        secrets = reconcile.state.secrets
        if any(fields.name_object for fields in secrets.children.values()):
            # A name that is made of the parent's only is no content, which a traced render knows.
            traced = render_traced(self._cluster, parent, plan.observed)
            if not traced.problems:
                known = with_render(state.secrets, traced, parent, self._cluster.children)
                secrets = replace(secrets, children=known.children)
        return Planned(
            parent=parent,
            observed=plan.observed,
            rendered=rendered,
            plan=plan,
            secrets=secrets,
            finalization=finalization,
        )

    def render_traced(self, planned: Planned) -> Rendered:
        """What the templates render for the parent, with the origin of each field."""
        return render_traced(self._cluster, planned.parent, planned.observed)

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

    async def plan_applied(self, parent: Parent) -> Planned:
        """The plan of a parent in a file. Changes by the file do not count as changes of the templates, because the
        same templates are rendered for the live parent, too. Fields into which they put contents of Secrets there may
        still hold content.
        """
        live = self.folder_of(parent.live.identity.group_kind).find(
            parent.live.identity.namespace, parent.live.identity.name
        )
        if live is None or live.uid != parent.live.uid:
            return await self.plan(parent)
        return await self.plan(parent, render_state(await self.plan(replace(parent, live=live))))

    async def render_status(self, planned: Planned) -> StatusFields:
        """What the folder's status template renders with the present children. Raises ApiError."""
        reconcile = Reconcile.begin(self._cluster, planned.parent, ParentState(), Cause.PARENT)
        return await render_status(reconcile, planned.observed.children.own, planned.rendered.ready_when)

    async def status_problems(self, planned: Planned) -> tuple[RenderProblem, ...]:
        """The problems of the folder's status template with the present children. Raises ApiError."""
        return (await self.render_status(planned)).problems

    async def dry_run(self, planned: Planned, *, as_resumed: bool = False) -> tuple[Child, ...]:
        """The outcome of each step in a dry run, in the order of the plan's steps. The steps of a parent
        that is being deleted or has unreadable records are not tried, and those of a suspended one only with
        `as_resumed`.
        """
        if planned.finalization is not None or planned.unreadable_records_message:
            return ()
        if planned.suspended and not as_resumed:
            return outcomes_while_suspended(planned.plan)
        state = ParentState(secrets=planned.secrets)
        return await act.dry_run(planned.plan, Reconcile.begin(self._cluster, planned.parent, state, Cause.PARENT))


def _key(document: Document) -> tuple[SourceLocation, str]:
    return document.location, repr(document.body)


def _traced_document(document: Document, traced: Document | None) -> Document:
    return document if traced is None else dataclasses.replace(document, origin_of=traced.origin_of)


def render_state(planned: Planned) -> ParentState:
    """What a process remembers of a parent after it has rendered this plan, and nothing else."""
    rendered = frozenset(step.identity for step in planned.plan.steps if step.location is not None)
    return ParentState(
        renders=RenderHistory(digest=planned.rendered.digest, rendered=rendered), secrets=planned.secrets
    )


@contextlib.asynccontextmanager
async def opened(
    client: DryRunClient, mapper: RESTMapper, options: Options, clock: Clock = SYSTEM
) -> AsyncIterator[Preview]:
    """A preview of the templates of the options, whose informers of CRDs and parents have synced, or can't. Raises
    ApiError and ParentError.
    """
    queue: Queue[ParentKey] = Queue(clock.monotonic)
    shared = SharedInformers(client, mapper, options, Metrics(), queue, clock)
    async with shared.synced(mapper):
        yield Preview(client, shared)
