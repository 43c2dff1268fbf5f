"""New parents, which show the state that a spec should lead to.

Promises:
- A spec is applied to only one new parent, however often its state is read.
- Differences between two new parents of a spec are known and don't count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.objects.json_encoding import encode
from ssa_operator.tools.exploration.child_comparison import (
    ChildDifference,
    ChildState,
    Variation,
    children_differences,
    variation,
)
from ssa_operator.tools.exploration.explored_parents import UNREADY_QUIET, ExploredParents
from ssa_operator.tools.exploration.results import ExploredObject, Phase, Settled


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
