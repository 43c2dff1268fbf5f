"""The cluster as one parent's templates see it: what the caches hold of its children.

Promises:
- It is one moment: what the caches learn later is for the next render.
- A kind whose watch isn't synced is not taken for a kind without objects.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ssa_operator.core.identity import GroupKind, Identity
from ssa_operator.core.live import Live
from ssa_operator.core.plan import Kind
from ssa_operator.core.world import Body, Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The live children of one parent, and the kinds that are watched. `now` is in seconds since the epoch."""

    now: float
    children: Mapping[Identity, Live]
    kinds: Mapping[GroupKind, Kind]

    @classmethod
    def of(cls, children: Iterable[Live], kinds: Mapping[GroupKind, Kind], now: float) -> Family:
        return cls(now=now, children={live.identity: live for live in children}, kinds=kinds)

    def child(self, kind: str, name: str, /) -> Body | None:
        found = (live for live in self.children.values() if (live.identity.kind, live.identity.name) == (kind, name))
        return next((live.body for live in found if not live.deleting), None)

    def synced(self, kind: GroupKind, /) -> bool:
        return kind in self.kinds and self.kinds[kind].synced

    def namespaced(self, kind: GroupKind, /) -> bool:
        return kind not in self.kinds or self.kinds[kind].namespaced

    def lookup(self, identity: Identity, /) -> Body | None:
        live = self.children.get(identity)
        return live.body if live is not None else None

    def lookup_all(self, _: Selection, /) -> tuple[Mapping[str, Any], ...]:
        return ()

    def random(self, below: int, /) -> int:
        return secrets.randbelow(below)
