"""The caches' answers to the queries of templates.

Promises:
- The answer to a selection, and its version, is computed once for all parents while the cache doesn't change.
- An object is decoded when a template reads it, and stays decoded for `DECODED_FOR` seconds: the parents that a change
  requeues read it one after another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import cached_property
from typing import NamedTuple

from msgspec import Struct

from ssa_operator.informers.lookup_index import AnswerVersion
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects.cluster_view import Answer, Selection
from ssa_operator.objects.live_bodies import LiveBodies
from ssa_operator.objects.live_object import LiveObject

DECODED_FOR = 1.0
"""Seconds for which the objects of an answer stay decoded."""


class CachedAnswer(Struct, frozen=True, kw_only=True, dict=True):
    """An Answer, with the live objects instead of their bodies."""

    lives: Collection[LiveObject] = ()
    unknown: str = ""
    needs_permission: bool = False
    absent: str = ""

    @property
    def known(self) -> bool:
        return not self.unknown and not self.absent

    @cached_property
    def version(self) -> AnswerVersion:
        return self.unknown, self.absent, hash(frozenset((live.uid, live.resource_version) for live in self.lives))

    @cached_property
    def bodies(self) -> LiveBodies:
        """The objects as templates read them."""
        return LiveBodies(self.lives)


class _KeptAnswer(NamedTuple):
    """The answer to a selection, and the state of the cache for which it is valid."""

    cache: Cache
    changes: int
    answer: CachedAnswer


class SelectionAnswers:
    """The last answers to selections."""

    def __init__(self) -> None:
        self._kept: dict[Selection, _KeptAnswer] = {}
        self._decoded: dict[int, LiveBodies] = {}

    def find(self, query: Selection, cache: Cache, *, keep: bool) -> CachedAnswer:
        """The answer from a cache. `keep`: whether it is kept for the next time."""
        kept = self._kept.get(query)
        if kept is not None and kept.cache is cache and kept.changes == cache.changes:
            return kept.answer
        answer = CachedAnswer(lives=cache.select(query.namespace, dict(query.labels)))
        if keep:
            self._kept[query] = _KeptAnswer(cache, cache.changes, answer)
        return answer

    def answer(self, cached: CachedAnswer) -> Answer:
        """The answer for a template."""
        if len(cached.lives) > 1:
            if not self._decoded:
                asyncio.get_running_loop().call_later(DECODED_FOR, self._forget_decoded)
            self._decoded[id(cached.bodies)] = cached.bodies
        return Answer(
            objects=cached.bodies,
            unknown=cached.unknown,
            needs_permission=cached.needs_permission,
            absent=cached.absent,
        )

    def forget(self, query: Selection) -> None:
        """Forget the answer to a selection that no template uses any more."""
        self._kept.pop(query, None)

    def forget_cache(self, cache: Cache) -> None:
        """Forget the answers from a cache whose informer has stopped."""
        for query in [query for query, kept in self._kept.items() if kept.cache is cache]:
            del self._kept[query]

    def _forget_decoded(self) -> None:
        for bodies in self._decoded.values():
            bodies.forget()
        self._decoded.clear()
