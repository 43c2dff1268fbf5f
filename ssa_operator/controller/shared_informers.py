"""The informers of all template folders, connected to one work queue: what every reconcile of a process shares.

Promises:
- An operator, a preview and a single reconcile read the cluster through the same informers.
- Nothing is watched before `FolderControllers` starts a folder.
"""

from __future__ import annotations

from ssa_operator.controller.event_router import EventRouter
from ssa_operator.controller.folder_controllers import FolderControllers
from ssa_operator.controller.informers.object_claims import ObjectClaims
from ssa_operator.controller.informers.parents import ParentKey
from ssa_operator.controller.metrics import Metrics
from ssa_operator.controller.options import Options
from ssa_operator.controller.queue import Queue
from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.reconcile.events import Recorder
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper


class SharedInformers:
    """The informers, and what they have in common."""

    def __init__(
        self, client: Client, mapper: RESTMapper, options: Options, metrics: Metrics, queue: Queue[ParentKey]
    ) -> None:
        self.router = EventRouter(queue, lambda: self.controllers.ready)
        self.controllers = FolderControllers(client, mapper, options, self.router, metrics)
        self.router.lookups = self.controllers.lookups
        self.router.on_kind_changed = self.controllers.on_kind_changed
        self.recorder = Recorder(client, metrics, queue.until_empty)
        self.cluster = ClusterAccess(
            client=client,
            children=self.controllers.children,
            lookups=self.controllers.lookups,
            crds=self.controllers.crds,
            recorder=self.recorder,
            reports_status=self.controllers.reports_status,
        )
        """The access of a reconcile to the cluster."""

    @property
    def claims(self) -> ObjectClaims:
        """The objects of all parents of all folders."""
        return self.router.claims
