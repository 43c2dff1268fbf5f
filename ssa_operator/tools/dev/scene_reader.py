"""Reads what the screen of `dev` shows: from the operator's memory, and from watches.

Promises:
- The tree has the operator's own reports, not a second reading of the status. The objects below children and the Events
  come from watches.
- Parents come in the order of `status`.
- While the control plane is gone or does not answer, the scene says so, and has what was read last. Errors that follow
  from that are left out.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.objects.identity import read_identity
from ssa_operator.operator.operator import Operator
from ssa_operator.reconcile.status.event_requests import EVENTS
from ssa_operator.tools.dev.dev_cluster import LocalCluster
from ssa_operator.tools.dev.project_files import ProjectFiles
from ssa_operator.tools.dev.saved_checks import SavedChecks
from ssa_operator.tools.dev.scene import Scene
from ssa_operator.tools.tree.listings import Watches
from ssa_operator.tools.tree.object_tree import Owner, owned_objects
from ssa_operator.tools.tree.parent_entries import child_data
from ssa_operator.tools.tree.parent_events import event_time
from ssa_operator.tools.tree.tree_view import condition, entry, not_ready_since, urgency

EVENTS_LIMIT = 200
"""The most Events on the screen's list."""

TEMPLATE_ERRORS = frozenset({"RenderFailed", "InvalidManifest", "ApplyFailed", "Conflict", "DependencyCycle"})
"""The reasons of Ready whose message has a place in a template."""


@asynccontextmanager
async def scene_reader(
    operator: Operator, client: Client, cluster: LocalCluster, project: ProjectFiles, checks: SavedChecks
) -> AsyncIterator[SceneReader]:
    """A reader, whose watches end with the block."""
    async with Watches(client) as watches:
        yield SceneReader(operator, cluster, project, checks, watches, RESTMapper(client))


@dataclass(slots=True)
class SceneReader:
    """Reads scenes one after the other."""

    operator: Operator
    cluster: LocalCluster
    project: ProjectFiles
    checks: SavedChecks
    _watches: Watches
    _mapper: RESTMapper
    _last: Scene = field(default_factory=Scene)

    async def read(self, log: Sequence[str]) -> Scene:
        """The data to show now; `log` are the newest lines of the log."""
        outage = self.cluster.outage
        if not outage:
            try:
                self._last = await self._read(time.time())
            except ApiError as error:
                outage = str(error)
            outage = outage or next(iter(self._watches.problems), "")
        return replace(
            self._last,
            findings=self.checks.findings,
            log=log,
            kubeconfig=self.cluster.kubeconfig_command,
            cluster_note=self.cluster.note,
            outage=outage,
        )

    async def _read(self, now: float) -> Scene:
        parents = [self._with_children(parent, now) for parent in parent_entries(self.operator)]
        async with self._watches.round():
            owners = [owner for parent in parents for owner in _owners(parent["resources"])]
            below = (await owned_objects(self._watches, self._mapper, owners, now)).below
            events = (await self._watches.read([Scope(EVENTS)]))[Scope(EVENTS)].objects
        for parent in parents:
            parent["resources"] = [
                each | {"objects": below.get(each.get("uid", ""), [])} for each in parent["resources"]
            ]
        shown = {uid for parent in parents for uid in _uids([parent])}
        bodies = [live.body for live in events]
        about = (each for each in bodies if (each.get("regarding") or {}).get("uid") in shown)
        return Scene(
            parents=sorted(parents, key=urgency),
            waiting=dict(self.operator.missing),
            errors=tuple(self._errors(parents)),
            events=sorted(about, key=event_time)[-EVENTS_LIMIT:],
        )

    def _errors(self, parents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The errors that last, each once."""
        found = dict.fromkeys(self.operator.controllers.refused_crds.values())
        found |= dict.fromkeys(problem.text for problem in self.project.problems)
        for informer in self.operator.folders.values():
            found |= dict.fromkeys(map(str, informer.folder.problems))
        for parent in parents:
            ready = condition(parent, "Ready") or {}
            if ready.get("reason") in TEMPLATE_ERRORS:
                found[str(ready.get("message"))] = None
        yield from found

    def _with_children(self, parent: dict[str, Any], now: float) -> dict[str, Any]:
        """A parent's data with the ages and times of its children, from the operator's own caches."""
        live, since = self.operator.controllers.children, not_ready_since(parent)
        children = [(each, read_identity(each)) for each in parent["resources"]]
        found = [child_data(each, live.get(identity) if identity else None, since, now) for each, identity in children]
        return parent | {"resources": found}


def parent_entries(operator: Operator) -> list[dict[str, Any]]:
    """The data of all parents by the operator's last reports, as `status` shows them."""
    found = []
    for informer in operator.folders.values():
        for live in informer:
            report = informer.state(live).status.report
            found.append(entry(live, report.status if report is not None else {}))
    return found


def _owners(children: Iterable[Mapping[str, Any]]) -> Iterator[Owner]:
    for each in children:
        identity = read_identity(each)
        if identity is not None and each.get("uid"):
            yield Owner(identity, each["uid"])


def _uids(objects: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The uids of some objects and of all below them."""
    for each in objects:
        if each.get("uid"):
            yield each["uid"]
        yield from _uids((*each.get("resources", ()), *each.get("objects", ())))
