"""Reads the stored rollouts of a folder, as a user sees them, and changes them.

Promises:
- A user needs no operator at hand: everything is read from the cluster, and the operator follows what is written.
- An undo goes to the last revision that succeeded. Another one has to be forced. It says what the operator does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.messages import counted, did_you_mean
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.operator.rollouts.driver import stored_member
from ssa_operator.operator.rollouts.requests import RevisionStore
from ssa_operator.operator.rollouts.revisions import StoredRevision, read_state, state_folder
from ssa_operator.operator.rollouts.rules import (
    Member,
    RefusedError,
    State,
    begins,
    reaches,
    resumed,
    undo_target,
    undone,
)

LOOK = 0.5
"""Seconds between two looks at whether the operator has begun an undo."""

_LOOKS = 20

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
                "result": each.result.result if each.result is not None else "",
                "resultTime": each.result.time if each.result is not None else "",
                "reason": each.result.message if each.result is not None else "",
                "changeCause": each.cause,
            }
            for each in await self.store.history(self.folder)
        ]

    async def status(self) -> RolloutStatus:
        """How far the rollout is. Raises ApiError and CommandError."""
        state = await self.state()
        return status_of(self.folder, state, await self._members(state))

    async def change(self, change: Callable[[State], State]) -> State:
        """Change the state. Raises ApiError and CommandError."""
        await self.state()
        try:
            live = await self.store.change_state(self.folder, lambda stored: None if stored is None else change(stored))
        except RefusedError as error:
            raise CommandError(f"{self.folder} {error}") from error
        state = read_state(live) if live is not None else None
        return await self.state() if state is None else state

    async def resume(self) -> str:
        """Let waves begin again. Returns what that means. Raises ApiError and CommandError."""
        before: list[State] = []

        def change(state: State) -> State:
            before.append(state)
            return resumed(state)

        after = await self.change(change)
        done, rest = before[-1], _waits(after)
        if done.paused:
            return f"resumed; {rest}" if rest else "resumed"
        if done.stopped:
            return f"resumed; what stopped it no longer counts: {done.stopped}"
        return f"resumed; confirmed: {done.held}" if done.held else "resumed outside of its window, once"

    async def undo(self, number: int | None, *, force: bool, confirmed: bool) -> str:
        """Return to the last revision that succeeded, or to that of a number. Returns what that means. Raises ApiError
        and CommandError.
        """
        state, history = await self.state(), await self.store.history(self.folder)
        wanted = self._wanted(state, history, number, force=force)
        revision = wanted.revision
        after = await self.change(lambda stored: undone(stored, revision, confirmed=confirmed))
        await self.store.renumber(self.folder, revision)
        named = f"revision {wanted.number} ({revision})"
        for _ in range(_LOOKS):
            if after.revision != revision or after.planned == revision:
                break
            await asyncio.sleep(LOOK)
            after = await self.state()
        if after.held:
            raise CommandError(f"{self.folder} waits to be rolled back to {named}: {after.held}, as `undo --yes` does")
        if after.revision == revision and after.planned != revision:
            return f"will be rolled back to {named}: its operator has not begun yet"
        return f"rolled back to {named}" + (f", {_described(wanted)}" if number is not None else "")

    def _wanted(
        self, state: State, history: Sequence[StoredRevision], number: int | None, *, force: bool
    ) -> StoredRevision:
        """The revision to which an undo returns. Raises CommandError."""
        asks = state.undo and bool(state.held)  # the undo before this one
        last = state.revision if asks else undo_target(state)
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
                    f"revision {number} ({_described(found)}) is not the last one that succeeded{known}; --force "
                    "returns to it all the same"
                )
            return found
        if state.undone and not asks:
            now = next((f"{each.number} " for each in history if each.revision == state.target), "")
            raise CommandError(
                f"{self.folder} is rolled back to revision {now}({state.target}) already; --to-revision names another"
            )
        if wanted is None:
            raise CommandError(f"no other revision of {self.folder} has succeeded; there is nothing to undo")
        return wanted

    async def _members(self, state: State) -> list[Member]:
        """The parents of the operator. Raises ApiError."""
        try:
            resource = await RESTMapper(self.client).resource_by_name(self.folder)
        except UnknownKind as error:
            raise CommandError(str(error)) from error
        members: list[Member] = []
        for namespace in state.namespaces if resource.namespaced and state.namespaces else ("",):
            lives, _ = await self.client.list(resource, namespace, state.selector)
            members += [stored_member(live, None) for live in lives if not live.deleting]
        return members


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
        hint = did_you_mean(folder, {state_folder(live) for live in lives})
        raise CommandError(_no_rollouts(folder, "in any namespace") + (f"; {hint}" if hint else ""))
    if len(found) > 1:
        raise CommandError(f"{', '.join(found)} have rollouts of {folder}; choose one with --operator-namespace")
    return StoredRollouts(client, RevisionStore(client, found[0]), folder)


def status_of(folder: str, state: State, members: Sequence[Member]) -> RolloutStatus:
    """How far the rollout of a folder with these parents is."""
    suspended = [member for member in members if member.suspended]
    updated = [member for member in members if reaches(state, member)]
    phase, message = _phase(folder, state, len(updated), len(members))
    if suspended and state.revision:
        named = ", ".join(map(str, suspended[:_NAMED]))
        more = f" and {len(suspended) - _NAMED} more" if len(suspended) > _NAMED else ""
        message += f"; it skips {counted(len(suspended), 'suspended parent')}: {named}{more}"
    return RolloutStatus(
        folder=folder,
        revision=state.target,
        phase=phase,
        message=message,
        parents=len(members),
        updated=len(updated),
        ready=sum(member.ready and member.runs in ("", state.target) for member in updated),
        suspended=[str(member) for member in suspended],
    )


def _no_rollouts(folder: str, where: str) -> str:
    return (
        f"there are no rollouts of {folder} {where}; set `rollout: {{}}` in {folder}/_settings.yaml. Where it is set, "
        "the log of the operator says why no revision is stored"
    )


def _described(revision: StoredRevision) -> str:
    """What a revision is."""
    result = revision.result
    if result is None:
        return f"created {revision.created}"
    return f"{result.result.lower()} {result.time}" + (f": {result.message}" if result.message else "")


def _phase_of(state: State, revision: str) -> str:
    if state.revision and revision == state.target:
        return "in progress"
    if revision == state.succeeded:
        return "last succeeded" if state.revision else "current"
    return "succeeded" if revision in state.successes else ""


def _waits(state: State) -> str:
    """Why no wave begins, '' where one may."""
    if not state.revision:
        return ""
    if state.stopped:
        return f"it is stopped: {state.stopped}"
    if state.held:
        return state.held
    if state.paused and not state.undo:
        return "it is paused"
    return f"no wave begins before its window opens: {state.opens}" if state.opens and not begins(state) else ""


def _phase(folder: str, state: State, updated: int, parents: int) -> tuple[str, str]:
    if state.unstored:
        return (
            "Waiting",
            f"{folder} waits: its changed templates can't be stored, so no parent gets them: {state.unstored}",
        )
    if not state.revision:
        paused = "; it is paused, so the next set waits for `rollout resume`" if state.paused else ""
        return "Complete", f"{folder} successfully rolled out{paused}"
    if state.stopped:
        return "Stopped", f"the rollout of {folder} is stopped: {state.stopped}; {updated} of {parents} updated"
    why = _waits(state)
    waits = f"waiting for the rollout of {folder} to finish: {updated} of {counted(parents, 'parent')} updated"
    phase = "Paused" if state.paused and not state.held else "Waiting"
    return (phase, f"{waits}; {why}") if why else ("Progressing", waits)
