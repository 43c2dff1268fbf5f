"""The bodies of many live objects, as templates read them.

Promises:
- A body is decoded when it is read, and the number of bodies without decoding any.
- The same position gives the same body each time, until `forget`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

from ssa_operator.objects.live_object import LiveObject


class LiveBodies(Sequence[dict[str, Any]]):
    """The bodies of these objects, by namespace and name."""

    __slots__ = ("_bodies", "_lives")

    def __init__(self, lives: Iterable[LiveObject]) -> None:
        self._lives = sorted(lives, key=lambda live: (live.identity.namespace, live.identity.name))
        self._bodies: list[dict[str, Any]] | None = None

    def __len__(self) -> int:
        return len(self._lives)

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        return self.decoded()[at]

    def decoded(self) -> list[dict[str, Any]]:
        """All bodies."""
        bodies = self._bodies
        if bodies is None:
            bodies = self._bodies = [live.body for live in self._lives]
        return bodies

    def forget(self) -> None:
        """Forget the decoded bodies, which the next access decodes again. Renders that have them keep them."""
        self._bodies = None
