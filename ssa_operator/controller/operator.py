"""The operator: it connects the informers, the work queue and the workers, and runs them until it is stopped.

Promises:
- One queue serves all template folders.
- A task that fails unexpectedly ends the operator with its error.
- Stopping is orderly: no new reconcile begins, running ones get DRAIN_DEADLINE seconds to end, then Events are written
  and all watches are closed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ssa_operator.controller.informers.parents import ParentInformer, ParentKey
from ssa_operator.controller.metrics import Metrics
from ssa_operator.controller.options import Options
from ssa_operator.controller.queue import Queue
from ssa_operator.controller.reconcile.reconciler import Reconciler
from ssa_operator.controller.reconcile_context import TracedRequests, Tracer
from ssa_operator.controller.shard_leases import ShardLeases
from ssa_operator.controller.shared_informers import SharedInformers
from ssa_operator.controller.workers import Workers
from ssa_operator.core.policies.permissions import PermissionNeed
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.clock import SYSTEM
from ssa_operator.kube.watch.reflector import Reflector

DRAIN_DEADLINE = 5.0
"""Seconds that running reconciles have to end when the operator stops."""

STUCK_AFTER = 900.0
"""Seconds after which a reconcile is stuck: several times what one takes in which every request is repeated and times
out."""

LAG_INTERVAL = 1.0
"""Seconds between two measurements of the event loop's lag."""


class Operator:
    """Runs until it is stopped. `/objects`, `/readyz` and the live tree read `folders`, `missing` and `ready`."""

    def __init__(self, client: Client, mapper: RESTMapper, options: Options, tracer: Tracer | None = None) -> None:
        self.options = options
        self.metrics = Metrics()
        client.observer = self.metrics if tracer is None else TracedRequests(self.metrics, tracer)
        self.queue: Queue[ParentKey] = Queue(
            time.monotonic, self.metrics.queue_seconds.observe, flow_of=lambda key: key.flow
        )
        self._measured_adds = 0
        self._tracer = tracer
        self._tasks: list[asyncio.Task[Any]] = []
        shared = SharedInformers(client, mapper, options, self.metrics, self.queue)
        self.controllers = shared.controllers
        self._recorder = shared.recorder
        self._shards: ShardLeases | None = None
        if options.shard is not None:
            namespace = options.installation.namespace or client.credentials.namespace
            self._shards = ShardLeases(client.credentials, namespace, options.shard, self.metrics)
        self._reconciler = Reconciler(shared.cluster, shared.claims, options, self.queue.has_as_urgent)

    @property
    def ready(self) -> bool:
        """Whether the informer of every folder whose resource the cluster serves has synced."""
        return self.controllers.ready

    @property
    def folders(self) -> Mapping[str, ParentInformer]:
        """The parents of every template folder that runs."""
        return self.controllers.folders

    @property
    def missing(self) -> Mapping[str, str]:
        """Why the other template folders wait."""
        return self.controllers.missing

    @property
    def missing_permissions(self) -> tuple[PermissionNeed, ...]:
        """The permissions that templates need and the operator lacks, by the last review."""
        return self.controllers.permissions.missing

    async def run(self, stop: asyncio.Event) -> None:
        """Reconcile until `stop` is set, then end in order."""
        controllers = self.controllers
        controllers.load_templates()
        workers = Workers(self.queue, self.folders, self._reconciler, self.metrics, self.options, SYSTEM, self._tracer)
        recording = asyncio.create_task(self._recorder.run(), name="write events")
        reconciling = [asyncio.create_task(workers.run(), name=f"worker {n}") for n in range(self.options.workers)]
        services = [
            asyncio.create_task(stop.wait(), name="stop"),
            asyncio.create_task(controllers.crds.reflector.run(), name="watch CRDs"),
            asyncio.create_task(controllers.follow_cluster(), name="follow the cluster"),
            *(
                asyncio.create_task(controllers.follow_files(root), name=f"follow {root}")
                for root in self.options.templates
            ),
            *(
                asyncio.create_task(controllers.follow_values(file), name=f"follow {file}")
                for file in self.options.installation.values
            ),
            asyncio.create_task(controllers.rediscover(), name="rediscover"),
            asyncio.create_task(controllers.permissions.run(), name="review permissions"),
            asyncio.create_task(self._measure_lag(), name="measure the loop's lag"),
            *([asyncio.create_task(self._shards.run(), name="Leases of shards")] if self._shards else ()),
        ]
        self._tasks = [recording, *reconciling, *services]
        try:
            done, _ = await asyncio.wait([*services, *reconciling], return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            self._tasks = []
            await _cancel(services)
            self.queue.close()
            _, late = await asyncio.wait(reconciling, timeout=DRAIN_DEADLINE)
            await _cancel(late)
            await self._recorder.close(recording)
            await controllers.close()

    def health_problems(self) -> Sequence[str]:
        """Why the process can't do its work until it is restarted; empty while it can."""
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
        for name, parents in self.folders.items():
            metrics.parents.labels(name).set(len(parents))
            metrics.ready.labels(name).set(parents.ready_count)
            metrics.templates_loaded.labels(name).set(0 if parents.folder.problems else 1)
        metrics.set_watches(self.reflectors, time.monotonic())

    @property
    def reflectors(self) -> Sequence[Reflector]:
        """Everything that the operator watches."""
        controllers = self.controllers
        return (
            controllers.crds.reflector,
            *(reflector for parents in self.folders.values() for reflector in parents.reflectors),
            *controllers.children.reflectors,
            *controllers.lookups.reflectors,
        )

    async def _measure_lag(self) -> None:
        """Measure how late a timer runs, until cancelled."""
        while True:
            started = time.monotonic()
            await asyncio.sleep(LAG_INTERVAL)
            self.metrics.loop_lag.observe(max(0.0, time.monotonic() - started - LAG_INTERVAL))


async def _cancel(tasks: Iterable[asyncio.Task[Any]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
