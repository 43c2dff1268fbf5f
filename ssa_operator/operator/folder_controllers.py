"""One controller for each template folder: it starts when the cluster serves the folder's resource, and stops when the
cluster no longer serves it.

Promises:
- Folders don't affect each other. A folder without a CRD waits for it. If a folder's CRD is deleted, the folder stops
  when the last object, and with it the CRD, is gone.
- A folder of templates that is removed while parents have the operator's finalizer stops when the last of these is
  gone or has lost it. Until then, the log, the metric and the status of its parents say so.
- Changed templates reconcile the parents of the changed folders only.
- A change of files or CRDs is never lost, even while the operator waits for the API server.
- After a change of a CRD's schema, every object of its kind is read by the new schema.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ssa_operator.informers.child_informers import ChildInformers
from ssa_operator.informers.crds import CRDInformer
from ssa_operator.informers.lookups import LookupInformers
from ssa_operator.informers.parents import ParentKey, Served
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import GroupKind
from ssa_operator.operator.event_router import EventRouter
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.queue import Queue
from ssa_operator.operator.template_sources import TemplateSources
from ssa_operator.reconcile.parent_state import Parents, ParentState
from ssa_operator.reconcile.shards.selection import kept_parents
from ssa_operator.rendering.folder.loaded_folders import Folder

if TYPE_CHECKING:
    from ssa_operator.operator.permissions.requests import PermissionReviewer
    from ssa_operator.operator.rollouts.driver import Rollouts

log = logging.getLogger("ssa_operator")

REDISCOVERY = 10.0
"""Seconds after which discovery is repeated for a missing resource: it may have no CRD, so that no event shows it."""

DISCOVERY_LAG = 0.5
DISCOVERY_TRIES = 3
"""Discovery learns of a CRD, and of its end, a moment after the event. The operator repeats it for a missing kind that
is looked up or watched: after DISCOVERY_LAG seconds, DISCOVERY_TRIES times, each time after twice as long.
"""


class FolderControllers:
    """`folders` are the running controllers by folder name. `missing` are the reasons why the other folders wait."""

    def __init__(
        self, client: Client, mapper: RESTMapper, options: Options, queue: Queue[ParentKey], metrics: Metrics
    ) -> None:
        self.router = router = EventRouter(queue, self)
        self.folders: dict[str, Parents] = {}
        self.missing: dict[str, str] = {}
        self.refused_crds: Mapping[str, str] = {}
        """Why CRDs of `--install-crds` are not applied, by name."""
        self.crds = CRDInformer(client, self._crd_changed, self._schema_changed)
        self.children = ChildInformers(client, mapper, options.namespaces, router, options.shard)
        self.lookups = LookupInformers(
            client, mapper, self.crds, router.requeue, limited_to_namespaces=bool(options.namespaces)
        )
        self._client = client
        self._mapper = mapper
        self._options = options
        self._namespace = options.installation.namespace or client.credentials.namespace
        installation = replace(options.installation, namespace=self._namespace)
        self.templates = TemplateSources(options.templates, installation, self._folder_changed)
        self.permissions: PermissionReviewer | None = None
        """None until the operator has started."""
        self.rollouts: Rollouts | None = None
        """Picks the templates of each parent; None until a folder has the setting `rollout`."""
        self.make_rollouts: Callable[[], Rollouts] | None = None
        """None if a changed set reaches all parents at once, even with the setting."""
        self._serves_all = True
        """Whether the operator serves the parents of every folder that runs, in each namespace that it may read."""
        self.unread_namespaces: frozenset[str] = frozenset()
        """The namespaces in which the parents of some folder are not known."""
        self._reporting_kinds: dict[GroupKind, bool] = {}
        """The answers of `reports_status` since the CRDs and folders changed."""
        self._metrics = metrics
        self._had_crd: set[str] = set()
        self._changed_folders: set[str] = set()
        self._changed_kinds: dict[GroupKind, int] = {}
        self._changed = asyncio.Event()
        self._started = asyncio.Event()
        self._shard_selector_applies: bool | None = None
        self.refresh_listeners: list[Callable[[], None]] = []
        """Each is called after folders started, stopped or were reloaded."""

    @property
    def ready(self) -> bool:
        """Whether the operator serves every folder whose resource the cluster serves, in each namespace that it may
        read.
        """
        return self._started.is_set() and self._serves_all

    def set_refused_crds(self, refused: Mapping[str, str]) -> None:
        """Record which CRDs are refused, and requeue the parents whose status has to report a refusal, or no longer has
        to.
        """
        before, self.refused_crds = self.refused_crds, refused
        for name in before.keys() | refused.keys():
            if before.get(name) == refused.get(name):
                continue
            self._folder_changed(name)
            if name in self.folders:
                self.folders[name].crd_refusal = refused.get(name)
                self.router.parents_changed(self.folders[name].all_keys(), Cause.RETRY)

    def _served_parents_changed(self, _: Reflector | None = None) -> None:
        self._serves_all = all(each.serving for each in self.folders.values())
        self.unread_namespaces = frozenset(namespace for each in self.folders.values() for namespace in each.unserved)
        self._reporting_kinds.clear()

    def reports_status(self, kind: GroupKind) -> bool:
        """Whether a kind's objects are ready only once a controller has written their status: this process, or one that
        their CRD declares.
        """
        known = self._reporting_kinds.get(kind)
        if known is None:
            parents = any(each.writes_observed_generation(kind) for each in self.folders.values())
            known = self._reporting_kinds[kind] = parents or self.crds.reports_status(kind)
        return known

    async def follow_cluster(self) -> None:
        """Start, stop and reload folders whenever files or CRDs change, until cancelled."""
        await self.crds.reflector.synced_or_unavailable()
        discovering = asyncio.create_task(self._discover(), name="discover")
        try:
            while True:
                await self._changed.wait()
                await self._refresh()
        finally:
            discovering.cancel()

    async def review_permissions(self) -> None:
        """Review the operator's permissions whenever templates or served kinds change, until cancelled."""
        # Imported here, because an operator that starts has more urgent work.
        from ssa_operator.operator.permissions.operator_needs import (  # noqa: PLC0415
            admission_needs,
            conversion_needs,
            http_needs,
            kind_needs,
            rollout_needs,
        )
        from ssa_operator.operator.permissions.requests import PermissionReviewer  # noqa: PLC0415
        from ssa_operator.operator.shards.rules import own_lease_needs  # noqa: PLC0415

        options, namespace = self._options, self._namespace
        own_needs = own_lease_needs(namespace, options.shard, elects=options.leader_election is not None)
        own_needs += kind_needs(namespace)
        own_needs += http_needs() if options.exposes_http else ()
        own_needs += admission_needs(namespace) if options.admission_service else ()
        own_needs += conversion_needs(namespace, ()) if options.conversion is not None else ()
        self.permissions = PermissionReviewer(
            self._client,
            self._mapper,
            self.folders,
            options.namespaces,
            own_needs,
            options.impersonate,
            rollout_needs(namespace) if options.rollouts else (),
        )
        if self._started.is_set():
            self.permissions.request_review()
        await self.permissions.run()

    async def _discover(self) -> None:
        """Run the discovery for the first reconciles while the parents are listed. If it fails, the reconciles repeat
        it and report the failure.
        """
        with contextlib.suppress(ApiError, CredentialsError):
            await self.lookups.served.discover()

    async def start(self) -> None:
        """Start every folder whose resource the cluster serves, once, and wait until each informer has synced or can't.

        `crds` and the files are not followed.
        """
        await self.crds.reflector.synced_or_unavailable()
        await self._refresh()
        await self.synced_or_unavailable()

    async def synced_or_unavailable(self) -> None:
        """Wait until the folders whose resource the cluster serves have started, and their informers have synced or
        can't.
        """
        await self._started.wait()
        reflectors = [each for parents in self.folders.values() for each in parents.reflectors]
        await asyncio.gather(*(each.synced_or_unavailable() for each in reflectors))

    async def rediscover(self) -> None:
        """Repeat discovery for missing kinds and for the questions of templates, until cancelled. Not every kind has a
        CRD whose event shows it, and no event shows a new version of the API server.
        """
        while True:
            await asyncio.sleep(REDISCOVERY)
            kinds = self.lookups.missing
            if self.missing or kinds or self.lookups.served.in_use:
                self._mapper.invalidate()
                for name in self.missing:
                    self._folder_changed(name)
                for kind in kinds:
                    await self._logged(str(kind), self.lookups.refresh(kind))
                await self._logged("api_available", self.lookups.served.refresh())
            await self._logged("kubernetes_version", self._refresh_version())

    async def _refresh_version(self) -> None:
        """Requeue the parents whose templates read the version of Kubernetes, if it changed."""
        readers = [
            each for each in self.folders.values() if each.folder.templates and each.folder.templates.reads_version
        ]
        if readers and await self.lookups.served.refresh_version():
            for parents in readers:
                self.router.parents_changed(parents.all_keys(), Cause.TEMPLATE)

    def on_kind_changed(self) -> None:
        """Refresh missing kinds of children, because one can be watched now, or no longer."""
        for kind in self.children.missing:
            self._kind_changed(kind, 0)
        self._requeue_unready()

    @property
    def watch_tasks(self) -> Sequence[asyncio.Task[None]]:
        """The tasks of all watches of parents, children and lookups."""
        parents = (task for each in self.folders.values() for task in each.tasks)
        rollouts = self.rollouts.tasks if self.rollouts is not None else ()
        return (*parents, *self.children.tasks, *self.lookups.tasks, *rollouts)

    @property
    def reflectors(self) -> Sequence[Reflector]:
        """Everything that is watched."""
        parents = (reflector for each in self.folders.values() for reflector in each.reflectors)
        rollouts = self.rollouts.reflectors if self.rollouts is not None else ()
        return (self.crds.reflector, *parents, *self.children.reflectors, *self.lookups.reflectors, *rollouts)

    async def close(self) -> None:
        """Stop every watch, even if it is cancelled while it waits for the end of one."""
        async with contextlib.AsyncExitStack() as closing:
            for each in (self.lookups, self.children, self.rollouts, *self.folders.values()):
                if each is not None:
                    closing.push_async_callback(each.close)

    def _crd_changed(self, name: str, kind: GroupKind) -> None:
        self._reporting_kinds.pop(kind, None)
        self._mapper.crd_changed(kind, deleted=self.crds.defined(kind) is None)
        if name in self.templates.folders or name in self.folders:
            self._folder_changed(name)
        elif not self._mapper.was_asked_for(kind):
            return  # thousands of CRDs may appear at once, and no parent needs them
        self._kind_changed(kind, 0)

    def _schema_changed(self, kind: GroupKind) -> None:
        for reflector in self.reflectors:
            if (reflector.resource.group, reflector.resource.kind) == kind:
                reflector.schema_changed()

    def _kind_changed(self, kind: GroupKind, tries: int) -> None:
        self._mapper.invalidate()
        self._changed_kinds[kind] = tries
        self._changed.set()

    def _folder_changed(self, name: str) -> None:
        self._changed_folders.add(name)
        self._changed.set()

    async def _refresh(self) -> None:
        """Adapt to the changed kinds and folders."""
        self._changed.clear()
        kinds_changed = await self._refresh_kinds()
        folders_changed = await self._refresh_folders()
        self._started.set()
        if self.permissions is not None:
            self.permissions.request_review()
        for listener in self.refresh_listeners:
            listener()
        if kinds_changed or folders_changed:
            self._requeue_unready()

    async def _refresh_kinds(self) -> bool:
        """Refresh the informers of changed kinds. Returns whether parents that are not ready should be requeued."""
        helps = 0 in self._changed_kinds.values()
        while self._changed_kinds:
            kind, tries = self._changed_kinds.popitem()
            missing = kind in self.children.missing
            await self._logged(str(kind), self.children.refresh(kind))
            await self._logged(str(kind), self.lookups.refresh(kind))
            helps = helps or (missing and kind not in self.children.missing)
            asked = self.lookups.served.asked_for(kind)
            if asked:
                await self._logged(str(kind), self.lookups.served.refresh())
            if tries < DISCOVERY_TRIES and (asked or self.lookups.is_missing(kind) or kind in self.children.missing):
                delay = DISCOVERY_LAG * 2**tries
                asyncio.get_running_loop().call_later(delay, self._kind_changed, kind, tries + 1)
        return helps

    async def _refresh_folders(self) -> bool:
        """Start, stop and reload the changed folders. Returns whether one of them began or ceased to wait."""
        # A name that is added meanwhile is handled in the next round, because this round may have read the files
        # already.
        names, self._changed_folders = self._changed_folders, set()
        changed = False
        for name in names:
            before = self.missing.get(name)
            await self._logged(name, self._refresh_folder(name))
            changed = changed or self.missing.get(name) != before
        return changed

    async def _logged(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Log a failure instead of raising it, so that a bug or an unreachable API server stops no other folder."""
        try:
            await work
        except (ApiError, CredentialsError) as error:
            log.warning("%s: %s", name, error)
        except Exception:
            log.exception("%s: unexpected error", name)

    def _requeue_unready(self) -> None:
        """Requeue the parents that are not ready, because their children may need a kind that is served now."""
        for parents in self.folders.values():
            parents.kind_changes += 1
            self.router.parents_changed(parents.unready(), Cause.RETRY)

    async def _refresh_folder(self, name: str) -> None:
        folder = self.templates.folders.get(name)
        running = self.folders.get(name)
        served = await self._served(folder, running) if folder is not None else None
        if folder is None:
            self.missing.pop(name, None)
        if folder is None or served is None:
            if running is not None:
                await self._leave(name, running)
            return
        if not await self._prepared(folder, running):
            return
        if served.unreported and (running is None or running.served.unreported != served.unreported):
            log.warning("%s: %s", name, served.unreported)
        if served.terminating and not (running is not None and running.served.terminating):
            log.warning("%s: its CRD is being deleted; the folder stops when its last object is gone", name)
        if running is not None and running.served.resource == served.resource:
            running.serve(served)
            self._reporting_kinds.clear()
            if running.folder is not folder or running.is_abandoned:
                self._reload(running, folder)
            return
        if running is not None:
            await self._stop(name, running)
        log.info("%s: starts with %s", name, served.resource.api_version)
        self.folders[name] = Parents(
            self._client,
            folder,
            served,
            self.router,
            new=ParentState(),
            namespaces=self._options.namespaces,
            shard_selector=await self._shard_selector(),
            keep=kept_parents(self._options.shard, self._options.selector),
        )
        self.folders[name].crd_refusal = self.refused_crds.get(name)
        if self.rollouts is not None:
            self.rollouts.follow(self.folders[name])
        for reflector in self.folders[name].reflectors:
            reflector.listen(self._served_parents_changed)
        self._served_parents_changed()
        self.folders[name].start()

    async def _prepared(self, folder: Folder, running: Parents | None) -> bool:
        """Whether the revisions that the folder's parents are on are known. If not, it is tried again."""
        if folder.settings.rollout is not None and self.rollouts is None and self.make_rollouts is not None:
            self.rollouts = self.make_rollouts()
        if self.rollouts is None:
            return True
        from ssa_operator.operator.rollouts.requests import RolloutUnavailableError  # noqa: PLC0415

        try:
            await self.rollouts.prepare(folder)
        except (ApiError, CredentialsError, RolloutUnavailableError) as error:
            log.warning("%s: waits: %s", folder.name, error)
            if running is None:
                self.missing[folder.name] = str(error)
            else:
                asyncio.get_running_loop().call_later(REDISCOVERY, self._folder_changed, folder.name)
            return False
        return True

    async def _shard_selector(self) -> str:
        """The `shardSelector` of lists and watches, '' if the API server does not filter by it.

        If the API server doesn't answer, the operator filters alone. The answer for CRDs also applies to custom
        resources, whose lists don't show it.
        """
        shard = self._options.shard
        if shard is None:
            return ""
        if self._shard_selector_applies is None:
            scope = replace(self.crds.reflector.scope, shard_selector=shard.shard_selector)
            try:
                self._shard_selector_applies = await self._client.applies_shard_selector(scope)
            except (ApiError, CredentialsError) as error:
                log.info("whether the API server filters by shardSelector is unknown: %s", error)
                return ""
            if self._shard_selector_applies:
                log.info("the API server filters the parents of shard %s (shardSelector)", shard)
        return shard.shard_selector if self._shard_selector_applies else ""

    def _reload(self, running: Parents, folder: Folder) -> None:
        before = {live.uid: "" if running.is_abandoned else running.folder_of(live).digest for live in running}
        running.folder, running.is_abandoned = folder, False
        if self.rollouts is not None:
            self.rollouts.follow(running)
        reach = "are reconciled" if running.choose_folder is None else "get them in waves"
        log.info("%s: its templates changed; %d parents %s", folder.name, len(running), reach)
        for live, key in zip(running, running.all_keys(), strict=True):
            # Even if only its problems changed, because a parent's status reports them.
            changed = running.folder_of(live).digest != before[live.uid]
            self.router.parent_changed(key, Cause.TEMPLATE if changed else Cause.RETRY)

    async def _leave(self, name: str, running: Parents) -> None:
        """Stop a folder. If it was removed while parents have the finalizer, go on until none has it, to finalize those
        that are deleted.
        """
        kept = 0 if name in self.templates.folders else _with_finalizer(running)
        if not kept:
            log.warning("%s: stops: %s", name, self.missing.get(name, "its templates are gone"))
            await self._stop(name, running)
        elif not running.is_abandoned:
            running.is_abandoned = True
            log.warning(
                "%s: its templates are gone, and %d of its parents have the finalizer %s: only those that are deleted "
                "are reconciled, by the last templates. After a restart they wait until the folder is back; so delete "
                "them before, or remove their finalizers",
                name,
                kept,
                FINALIZER,
            )
            # The last one of them stops the folder.
            running.listen(lambda *_: None if _with_finalizer(running) else self._folder_changed(name), own_writes=True)
            self.router.parents_changed(running.all_keys(), Cause.TEMPLATE)

    async def _stop(self, name: str, running: Parents) -> None:
        del self.folders[name]
        self._served_parents_changed()
        self._metrics.forget(name)
        await running.close()
        for live in running:
            self.router.parent_deleted(live.uid)

    async def _served(self, folder: Folder, running: Parents | None) -> Served | None:
        """How the cluster serves the folder's resource. If it doesn't, None, and the reason is in `missing`."""
        name = folder.name
        crd = self.crds.get(name)
        if crd is not None:
            self._had_crd.add(name)
        try:
            if crd is not None:
                served = Served(resource=self.crds.resource(name, folder.settings.version), crd=crd)
            elif name in self._had_crd:
                raise UnknownKind(f"its CRD {name} was removed")
            else:
                served = Served(resource=await self._mapper.resource_by_name(name), crd=None)
        except (ApiError, CredentialsError) as error:
            if running is not None:
                # An unreachable API server does not mean that the resource is gone.
                return running.served
            self.missing[name] = str(error)
            log.warning("%s: waits: %s", name, error)
            return None
        except UnknownKind as error:
            refusal = self.refused_crds.get(name, "")
            reason = f"{error}; its CRD is not applied: {refusal}" if refusal else str(error)
            if self.missing.get(name) != reason:
                log.warning("%s: waits: %s", name, reason)
            self.missing[name] = reason
            return None
        self.missing.pop(name, None)
        return served


def _with_finalizer(parents: Parents) -> int:
    """The number of parents that have the operator's finalizer."""
    return sum(FINALIZER in live.metadata.finalizers for live in parents)
