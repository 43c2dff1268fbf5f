"""Who uses which lookups: from a changed object to the parents whose templates read it.

Promises:
- Finding the questions that a change concerns takes as long as the object has label names that are asked for, however
  many parents there are; the users of a question are found at once.
- A change of labels concerns those who ask for the old ones and those who ask for the new ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from ssa_operator.controller.queue import Cause
from ssa_operator.core.objects.cluster_view import Lookup, Selection
from ssa_operator.core.objects.identity import GroupKind
from ssa_operator.core.objects.live_object import LiveObject

AnswerVersion: TypeAlias = Hashable
"""Tells one answer to a question from another."""

LookupQuery: TypeAlias = Lookup | Selection


class Dependent(NamedTuple):
    """A parent's templates: the parent's uid, and what a change of the answers is a cause of."""

    uid: str
    cause: Cause


class _Place(NamedTuple):
    """Where a selection looks."""

    api_version: str
    kind: str
    namespace: str


class LookupIndex:
    """The questions of every user's last render, with what each of them saw."""

    def __init__(self) -> None:
        self._asked: dict[Dependent, Mapping[LookupQuery, AnswerVersion]] = {}
        self._users: dict[LookupQuery, dict[Dependent, AnswerVersion]] = {}
        self._by_kind: dict[GroupKind, dict[LookupQuery, None]] = {}
        self._label_names: dict[_Place, Counter[tuple[str, ...]]] = {}

    @property
    def kinds(self) -> Collection[GroupKind]:
        """The kinds that anybody asks for."""
        return tuple(self._by_kind)

    def asked(self, kind: GroupKind) -> Collection[LookupQuery]:
        """What anybody asks of a kind."""
        return tuple(self._by_kind.get(kind, ()))

    def of(self, query: LookupQuery) -> Mapping[Dependent, AnswerVersion]:
        """Who asks this, with what they saw."""
        return dict(self._users.get(query, {}))

    def use(
        self, user: Dependent, seen: Mapping[LookupQuery, AnswerVersion]
    ) -> tuple[list[LookupQuery], list[LookupQuery]]:
        """A user now asks this, and no longer what was asked before. Returns the questions that somebody asks only now
        and those that nobody asks any more.
        """
        before = self._asked.get(user, {})
        if seen:
            self._asked[user] = seen
        else:
            self._asked.pop(user, None)
        came = [query for query in seen if query not in self._users]
        for query, each in seen.items():
            self._users.setdefault(query, {})[user] = each
        went = []
        for query in before.keys() - seen.keys():
            users = self._users[query]
            del users[user]
            if not users:
                del self._users[query]
                went.append(query)
        for query in came:
            self._by_kind.setdefault(query.group_kind, {})[query] = None
            if isinstance(query, Selection):
                self._label_names.setdefault(_place(query), Counter())[_names(query)] += 1
        for query in went:
            self._drop(query)
        return came, went

    def concerned(self, api_version: str, old: LiveObject | None, new: LiveObject | None) -> Iterator[LookupQuery]:
        """The questions that are asked and of whose answer an object is or was a part."""
        either = new or old
        if either is None:
            return
        kind, namespace, name = either.identity.kind, either.identity.namespace, either.identity.name
        alone = Lookup(api_version=api_version, kind=kind, namespace=namespace, name=name)
        if alone in self._users:
            yield alone
        for where in dict.fromkeys((namespace, "")):
            for names in self._label_names.get(_Place(api_version, kind, where), ()):
                labels = {_chosen(names, live) for live in (old, new) if live is not None}
                for chosen in labels - {None}:
                    assert chosen is not None
                    selection = Selection(api_version=api_version, kind=kind, namespace=where, labels=chosen)
                    if selection in self._users:
                        yield selection

    def _drop(self, query: LookupQuery) -> None:
        queries = self._by_kind[query.group_kind]
        del queries[query]
        if not queries:
            del self._by_kind[query.group_kind]
        if isinstance(query, Selection):
            location = _place(query)
            names = self._label_names[location]
            names[_names(query)] -= 1
            if not names[_names(query)]:
                del names[_names(query)]
            if not names:
                del self._label_names[location]


def _place(selection: Selection) -> _Place:
    return _Place(selection.api_version, selection.kind, selection.namespace)


def _names(selection: Selection) -> tuple[str, ...]:
    return tuple(name for name, _ in selection.labels)


def _chosen(names: tuple[str, ...], live: LiveObject) -> tuple[tuple[str, str], ...] | None:
    """An object's labels of these names, None where it lacks one."""
    labels = live.metadata.labels
    return tuple((name, labels[name]) for name in names) if all(name in labels for name in names) else None
