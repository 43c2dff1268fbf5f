"""What a process remembers of a parent's children between two reconciles: a memory for each promise that needs one.

`reconcile.promises` lists these promises. Each says in the `memory.py` of its own room what it remembers, and when the
parent is reconciled again for it.

Promises:
- It is one frozen value. A reconcile returns the next one and changes none.
- A process that loses it applies each child once more, and nothing else changes.
- A promise that remembers nothing of a parent takes no memory.
- Times are in seconds on the process's monotonic clock, so that a wall clock that is set changes no pause.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Protocol, Self, TypeVar

from msgspec import Struct

from ssa_operator.kube.api.backoff import earliest
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.render_result import Rendered
from ssa_operator.reconcile.outcome import Outcome


class Observation(Struct, frozen=True, kw_only=True):
    """What a reconcile knows of its parent before it looks at the children."""

    now: float
    changed_by_user: bool
    """Whether a user changed the parent or its templates: what the user wants is applied at once."""
    deleting: bool
    suspended: bool


class CarriedOut(Struct, frozen=True, kw_only=True):
    """What a reconcile did."""

    outcomes: Sequence[Outcome]
    rendered: Rendered
    before: ChildHistory
    """What the process remembered until then."""
    follows: bool = False
    """Whether another reconcile has to follow, because this one changed what templates read."""
    read_by: Mapping[Identity, Collection[Identity]] = NOTHING
    """What each child of any parent reads by name."""
    now: float


class PromiseMemory(Protocol):
    """What a promise remembers of a parent's children. An instance without arguments remembers nothing."""

    def observed(self, seen: Observation, /) -> Self:
        """The memory with which a reconcile begins."""

    def after_act(self, outcomes: Sequence[Outcome], /) -> Self:
        """The memory after the plan was carried out. It is kept even if the reconcile fails later."""

    def after(self, done: CarriedOut, /) -> Self:
        """The memory after a reconcile that came to its end."""

    def news(self, outcomes: tuple[Outcome, ...], /) -> tuple[Outcome, ...]:
        """The outcomes without what was logged of earlier ones."""

    def due_at(self, now: float, /) -> float | None:
        """When the parent has to be reconciled even without an event."""

    @property
    def at_rest(self) -> bool:
        """Whether the next reconcile follows from what is rendered alone, and not from this memory."""


class NoMemory(Struct, frozen=True):
    """The answers of a promise that has nothing to add. Each one says itself when it is at rest."""

    def observed(self, _: Observation, /) -> Self:
        return self

    def after_act(self, _: Sequence[Outcome], /) -> Self:
        return self

    def after(self, _: CarriedOut, /) -> Self:
        return self

    def news(self, outcomes: tuple[Outcome, ...], /) -> tuple[Outcome, ...]:
        return outcomes

    def due_at(self, _: float, /) -> float | None:
        return None


M = TypeVar("M", bound=PromiseMemory)


@lru_cache
def _empty(promise: type[PromiseMemory]) -> PromiseMemory:
    return promise()


class ChildHistory(Struct, frozen=True):
    """The memories of a parent's children, by their class."""

    memories: Mapping[type[PromiseMemory], PromiseMemory] = NOTHING
    """Those that remember something."""

    def __getitem__(self, promise: type[M]) -> M:
        found: M = self.memories.get(promise) or _empty(promise)  # type: ignore[assignment]
        return found

    def remember(self, *memories: PromiseMemory) -> ChildHistory:
        """The history with these memories in place of the earlier ones."""
        known = self.memories
        changed = [each for each in memories if each is not (known.get(type(each)) or _empty(type(each)))]
        if not changed:
            return self
        memories_by_class = dict(known)
        for memory in changed:
            promise = type(memory)
            if memory == _empty(promise):
                memories_by_class.pop(promise, None)
            else:
                memories_by_class[promise] = memory
        return ChildHistory(memories_by_class or NOTHING)

    def due_at(self, now: float) -> float | None:
        """When the parent has to be reconciled even without an event."""
        return earliest(*(each.due_at(now) for each in self.memories.values()))

    @property
    def at_rest(self) -> bool:
        """Whether the next reconcile follows from what is rendered alone."""
        return all(each.at_rest for each in self.memories.values())
