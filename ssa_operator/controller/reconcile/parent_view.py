"""The cluster as one parent's templates see it: what the caches hold of its children and of what they look up.

Promises:
- It is one moment: what the caches learn later is for the next render.
- A kind whose watch isn't synced is not taken for a kind without objects.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ssa_operator.controller.watches.lookups import LookupInformers
from ssa_operator.core.objects.cluster_view import Answer, Body, Lookup, Selection
from ssa_operator.core.objects.identity import GroupKind, Identity, join_api_version
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.planning.observed import KindState
from ssa_operator.core.policies.apply_once import is_done


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentView:
    """What is known around one parent. `now` is in seconds since the epoch.

    children: the parent's own. objects: everything that is watched as a child of a parent. strangers: what exists
    without our label, where that was asked for, and what we deleted to make it anew. kinds: the kinds of what is
    watched. once: what was made once. announced: whether a controller writes the status of a kind.
    """

    now: float
    parent: LiveObject
    lookups: LookupInformers
    children: Sequence[LiveObject]
    objects: Mapping[Identity, LiveObject]
    kinds: Mapping[GroupKind, KindState]
    unlabelled: Mapping[Identity, LiveObject] = field(default_factory=dict)
    status_kinds: Callable[[GroupKind], bool]
    once: Mapping[str, str] = field(default_factory=dict)

    @property
    def itself(self) -> Lookup:
        """The lookup of the parent. Its answer is the very state that the parent is rendered for."""
        identity = self.parent.identity
        version = join_api_version(identity.group, self.parent.version)
        return Lookup(api_version=version, kind=identity.kind, namespace=identity.namespace, name=identity.name)

    def child(self, kind: str, name: str, /) -> Body | None:
        found = None
        for live in self.children:
            if (live.identity.kind, live.identity.name) == (kind, name):
                if not live.deleting:
                    return live.body
                found = live.body
        return found

    def done(self, kind: str, name: str, /) -> bool:
        return is_done(self.once, kind, name)

    def synced(self, kind: GroupKind, /) -> bool:
        return kind in self.kinds and self.kinds[kind].synced

    def namespaced(self, kind: GroupKind, /) -> bool | None:
        return self.kinds[kind].namespaced if kind in self.kinds else self.lookups.namespaced(kind)

    def reports_status(self, kind: GroupKind, /) -> bool:
        return self.status_kinds(kind)

    def lookup(self, identity: Identity, /) -> Body | None:
        live = self.objects.get(identity) or self.unlabelled.get(identity)
        return live.body if live is not None else None

    def answer(self, query: Lookup | Selection, /) -> Answer:
        if query == self.itself:
            return Answer(objects=(self.parent.body,))
        return self.lookups.answer(query)

    def random(self, below: int, /) -> int:
        return secrets.randbelow(below)
