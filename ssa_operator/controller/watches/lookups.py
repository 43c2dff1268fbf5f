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

from ssa_operator.controller.queue import Cause
from ssa_operator.controller.watches.crds import CRDInformer
from ssa_operator.controller.watches.informer import Informer, until_settled
from ssa_operator.controller.watches.lookup_index import AnswerVersion, Dependent, LookupIndex, LookupQuery
from ssa_operator.core.objects.cluster_view import Answer, Lookup, Query, Selection
from ssa_operator.core.objects.identity import GroupKind
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.policies.watch_scope import WatchScope, choose_scope
from ssa_operator.core.redaction.secret_values import NO_SECRETS, Redactor
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector

log = logging.getLogger("ssa_operator")

GRACE = 30.0
"""Seconds for which a watch that nobody uses any more goes on, for a template or a condition that changes back."""

WIDER_RETRY = 300.0
"""Seconds after which a wider watch that was forbidden is tried again, so that granting the permission is enough."""

_LEVELS = 3
"""An area can give way to a narrower one twice."""


class LookupListener(Protocol):
    """Who is told that a parent has to be looked at."""

    def lookup_changed(self, parent_uid: str, cause: Cause) -> None:
        """Something that the parent's templates look up changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """An Answer of live objects."""

    lives: Collection[LiveObject] = ()
    unknown: str = ""
    needs_permission: bool = False
    absent: str = ""

    @property
    def seen(self) -> AnswerVersion:
        return self.unknown, self.absent, hash(frozenset((live.uid, live.resource_version) for live in self.lives))


class LookupInformers:
    """The watches by area. `confined`: whether the operator looks after some namespaces only, so that no watch may be
    widened to all of them.
    """

    def __init__(
        self,
        client: Client,
        mapper: RESTMapper,
        definitions: CRDInformer,
        listener: LookupListener,
        *,
        confined: bool,
    ) -> None:
        self._client = client
        self._mapper = mapper
        self._definitions = definitions
        self._listener = listener
        self._confined = confined
        self._users = LookupIndex()
        self._watches: dict[WatchScope, Informer] = {}
        self._asked_within: Counter[WatchScope] = Counter()
        self._widened: set[WatchScope] = set()
        self._refused: set[WatchScope] = set()
        self._discreet: dict[WatchScope, Redactor] = {}
        self._ending: set[asyncio.Task[None]] = set()

    @property
    def reflectors(self) -> Iterator[Reflector]:
        return (reflector for watch in self._watches.values() for reflector in watch.reflectors)

    @property
    def missing(self) -> set[GroupKind]:
        """The kinds that are asked for and that the cluster doesn't have, or had until now."""
        vanished = {scope.group_kind for scope, watch in self._watches.items() if watch.missing}
        asked = (query for kind in self._users.kinds for query in self._users.asked(kind))
        return vanished | {query.group_kind for query in asked if not self._is_served(WatchScope.of(query))}

    async def prepare(self) -> None:
        """Have it known what the cluster serves. Costs nothing where it is. Raises ApiError."""
        await self._mapper.discover()

    def namespaced(self, kind: GroupKind) -> bool | None:
        """Whether a kind lives in namespaces, None where the cluster doesn't have it."""
        try:
            return self._mapper.peek(kind).namespaced
        except UnknownKind:
            return None

    def answer(self, query: LookupQuery) -> Answer:
        """What is known now."""
        found = self._find(query)
        objects = [live.body for live in found.lives]
        return Answer(
            objects=objects, unknown=found.unknown, needs_permission=found.needs_permission, absent=found.absent
        )

    def look(
        self, asked: Iterable[Query], itself: Lookup | None = None, redactor: Redactor = NO_SECRETS
    ) -> Mapping[LookupQuery, AnswerVersion]:
        """What a render that has just asked this saw; what isn't watched yet is from now on. `itself` is not looked
        at: the parent is known anyway. Where a question holds what `secrecy` knows, its watch doesn't say so.
        """
        queries = [each for each in asked if isinstance(each, Lookup | Selection) and each != itself]
        seen = {query: self._find(query).seen for query in queries}
        for query in queries:
            self._ensure(WatchScope.of(query), redactor)
        return seen

    async def settled(self, queries: Iterable[LookupQuery]) -> None:
        """Wait until the answers are known, or known not to be had, within the patience of their watches."""
        scopes = {WatchScope.of(query) for query in queries}
        for _ in range(_LEVELS):
            watches = [watch for watch in map(self._serving, scopes) if watch is not None and not watch.synced]
            if not watches:
                return
            await until_settled(watches)

    def use(self, user: Dependent, seen: Mapping[LookupQuery, AnswerVersion]) -> None:
        """This is what a user's last render saw, and all that it asked. It is woken when that is no longer so."""
        came, went = self._users.use(user, seen)
        for query in came:
            self._count(WatchScope.of(query), 1)
        for query in went:
            self._count(WatchScope.of(query), -1)
        for query, each in seen.items():
            self._ensure(WatchScope.of(query))
            if self._find(query).seen != each:
                self._listener.lookup_changed(user.uid, user.cause)

    def forget(self, parent_uid: str) -> None:
        """A parent is gone."""
        for cause in (Cause.TEMPLATE, Cause.CHILD):
            self.use(Dependent(parent_uid, cause), {})

    def written(self, live: LiveObject) -> None:
        """Take what one of our own requests returned for the live object."""
        for watch in self._around(live):
            watch.cache.written(live)

    def deleted(self, live: LiveObject) -> None:
        """Take that one of our own requests deleted the object for good."""
        for watch in self._around(live):
            watch.cache.deleted(live)

    async def refresh(self, kind: GroupKind) -> None:
        """A kind's CRD changed, or may be there now. Raises ApiError where the cluster can't be asked."""
        if kind not in self._users.kinds:
            return
        await self._mapper.discover()
        for scope, watch in list(self._watches.items()):
            if scope.group_kind != kind:
                continue
            served = self._resource(scope)
            if served is None and self._definitions.serves(kind, scope.version):
                continue
            if served is None or (served.path(), served.namespaced) != (
                watch.resource.path(),
                watch.resource.namespaced,
            ):
                self._drop(scope)
        for query in self._users.asked(kind):
            self._ensure(WatchScope.of(query))
        self._wake_whoever_saw_else(self._users.asked(kind))

    async def close(self) -> None:
        """Stop every watch."""
        for scope in list(self._watches):
            self._drop(scope)
        await asyncio.gather(*self._ending, return_exceptions=True)

    def _find(self, query: LookupQuery) -> _Found:
        scope = WatchScope.of(query)
        watch = self._serving(scope)
        if watch is None:
            try:
                resource = self._mapper.peek(scope.group_kind, scope.version)
            except UnknownKind as error:
                if self._definitions.serves(scope.group_kind, scope.version):
                    return _Found(unknown=f"the API server has not yet begun to serve {scope.kind}")
                return _Found(absent=str(error))
            problem = _unwatchable(resource, scope)
            return _Found(unknown=problem or f"{scope.kind} is not watched yet", needs_permission=bool(problem))
        if not watch.synced:
            watched = watch.reflectors[0].scope
            problem = watch.problem or f"the watch of {watched} is not synced"
            hint = f"; {_right(watched)}" if watch.forbidden else ""
            return _Found(unknown=problem + hint, needs_permission=watch.forbidden)
        if isinstance(query, Selection):
            return _Found(lives=watch.cache.select(query.namespace, dict(query.labels)))
        live = watch.cache.get(query.namespace, query.name)
        return _Found(lives=() if live is None else (live,))

    def _serving(self, scope: WatchScope) -> Informer | None:
        """The watch that answers for an area: the widest one that is synced, else the narrowest."""
        watches = [watch for each in (scope, *scope.wider) if (watch := self._watches.get(each)) is not None]
        synced = [watch for watch in watches if watch.synced]
        return synced[-1] if synced else watches[0] if watches else None

    def _around(self, live: LiveObject) -> list[Informer]:
        scope = WatchScope.of_object(live)
        return [watch for each in (scope, *scope.wider) if (watch := self._watches.get(each)) is not None]

    def _ensure(self, scope: WatchScope, redactor: Redactor = NO_SECRETS) -> None:
        """Have an area watched, alone or as a part of a wider one."""
        self._widened.discard(scope)
        serving = self._serving(scope)
        if serving is not None and (scope in self._watches or not serving.forbidden):
            return
        resource = self._resource(scope)
        if resource is None or _unwatchable(resource, scope):
            return
        wanted = self._worthwhile(scope, resource)
        if wanted != scope:
            self._widened.add(wanted)
        self._start(wanted, resource, redactor)

    def _try_again(self, refused: WatchScope) -> None:
        """Watch a wider area that was forbidden, beside the narrow ones in it, if it is still worthwhile."""
        self._refused.discard(refused)
        resource = self._resource(refused)
        narrow = next((each for each in self._watches if refused in each.wider), None)
        if resource is None or narrow is None or self._worthwhile(narrow, resource) != refused:
            return
        self._widened.add(refused)
        self._start(refused, resource, NO_SECRETS)

    def _worthwhile(self, scope: WatchScope, resource: Resource) -> WatchScope:
        watched = [each for each in self._watches if (each.api_version, each.kind) == (scope.api_version, scope.kind)]
        return choose_scope(scope, watched, {each for each in scope.wider if self._is_possible(each, resource)})

    def _is_possible(self, wider: WatchScope, resource: Resource) -> bool:
        confined = self._confined and resource.namespaced and not wider.namespace
        return not confined and wider not in self._refused and wider not in self._watches

    def _start(self, scope: WatchScope, resource: Resource, redactor: Redactor) -> None:
        cache = Cache()
        if redactor.contains_secret(scope.name) or redactor.contains_secret(scope.namespace):
            self._discreet[scope] = redactor
        said = self._discreet.get(scope, NO_SECRETS)
        watched = Scope(resource, scope.namespace, name=scope.name, redactor=said)
        reflector = Reflector(self._client, watched, cache)
        cache.listen(partial(self._changed, scope), own_writes=True)
        watch = self._watches[scope] = Informer(resource, cache, lambda _: self._state_changed(scope))
        watch.add(reflector)
        self._end_later(scope)

    def _is_served(self, scope: WatchScope) -> bool:
        return self._resource(scope) is not None

    def _resource(self, scope: WatchScope) -> Resource | None:
        try:
            return self._mapper.peek(scope.group_kind, scope.version)
        except UnknownKind:
            return None

    def _count(self, scope: WatchScope, step: int) -> None:
        for each in (scope, *scope.wider):
            self._asked_within[each] += step
            if not self._asked_within[each]:
                del self._asked_within[each]
                self._end_later(each)

    def _end_later(self, scope: WatchScope) -> None:
        asyncio.get_running_loop().call_later(GRACE, self._end_unused, scope)

    def _end_unused(self, scope: WatchScope) -> None:
        if scope in self._watches and not self._asked_within[scope]:
            self._drop(scope)

    def _drop(self, scope: WatchScope) -> None:
        # Also in the middle of a call of its own listener: it is not waited for here.
        watch = self._watches.pop(scope)
        self._widened.discard(scope)
        watch.cancel()
        self._ending.update(watch.tasks)
        for task in watch.tasks:
            task.add_done_callback(self._ending.discard)

    def _state_changed(self, scope: WatchScope) -> None:
        watch = self._watches.get(scope)
        if watch is None:
            return
        within = self._asked_in(scope)
        if watch.synced:
            for narrower in [each for each in self._watches if each != scope and scope.contains(each)]:
                self._drop(narrower)
        elif watch.forbidden and scope in self._widened:
            log.info("lookups: %s; what is asked for is watched one by one", watch.problem)
            self._refused.add(scope)
            asyncio.get_running_loop().call_later(WIDER_RETRY, self._try_again, scope)
            self._drop(scope)
            for query in within:
                self._ensure(WatchScope.of(query))
        elif watch.forbidden:
            log.warning("lookups: %s", watch.problem)
        self._wake_whoever_saw_else(within)

    def _asked_in(self, scope: WatchScope) -> Collection[LookupQuery]:
        """What anybody asks that an area answers."""
        if scope.name:
            return (Lookup(api_version=scope.api_version, kind=scope.kind, namespace=scope.namespace, name=scope.name),)
        return [query for query in self._users.asked(scope.group_kind) if scope.contains(WatchScope.of(query))]

    def _changed(self, scope: WatchScope, old: LiveObject | None, new: LiveObject | None) -> None:
        watch = self._watches.get(scope)
        if watch is None or not watch.synced:
            # Whoever uses it is woken when it is synced, if then it is not what was seen before.
            return
        live = new or old
        assert live is not None
        for query in self._users.concerned(scope.api_version, old, new):
            for user in self._users.of(query):
                # For the parent and its children it is only one more way to hear of them.
                kin = user.uid in (live.uid, live.parent_uid)
                self._listener.lookup_changed(user.uid, Cause.CHILD if kin else user.cause)

    def _wake_whoever_saw_else(self, queries: Iterable[LookupQuery]) -> None:
        for query in queries:
            now = self._find(query).seen
            for user, seen in self._users.of(query).items():
                if seen != now:
                    self._listener.lookup_changed(user.uid, user.cause)


def _right(scope: Scope) -> str:
    """What to allow."""
    name = scope.redactor.redact(scope.name)
    what = f"{scope.resource.name} (at least {name}, by resourceNames)" if scope.name else scope.resource.name
    where = scope.redactor.redact(scope.namespace) or ("all namespaces" if scope.resource.namespaced else "the cluster")
    return f"allow the operator to list and watch {what} in {where}"


def _unwatchable(resource: Resource, scope: WatchScope) -> str:
    """Why an area of a resource can't be watched at all, '' where it can."""
    if resource.verbs and not {"list", "watch"} <= resource.verbs:
        return f"the API server offers no watch of {resource.name}"
    if scope.namespace and not resource.namespaced:
        return f"{resource.name} is cluster-scoped, and namespace {scope.namespace} was asked"
    try:
        resource.path(scope.namespace)
    except ValueError as error:
        return str(error)
    return ""
