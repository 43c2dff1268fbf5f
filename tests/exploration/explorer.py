"""Plays sequences of changes on parents in a cluster, and compares each state with that of a new parent.

Promises:
- After each change that settles, the children equal those of a new parent with the same spec.
- From each error state, the last good spec leads back to the state of a new parent.
- A change that is refused or fails deletes nothing that ran, and changes nothing that can't be rendered or applied.
- A spec that is reconciled twice changes nothing, and reconciles don't change things without end.
- The same changes give the same checks, so that a sequence can be shortened and played again.
- A spec is applied to only one new parent, however often its state is read.
- Differences between two new parents of a spec are known and don't count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ssa_operator.objects.json_codec import encode
from tests.exploration.explored_parents import UNREADY_QUIET, ExploredParent, ExploredParents
from tests.exploration.results import (
    ChildDifference,
    ChildState,
    ExplorationRule,
    ExploredObject,
    Failure,
    Phase,
    Played,
    Settled,
    Variation,
    broken_by_invalid,
    children_differences,
    own_failure,
    variation,
)
from tests.exploration.spec_changes import PatchError, SpecChange, changed


class NewParents:
    """The states of new parents."""

    def __init__(self, parents: ExploredParents) -> None:
        self._parents = parents
        self._states: dict[bytes, Settled] = {}
        self._variations: dict[bytes, Variation] = {}

    async def state(self, subject: ExploredObject, body: Mapping[str, Any], than: Phase | None = None) -> Settled:
        """The state of a new parent with a spec. If it is not ready and another phase than the one it is compared with,
        another new parent gets more time: a busy machine may only be late. Raises ApiError and ParentError.
        """
        key = _key(subject, body)
        if key not in self._states:
            self._states[key] = await self._create(subject, body)
        if than not in (None, Phase.UNREADY) and self._states[key].phase is Phase.UNREADY:
            self._states[key] = await self._create(subject, body, self._parents.patience)
            self._variations.pop(key, None)
        return self._states[key]

    async def differences(
        self, subject: ExploredObject, body: Mapping[str, Any], children: tuple[ChildState, ...]
    ) -> list[ChildDifference]:
        """How children differ from those of a new parent with a spec. Raises ApiError and ParentError."""
        key, new = _key(subject, body), await self.state(subject, body)
        found = children_differences(children, new.children, self._variations.get(key))
        if found and key not in self._variations:
            other = await self._create(subject, body)
            self._variations[key] = variation(new.children, other.children)
            found = children_differences(children, new.children, self._variations[key])
        return found

    async def _create(
        self, subject: ExploredObject, body: Mapping[str, Any], unready: float = UNREADY_QUIET
    ) -> Settled:
        explored = await self._parents.open(subject)
        try:
            return await self._parents.apply(explored, subject, body, unready)
        finally:
            self._parents.remove_later(explored)


def _key(subject: ExploredObject, body: Mapping[str, Any]) -> bytes:
    """A key that is equal for parents whose children should be the same."""
    metadata = body["metadata"]
    own = {name: metadata.get(name) for name in ("labels", "annotations")}
    fields = {name: value for name, value in body.items() if name not in ("metadata", "status")}
    return encode({"folder": subject.folder, "metadata": own, "fields": fields})


class Explorer:
    """Plays sequences on parents of one cluster."""

    def __init__(self, parents: ExploredParents) -> None:
        self._parents = parents
        self._new = NewParents(parents)

    async def play(
        self, subject: ExploredObject, next_change: Callable[[Mapping[str, Any]], SpecChange | None], steps: int
    ) -> Played:
        """Play a sequence until a rule is broken or `steps` changes are played. Raises ApiError and ParentError."""
        played = Played()
        explored = await self._parents.open(subject)
        try:
            good = subject.parent.body
            state = await self._parents.apply(explored, subject, good)
            if state.phase is Phase.REFUSED or (state.phase is Phase.FAILED and own_failure(state, 0) is None):
                played.invalid = state.message
                return played
            played.failure = await self._check(explored, subject, state, good, 0)
            while played.failure is None and len(played.changes) < steps:
                change = next_change(good)
                if change is None:
                    break
                try:
                    body = changed(good, change)
                except PatchError as error:
                    played.invalid = str(error)
                    break
                played.changes.append(change)
                good, state = await self._step(explored, subject, played, good, body, state)
        finally:
            self._parents.remove_later(explored)
        return played

    async def _step(
        self,
        explored: ExploredParent,
        subject: ExploredObject,
        played: Played,
        good: Mapping[str, Any],
        body: Mapping[str, Any],
        before: Settled,
    ) -> tuple[Mapping[str, Any], Settled]:
        """Play one change. Returns the last good parent, and the state that it is in."""
        number = len(played.changes)
        new = asyncio.create_task(self._new.state(subject, body))
        try:
            after = await self._parents.apply(explored, subject, body)
            played.phases.append(after.phase)
            became_unready = after.phase is Phase.UNREADY and before.phase is Phase.READY
            if after.phase in (Phase.READY, Phase.UNREADY):
                # Until the new children are ready, a template may keep the old ones in service.
                played.failure = await self._check(explored, subject, after, body, number, compare=not became_unready)
            else:
                played.failure = own_failure(after, number) or broken_by_invalid(before, after, number)
        finally:
            # The next caller gets its error.
            await asyncio.gather(new, return_exceptions=True)
        if after.phase is Phase.REFUSED:
            return good, replace(after, phase=before.phase)
        if after.phase is not Phase.FAILED and not became_unready:
            return body, after
        if played.failure is None:
            after = await self._parents.apply(explored, subject, good)
            played.failure = await self._check_rollback(explored, subject, before, after, good, number)
        return good, after

    async def _check_rollback(
        self,
        explored: ExploredParent,
        subject: ExploredObject,
        before: Settled,
        after: Settled,
        good: Mapping[str, Any],
        number: int,
    ) -> Failure | None:
        after = await self._with_more_time(explored, subject, after, before.phase)
        if after.phase is not before.phase and Phase.READY in (before.phase, after.phase) and after.comparable:
            message = f"after the last good spec is back it is {after.phase}, and was {before.phase}: {after.message}"
            return Failure(rule=ExplorationRule.ROLLBACK, step=number, message=message)
        found = await self._check(explored, subject, after, good, number)
        if found is None or found.rule not in (ExplorationRule.DIFFERS, ExplorationRule.STUCK):
            return found
        return replace(
            found, rule=ExplorationRule.ROLLBACK, message=f"after the last good spec is back: {found.message}"
        )

    async def _check(
        self,
        explored: ExploredParent,
        subject: ExploredObject,
        state: Settled,
        body: Mapping[str, Any],
        number: int,
        *,
        compare: bool = True,
    ) -> Failure | None:
        """Compare a settled parent with a new one, its children only with `compare`, and reconcile it again."""
        if found := own_failure(state, number):
            return found
        new = await self._new.state(subject, body)
        if found := own_failure(new, number):
            return replace(found, message=f"a new parent of this spec: {found.message}")
        if not (state.comparable and new.comparable) or state.phase is Phase.FAILED:
            return None
        if state.phase is not new.phase and (state.once_unready or new.once_unready):
            # A Job that ran for an earlier spec is not run again; that of a new parent may not end.
            return None
        if state.phase is not new.phase:
            state = await self._with_more_time(explored, subject, state, new.phase)
            new = await self._new.state(subject, body, than=state.phase)
        if state.phase is not new.phase:
            message = f"it is {state.phase}: {state.message}; a new parent is {new.phase}: {new.message}"
            return Failure(rule=ExplorationRule.STUCK, step=number, message=message)
        if compare and (differences := await self._new.differences(subject, body, state.children)):
            message = f"its children differ from those of a new {subject.parent.body['kind']} with the same spec"
            return Failure(rule=ExplorationRule.DIFFERS, step=number, message=message, differences=tuple(differences))
        if again := await self._parents.reconcile_again(explored):
            return Failure(
                rule=ExplorationRule.REPEATED, step=number, message=f"a second reconcile changes children: {again}"
            )
        if explored.crash:
            return Failure(rule=ExplorationRule.CRASH, step=number, message=explored.crash)
        return None

    async def _with_more_time(
        self, explored: ExploredParent, subject: ExploredObject, state: Settled, than: Phase
    ) -> Settled:
        """The state of a parent that is not ready, once it had more time: a busy machine may only be late."""
        if state.phase is not Phase.UNREADY or than is Phase.UNREADY:
            return state
        await self._parents.until_quiet(explored, unready=self._parents.patience)
        return await self._parents.state(explored, subject)


def from_changes(changes: Sequence[SpecChange]) -> Callable[[Mapping[str, Any]], SpecChange | None]:
    """Changes in a fixed order, for `Explorer.play`."""
    left = iter(changes)
    return lambda _: next(left, None)
