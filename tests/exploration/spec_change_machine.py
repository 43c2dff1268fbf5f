"""A state machine of Hypothesis that changes the spec of a parent in a running operator.

Promises:
- After each change that settles, the children equal those of a new parent with the same spec.
- From each error state, the last good spec leads back to the state of a new parent.
- A change that is refused or fails deletes nothing that ran, and changes nothing that can't be rendered or applied.
- A spec that is reconciled twice changes nothing, and reconciles don't change things without end.
- Differences between two new parents of a spec are known and don't count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.json_schema import Schema
from tests.exploration.explored_parents import LONGEST, UNREADY_QUIET, ExploredParent, ExploredParents, Subject
from tests.exploration.settled_parents import (
    BrokenRuleError,
    ChangedByRepeatError,
    ChildState,
    Difference,
    DiffersFromNewError,
    NoRecoveryError,
    NotReadyAsNewError,
    Phase,
    SettledParent,
    Variation,
    check_alone,
    check_failed_change,
    differences,
    variation,
)
from tests.exploration.spec_changes import ChangeKind, SpecChange, changes

T = TypeVar("T")

SHOWN = 10
"""Differences in a message."""

_DRAWN = (*[ChangeKind.VALID] * 5, *[ChangeKind.RISKY] * 3, *[ChangeKind.INVALID] * 2)
"""Of ten changes, how many are of a kind."""


class NewParents:
    """The states of new parents: each spec is applied to one, however often its state is read."""

    def __init__(self, parents: ExploredParents) -> None:
        self._parents = parents
        self._states: dict[bytes, SettledParent] = {}
        self._variations: dict[bytes, Variation] = {}

    async def state(self, subject: Subject, body: Mapping[str, Any], than: Phase | None = None) -> SettledParent:
        """The state of a new parent with a spec. If it is not ready and another phase than the one it is compared with,
        another new parent gets more time: a busy machine may only be late. Raises ApiError and ParentError.
        """
        key = _key(subject, body)
        if key not in self._states:
            self._states[key] = await self._create(subject, body)
        if than not in (None, Phase.UNREADY) and self._states[key].phase is Phase.UNREADY:
            self._states[key] = await self._create(subject, body, LONGEST)
            self._variations.pop(key, None)
        return self._states[key]

    async def differences(
        self, subject: Subject, body: Mapping[str, Any], children: Sequence[ChildState]
    ) -> list[Difference]:
        """How children differ from those of a new parent with a spec. Raises ApiError and ParentError."""
        key, new = _key(subject, body), (await self.state(subject, body)).children.values()
        if key not in self._variations and differences(children, new):
            self._variations[key] = variation(new, (await self._create(subject, body)).children.values())
        return differences(children, new, self._variations.get(key, frozenset()))

    async def _create(self, subject: Subject, body: Mapping[str, Any], unready: float = UNREADY_QUIET) -> SettledParent:
        explored = await self._parents.open(subject)
        try:
            return await self._parents.apply(explored, body, unready)
        finally:
            await self._parents.remove(explored)


def _key(subject: Subject, body: Mapping[str, Any]) -> bytes:
    """A key that is equal for parents whose children should be the same."""
    metadata = {name: body["metadata"].get(name) for name in ("labels", "annotations")}
    return encode(
        {"folder": subject.folder, **{key: body[key] for key in body if key != "status"}, "metadata": metadata}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Exploration:
    """What a state machine explores."""

    runner: asyncio.Runner
    """Of the loop that the operator runs in. It stands still while Hypothesis draws."""
    parents: ExploredParents
    new: NewParents
    starts: Sequence[tuple[Subject, Schema]]
    """The parents that sequences begin with, each with the schema that its changes are drawn from."""
    phases: list[Phase] = field(default_factory=list)
    """The result of each change."""


class SpecChanges(RuleBasedStateMachine):
    """One parent, and the changes that its user makes."""

    exploration: ClassVar[Exploration]
    parent: ExploredParent | None = None
    good: Mapping[str, Any]
    """The last spec that was applied."""
    state: SettledParent
    schema: Schema

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine in the operator's loop."""
        return self.exploration.runner.run(work)

    @initialize(data=st.data())
    def create(self, data: st.DataObject) -> None:
        """Draw the parent that the sequence begins with."""
        self.begin(*data.draw(st.sampled_from(self.exploration.starts), "parent"))

    def begin(self, subject: Subject, schema: Schema) -> None:
        """Apply the parent of a file, whose reconcile must not fail."""
        self.schema = schema
        self.parent = self.run(self.exploration.parents.open(subject))
        self.good = subject.document.body
        self.state = self.run(self.exploration.parents.apply(self.parent, self.good))
        check_alone(self.state)
        message = f"{subject.document.location}: no sequence can begin with this parent: {self.state.message}"
        assert self.state.phase in (Phase.READY, Phase.UNREADY), message
        self.run(self._check(self.state, self.good))

    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        """Draw the kind of a change, its field and its value, in this order: no field is drawn for its many values."""
        found = {kind: changes(self.good, self.schema, kind) for kind in ChangeKind}
        kind = data.draw(st.sampled_from([kind for kind in _DRAWN if found[kind]]), "kind")
        path = data.draw(st.sampled_from(list(dict.fromkeys(each.path for each in found[kind]))), "field")
        self.play(data.draw(st.sampled_from([each for each in found[kind] if each.path == path]), "change"))

    def teardown(self) -> None:
        """Delete the parent."""
        if self.parent is not None:
            self.run(self.exploration.parents.remove(self.parent))

    def play(self, change: SpecChange) -> None:
        """Apply a change."""
        self.run(self._step(change.applied_to(self.good)))

    async def _step(self, body: Mapping[str, Any]) -> None:
        """Apply a change, and the last good spec where it fails."""
        assert self.parent is not None
        subject, before = self.parent.subject, self.state
        new = asyncio.create_task(self.exploration.new.state(subject, body))
        try:
            after = await self.exploration.parents.apply(self.parent, body)
        finally:
            # The next caller gets its error.
            await asyncio.gather(new, return_exceptions=True)
        self.exploration.phases.append(after.phase)
        became_unready = after.phase is Phase.UNREADY and before.phase is Phase.READY
        if after.phase in (Phase.READY, Phase.UNREADY):
            # Until the new children are ready, a template may keep the old ones in service.
            await self._check(after, body, compare=not became_unready)
        else:
            check_alone(after)
            check_failed_change(before, after)
        if after.phase is Phase.REFUSED:
            self.state = replace(after, phase=before.phase)
        elif after.phase is Phase.FAILED or became_unready:
            self.state = await self._roll_back(before)
        else:
            self.good, self.state = body, after

    async def _roll_back(self, before: SettledParent) -> SettledParent:
        """The state after the last good spec is applied again."""
        assert self.parent is not None
        after = await self._with_more_time(await self.exploration.parents.apply(self.parent, self.good), before.phase)
        if after.phase is not before.phase and Phase.READY in (before.phase, after.phase) and after.comparable:
            was = f"it is {after.phase}, and was {before.phase}: {after.message}"
            raise NoRecoveryError(f"after the last good spec is back {was}")
        try:
            await self._check(after, self.good)
        except (DiffersFromNewError, NotReadyAsNewError) as error:
            raise NoRecoveryError(f"after the last good spec is back: {error}") from error
        return after

    async def _check(self, state: SettledParent, body: Mapping[str, Any], *, compare: bool = True) -> None:
        """Compare a settled parent with a new one, its children only with `compare`, and reconcile it again."""
        assert self.parent is not None
        subject, parents, new_parents = self.parent.subject, self.exploration.parents, self.exploration.new
        check_alone(state)
        new = await new_parents.state(subject, body)
        try:
            check_alone(new)
        except BrokenRuleError as error:
            raise type(error)(f"a new parent of this spec: {error}") from error
        if not (state.comparable and new.comparable) or state.phase is Phase.FAILED:
            return
        if state.phase is not new.phase and (state.once_unready or new.once_unready):
            # A Job that ran for an earlier spec is not run again; that of a new parent may not end.
            return
        if state.phase is not new.phase:
            state = await self._with_more_time(state, new.phase)
            new = await new_parents.state(subject, body, than=state.phase)
        if state.phase is not new.phase:
            is_now = f"it is {state.phase}: {state.message}"
            raise NotReadyAsNewError(f"{is_now}; a new parent is {new.phase}: {new.message}")
        if compare and (found := await new_parents.differences(subject, body, tuple(state.children.values()))):
            shown = "\n".join(map(str, found[:SHOWN]))
            raise DiffersFromNewError(f"{len(found)} fields differ from those of a new parent with this spec:\n{shown}")
        if again := await parents.reconcile_again(self.parent):
            raise ChangedByRepeatError(f"a second reconcile changes {again}")
        check_alone(replace(state, crash=self.parent.crash))

    async def _with_more_time(self, state: SettledParent, than: Phase) -> SettledParent:
        """The state of a parent that is not ready, once it had more time: a busy machine may only be late."""
        if state.phase is not Phase.UNREADY or than is Phase.UNREADY:
            return state
        assert self.parent is not None
        await self.exploration.parents.until_quiet(self.parent, LONGEST)
        return await self.exploration.parents.state(self.parent)


def machine_of(exploration: Exploration) -> type[SpecChanges]:
    """The state machine of an exploration."""
    return type("SpecChanges", (SpecChanges,), {"exploration": exploration})


def explore(exploration: Exploration, sequences: int, steps: int, **more: Any) -> None:
    """Play sequences of changes. Raises BrokenRuleError with the shortest sequence that breaks a rule as its notes, and
    how to play it again. `more` are settings of Hypothesis.
    """
    run_state_machine_as_test(
        machine_of(exploration),
        settings=settings(
            # Hypothesis begins with a sequence that has no change. Of the others, the first step creates the parent.
            max_examples=sequences + 1,
            stateful_step_count=steps + 1,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
            **more,
        ),
    )
