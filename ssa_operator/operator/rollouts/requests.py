"""Reads and writes the revisions of template folders, and the state of their rollouts.

Promises:
- A revision is complete before the state names it, and its parts are never changed.
- A change of the state is based on what is stored. If another process has changed it meanwhile, the change is made
  again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

import msgspec

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.conflicts import retry_on_conflict
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import DeleteOptions, Scope
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.rollouts.revisions import (
    RESULT_ANNOTATION,
    REVISIONS,
    ROLLOUT_LABEL,
    STATE_ANNOTATION,
    RevisionError,
    RevisionResult,
    StoredRevision,
    contents,
    decode_parts,
    encode_state,
    folder_selector,
    obsolete,
    part_bodies,
    part_name,
    read_state,
    revision_selector,
    state_body,
    state_name,
    stored_revisions,
)
from ssa_operator.operator.rollouts.rules import State
from ssa_operator.rendering.folder.loaded_folders import FolderInputs

Change = Callable[[State | None], State | None]
"""The next state of a folder's rollouts, by the stored one."""


class RolloutUnavailableError(Exception):
    """The state of a folder's rollouts can't be read. The text has the reason."""


class RevisionStore:
    """The revisions in a namespace: that of the operator."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self.namespace = namespace

    @property
    def states(self) -> Scope:
        """What a watch of the states of all folders selects."""
        return Scope(REVISIONS, self.namespace, ROLLOUT_LABEL)

    async def history(self, folder: str) -> list[StoredRevision]:
        """The stored revisions of a folder, the oldest first. Raises ApiError."""
        objects, _ = await self._client.list(REVISIONS, self.namespace, folder_selector(folder))
        return stored_revisions(objects)

    async def read(self, folder: str, revision: str) -> FolderInputs:
        """What a revision was compiled from. Raises ApiError and RevisionError."""
        objects, _ = await self._client.list(REVISIONS, self.namespace, revision_selector(folder, revision))
        return decode_parts(contents(folder, revision, objects))

    async def contents(self, folder: str) -> list[tuple[StoredRevision, FolderInputs | RevisionError]]:
        """The stored revisions of a folder, the oldest first, each with what it was compiled from, or why that can't be
        read. Raises ApiError.
        """
        objects, _ = await self._client.list(REVISIONS, self.namespace, folder_selector(folder))
        found: list[tuple[StoredRevision, FolderInputs | RevisionError]] = []
        for each in stored_revisions(objects):
            try:
                found.append((each, decode_parts(contents(folder, each.revision, objects))))
            except RevisionError as error:
                found.append((each, error))
        return found

    async def store(
        self,
        folder: str,
        revision: str,
        inputs: FolderInputs,
        used: Collection[str],
        kept: Mapping[str, FolderInputs],
    ) -> list[StoredRevision]:
        """Store a revision as the newest one, and those of `kept` that are missing, and delete what isn't needed any
        more. Returns those that were stored before. Raises ApiError.
        """
        objects, _ = await self._client.list(REVISIONS, self.namespace, folder_selector(folder))
        stored = stored_revisions(objects)
        number = max((each.number for each in stored), default=0) + 1
        known = {each.revision: each for each in stored}
        for name in kept.keys() - known.keys() - {revision}:
            await self._create(folder, name, kept[name], number)
            number += 1
        if revision in known:
            await self._renumber(known[revision], number)
        else:
            await self._create(folder, revision, inputs, number)
        for live in obsolete(objects, revision, used):
            await self._client.delete(REVISIONS, self.namespace, live.metadata.name, DeleteOptions(uid=live.uid))
        return stored

    async def _create(self, folder: str, revision: str, inputs: FolderInputs, number: int) -> None:
        for body in part_bodies(folder, revision, inputs, number):
            try:
                await self._client.create(REVISIONS, self.namespace, encode(body))
            except ApiError as error:
                if not error.already_exists:  # the operator was killed while it stored the revision
                    raise

    async def mark(self, folder: str, revision: str, result: RevisionResult) -> None:
        """Write what became of a revision on it, if it is stored. Raises ApiError."""
        patch = encode({"metadata": {"annotations": {RESULT_ANNOTATION: msgspec.json.encode(result).decode()}}})
        try:
            await self._client.merge_patch(REVISIONS, self.namespace, part_name(folder, revision, 0), patch)
        except ApiError as error:
            if not error.not_found:
                raise

    async def _renumber(self, revision: StoredRevision, number: int) -> None:
        if revision.number != number - 1:
            patch = encode({"revision": number})
            await self._client.merge_patch(REVISIONS, self.namespace, revision.live.metadata.name, patch)

    async def renumber(self, folder: str, revision: str) -> int:
        """Make a stored revision the newest one in the history. Returns its number. Raises ApiError."""
        stored = await self.history(folder)
        number = max((each.number for each in stored), default=0) + 1
        for each in stored:
            if each.revision == revision:
                await self._renumber(each, number)
        return number

    async def find_state(self, folder: str) -> LiveObject | None:
        """The object with the state of a folder's rollouts, None without one. Raises ApiError."""
        return await self._client.find(REVISIONS, state_name(folder), self.namespace)

    async def change_state(self, folder: str, change: Change) -> LiveObject | None:
        """Change the state of a folder's rollouts. Nothing is written if the change returns None or the same state.
        Returns the object as it is stored. Raises ApiError.
        """

        async def write(live: LiveObject | None) -> LiveObject | None:
            before = read_state(live) if live is not None else None
            after = change(before)
            return live if after is None or after == before else await self._write(folder, live, after)

        return await retry_on_conflict(partial(self.find_state, folder), write)

    async def _write(self, folder: str, live: LiveObject | None, state: State) -> LiveObject:
        if live is None:
            return (await self._client.create(REVISIONS, self.namespace, encode(state_body(folder, state)))).live
        metadata = {"resourceVersion": live.resource_version, "annotations": {STATE_ANNOTATION: encode_state(state)}}
        patch = encode({"metadata": metadata})
        return await self._client.merge_patch(REVISIONS, self.namespace, live.metadata.name, patch)
