"""Before the first deletion of a reconcile, reads the parent again, and the objects that its templates read, so that
nothing is deleted based on stale data. Also reads the parent before it first gets an object that Kubernetes doesn't
collect with it, alone or as one of several owners, or that was deleted recently.

Promises:
- A reconcile that deletes nothing and gets no such object sends no such request. Any other sends one for the parent;
  one that deletes and whose parent is not outdated, one for each `child`, `live` and lookup of its templates, however
  many objects it deletes, and even if such a request fails.
- If this reconcile itself has changed a child, the templates have read an earlier state of it: only the next reconcile
  deletes.
- The answers come from etcd and not from a watch cache of the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from ssa_operator.informers.lookup_index import Dependent
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.cluster_view import Query
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.prune.outdated_view import is_outdated, is_outdated_but_for_records

Value = TypeVar("Value")


async def why_outdated(reconcile: Reconcile) -> str | None:
    """Why nothing may be deleted because the operator's view is outdated, None if it is current. A parent that is being
    deleted deletes its children all the same. Raises ApiError.
    """
    if reconcile.plan is None or reconcile.began_leaving:
        return None
    return await why_parent_outdated(reconcile) or await _asked_once(reconcile, reconcile.plan, _why_read)


async def why_parent_outdated(reconcile: Reconcile) -> str | None:
    """As `why_outdated`, of the parent alone, even of one that is being deleted."""
    return None if reconcile.plan is None else await _asked_once(reconcile, reconcile.plan, _why_parent)


async def _asked_once(
    reconcile: Reconcile, plan: Plan, ask: Callable[[Reconcile, Plan], Awaitable[str | None]]
) -> str | None:
    """The answer, or the error, of a question that is sent once for all children. Raises ApiError."""
    answers = reconcile.answers
    async with reconcile.lock:
        if ask not in answers:
            try:
                answers[ask] = await ask(reconcile, plan)
            except ApiError as error:
                answers[ask] = error
    answer = answers[ask]
    if isinstance(answer, ApiError):
        raise answer
    return answer


async def _why_parent(reconcile: Reconcile, plan: Plan) -> str | None:
    parent = reconcile.parent
    identity = parent.live.identity
    current = await reconcile.cluster.operator_client.find(parent.resource, identity.name, identity.namespace)
    if current is None:
        return f"{identity} is gone, and its watch is behind"
    if is_outdated_but_for_records(plan.observed.parent, parent.live) or is_outdated(parent.live, current):
        return f"{identity} has changed, and its watch is behind"
    return None


async def _why_read(reconcile: Reconcile, plan: Plan) -> str | None:
    asked = plan.rendered.queries
    # Objects with generated values were read, too, and may be no children.
    lives = (live for live in plan.observed.children.as_rendered.values() if live is not None)
    read = _by_name((live.identity, live) for live in lives if live.belongs_to(reconcile.uid))
    planned = _by_name((step.identity, step.identity) for step in plan.steps)

    async def is_outdated(query: Query) -> bool:
        """Whether the API server's answer differs from the one that the templates read."""
        if not isinstance(query, Reference):
            return await reconcile.cluster.lookups.is_outdated(query, Dependent(reconcile.uid, Cause.TEMPLATE))
        answers = read.get(query, ())
        identities = {live.identity for live in answers}
        if not identities:
            identities = {*planned.get(query, ()), *_possible_identities(reconcile, plan, query)}
        current = await asyncio.gather(*(_find(reconcile, identity) for identity in identities))
        return _versions(answers) != _versions(live for live in current if live is not None)

    outdated = await asyncio.gather(*map(is_outdated, asked))
    found = next((query for query, is_old in zip(asked, outdated, strict=True) if is_old), None)
    if found is None:
        return None
    name = "an object" if reconcile.state.secrets.name_objects else str(found)
    return f"{name} has changed since the templates read it"


def _by_name(named: Iterable[tuple[Identity, Value]]) -> Mapping[Reference, Sequence[Value]]:
    found: dict[Reference, list[Value]] = {}
    for identity, value in named:
        found.setdefault(Reference(identity.kind, identity.name), []).append(value)
    return found


def _possible_identities(reconcile: Reconcile, plan: Plan, reference: Reference) -> Iterator[Identity]:
    """The children that an unanswered `child` or `live` may have meant."""
    namespace = reconcile.parent.live.identity.namespace
    for kind, state in plan.observed.children.kinds.items():
        if kind.kind == reference.kind and state.within(namespace).synced:
            yield Identity(*kind, namespace if state.namespaced else "", reference.name)


async def _find(reconcile: Reconcile, identity: Identity) -> LiveObject | None:
    """The parent's child of that name as it is now. Raises ApiError."""
    try:
        resource = await reconcile.cluster.children.resource(identity.group_kind)
    except UnknownKind:
        return None
    live = await reconcile.client.find(resource, identity.name, identity.namespace)
    return live if live is not None and live.belongs_to(reconcile.uid) else None


def _versions(lives: Iterable[LiveObject]) -> set[tuple[str, str]]:
    return {(live.uid, live.resource_version) for live in lives}
