"""The operator: it connects the informers, the work queue and the workers, and runs them until it is stopped.

Promises:
- One queue serves all template folders.
- A task that fails unexpectedly ends the operator with its error.
- Work that no parent waits for begins after the first reconcile: following files, reviewing permissions, the HTTP
  server.
- Stopping is orderly: no new reconcile begins, running ones get DRAIN_DEADLINE seconds to end, then Events are written
  and all watches are closed.
- With leader election, a standby watches what its parents need and writes nothing. Its workers begin when it leads.
- If something holds the event loop for HELD seconds, the log names the parents that are being reconciled. Parents that
  ended the process come last and alone (`suspected_parents.py`), and a standby does not render them.
- When the leadership is lost, running reconciles are cancelled. The Lease is released only after all of them, and the
  preparation, have ended by themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ssa_operator.informers.parents import ParentKey
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.clock import SYSTEM
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.queue import Queue
from ssa_operator.operator.shared_informers import SharedInformers
from ssa_operator.operator.suspected_parents import ParentFile, SuspectedParents, Version
from ssa_operator.operator.workers import ReconcileListener, Workers
from ssa_operator.reconcile.context import reconciling
from ssa_operator.reconcile.parent_records.folder_kinds import FolderKinds
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.reconcile.reconciler import Reconciler
from ssa_operator.rendering.folder.loaded_folders import Folder

if TYPE_CHECKING:
    from ssa_operator.operator.crd_installation import CRDInstaller
    from ssa_operator.operator.leadership.requests import Leadership
    from ssa_operator.operator.permissions.operator_needs import PermissionNeed
    from ssa_operator.operator.rollouts.driver import Rollouts
    from ssa_operator.operator.shards.requests import ShardLeases

log = logging.getLogger("ssa_operator")

DRAIN_DEADLINE = 5.0
"""Seconds that running reconciles have to end when the operator stops."""

START_DEADLINE = 1.0
"""Seconds after which `started` is set, even if no reconcile has ended."""

WARM_INTERVAL = 1.0
"""Seconds after which a standby looks for new parents."""
STUCK_AFTER = 900.0
"""Seconds after which a reconcile is stuck: several times what one takes in which every request is repeated and times
out.
"""

FIRST_ROUND_DEADLINE = 300.0
"""Seconds after which suspected parents are reconciled, even if others still wait for their first reconcile."""

LAG_INTERVAL = 1.0
"""Seconds between two measurements of the event loop's lag."""

HELD = 1.0
"""Seconds after which the log names the parents that were being reconciled: far more than any usual parent takes."""

SHOWN = 5
"""Parents that such a line names."""


class Operator:
    """Runs until it is stopped. `/objects`, `/readyz` and the live tree read `folders`, `missing` and `ready`.

    Without `leadership` it reconciles at once. `prepare` is awaited before the first reconcile. `started` is set when
    the first reconcile has ended or there are no parents, at the latest after START_DEADLINE seconds.
    """

    def __init__(
        self,
        client: Client,
        mapper: RESTMapper,
        options: Options,
        *,
        leadership: Leadership | None = None,
        prepare: Callable[[], Awaitable[None]] | None = None,
        parent_file: ParentFile | None = None,
        crds: CRDInstaller | None = None,
    ) -> None:
        self.client = client
        self.options = options
        self.leadership = leadership
        self.started = asyncio.Event()
        self.reconcile_listeners: list[ReconcileListener] = []
        """Each receives each reconcile that ended."""
        self._prepare = prepare
        self._crds = crds
        self.metrics = Metrics()
        client.observer = self.metrics
        self.queue: Queue[ParentKey] = Queue(
            time.monotonic, self.metrics.queue_seconds.observe, flow_of=attrgetter("flow")
        )
        self._measured_adds = 0
        self._suspects = None if parent_file is None else SuspectedParents(parent_file, self.metrics)
        self._tasks: list[asyncio.Task[Any]] = []
        shared = SharedInformers(client, mapper, options, self.metrics, self.queue, SYSTEM)
        self._folder_kinds = FolderKinds(client, self.namespace, SYSTEM)
        shared.cluster = replace(shared.cluster, folder_kinds=self._folder_kinds)
        self.mapper = mapper
        self.shared = shared
        self.controllers = shared.controllers
        self.folders: Mapping[str, Parents] = self.controllers.folders
        """The parents of every template folder that runs."""
        self.missing: Mapping[str, str] = self.controllers.missing
        """Why the other template folders wait."""
        if crds is not None:
            crds.on_change = self.controllers.set_refused_crds
            self.controllers.refused_crds = crds.refused
            self.controllers.crds.listen(crds.crd_changed)
        self._recorder = shared.recorder
        self._has_rollouts = asyncio.Event()
        if options.rollouts:
            self.controllers.make_rollouts = self._make_rollouts
        self._shards = self._make_shard_leases()
        self._reconciler = Reconciler(shared.cluster)

    @property
    def namespace(self) -> str:
        """The operator's namespace."""
        return self.options.installation.namespace or self.client.credentials.namespace

    @property
    def ready(self) -> bool:
        """Whether it serves every folder whose resource the cluster serves, in each namespace that it may read."""
        return self.controllers.ready

    @property
    def missing_permissions(self) -> tuple[PermissionNeed, ...]:
        """The permissions that templates need and the operator lacks, by the last review."""
        reviewer = self.controllers.permissions
        return () if reviewer is None else reviewer.missing

    @property
    def rollouts(self) -> Rollouts | None:
        """The rollouts of folders, None until a folder has the setting `rollout`."""
        return self.controllers.rollouts

    def _make_rollouts(self) -> Rollouts:
        # Imported here, because most operators have no folder with rollouts.
        from ssa_operator.operator.rollouts.driver import Rollouts  # noqa: PLC0415
        from ssa_operator.operator.rollouts.folder_rollout import Process  # noqa: PLC0415

        process = Process(
            client=self.client,
            options=self.options,
            folders=self.controllers.folders,
            requeue=self.controllers.router.parent_changed,
            recorder=self._recorder,
            plan=self._planned,
            clock=SYSTEM,
        )
        self._has_rollouts.set()
        return Rollouts(process, self.metrics)

    def _make_shard_leases(self) -> ShardLeases | None:
        """The Leases of the shards, None without `--shard`."""
        if (shard := self.options.shard) is None:
            return None
        from ssa_operator.operator.shards.requests import ShardLeases  # noqa: PLC0415

        # The election of a shard writes the shard's Lease itself.
        heartbeat = self.leadership is None
        return ShardLeases(self.client.credentials, self.namespace, shard, self.metrics, heartbeat=heartbeat)

    async def run(self, stop: asyncio.Event) -> None:
        """Reconcile until `stop` is set, then end in order."""
        controllers = self.controllers
        controllers.templates.load()
        workers = Workers(
            self.queue,
            self.folders,
            self._reconciler,
            self.metrics,
            self.options,
            SYSTEM,
            self._suspects,
            self.reconcile_listeners,
        )
        recording = asyncio.create_task(self._recorder.run(), name="write events")
        prepared = asyncio.create_task(self._prepared(), name="prepare")
        reconciling = workers.start(prepared)
        election = asyncio.create_task(self._elect(), name="leader election")
        services = [
            asyncio.create_task(stop.wait(), name="stop"),
            asyncio.create_task(controllers.crds.reflector.run(), name="watch CRDs"),
            asyncio.create_task(controllers.follow_cluster(), name="follow the cluster"),
            asyncio.create_task(self._after_start(controllers.templates.follow), name="follow files"),
            asyncio.create_task(controllers.rediscover(), name="rediscover"),
            asyncio.create_task(self._after_start(controllers.review_permissions), name="review permissions"),
            asyncio.create_task(self._start(workers), name="start"),
            asyncio.create_task(self._warm(), name="warm the caches"),
            asyncio.create_task(self._reconcile_suspects(prepared, workers), name="reconcile suspected parents"),
            asyncio.create_task(self._measure_lag(), name="measure the loop's lag"),
            *([asyncio.create_task(self._shards.run(), name="Leases of shards")] if self._shards else ()),
            asyncio.create_task(self._roll_out(prepared), name="roll out"),
            *([asyncio.create_task(self._follow_crds(prepared), name="apply refused CRDs")] if self._crds else ()),
        ]
        self._tasks = [recording, *reconciling, *services, election]
        try:
            done, _ = await asyncio.wait([*services, *reconciling, election], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._tasks = []
            await _cancel(services)
            self.queue.close()
            interrupted = not prepared.done() or election.done()
            if interrupted:
                # No worker has begun, or none may write.
                await _cancel([prepared, *reconciling])
            _, late = await asyncio.wait(reconciling, timeout=DRAIN_DEADLINE)
            await _cancel(reconciling)
            await self._recorder.close(recording)
            await self._end_leadership(election, ended=not late and not interrupted)
            await controllers.close()

    async def _start(self, workers: Workers) -> None:
        """Set `started`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_DEADLINE):
                await self.controllers.synced_or_unavailable()
                if any(map(len, self.folders.values())):
                    await workers.reconciled.wait()
        self.started.set()
        await asyncio.Event().wait()

    async def _after_start(self, work: Callable[[], Awaitable[None]]) -> None:
        await self.started.wait()
        await work()

    async def _prepared(self) -> None:
        """Wait until this replica leads, and prepare the first reconcile."""
        if self.leadership is not None:
            await self.leadership.acquired.wait()
            self._folder_kinds.forget()
        if self._prepare is not None:
            await self._prepare()

    async def _roll_out(self, prepared: asyncio.Task[None]) -> None:
        await self._has_rollouts.wait()
        assert self.rollouts is not None
        await self.rollouts.run(prepared)

    async def _follow_crds(self, prepared: asyncio.Task[None]) -> None:
        await asyncio.shield(prepared)
        assert self._crds is not None
        await self._crds.follow()

    async def _reconcile_suspects(self, prepared: asyncio.Task[None], workers: Workers) -> None:
        """Reconcile the suspected parents, each alone, when all others had their first round."""
        if self._suspects is not None:
            await asyncio.shield(prepared)
            await self.controllers.synced_or_unavailable()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FIRST_ROUND_DEADLINE):
                    await self.queue.until_idle()
            await self._suspects.run(workers.reconcile_alone, workers.version_of)
        await asyncio.Event().wait()

    async def _planned(self, folder: Folder, uids: frozenset[str], limit: int) -> str:
        # Imported here, because few changes of templates are rolled out.
        from ssa_operator.operator.planned_deletions import planned_deletions  # noqa: PLC0415

        return await planned_deletions(self.client.credentials, self.options, folder, uids, limit)

    async def _elect(self) -> None:
        if self.leadership is None:
            await asyncio.Event().wait()
        else:
            await self.leadership.run()

    async def _end_leadership(self, election: asyncio.Task[None], *, ended: bool) -> None:
        """Release the Lease, if all writes have `ended`. The API server may still carry out a cancelled write."""
        await _cancel([election])
        if self.leadership is None:
            return
        if self.leadership.leads and not ended:
            log.warning("writes were cancelled, so %s is not released, and expires", self.leadership.access)
            self.leadership.close()
        else:
            await self.leadership.release()

    async def _warm(self) -> None:
        """While this replica is a standby, watch what its parents need, as their reconcile would."""
        warmed: set[str] = set()
        logged = False
        while self.leadership is not None and not self.leadership.acquired.is_set():
            for parents in list(self.folders.values()):
                for live in list(parents) if parents.serving else ():
                    if live.uid in warmed or self.leadership.acquired.is_set():
                        continue
                    warmed.add(live.uid)
                    identity = live.identity
                    key = ParentKey(parents.folder.name, identity.namespace, identity.name)
                    if self._suspects is not None and key in self._suspects:
                        continue
                    try:
                        await self._warm_parent(key, parents, live)
                    except Exception as error:  # noqa: BLE001 - the reconcile after a takeover reports it
                        log.debug("%s: its caches were not warmed: %s", live.identity, type(error).__name__)
                    # Yield to the probes and the Lease.
                    await asyncio.sleep(0)
            if self.ready and not logged:
                logged = True
                log.info("leader election: the caches of this replica are warm for %d parents", len(warmed))
            await asyncio.sleep(WARM_INTERVAL)
        await asyncio.Event().wait()

    async def _warm_parent(self, key: ParentKey, parents: Parents, live: LiveObject) -> None:
        version = Version(live.metadata.generation or 0, parents.folder.digest)
        recorded = contextlib.nullcontext() if self._suspects is None else self._suspects.recorded(key, version)
        with reconciling(key), recorded:
            await self._reconciler.warm(parents.parent(live), parents.state(live))

    def health_problems(self) -> Sequence[str]:
        """Why the process can't work until it is restarted; empty while it works."""
        running = self.queue.processing()
        tasks = [*self._tasks, *self.controllers.watch_tasks]
        return [
            *(f"the task {task.get_name()!r} ended" for task in tasks if task.done()),
            *(
                f"a worker has reconciled {key} for {seconds:.0f} s"
                for key, seconds in running.items()
                if seconds > STUCK_AFTER
            ),
        ]

    def measure(self) -> None:
        """Set the gauges."""
        metrics = self.metrics
        if self._shards is not None:
            self._shards.measure()
        metrics.queue_depth.set(len(self.queue))
        metrics.queue_adds.inc(self.queue.adds - self._measured_adds)
        self._measured_adds = self.queue.adds
        metrics.active_workers.set(len(self.queue.processing()))
        metrics.max_concurrent_reconciles.set(self.options.workers)
        metrics.queue_unfinished.set(self.queue.unfinished())
        metrics.queue_longest_running.set(self.queue.longest_running())
        if self.leadership is not None:
            metrics.leader.labels(self.leadership.access.name).set(self.leadership.leads)
        for name, parents in self.folders.items():
            metrics.parents.labels(name).set(len(parents))
            metrics.ready.labels(name).set(parents.ready_count)
            metrics.templates_loaded.labels(name).set(not (parents.folder.problems or parents.is_abandoned))
        if self.rollouts is not None:
            self.rollouts.measure()
        if self._crds is not None:
            metrics.set_crds(self._crds.applied, self._crds.refused)
        metrics.set_watches(self.controllers.reflectors, time.monotonic())

    async def _measure_lag(self) -> None:
        """Measure how late a timer runs, until cancelled."""
        while True:
            started = time.monotonic()
            await asyncio.sleep(LAG_INTERVAL)
            lag = max(0.0, time.monotonic() - started - LAG_INTERVAL)
            self.metrics.loop_lag.observe(lag)
            if lag >= HELD and (parents := sorted(map(str, self.queue.processing()))):
                more = f" and {len(parents) - SHOWN} more" if len(parents) > SHOWN else ""
                names = ", ".join(parents[:SHOWN])
                log.warning("the event loop was held for %.1f s; being reconciled: %s%s", lag, names, more)


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
