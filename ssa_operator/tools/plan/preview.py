"""The preview of a command: of parents in the cluster, and of parents in files.

Promises:
- A parent in a file is planned as if it had been applied: with the API server's defaults and validation, and with the
  uid of the live parent if there is one.
- Two parents that render one object are noticed, even if one of them is only in a file.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from msgspec.structs import replace

from ssa_operator.informers.parents import Parent, ParentKey
from ssa_operator.kube.api.client import DryRunClient
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.preview import Planned, Preview, synced_informers
from ssa_operator.operator.shared_informers import SharedInformers
from ssa_operator.reconcile.parent_state import Parents, ParentState
from ssa_operator.tools.offline.parent_files import apply_parent, folder_of


class FilePreview(Preview):
    """A preview that also plans parents of files. `opened` gives one whose informers have synced."""

    def __init__(self, client: DryRunClient, shared: SharedInformers) -> None:
        super().__init__(client, shared)
        self._client = client
        self._created = 0

    def plan_all_parents(self) -> None:
        """From now on, the plans of all parents go by each other, where these share an object."""
        self.shared.claims.planned_shares = {}

    @property
    def problems(self) -> tuple[str, ...]:
        """The template folders and files that don't load."""
        return self.controllers.templates.loaded.problem_lines

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
        self.shared.router.parent_added(live, key)
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
        before = await self.plan(replace(parent, live=live))
        return await self.plan(parent, ParentState(renders=before.renders, secrets=before.secrets))


@contextlib.asynccontextmanager
async def opened(
    client: DryRunClient, mapper: RESTMapper, options: Options, clock: Clock = SYSTEM
) -> AsyncIterator[FilePreview]:
    """A preview of the templates of the options, whose informers of CRDs and parents have synced, or can't. Raises
    ApiError and ParentError.
    """
    async with synced_informers(client, mapper, options, clock) as shared:
        yield FilePreview(client, shared)
