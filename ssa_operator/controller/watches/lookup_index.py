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
from ssa_operator.core.objects.identity import GroupKind
from ssa_operator.core.objects.live_object import Live
from ssa_operator.core.objects.cluster_view import Lookup, Selection

Seen: TypeAlias = Hashable
"""Tells one answer to a question from another."""

Asked: TypeAlias = Lookup | Selection


class User(NamedTuple):
    """A parent's templates: the parent's uid, and what a change of the answers is a cause of."""

    uid: str
    cause: Cause


class _Place(NamedTuple):
    """Where a selection looks."""

    api_version: str
    kind: str
    namespace: str


class Users:
    """The questions of every user's last render, with what each of them saw."""

    def __init__(self) -> None:
        self._asked: dict[User, Mapping[Asked, Seen]] = {}
        self._users: dict[Asked, dict[User, Seen]] = {}
        self._by_kind: dict[GroupKind, dict[Asked, None]] = {}
        self._label_names: dict[_Place, Counter[tuple[str, ...]]] = {}

    @property
    def kinds(self) -> Collection[GroupKind]:
        """The kinds that anybody asks for."""
        return tuple(self._by_kind)

    def asked(self, kind: GroupKind) -> Collection[Asked]:
        """What anybody asks of a kind."""
        return tuple(self._by_kind.get(kind, ()))

    def of(self, question: Asked) -> Mapping[User, Seen]:
        """Who asks this, with what they saw."""
        return dict(self._users.get(question, {}))

    def use(self, user: User, seen: Mapping[Asked, Seen]) -> tuple[list[Asked], list[Asked]]:
        """A user now asks this, and no longer what was asked before. Returns the questions that somebody asks only now
        and those that nobody asks any more.
        """
        before = self._asked.get(user, {})
        if seen:
            self._asked[user] = seen
        else:
            self._asked.pop(user, None)
        came = [question for question in seen if question not in self._users]
        for question, each in seen.items():
            self._users.setdefault(question, {})[user] = each
        went = []
        for question in before.keys() - seen.keys():
            users = self._users[question]
            del users[user]
            if not users:
                del self._users[question]
                went.append(question)
        for question in came:
            self._by_kind.setdefault(question.group_kind, {})[question] = None
            if isinstance(question, Selection):
                self._label_names.setdefault(_place(question), Counter())[_names(question)] += 1
        for question in went:
            self._drop(question)
        return came, went

    def concerned(self, api_version: str, old: Live | None, new: Live | None) -> Iterator[Asked]:
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

    def _drop(self, question: Asked) -> None:
        questions = self._by_kind[question.group_kind]
        del questions[question]
        if not questions:
            del self._by_kind[question.group_kind]
        if isinstance(question, Selection):
            place = _place(question)
            names = self._label_names[place]
            names[_names(question)] -= 1
            if not names[_names(question)]:
                del names[_names(question)]
            if not names:
                del self._label_names[place]


def _place(selection: Selection) -> _Place:
    return _Place(selection.api_version, selection.kind, selection.namespace)


def _names(selection: Selection) -> tuple[str, ...]:
    return tuple(name for name, _ in selection.labels)


def _chosen(names: tuple[str, ...], live: Live) -> tuple[tuple[str, str], ...] | None:
    """An object's labels of these names, None where it lacks one."""
    labels = live.metadata.labels
    return tuple((name, labels[name]) for name in names) if all(name in labels for name in names) else None
