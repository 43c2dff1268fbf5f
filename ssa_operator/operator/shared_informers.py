"""The informers of all template folders, connected to one work queue. All reconciles of a process share them.

Promises:
- An operator, a preview and a single reconcile read the cluster through the same informers.
- Nothing is watched before `FolderControllers` starts a folder.
- A command that can't reach the API server ends with an error. An operator tries again.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from ssa_operator.informers.parents import ParentKey
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.operator.folder_controllers import FolderControllers
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.queue import Queue
from ssa_operator.reconcile.current_reconcile import SharedCluster
from ssa_operator.reconcile.impersonation import AccountReviews
from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.shards.other_shards import OtherShards
from ssa_operator.reconcile.status.event_requests import Recorder
from ssa_operator.rendering.folder.loaded_folders import Sources

SYNC_DEADLINE = 60.0
"""Seconds after which a command gives up waiting for the lists of CRDs and parents."""


class ParentError(Exception):
    """A parent that can't be planned or applied, or a cluster that can't be read. The text has the reason and what to
    do.
    """


class SharedInformers:
    """The informers, and what they have in common."""

    def __init__(
        self,
        client: Client,
        mapper: RESTMapper,
        options: Options,
        metrics: Metrics,
        queue: Queue[ParentKey],
        clock: Clock = SYSTEM,
    ) -> None:
        self.controllers = FolderControllers(client, mapper, options, queue, metrics)
        self.router = self.controllers.router
        self.recorder = Recorder(client, metrics.event_ended, queue.until_empty, clock)
        self.cluster = SharedCluster(
            operator_client=client,
            impersonate=options.impersonate,
            reviews=AccountReviews(client),
            children=self.controllers.children,
            lookups=self.controllers.lookups,
            crds=self.controllers.crds,
            recorder=self.recorder,
            reports_status=self.controllers.reports_status,
            settings=options.reconcile,
            claims=self.router.claims,
            others_wait=queue.has_as_urgent,
            clock=clock,
            other_shards=OtherShards(client, self.controllers.folders, options.shard) if options.shard else None,
        )
        """The access of a reconcile to the cluster."""

    @property
    def claims(self) -> ObjectClaims:
        """The objects of all parents of all folders."""
        return self.router.claims

    @contextlib.asynccontextmanager
    async def synced(self, mapper: RESTMapper, sources: Sources | None = None) -> AsyncIterator[None]:
        """Load the templates, or take those of `sources`, start the informers of CRDs and parents, and wait for their
        sync; stop all informers at the end.

        Raises ApiError if the API server can't be reached, and ParentError if it doesn't answer in time.
        """
        controllers = self.controllers
        # Here an unreachable API server is an error, not a watch that is retried.
        await mapper.discover()
        # A command reports the problems itself.
        if sources is None:
            controllers.templates.load(log_problems=False)
        else:
            controllers.templates.use(sources)
        # The stack stops the other watches even if the end of one is cancelled.
        async with contextlib.AsyncExitStack() as closing:
            closing.push_async_callback(controllers.close)
            watching = asyncio.create_task(controllers.crds.reflector.run(), name="watch CRDs")
            closing.push_async_callback(asyncio.wait, [watching])
            closing.callback(watching.cancel)
            try:
                async with asyncio.timeout(SYNC_DEADLINE):
                    await controllers.start()
            except TimeoutError as error:
                raise ParentError(f"the CRDs and parents could not be listed within {SYNC_DEADLINE:g} s") from error
            yield
