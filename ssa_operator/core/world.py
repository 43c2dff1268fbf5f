"""What a template may ask of the cluster.

Promises:
- A world is one moment: the same question has the same answer for the whole of a render.
- An answer is what the caches hold; nothing is requested.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

Body: TypeAlias = Mapping[str, Any]
"""An object as the API server returned it."""


class World(Protocol):
    """The cluster as one parent's templates see it. `now` is in seconds since the epoch."""

    @property
    def now(self) -> float: ...

    def child(self, kind: str, name: str, /) -> Body | None:
        """The live child of this parent, None where there is none."""
