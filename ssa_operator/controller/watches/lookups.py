"""The watches of everything that templates look up, and who has to be woken when it changes.

Promises:
- What is asked for is watched from the first render that asks, in whatever namespace, and no longer than `GRACE` after
  the last parent stopped asking. Answers come from memory.
- Whoever saw something else than what is known now is woken, whatever the reason: a change by others or by ourselves, a
  watch that is synced at last, a right that was taken away, a kind that came or went. Nobody else is.
- As little is watched as the rights have to allow: single objects, each by its name. Where many are asked for, one
  watch takes the place of many, unless the rights forbid that. If they do, the wider watch is tried again every
  `WIDER_RETRY` seconds while it is worthwhile; until it is synced, the narrow ones answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from ssa_operator.controller.watches.crds import Definitions
from ssa_operator.controller.queue import Cause
from ssa_operator.controller.watches.lookup_index import Asked, Seen, User, Users
from ssa_operator.controller.watches.informer import Watch, until_settled
from ssa_operator.core.policies.watch_scope import Area, worthwhile
from ssa_operator.core.objects.identity import GroupKind
from ssa_operator.core.objects.live_object import Live
from ssa_operator.core.redaction.secret_values import NOTHING, Secrecy
from ssa_operator.core.objects.cluster_view import Answer, Lookup, Question, Selection
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource

log = logging.getLogger("ssa_operator")

GRACE = 30.0
"""Seconds for which a watch that nobody uses any more goes on, for a template or a condition that changes back."""

WIDER_RETRY = 300.0
"""Seconds after which a wider watch that was forbidden is tried again, so that granting the permission is enough."""

_LEVELS = 3
"""An area can give way to a narrower one twice."""


class LookupListener(Protocol):
    """Who is told that a parent has to be looked at."""

    def looked_up(self, parent_uid: str, cause: Cause) -> None:
        """Something that the parent's templates look up changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """An Answer of live objects."""

    lives: Collection[Live] = ()
    unknown: str = ""
    barred: bool = False
    absent: str = ""

    @property
    def seen(self) -> Seen:
        return self.unknown, self.absent, hash(frozenset((live.uid, live.resource_version) for live in self.lives))


class Lookups:
    """The watches by area. `confined`: whether the operator looks after some namespaces only, so that no watch may be
    widened to all of them.
    """

    def __init__(
        self,
        client: Client,
        mapper: RESTMapper,
        definitions: Definitions,
        listener: LookupListener,
        *,
        confined: bool,
    ) -> None:
        self._client = client
        self._mapper = mapper
        self._definitions = definitions
        self._listener = listener
        self._confined = confined
        self._users = Users()
        self._watches: dict[Area, Watch] = {}
        self._asked_within: Counter[Area] = Counter()
        self._widened: set[Area] = set()
        self._refused: set[Area] = set()
        self._discreet: dict[Area, Secrecy] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def reflectors(self) -> Iterator[Reflector]:
        return (reflector for watch in self._watches.values() for reflector in watch.reflectors)

    @property
    def missing(self) -> set[GroupKind]:
        """The kinds that are asked for and that the cluster doesn't have, or had until now."""
        vanished = {area.group_kind for area, watch in self._watches.items() if watch.missing}
        asked = (question for kind in self._users.kinds for question in self._users.asked(kind))
        return vanished | {question.group_kind for question in asked if not self._is_served(Area.of(question))}

    async def prepare(self) -> None:
        """Have it known what the cluster serves. Costs nothing where it is. Raises ApiError."""
        await self._mapper.discover()

    def namespaced(self, kind: GroupKind) -> bool | None:
        """Whether a kind lives in namespaces, None where the cluster doesn't have it."""
        try:
            return self._mapper.peek(kind).namespaced
        except UnknownKind:
            return None

    def answer(self, question: Asked) -> Answer:
        """What is known now."""
        found = self._find(question)
        objects = [live.body for live in found.lives]
        return Answer(objects=objects, unknown=found.unknown, barred=found.barred, absent=found.absent)

    def look(
        self, asked: Iterable[Question], itself: Lookup | None = None, secrecy: Secrecy = NOTHING
    ) -> Mapping[Asked, Seen]:
        """What a render that has just asked this saw; what isn't watched yet is from now on. `itself` is not looked
        at: the parent is known anyway. Where a question holds what `secrecy` knows, its watch doesn't say so.
        """
        questions = [each for each in asked if isinstance(each, Lookup | Selection) and each != itself]
        seen = {question: self._find(question).seen for question in questions}
        for question in questions:
            self._ensure(Area.of(question), secrecy)
        return seen

    async def settled(self, questions: Iterable[Asked]) -> None:
        """Wait until the answers are known, or known not to be had, within the patience of their watches."""
        areas = {Area.of(question) for question in questions}
        for _ in range(_LEVELS):
            watches = [watch for watch in map(self._serving, areas) if watch is not None and not watch.synced]
            if not watches:
                return
            await until_settled(watches)

    def use(self, user: User, seen: Mapping[Asked, Seen]) -> None:
        """This is what a user's last render saw, and all that it asked. It is woken when that is no longer so."""
        came, went = self._users.use(user, seen)
        for question in came:
            self._count(Area.of(question), 1)
        for question in went:
            self._count(Area.of(question), -1)
        for question, each in seen.items():
            self._ensure(Area.of(question))
            if self._find(question).seen != each:
                self._listener.looked_up(user.uid, user.cause)

    def forget(self, parent_uid: str) -> None:
        """A parent is gone."""
        for cause in (Cause.TEMPLATE, Cause.CHILD):
            self.use(User(parent_uid, cause), {})

    def written(self, live: Live) -> None:
        """Take what one of our own requests returned for the live object."""
        for watch in self._around(live):
            watch.cache.written(live)

    def deleted(self, live: Live) -> None:
        """Take that one of our own requests deleted the object for good."""
        for watch in self._around(live):
            watch.cache.deleted(live)

    async def refresh(self, kind: GroupKind) -> None:
        """A kind's CRD changed, or may be there now. Raises ApiError where the cluster can't be asked."""
        if kind not in self._users.kinds:
            return
        await self._mapper.discover()
        for area, watch in list(self._watches.items()):
            if area.group_kind != kind:
                continue
            served = self._resource(area)
            if served is None and self._definitions.serves(kind, area.version):
                continue
            if served is None or (served.path(), served.namespaced) != (
                watch.resource.path(),
                watch.resource.namespaced,
            ):
                self._drop(area)
        for question in self._users.asked(kind):
            self._ensure(Area.of(question))
        self._wake_whoever_saw_else(self._users.asked(kind))

    async def close(self) -> None:
        """Stop every watch."""
        for area in list(self._watches):
            self._drop(area)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _find(self, question: Asked) -> _Found:
        area = Area.of(question)
        watch = self._serving(area)
        if watch is None:
            try:
                resource = self._mapper.peek(area.group_kind, area.version)
            except UnknownKind as error:
                if self._definitions.serves(area.group_kind, area.version):
                    return _Found(unknown=f"the API server has not yet begun to serve {area.kind}")
                return _Found(absent=str(error))
            problem = _unwatchable(resource, area)
            return _Found(unknown=problem or f"{area.kind} is not watched yet", barred=bool(problem))
        if not watch.synced:
            scope = watch.reflectors[0].scope
            problem = watch.problem or f"the watch of {scope} is not synced"
            hint = f"; {_right(scope)}" if watch.forbidden else ""
            return _Found(unknown=problem + hint, barred=watch.forbidden)
        if isinstance(question, Selection):
            return _Found(lives=watch.cache.select(question.namespace, dict(question.labels)))
        live = watch.cache.get(question.namespace, question.name)
        return _Found(lives=() if live is None else (live,))

    def _serving(self, area: Area) -> Watch | None:
        """The watch that answers for an area: the widest one that is synced, else the narrowest."""
        watches = [watch for each in (area, *area.wider) if (watch := self._watches.get(each)) is not None]
        synced = [watch for watch in watches if watch.synced]
        return synced[-1] if synced else watches[0] if watches else None

    def _around(self, live: Live) -> list[Watch]:
        area = Area.around(live)
        return [watch for each in (area, *area.wider) if (watch := self._watches.get(each)) is not None]

    def _ensure(self, area: Area, secrecy: Secrecy = NOTHING) -> None:
        """Have an area watched, alone or as a part of a wider one."""
        self._widened.discard(area)
        serving = self._serving(area)
        if serving is not None and (area in self._watches or not serving.forbidden):
            return
        resource = self._resource(area)
        if resource is None or _unwatchable(resource, area):
            return
        wanted = self._worthwhile(area, resource)
        if wanted != area:
            self._widened.add(wanted)
        self._start(wanted, resource, secrecy)

    def _try_again(self, refused: Area) -> None:
        """Watch a wider area that was forbidden, beside the narrow ones in it, if it is still worthwhile."""
        self._refused.discard(refused)
        resource = self._resource(refused)
        narrow = next((each for each in self._watches if refused in each.wider), None)
        if resource is None or narrow is None or self._worthwhile(narrow, resource) != refused:
            return
        self._widened.add(refused)
        self._start(refused, resource, NOTHING)

    def _worthwhile(self, area: Area, resource: Resource) -> Area:
        watched = [each for each in self._watches if (each.api_version, each.kind) == (area.api_version, area.kind)]
        return worthwhile(area, watched, {each for each in area.wider if self._is_possible(each, resource)})

    def _is_possible(self, wider: Area, resource: Resource) -> bool:
        confined = self._confined and resource.namespaced and not wider.namespace
        return not confined and wider not in self._refused and wider not in self._watches

    def _start(self, area: Area, resource: Resource, secrecy: Secrecy) -> None:
        cache = Cache()
        if secrecy.holds(area.name) or secrecy.holds(area.namespace):
            self._discreet[area] = secrecy
        said = self._discreet.get(area, NOTHING)
        reflector = Reflector(self._client, resource, cache, namespace=area.namespace, name=area.name, secrecy=said)
        cache.listen(partial(self._changed, area), own_writes=True)
        watch = self._watches[area] = Watch(resource, cache, lambda _: self._state_changed(area))
        watch.add(reflector)
        self._end_later(area)

    def _is_served(self, area: Area) -> bool:
        return self._resource(area) is not None

    def _resource(self, area: Area) -> Resource | None:
        try:
            return self._mapper.peek(area.group_kind, area.version)
        except UnknownKind:
            return None

    def _count(self, area: Area, step: int) -> None:
        for each in (area, *area.wider):
            self._asked_within[each] += step
            if not self._asked_within[each]:
                del self._asked_within[each]
                self._end_later(each)

    def _end_later(self, area: Area) -> None:
        asyncio.get_running_loop().call_later(GRACE, self._end_unused, area)

    def _end_unused(self, area: Area) -> None:
        if area in self._watches and not self._asked_within[area]:
            self._drop(area)

    def _drop(self, area: Area) -> None:
        # Also in the middle of a call of its own listener: it is not waited for here.
        watch = self._watches.pop(area)
        self._widened.discard(area)
        watch.cancel()
        self._ending.update(watch.tasks)
        for task in watch.tasks:
            task.add_done_callback(self._ending.discard)

    def _state_changed(self, area: Area) -> None:
        watch = self._watches.get(area)
        if watch is None:
            return
        within = self._asked_in(area)
        if watch.synced:
            for narrower in [each for each in self._watches if each != area and area.holds(each)]:
                self._drop(narrower)
        elif watch.forbidden and area in self._widened:
            log.info("lookups: %s; what is asked for is watched one by one", watch.problem)
            self._refused.add(area)
            asyncio.get_running_loop().call_later(WIDER_RETRY, self._try_again, area)
            self._drop(area)
            for question in within:
                self._ensure(Area.of(question))
        elif watch.forbidden:
            log.warning("lookups: %s", watch.problem)
        self._wake_whoever_saw_else(within)

    def _asked_in(self, area: Area) -> Collection[Asked]:
        """What anybody asks that an area answers."""
        if area.name:
            return (Lookup(api_version=area.api_version, kind=area.kind, namespace=area.namespace, name=area.name),)
        return [question for question in self._users.asked(area.group_kind) if area.holds(Area.of(question))]

    def _changed(self, area: Area, old: Live | None, new: Live | None) -> None:
        watch = self._watches.get(area)
        if watch is None or not watch.synced:
            # Whoever uses it is woken when it is synced, if then it is not what was seen before.
            return
        live = new or old
        assert live is not None
        for question in self._users.concerned(area.api_version, old, new):
            for user in self._users.of(question):
                # For the parent and its children it is only one more way to hear of them.
                kin = user.uid in (live.uid, live.parent_uid)
                self._listener.looked_up(user.uid, Cause.CHILD if kin else user.cause)

    def _wake_whoever_saw_else(self, questions: Iterable[Asked]) -> None:
        for question in questions:
            now = self._find(question).seen
            for user, seen in self._users.of(question).items():
                if seen != now:
                    self._listener.looked_up(user.uid, user.cause)


def _right(scope: Scope) -> str:
    """What to allow."""
    name = scope.secrecy.redacted(scope.name)
    what = f"{scope.resource.name} (at least {name}, by resourceNames)" if scope.name else scope.resource.name
    where = scope.secrecy.redacted(scope.namespace) or (
        "all namespaces" if scope.resource.namespaced else "the cluster"
    )
    return f"allow the operator to list and watch {what} in {where}"


def _unwatchable(resource: Resource, area: Area) -> str:
    """Why an area of a resource can't be watched at all, '' where it can."""
    if resource.verbs and not {"list", "watch"} <= resource.verbs:
        return f"the API server offers no watch of {resource.name}"
    if area.namespace and not resource.namespaced:
        return f"{resource.name} is cluster-scoped, and namespace {area.namespace} was asked"
    try:
        resource.path(area.namespace)
    except ValueError as error:
        return str(error)
    return ""
