"""The preview of a command, and the parents that its arguments name: in files or in the cluster.

Promises:
- The templates must load: otherwise the command names every problem with file and line, and ends.
- A parent in a file is planned as if it had been applied: with the API server's defaults and validation, and with the
  uid of the live parent if there is one. A refusal names the file and line.
- Two parents that render one object are noticed, even if one of them is only in a file.
- A parent in the cluster is named as for kubectl.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.informers.parents import Parent, ParentKey
from ssa_operator.kube.api.client import Client, DryRunClient
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.preview import Planned, Preview, synced_informers
from ssa_operator.operator.process.connection import Target, connect_for_preview
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.operator.shared_informers import ParentError, SharedInformers
from ssa_operator.reconcile.parent_state import Parents, ParentState
from ssa_operator.tools.command_target import ObjectReference, find_object, parse_references
from ssa_operator.tools.offline.documents import (
    apply_parent,
    are_files,
    folder_of,
    namespaces_of_documents,
    read_parents,
    watched_namespaces,
)
from ssa_operator.tools.offline.offline_cluster import RenderedParents


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


USAGE = 2
"""The exit code of wrong arguments, and of errors of `diff` and `plan`."""


class NamedParent(Struct, frozen=True, kw_only=True):
    """A parent that a command names."""

    parent: Parent
    live: LiveObject | None = None
    """If the parent is from a file, its live object; None if it does not exist."""
    location: SourceLocation | None = None
    """The line of the file; None for a parent in the cluster."""


class PreviewSession(Struct, frozen=True, kw_only=True):
    """An open preview, and the client that it reads with."""

    preview: FilePreview
    client: Client
    mapper: RESTMapper


class ParentArguments(Struct, frozen=True, kw_only=True):
    """The parents that a command's arguments name: those of files, or those of the cluster."""

    documents: Sequence[Document] | None
    """None for parents of the cluster."""
    references: Sequence[ObjectReference] = ()

    @classmethod
    def read(cls, arguments: Sequence[str]) -> ParentArguments:
        """Read the files, or the names of objects. Raises CommandError."""
        if are_files(arguments):
            return cls(documents=read_parents(arguments))
        return cls(documents=None, references=parse_references(arguments))

    def namespaces(self, default: str) -> tuple[str, ...]:
        """The namespaces of the parents; `default` is that of a parent without one."""
        return (default,) if self.documents is None else namespaces_of_documents(self.documents, default)


@asynccontextmanager
async def opened(
    target: Target, options: Options, needed: Callable[[str], Sequence[str]] | None = None
) -> AsyncIterator[PreviewSession]:
    """A preview of the templates. Raises CommandError and ApiError.

    If the user may not list the parents of all namespaces, only those of `needed` are watched; it is called with the
    namespace of the kubeconfig's context.
    """
    # The imported modules stay in memory, so the garbage collector need not search them.
    gc.freeze()
    async with connect_for_preview(target) as client:
        # Later log lines of the operator are either errors of this command, or irrelevant for it.
        logging.getLogger("ssa_operator").setLevel(logging.ERROR)
        mapper = RESTMapper(client)
        if needed is not None:
            namespaces = needed(client.credentials.namespace)
            watched = await watched_namespaces(client, mapper, options.templates, namespaces)
            options = replace(options, namespaces=watched)
        try:
            async with synced_informers(client, mapper, options) as shared:
                preview = FilePreview(client, shared)
                if preview.problems:
                    raise CommandError("\n".join(preview.problems), code=USAGE)
                yield PreviewSession(preview=preview, client=client, mapper=mapper)
        except ParentError as error:
            raise CommandError(str(error), code=USAGE) from error


async def parents_of_files(opened: PreviewSession, documents: Sequence[Document], namespace: str) -> list[NamedParent]:
    """The parents of files as the API server would store them. Raises CommandError with all refusals."""
    found: list[NamedParent] = []
    problems: list[str] = []
    namespace = namespace or opened.client.credentials.namespace
    for document in documents:
        try:
            found.append(await _parent_of_file(opened.preview, document, namespace))
        except (ParentError, ApiError) as error:
            problems.append(f"{document.location}: {error}")
    if problems:
        raise CommandError("\n".join(problems), code=USAGE)
    return found


async def _parent_of_file(preview: FilePreview, document: Document, namespace: str) -> NamedParent:
    parent = await preview.as_applied(document.body, namespace)
    identity = parent.live.identity
    live = preview.folder_of(identity.group_kind).find(identity.namespace, identity.name)
    return NamedParent(parent=parent, live=live, location=document.location)


async def parents_of_references(
    opened: PreviewSession, references: Sequence[ObjectReference], namespace: str
) -> list[NamedParent]:
    """The live parents that a command names. Raises CommandError."""
    found = []
    for reference in references:
        folders = opened.preview.controllers.templates.folders
        named = await find_object(opened.client, opened.mapper, reference, namespace=namespace, folders=folders)
        parents = opened.preview.folder_of(named.resource.group_kind)
        identity = named.live.identity
        live = parents.find(identity.namespace, identity.name)
        if live is None:
            why = opened.preview.unavailable.get(parents.folder.name, "it is outside of the watched namespaces")
            raise CommandError(f"{identity} can't be read as a parent: {why}", code=USAGE)
        found.append(NamedParent(parent=parents.parent(live)))
    return found


async def named_parents(opened: PreviewSession, arguments: ParentArguments, namespace: str) -> list[NamedParent]:
    """The parents that a command's arguments name, in files or in the cluster. Raises CommandError and ApiError."""
    if arguments.documents is not None:
        return await parents_of_files(opened, arguments.documents, namespace)
    return await parents_of_references(opened, arguments.references, namespace)


async def rendered_live(arguments: Sequence[str], options: Options, namespace: str, target: Target) -> RenderedParents:
    """What parents of files or of the cluster render with the answers of the cluster. Raises CommandError and
    ApiError.
    """
    found, parents = RenderedParents(now=time.time()), ParentArguments.read(arguments)
    async with opened(target, options, lambda default: parents.namespaces(namespace or default)) as session:
        for named in await named_parents(session, parents, namespace):
            planned = await planned_parent(session.preview, named)
            status = await session.preview.render_status(planned)
            found.add(planned, [*planned.rendered.problems, *status.problems])
    return found


async def planned_parent(preview: FilePreview, named: NamedParent) -> Planned:
    """The plan of a parent. Changes by its file don't count as changes of the templates. Raises ApiError."""
    return await (preview.plan if named.location is None else preview.plan_applied)(named.parent)
