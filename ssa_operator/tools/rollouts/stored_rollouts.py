"""Reads the stored rollouts of a folder, as a user sees them, and changes them.

Promises:
- A user needs no operator at hand: everything is read from the cluster, and the operator follows what is written.
- An undo goes to the last revision that succeeded. Another one has to be forced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.messages import counted
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.operator.rollouts.driver import stored_member
from ssa_operator.operator.rollouts.requests import RevisionStore
from ssa_operator.operator.rollouts.revisions import StoredRevision, read_state, state_folder
from ssa_operator.operator.rollouts.rules import Member, State, revision_of, undo_target, undone

_NAMED = 10
"""Parents that a message names."""


class RolloutStatus(Struct, frozen=True, kw_only=True):
    """How far the rollout of a folder is."""

    folder: str
    revision: str
    """The revision that all parents are on, or get."""
    phase: str
    """Complete, Progressing, Paused, Waiting or Stopped."""
    message: str
    parents: int
    updated: int
    """Parents that the rollout has reached."""
    ready: int
    """Those of them that are Ready."""
    suspended: Sequence[str]
    """The parents that it skips."""


class StoredRollouts(Struct, frozen=True):
    """The rollouts of a folder in a namespace: that of the operator."""

    client: Client
    store: RevisionStore
    folder: str

    async def state(self) -> State:
        """The stored state. Raises ApiError and CommandError."""
        live = await self.store.find_state(self.folder)
        state = read_state(live) if live is not None else None
        if state is None:
            raise CommandError(_no_rollouts(self.folder, f"in the namespace {self.store.namespace}"))
        return state

    async def history(self) -> list[dict[str, Any]]:
        """The stored revisions, the oldest first. Raises ApiError and CommandError."""
        state = await self.state()
        return [
            {
                "revision": each.number,
                "name": each.revision,
                "created": each.created,
                "state": _phase_of(state, each.revision),
                "changeCause": each.cause,
            }
            for each in await self.store.history(self.folder)
        ]

    async def status(self) -> RolloutStatus:
        """How far the rollout is. Raises ApiError and CommandError."""
        state = await self.state()
        members = await self._members()
        suspended = [member for member in members if member.suspended]
        updated = [member for member in members if revision_of(state, member) == state.target]
        phase, message = _phase(self.folder, state, len(updated), len(members))
        if suspended and state.rollouts:
            named = ", ".join(map(str, suspended[:_NAMED]))
            more = f" and {len(suspended) - _NAMED} more" if len(suspended) > _NAMED else ""
            message += f"; it skips {counted(len(suspended), 'suspended parent')}: {named}{more}"
        return RolloutStatus(
            folder=self.folder,
            revision=state.target,
            phase=phase,
            message=message,
            parents=len(members),
            updated=len(updated),
            ready=sum(member.ready and member.revision in ("", state.target) for member in updated),
            suspended=[str(member) for member in suspended],
        )

    async def change(self, change: Callable[[State], State]) -> State:
        """Change the state. Raises ApiError and CommandError."""
        await self.state()
        live = await self.store.change_state(self.folder, lambda stored: None if stored is None else change(stored))
        state = read_state(live) if live is not None else None
        return await self.state() if state is None else state

    async def undo(self, number: int | None, *, force: bool) -> StoredRevision:
        """Return to the last revision that succeeded, or to that of a number. Raises ApiError and CommandError."""
        state, history = await self.state(), await self.store.history(self.folder)
        last = undo_target(state)
        wanted = next((each for each in history if each.revision == last), None)
        if number is not None:
            found = next((each for each in history if each.number == number), None)
            if found is None:
                raise CommandError(
                    f"there is no revision {number} of {self.folder}; `ssa-operator rollout history` lists them"
                )
            if found != wanted and not force:
                known = f", which is {wanted.number}" if wanted is not None else ""
                raise CommandError(
                    f"revision {number} is not the last one that succeeded{known}; --force returns to it all the same"
                )
            wanted = found
        if wanted is None:
            raise CommandError(f"no other revision of {self.folder} has succeeded; there is nothing to undo")
        revision = wanted.revision
        await self.change(lambda stored: undone(stored, revision))
        await self.store.renumber(self.folder, revision)
        return wanted

    async def _members(self) -> list[Member]:
        """All parents. Raises ApiError and CommandError."""
        try:
            resource = await RESTMapper(self.client).resource_by_name(self.folder)
        except UnknownKind as error:
            raise CommandError(str(error)) from error
        lives, _ = await self.client.list(resource)
        return [stored_member(live, None) for live in lives if not live.deleting]


async def find_rollouts(client: Client, folder: str, namespace: str) -> StoredRollouts:
    """The rollouts of a folder in a namespace, with '' in the one that has them. Raises ApiError and CommandError."""
    store = RevisionStore(client, namespace)
    if namespace:
        return StoredRollouts(client, store, folder)
    try:
        lives, _ = await client.list_scope(store.states)
    except ApiError as error:
        if not error.forbidden:
            raise
        return StoredRollouts(client, RevisionStore(client, client.credentials.namespace), folder)
    found = sorted({live.metadata.namespace for live in lives if state_folder(live) == folder})
    if not found:
        raise CommandError(_no_rollouts(folder, "in any namespace"))
    if len(found) > 1:
        raise CommandError(f"{', '.join(found)} have rollouts of {folder}; choose one with --operator-namespace")
    return StoredRollouts(client, RevisionStore(client, found[0]), folder)


def _no_rollouts(folder: str, where: str) -> str:
    return f"there are no rollouts of {folder} {where}; set `rollout: {{}}` in {folder}/_settings.yaml"


def _phase_of(state: State, revision: str) -> str:
    if state.rollouts and revision == state.target:
        return "in progress"
    if revision == state.succeeded:
        return "last succeeded" if state.rollouts else "current"
    return "succeeded" if revision in state.successes else ""


def _phase(folder: str, state: State, updated: int, parents: int) -> tuple[str, str]:
    if not state.rollouts:
        return "Complete", f"{folder} successfully rolled out"
    waits = f"waiting for the rollout of {folder} to finish: {updated} of {counted(parents, 'parent')} updated"
    if state.stopped:
        return "Stopped", f"the rollout of {folder} is stopped: {state.stopped}; {updated} of {parents} updated"
    if state.paused:
        return "Paused", f"{waits}; it is paused"
    if state.held:
        return "Waiting", f"{waits}; {state.held}"
    if state.opens:
        return "Waiting", f"{waits}; no wave begins before its window opens: {state.opens}"
    return "Progressing", waits
