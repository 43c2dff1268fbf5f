"""The informers of all objects that templates look up.

Promises:
- The operator watches what a template looks up from the first render on, in whatever namespace. It stops
  `GRACE_PERIOD` seconds after the last parent stopped looking it up. Answers come from caches.
- A parent is requeued when an answer differs from the one that it rendered, and only then: after a change by others or
  by the operator, a sync, a withdrawn permission, or a kind that is served or no longer served.
- A kind that the cluster doesn't serve has no objects only if it has no CRD, was not served before, and can be
  discovered. Otherwise its objects are unknown.
- The operator watches single objects by name, to need as few permissions as possible. If many are looked up, one wider
  watch replaces the narrow ones, if the permissions allow it. If they don't, the operator tries the wider watch again
  every `WIDER_RETRY` seconds while it is worthwhile; until it has synced, the narrow ones answer.

How it works:
Each query has a scope, the narrowest watch that answers it (`WatchScope.of`), and wider ones around it: the namespace,
then all namespaces. `watch` ensures after each render that an informer answers every query for which the API server
offers a watch. It starts one for the scope itself or, if many narrow watches exist, for a wider one (`choose_scope`).
Among the informers around a query, the widest one that has synced answers, otherwise the narrowest. So a wider watch
takes over only when it has synced: `_state_changed` then stops the narrower ones in it. If it is forbidden,
`_state_changed` stops it, excludes it for WIDER_RETRY seconds, and has its queries watched by narrower scopes again.

`set_queries` records the queries of a dependent's last render, with the version of each answer that it rendered. An
event of a synced cache finds the affected queries in the index and requeues their dependents. Before the sync, events
are ignored: the sync, like each change of an informer's state, compares every recorded version with the present one,
and requeues the dependents whose answer differs. `set_queries` compares, too, because answers may have changed between
the render and the record. So a change at any moment reaches every parent that rendered the former answer.

`_query_counts` has the number of recorded queries of each scope. When it becomes zero, and when an informer starts, a
timer stops the informer after GRACE_PERIOD if it has no query then.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial

from ssa_operator.informers.crds import CRDInformer
from ssa_operator.informers.informer import Informer, Informers, wait_for_sync
from ssa_operator.informers.lookup_index import (
    AnswerVersion,
    CachedAnswer,
    Dependent,
    LookupIndex,
    LookupQuery,
    SelectionAnswers,
    dependents_of,
)
from ssa_operator.informers.served_kinds import Requeue, ServedKinds
from ssa_operator.informers.watch_scopes import WatchScope, choose_scope
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import InvalidPath
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.cluster_view import Answer, Lookup, Query, Question, Selection
from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.live_object import LiveObject

log = logging.getLogger("ssa_operator")

WIDER_RETRY = 300.0
"""Seconds after which a wider watch that was forbidden is tried again, so that granting the permission is enough."""

_SCOPE_LEVELS = 3
"""A forbidden scope can be replaced by a narrower one twice."""


class LookupInformers(Informers[WatchScope]):
    """The informers by watch scope. `limited_to_namespaces`: whether the operator watches some namespaces only, so that
    no watch may be widened to all of them.
    """

    def __init__(
        self,
        client: Client,
        mapper: RESTMapper,
        crds: CRDInformer,
        requeue: Requeue,
        *,
        limited_to_namespaces: bool,
    ) -> None:
        super().__init__()
        self._client = client
        self._mapper = mapper
        self._crds = crds
        self._requeue = requeue
        self.served = ServedKinds(client, mapper, crds, requeue)
        """The kinds that templates ask for with `api_available`."""
        self._limited_to_namespaces = limited_to_namespaces
        self._index = LookupIndex()
        self.followers = self._index.followers
        """The dependents whose last render looked something up."""
        self._query_counts: Counter[WatchScope] = Counter()
        self._wider_scopes: set[WatchScope] = set()
        self._forbidden_scopes: set[WatchScope] = set()
        self._hidden: set[WatchScope] = set()
        """The scopes that contents of Secrets name."""
        self._answers = SelectionAnswers()

    @property
    def missing(self) -> set[GroupKind]:
        """The kinds that templates look up and that the cluster doesn't serve, or no longer serves."""
        return {kind for kind in self._index.kinds if self.is_missing(kind)}

    def is_missing(self, kind: GroupKind) -> bool:
        """Whether the cluster doesn't serve a kind in a version that templates look up."""
        versions = {split_api_version(query.api_version)[1] for query in self._index.queries(kind)}
        return any(self.resource(kind, version) is None for version in versions) or any(
            informer.missing for scope, informer in self.informers.items() if scope.group_kind == kind
        )

    def namespaced(self, kind: GroupKind) -> bool | None:
        """Whether a kind lives in namespaces, None if the cluster doesn't serve it."""
        resource = self.resource(kind)
        return None if resource is None else resource.namespaced

    def resource(self, kind: GroupKind, version: str | None = None) -> Resource | None:
        """How the cluster serves a kind, None if it doesn't."""
        try:
            return self._mapper.peek(kind, version)
        except UnknownKind:
            return None

    def answer(self, query: LookupQuery) -> Answer:
        """The answer from the caches."""
        return self._answers.answer(self._answer(query))

    def version(self, query: LookupQuery) -> AnswerVersion:
        """The version of the answer from the caches."""
        return self._answer(query).version

    async def is_outdated(self, query: LookupQuery, dependent: Dependent) -> bool:
        """Whether the API server has another answer than the one that the dependent rendered last. An answer that was
        not known is not outdated. Raises ApiError.
        """
        scope = WatchScope.of(query)
        informer, rendered = self._best_informer(scope), self._index.dependents(query).get(dependent)
        if informer is None or rendered is None or not self._answer(query).known:
            return False
        listed = Scope(
            informer.resource,
            query.namespace,
            label_selector=query.selector if isinstance(query, Selection) else "",
            name=query.name if isinstance(query, Lookup) else "",
            metadata_only=True,
            hidden=scope in self._hidden,
        )
        lives, _ = await self._client.list_scope(listed)
        if isinstance(query, Selection):
            lives = [live for live in lives if query.narrows(live.identity, live.metadata.labels)]
        return CachedAnswer(lives=lives).version != rendered

    def watch(
        self, queries: Collection[Query], parent: Lookup | None = None, hidden: AbstractSet[Question] = frozenset()
    ) -> Mapping[LookupQuery, AnswerVersion]:
        """Watch what a render looked up, except `parent`, which has its own informer. Returns the version of each
        answer. `hidden` are the queries that contents of Secrets name.
        """
        if not queries:
            return NOTHING
        lookups = [query for query in queries if isinstance(query, Lookup | Selection) and query != parent]
        versions = {query: self._answer(query).version for query in lookups}
        for query in lookups:
            scope = WatchScope.of(query)
            if query not in hidden:
                self._show(scope)
            elif scope not in self.informers:
                self._hidden.add(scope)
            self._ensure_watched(scope)
        return versions

    async def wait_for_sync(self, queries: Collection[LookupQuery]) -> None:
        """Wait until the informers of these queries have synced or have failed to, until their deadline."""
        if not queries:
            return
        scopes = {WatchScope.of(query) for query in queries}
        for _ in range(_SCOPE_LEVELS):
            informers = [each for each in map(self._best_informer, scopes) if each is not None and not each.synced]
            if not informers:
                return
            await wait_for_sync(informers)

    def set_queries(self, dependent: Dependent, queries: Mapping[LookupQuery, AnswerVersion]) -> None:
        """Record all queries of a dependent's last render, with the version of each answer that it rendered. The parent
        is requeued when an answer has another version.
        """
        added, removed = self._index.replace(dependent, queries)
        for query in added:
            self._count_query(WatchScope.of(query), 1)
        for query in removed:
            self._count_query(WatchScope.of(query), -1)
            if isinstance(query, Selection):
                self._answers.forget(query)
        for query, version in queries.items():
            self._ensure_watched(WatchScope.of(query))
            if self._answer(query).version != version:
                self._requeue(dependent.uid, dependent.cause)

    def kinds_of(self, parent_uid: str) -> set[GroupKind]:
        """The kinds that the last renders of a parent looked up."""
        return {
            query.group_kind for dependent in dependents_of(parent_uid) for query in self._index.rendered(dependent)
        }

    def is_current(self, parent_uid: str) -> bool:
        """Whether all answers that the last renders of a parent read are still the same."""
        dependents = dependents_of(parent_uid)
        return all(map(self.served.is_current, dependents)) and all(
            self._answer(query).version == version
            for dependent in dependents
            for query, version in self._index.rendered(dependent).items()
        )

    def forget(self, parent_uid: str) -> None:
        """Remove the queries of a deleted parent."""
        self.served.forget(parent_uid)
        for dependent in dependents_of(parent_uid):
            self.set_queries(dependent, {})

    def written(self, live: LiveObject) -> None:
        """Update the caches with a live object that a request of the operator returned."""
        if not self.informers:
            return
        for informer in self._informers_of(live):
            informer.cache.written(live)

    def deleted(self, live: LiveObject) -> None:
        """Remove from the caches an object that a request of the operator deleted."""
        for informer in self._informers_of(live):
            informer.cache.deleted(live)

    async def refresh(self, kind: GroupKind) -> None:
        """Adapt to a kind whose CRD was created, changed or deleted: stop the informers of kinds that are served
        differently now, start those that are possible now, and requeue dependents whose answers differ. Raises ApiError
        where discovery fails.
        """
        if kind not in self._index.kinds:
            return
        await self._mapper.discover()
        for scope, informer in list(self.informers.items()):
            if scope.group_kind != kind:
                continue
            served = self._resource(scope)
            if served is None and self._crds.serves(kind, scope.version):
                continue
            if served is None or (served.path(), served.namespaced) != (
                informer.resource.path(),
                informer.resource.namespaced,
            ):
                self._stop(scope)
        for query in self._index.queries(kind):
            self._ensure_watched(WatchScope.of(query))
        self._requeue_dependents_with_other_answers(self._index.queries(kind))

    def _answer(self, query: LookupQuery) -> CachedAnswer:
        scope = WatchScope.of(query)
        informer = self._best_informer(scope)
        if informer is None:
            try:
                resource = self._mapper.peek(scope.group_kind, scope.version)
            except UnknownKind as error:
                unknown = self.served.why_unknown(ApiKind(scope.api_version, scope.kind))
                return CachedAnswer(unknown=unknown) if unknown else CachedAnswer(absent=str(error))
            reason = _why_unwatchable(resource, scope)
            return CachedAnswer(unknown=reason or f"{scope.kind} is not watched yet", needs_permission=bool(reason))
        if not informer.synced:
            reason = informer.problem or f"the watch of {informer.reflector.scope} is not synced"
            return CachedAnswer(unknown=reason, needs_permission=informer.forbidden)
        if isinstance(query, Selection):
            return self._answers.find(query, informer.cache, keep=query in self._index)
        live = informer.cache.get(query.namespace, query.name)
        return CachedAnswer(lives=() if live is None else (live,))

    def _best_informer(self, scope: WatchScope) -> Informer | None:
        """The informer that answers for a scope: the widest one that has synced, else the narrowest."""
        informers = self._informers_in(scope)
        synced = [informer for informer in informers if informer.synced]
        return synced[-1] if synced else informers[0] if informers else None

    def _informers_of(self, live: LiveObject) -> list[Informer]:
        """The informers whose caches hold an object."""
        return self._informers_in(WatchScope.of_object(live))

    def _informers_in(self, scope: WatchScope) -> list[Informer]:
        """The informers of a scope and of the wider ones, the widest last."""
        return [found for each in (scope, *scope.wider) if (found := self.informers.get(each)) is not None]

    def _ensure_watched(self, scope: WatchScope) -> None:
        """Watch a scope, alone or as a part of a wider one, unless an informer answers for it already."""
        self._wider_scopes.discard(scope)
        informer = self._best_informer(scope)
        if informer is not None and (scope in self.informers or not informer.forbidden):
            return
        resource = self._resource(scope)
        if resource is None or _why_unwatchable(resource, scope):
            return
        chosen = self._choose_scope(scope, resource)
        if chosen != scope:
            self._wider_scopes.add(chosen)
        self._watch(chosen, resource)

    def _show(self, scope: WatchScope) -> None:
        """Show the name of a scope that another parent's templates name openly. What that parent learns about the watch
        must not depend on whether a Secret names the object, too.
        """
        if scope in self._hidden:
            self._hidden.discard(scope)
            self._stop(scope)

    def _retry_wider(self, wider: WatchScope) -> None:
        """Watch a wider scope that was forbidden, beside the narrow ones in it, if it is still worthwhile."""
        self._forbidden_scopes.discard(wider)
        resource = self._resource(wider)
        narrow = next((each for each in self.informers if wider in each.wider), None)
        if resource is None or narrow is None or self._choose_scope(narrow, resource) != wider:
            return
        self._wider_scopes.add(wider)
        self._watch(wider, resource)

    def _choose_scope(self, scope: WatchScope, resource: Resource) -> WatchScope:
        """The scope to watch: this one, or a wider one that replaces many watches."""
        watched = [each for each in self.informers if (each.api_version, each.kind) == (scope.api_version, scope.kind)]
        return choose_scope(scope, watched, {each for each in scope.wider if self._may_widen_to(each, resource)})

    def _may_widen_to(self, wider: WatchScope, resource: Resource) -> bool:
        out_of_limits = self._limited_to_namespaces and resource.namespaced and not wider.namespace
        return not out_of_limits and wider not in self._forbidden_scopes and wider not in self.informers

    def _watch(self, scope: WatchScope, resource: Resource) -> None:
        cache = Cache()
        watched = Scope(resource, scope.namespace, name=scope.name, hidden=scope in self._hidden)
        reflector = Reflector(self._client, watched, cache)
        cache.listen(partial(self._changed, scope), own_writes=True)
        self._start(scope, reflector, lambda _: self._state_changed(scope))
        self._stop_later(scope)

    def _resource(self, scope: WatchScope) -> Resource | None:
        return self.resource(scope.group_kind, scope.version)

    def _count_query(self, scope: WatchScope, step: int) -> None:
        """Count a query up or down in every scope that answers it. A scope without queries is stopped later."""
        for each in (scope, *scope.wider):
            self._query_counts[each] += step
            if not self._query_counts[each]:
                del self._query_counts[each]
                self._stop_later(each)

    def _is_used(self, shown: WatchScope) -> bool:
        return bool(self._query_counts[shown])

    def _stopped(self, shown: WatchScope, informer: Informer) -> None:
        self._hidden.discard(shown)
        self._answers.forget_cache(informer.cache)
        self._wider_scopes.discard(shown)

    def _state_changed(self, scope: WatchScope) -> None:
        informer = self.informers.get(scope)
        if informer is None:
            return
        queries = self._queries_in(scope)
        if informer.synced:
            for narrower in [each for each in self.informers if each != scope and scope.contains(each)]:
                self._stop(narrower)
        elif informer.forbidden and scope in self._wider_scopes:
            log.info("lookups: %s; the objects are watched one by one", informer.reflector.problem)
            self._forbidden_scopes.add(scope)
            asyncio.get_running_loop().call_later(WIDER_RETRY, self._retry_wider, scope)
            self._stop(scope)
            for query in queries:
                self._ensure_watched(WatchScope.of(query))
        elif informer.forbidden:
            log.warning("lookups: %s", informer.reflector.problem)
        self._requeue_dependents_with_other_answers(queries)

    def _queries_in(self, scope: WatchScope) -> Collection[LookupQuery]:
        """The queries that a scope answers."""
        if scope.name:
            return (Lookup(api_version=scope.api_version, kind=scope.kind, namespace=scope.namespace, name=scope.name),)
        return [query for query in self._index.queries(scope.group_kind) if scope.contains(WatchScope.of(query))]

    def _changed(self, scope: WatchScope, old: LiveObject | None, new: LiveObject | None) -> None:
        informer = self.informers.get(scope)
        if informer is None or not informer.synced:
            # When it has synced, `_state_changed` requeues the dependents that rendered another answer.
            return
        live = new or old
        assert live is not None
        for query in self._index.affected(scope.api_version, old, new):
            for dependent in self._index.dependents(query):
                # A parent that looks up itself or its own child gets their events anyway.
                own = dependent.uid == live.uid or live.belongs_to(dependent.uid)
                self._requeue(dependent.uid, Cause.CHILD if own else dependent.cause)

    def _requeue_dependents_with_other_answers(self, queries: Iterable[LookupQuery]) -> None:
        for query in queries:
            version = self._answer(query).version
            for dependent, rendered in self._index.dependents(query).items():
                if rendered != version:
                    self._requeue(dependent.uid, dependent.cause)


def _why_unwatchable(resource: Resource, scope: WatchScope) -> str | None:
    """Why a scope of a resource can't be watched with any permission, None if it can."""
    if resource.verbs and not {"list", "watch"} <= resource.verbs:
        return f"the API server offers no watch of {resource.name}"
    if scope.namespace and not resource.namespaced:
        return f"{resource.name} is cluster-scoped, and namespace {scope.namespace} was asked"
    try:
        resource.path(scope.namespace)
    except InvalidPath as error:
        return error.message
    return None
