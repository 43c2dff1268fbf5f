"""The operator: a watch of parents for every template folder, one queue for all of them.

Promises:
- Folders don't disturb each other: one without a CRD waits for it, one whose CRD goes stops, one that doesn't load
  keeps its last good templates.
- Templates that change on disk count without a restart: the parents of the changed folders are rendered again, and no
  others.
- Stopping is orderly: no new pass begins, running ones get a few seconds to end, then everything is closed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Coroutine, Iterable
from pathlib import Path
from typing import Any

from ssa_operator.controller.metrics import Metrics
from ssa_operator.controller.options import Options
from ssa_operator.controller.queue import Cause, Queue
from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.reconcile.events import Recorder
from ssa_operator.controller.reconcile.reconciler import Reconciler
from ssa_operator.controller.watches.children import ChildInformers
from ssa_operator.controller.watches.crds import CRDInformer
from ssa_operator.controller.watches.lookups import LookupInformers
from ssa_operator.controller.watches.object_claims import ObjectClaims
from ssa_operator.controller.watches.parent_cache import Memory
from ssa_operator.controller.watches.parents import ParentInformer, ParentKey, Served
from ssa_operator.controller.workers import Clock, Workers
from ssa_operator.core.objects.identity import GroupKind, Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.rendering.folder.hot_reload import changes
from ssa_operator.rendering.folder.sources import Folder, Sources, load_all

log = logging.getLogger("ssa_operator")

DRAIN_DEADLINE = 5.0
"""Seconds that running passes get to end after the operator was told to stop."""

REDISCOVERY = 10.0
"""Seconds after which a resource that the cluster doesn't have is looked for again, where no CRD's event tells."""


DISCOVERY_LAG = 0.5
DISCOVERY_TRIES = 3
"""Discovery learns of a CRD a moment after its event: so many seconds later it is asked again for a kind that is looked
up and still missing, and so many times, each time after twice as long."""


class Operator:
    """Runs until it is told to stop. What `/objects`, `/readyz` and the live tree show is read from `folders`."""

    def __init__(self, client: Client, mapper: RESTMapper, options: Options) -> None:
        self.options = options
        self.metrics = Metrics()
        self.folders: dict[str, ParentInformer] = {}
        self.missing: dict[str, str] = {}
        self.children = ChildInformers(client, mapper, options.namespaces, self)
        self.definitions = CRDInformer(client, self._definition_changed)
        self.lookups = LookupInformers(client, mapper, self.definitions, self, confined=bool(options.namespaces))
        self.queue: Queue[ParentKey] = Queue(time.monotonic, self.metrics.queue_seconds.observe)
        self._client = client
        self._mapper = mapper
        self._sources: Sources | None = None
        self._defined: set[str] = set()
        self._uids: dict[str, ParentKey] = {}
        self._recorder = Recorder(client, self.metrics, self.queue.empty)
        cluster = ClusterAccess(
            client=client,
            children=self.children,
            lookups=self.lookups,
            definitions=self.definitions,
            recorder=self._recorder,
            reports_status=self._announces,
        )
        self._identities: dict[str, Identity] = {}
        self._claims = ObjectClaims(self._identities, lambda: self.ready, self.child_changed)
        self._reconciler = Reconciler(cluster, self._claims, options, self.queue.urges)
        self._unsettled: set[str] = set()
        self._changed_kinds: dict[GroupKind, int] = {}
        self._settled = False
        self._to_settle = asyncio.Event()

    @property
    def ready(self) -> bool:
        """Whether every folder whose resource the cluster has is synced. A CRD that is missing is waited for, and
        hurts nobody.
        """
        return self._settled and all(each.synced for each in self.folders.values())

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set, then end in order."""
        self._take(load_all(self.options.templates))
        chance = Clock(now=time.time, jitter=random.random)
        workers = Workers(self.queue, self.folders, self._reconciler, self.metrics, self.options, chance)
        recording = asyncio.create_task(self._recorder.run(), name="write events")
        passes = [asyncio.create_task(workers.run(), name=f"worker {n}") for n in range(self.options.workers)]
        services = [
            asyncio.create_task(stop.wait(), name="stop"),
            asyncio.create_task(self.definitions.reflector.run(), name="watch CRDs"),
            asyncio.create_task(self._settle_folders(), name="settle folders"),
            *(asyncio.create_task(self._follow(root), name=f"follow {root}") for root in self.options.templates),
            asyncio.create_task(self._rediscover(), name="rediscover"),
        ]
        try:
            done, _ = await asyncio.wait([*services, *passes], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            await _cancel(services)
            self.queue.close()
            _, late = await asyncio.wait(passes, timeout=DRAIN_DEADLINE)
            await _cancel(late)
            await self._recorder.close(recording)
            for parents in self.folders.values():
                await parents.close()
            await self.children.close()
            await self.lookups.close()

    def measure(self) -> None:
        """Bring the metrics that are read, not counted, up to date."""
        metrics = self.metrics
        metrics.queue_depth.set(len(self.queue))
        metrics.queue_unfinished.set(self.queue.unfinished())
        metrics.queue_longest_running.set(self.queue.longest_running())
        for name, parents in self.folders.items():
            metrics.parents.labels(name).set(len(parents))
            metrics.ready.labels(name).set(parents.ready_count)
            metrics.templates_loaded.labels(name).set(0 if parents.folder.problems else 1)
        watched = [reflector for parents in self.folders.values() for reflector in parents.reflectors]
        metrics.watch(
            (self.definitions.reflector, *watched, *self.children.reflectors, *self.lookups.reflectors),
            time.monotonic(),
        )

    def on_added(self, live: LiveObject, key: ParentKey) -> None:
        self._uids[live.uid], self._identities[live.uid] = key, live.identity

    def on_deleted(self, uid: str, memory: Memory) -> None:
        self._uids.pop(uid, None)
        self._identities.pop(uid, None)
        self._claims.forget(memory, uid)
        self.lookups.forget(uid)

    def changed(self, key: ParentKey, cause: Cause) -> None:
        self.queue.add(key, cause)

    def kind_changed(self) -> None:
        self._retry_unready()

    def child_changed(self, parent_uid: str) -> None:
        key = self._uids.get(parent_uid)
        if key is not None:
            self.queue.add(key, Cause.CHILD)

    def child_left(self, identity: Identity) -> None:
        self._claims.free(identity)

    def child_written(self, live: LiveObject) -> None:
        self.lookups.written(live)

    def child_deleted(self, live: LiveObject) -> None:
        self.lookups.deleted(live)

    def looked_up(self, parent_uid: str, cause: Cause) -> None:
        key = self._uids.get(parent_uid)
        if key is not None:
            self.queue.add(key, cause)

    def _announces(self, kind: GroupKind) -> bool:
        """Whether a kind's objects are ready only once their status was written: by this process, or by whoever its CRD
        promises that.
        """
        ours = any(each.writes_a_generation(kind) for each in self.folders.values())
        return ours or self.definitions.reports_status(kind)

    def _definition_changed(self, name: str, kind: GroupKind) -> None:
        self._kind_changed(kind, 0)
        self._unsettle(name)

    def _kind_changed(self, kind: GroupKind, tries: int) -> None:
        self._mapper.invalidate()
        self._changed_kinds[kind] = tries
        self._to_settle.set()

    def _unsettle(self, name: str) -> None:
        self._unsettled.add(name)
        self._to_settle.set()

    def _take(self, sources: Sources) -> None:
        """Use what was just loaded from the templates folder; say what changed and what doesn't load."""
        before = self._sources.folders if self._sources is not None else {}
        self._sources = sources
        for problem in sources.problems:
            log.error("%s", problem)
        for name, folder in sources.folders.items():
            known = before.get(name)
            if known is None or known.digest != folder.digest or known.problems != folder.problems:
                for problem in folder.problems:
                    log.error("%s%s", problem, "; the last good templates stay in use" if folder.templates else "")
                self._unsettle(name)
        for name in before.keys() - sources.folders.keys():
            self._unsettle(name)

    async def _follow(self, templates: Path) -> None:
        async for _ in changes(templates):
            self._take(load_all(self.options.templates, self._sources))

    async def _rediscover(self) -> None:
        while True:
            await asyncio.sleep(REDISCOVERY)
            lookups = self.lookups.missing
            if self.missing or lookups:
                self._mapper.invalidate()
                for name in self.missing:
                    self._unsettle(name)
                for kind in lookups:
                    await self._guarded(str(kind), self.lookups.refresh(kind))

    async def _settle_folders(self) -> None:
        await self.definitions.reflector.synced_or_unavailable()
        while True:
            await self._to_settle.wait()
            self._to_settle.clear()
            news = 0 in self._changed_kinds.values()
            while self._changed_kinds:
                kind, tries = self._changed_kinds.popitem()
                await self._guarded(str(kind), self.children.refresh(kind))
                await self._guarded(str(kind), self.lookups.refresh(kind))
                if tries < DISCOVERY_TRIES and kind in self.lookups.missing:
                    delay = DISCOVERY_LAG * 2**tries
                    asyncio.get_running_loop().call_later(delay, self._kind_changed, kind, tries + 1)
            # A name that is added meanwhile stands for files or a CRD that this round may have read already.
            unsettled, self._unsettled = self._unsettled, set()
            for name in unsettled:
                before = self.missing.get(name)
                await self._guarded(name, self._settle(name))
                news = news or self.missing.get(name) != before
            self._settled = True
            if news:
                self._retry_unready()

    async def _guarded(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """A bug, or an API server that can't be asked, shows in one folder: the others go on."""
        try:
            await work
        except (ApiError, CredentialsError) as error:
            log.warning("%s: %s", name, error)
        except Exception:
            log.exception("%s: unexpected error", name)

    def _retry_unready(self) -> None:
        """A kind that came may be what some parent's children lacked."""
        for parents in self.folders.values():
            for key in parents.unready():
                self.queue.add(key, Cause.RETRY)

    async def _settle(self, name: str) -> None:
        """Bring one folder to what its files and the cluster say: watch its parents, or wait."""
        folder = self._sources.folders.get(name) if self._sources else None
        running = self.folders.get(name)
        served = await self._served(folder, running) if folder is not None else None
        if folder is None or served is None:
            if running is not None:
                log.warning("%s: stops: %s", name, self.missing.get(name, "its templates are gone"))
                await self._close(name, running)
            return
        if served.unreported and (running is None or running.served.unreported != served.unreported):
            log.warning("%s: %s", name, served.unreported)
        if running is not None and running.served.resource == served.resource:
            running.serve(served)
            if running.folder is not folder:
                # Also where only its problems changed: they are part of what a parent's status says.
                cause = Cause.TEMPLATE if running.folder.digest != folder.digest else Cause.RETRY
                log.info("%s: its templates changed; %d parents are rendered again", name, len(running))
                running.folder = folder
                for key in running.all_keys():
                    self.queue.add(key, cause)
            return
        if running is not None:
            await self._close(name, running)
        log.info("%s: starts with %s", name, served.resource.api_version)
        self.folders[name] = ParentInformer(self._client, folder, served, self.options, self)

    async def _close(self, name: str, running: ParentInformer) -> None:
        del self.folders[name]
        self.metrics.forget(name)
        await running.close()
        for live in running:
            self.on_deleted(live.uid, running.memory(live))

    async def _served(self, folder: Folder, running: ParentInformer | None) -> Served | None:
        """How the cluster serves the folder's resource; None, and the reason in `missing`, where it doesn't."""
        name = folder.name
        definition = self.definitions.get(name)
        if definition is not None:
            self._defined.add(name)
        try:
            if definition is not None:
                served = Served(
                    resource=self.definitions.resource(name, folder.settings.version), definition=definition
                )
            elif name in self._defined:
                raise UnknownKind(f"its CRD {name} was removed")
            else:
                served = Served(resource=await self._mapper.resource_by_name(name), definition=None)
        except (ApiError, CredentialsError) as error:
            if running is not None:
                # The API server can't be asked now, which says nothing about the resource.
                return running.served
            self.missing[name] = str(error)
            log.warning("%s: waits: %s", name, error)
            return None
        except UnknownKind as error:
            if self.missing.get(name) != str(error):
                log.warning("%s: waits: %s", name, error)
            self.missing[name] = str(error)
            return None
        self.missing.pop(name, None)
        return served


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
