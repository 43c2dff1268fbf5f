"""The cluster as one parent's templates see it: what the caches hold of its children.

Promises:
- It is one moment: what the caches learn later is for the next render.
- A kind whose watch isn't synced is not taken for a kind without objects.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ssa_operator.core.identity import GroupKind, Identity
from ssa_operator.core.live import Live
from ssa_operator.core.plan import Kind
from ssa_operator.core.world import Body, Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What is known around one parent. `now` is in seconds since the epoch.

    children: the parent's own. objects: everything that is watched. strangers: what exists without our label, where
    that was asked for. kinds: what is watched.
    """

    now: float
    children: Sequence[Live]
    objects: Mapping[Identity, Live]
    kinds: Mapping[GroupKind, Kind]
    strangers: Mapping[Identity, Live] = field(default_factory=dict)

    def child(self, kind: str, name: str, /) -> Body | None:
        for live in self.children:
            if (live.identity.kind, live.identity.name) == (kind, name) and not live.deleting:
                return live.body
        return None

    def synced(self, kind: GroupKind, /) -> bool:
        return kind in self.kinds and self.kinds[kind].synced

    def namespaced(self, kind: GroupKind, /) -> bool:
        return kind not in self.kinds or self.kinds[kind].namespaced

    def lookup(self, identity: Identity, /) -> Body | None:
        live = self.objects.get(identity) or self.strangers.get(identity)
        return live.body if live is not None else None

    def lookup_all(self, _: Selection, /) -> tuple[Mapping[str, Any], ...]:
        return ()

    def random(self, below: int, /) -> int:
        return secrets.randbelow(below)
