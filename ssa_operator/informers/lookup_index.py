"""The queries of templates: their answers from the caches, and the parents whose templates make them.

Promises:
- The queries that a change affects are found without a scan of all parents. The time depends only on how many sets of
  label names are looked up in the object's namespace.
- A change of labels affects the queries that select the old labels and those that select the new ones.
- The answer to a selection, and its version, is computed once for all parents while the cache doesn't change.
- An object is decoded when a template reads it, and stays decoded for `DECODED_FOR` seconds: the parents that a change
  requeues read it one after another.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.cluster_view import Answer, LiveBodies, Lookup, Selection
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import LiveObject

AnswerVersion: TypeAlias = Hashable
"""The version of an answer: two answers to a query are equal if their versions are."""

LookupQuery: TypeAlias = Lookup | Selection


class Dependent(NamedTuple):
    """The templates of a parent that look something up: the parent's uid, and the cause with which a changed answer
    requeues it.
    """

    uid: str
    cause: Cause


def dependents_of(parent_uid: str) -> tuple[Dependent, Dependent]:
    """The templates of a parent's children, and its status template."""
    return Dependent(parent_uid, Cause.TEMPLATE), Dependent(parent_uid, Cause.CHILD)


class _NamespacedKind(NamedTuple):
    """The kind and the namespace that a selection selects from."""

    api_version: str
    kind: str
    namespace: str


class LookupIndex:
    """The queries of every dependent's last render, with the version of each answer that it rendered."""

    def __init__(self) -> None:
        self._queries: dict[Dependent, Mapping[LookupQuery, AnswerVersion]] = {}
        self._dependents: dict[LookupQuery, dict[Dependent, AnswerVersion]] = {}
        self._by_kind: dict[GroupKind, dict[LookupQuery, None]] = {}
        self._label_names: dict[_NamespacedKind, Counter[tuple[str, ...]]] = {}
        self._narrowed: dict[Selection, dict[Selection, None]] = {}
        """The selections by what they narrow, which may be themselves."""

    @property
    def followers(self) -> AbstractSet[Dependent]:
        """The dependents with queries, always the present ones."""
        return self._queries.keys()

    def __contains__(self, query: LookupQuery) -> bool:
        return query in self._dependents

    @property
    def kinds(self) -> Collection[GroupKind]:
        """The kinds that templates look up."""
        return tuple(self._by_kind)

    def queries(self, kind: GroupKind) -> Collection[LookupQuery]:
        """The queries for a kind."""
        return tuple(self._by_kind.get(kind, ()))

    def dependents(self, query: LookupQuery) -> Mapping[Dependent, AnswerVersion]:
        """The dependents of a query, with the version of the answer that each rendered."""
        return dict(self._dependents.get(query, {}))

    def rendered(self, dependent: Dependent) -> Mapping[LookupQuery, AnswerVersion]:
        """The queries of a dependent's last render, with the version of each answer that it rendered."""
        return self._queries.get(dependent, {})

    def replace(
        self, dependent: Dependent, queries: Mapping[LookupQuery, AnswerVersion]
    ) -> tuple[list[LookupQuery], list[LookupQuery]]:
        """Replace the queries of a dependent. Returns the queries that the index has only now, and those that it no
        longer has.
        """
        before = self._queries.get(dependent, {})
        if queries:
            self._queries[dependent] = queries
        else:
            self._queries.pop(dependent, None)
        added = [query for query in queries if query not in self._dependents]
        for query, version in queries.items():
            self._dependents.setdefault(query, {})[dependent] = version
        removed = []
        for query in before.keys() - queries.keys():
            dependents = self._dependents[query]
            del dependents[dependent]
            if not dependents:
                del self._dependents[query]
                removed.append(query)
        for query in added:
            self._by_kind.setdefault(query.group_kind, {})[query] = None
            if isinstance(query, Selection):
                self._label_names.setdefault(_namespaced_kind(query), Counter())[_names(query)] += 1
                self._narrowed.setdefault(_by_labels(query), {})[query] = None
        for query in removed:
            self._remove(query)
        return added, removed

    def affected(self, api_version: str, old: LiveObject | None, new: LiveObject | None) -> Iterator[LookupQuery]:
        """The queries whose answer contains or contained an object."""
        either = new or old
        if either is None:
            return
        kind, namespace, name = either.identity.kind, either.identity.namespace, either.identity.name
        lookup = Lookup(api_version=api_version, kind=kind, namespace=namespace, name=name)
        if lookup in self._dependents:
            yield lookup
        for where in dict.fromkeys((namespace, "")):
            for names in self._label_names.get(_NamespacedKind(api_version, kind, where), ()):
                selected = dict[LookupQuery, None]()
                for live in (old, new):
                    if live is not None and (labels := _labels(names, live)) is not None:
                        selection = Selection(api_version=api_version, kind=kind, namespace=where, labels=labels)
                        for narrowed in self._narrowed.get(selection, ()):
                            if narrowed.narrows(live.identity, live.metadata.labels):
                                selected[narrowed] = None
                yield from selected

    def _remove(self, query: LookupQuery) -> None:
        queries = self._by_kind[query.group_kind]
        del queries[query]
        if not queries:
            del self._by_kind[query.group_kind]
        if isinstance(query, Selection):
            key = _namespaced_kind(query)
            names = self._label_names[key]
            names[_names(query)] -= 1
            if not names[_names(query)]:
                del names[_names(query)]
            if not names:
                del self._label_names[key]
            narrowed = self._narrowed[_by_labels(query)]
            del narrowed[query]
            if not narrowed:
                del self._narrowed[_by_labels(query)]


def _namespaced_kind(selection: Selection) -> _NamespacedKind:
    return _NamespacedKind(selection.api_version, selection.kind, selection.namespace)


def _by_labels(selection: Selection) -> Selection:
    """The selection by these labels alone."""
    return replace(selection, requirements=(), namespaces=None)


def _names(selection: Selection) -> tuple[str, ...]:
    return tuple(name for name, _ in selection.labels)


def _labels(names: tuple[str, ...], live: LiveObject) -> tuple[tuple[str, str], ...] | None:
    """An object's labels of these names, None if it lacks one."""
    labels = live.metadata.labels
    return tuple((name, labels[name]) for name in names) if all(name in labels for name in names) else None


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
        lives = cache.select(query.namespace, dict(query.labels))
        if query.requirements or query.namespaces is not None:
            lives = [live for live in lives if query.narrows(live.identity, live.metadata.labels)]
        answer = CachedAnswer(lives=lives)
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
