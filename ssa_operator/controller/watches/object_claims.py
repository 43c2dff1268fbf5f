"""Which parent each rendered object belongs to, so that two of them don't take one object.

Promises:
- An object belongs to the parent that rendered it first, for as long as that renders it and exists.
- Whom an object was refused looks again when its claim is released, and when the object itself goes or changes hands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ssa_operator.controller.watches.parent_cache import Memory
from ssa_operator.core.objects.annotations import ApplyPolicy
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.planning.plan import Plan


class ObjectClaims(Mapping[Identity, str]):
    """The uid of the parent that each object belongs to.

    parents: all parents that exist, by uid. everyone: whether all of them are known already. wake: is called with the
    uid of who has to look again.
    """

    def __init__(
        self, parents: Mapping[str, Identity], all_parents_known: Callable[[], bool], wake: Callable[[str], None]
    ) -> None:
        self.parents = parents
        self.all_parents_known = all_parents_known
        self._wake = wake
        self._owners: dict[Identity, str] = {}
        self._refused: dict[Identity, set[str]] = {}

    def __getitem__(self, identity: Identity) -> str:
        return self._owners[identity]

    def __iter__(self) -> Iterator[Identity]:
        return iter(self._owners)

    def __len__(self) -> int:
        return len(self._owners)

    def claim(self, memory: Memory, uid: str, plan: Plan) -> None:
        """Have what is rendered for a parent belong to it, and have it look again at what others have.

        A parent that was deleted while it was reconciled claims nothing: no event would release its claims.
        """
        if uid not in self.parents:
            return
        claimed = frozenset(
            step.identity
            for step in plan.steps
            # What is made only where it is absent takes nothing away from anybody.
            if step.manifest is not None and step.manifest.instructions.apply is ApplyPolicy.ALWAYS
        )
        refused = frozenset(step.identity for step in plan.steps if step.claimed_by_other)
        for identity in refused - memory.refused:
            self._refused.setdefault(identity, set()).add(uid)
        self._settle(memory.refused - refused, uid)
        memory.refused = refused
        released = memory.claimed - claimed
        self._owners.update(dict.fromkeys(claimed, uid))
        memory.claimed = claimed
        self._release(released)

    def forget(self, memory: Memory, uid: str) -> None:
        """The parent is gone: what it claimed is free."""
        self._settle(memory.refused, uid)
        released, memory.claimed, memory.refused = memory.claimed, frozenset(), frozenset()
        self._release(released)

    def free(self, identity: Identity) -> None:
        """The object is gone, or somebody else's: whoever was refused it looks again."""
        for uid in tuple(self._refused.get(identity, ())):
            self._wake(uid)

    def _release(self, identities: Iterable[Identity]) -> None:
        for identity in identities:
            self._owners.pop(identity, None)
            self.free(identity)

    def _settle(self, identities: Iterable[Identity], uid: str) -> None:
        """They are not refused to this parent any more."""
        for identity in identities:
            refused = self._refused[identity]
            refused.discard(uid)
            if not refused:
                del self._refused[identity]
