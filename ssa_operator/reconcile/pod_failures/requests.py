"""Finds out why children don't become ready. The operator lists the pods of workloads, and if no pod shows a failure,
the Events of one object: of the workload if it lacks pods, or of a pod that isn't ready; for other kinds, of the child.

Promises:
- Pods and Events are listed only for a child that has been unready for a while: one list of each at most. The pods of
  a StatefulSet whose predecessor may have left some are listed while it isn't ready.
- A reconcile checks at most CHECKS_LIMIT children. The others follow after a while.
- The operator never watches Events. It lists those of one object, by its uid, in one request.
- If pods or Events can't be listed, no cause is reported and no verdict changes. A missing permission to list Events is
  logged once for each namespace.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.discovery import REQUEST_ERRORS, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.json_codec import decoder
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.child import Child, Result
from ssa_operator.reconcile.child_memory import ChildMemories
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.pod_failures.rules import (
    FIRST_CHECK_AFTER,
    POD,
    WORKLOADS,
    PodCheck,
    failure_cause,
    named_pods,
    pod_check,
    selector,
    unready_pod,
)
from ssa_operator.reconcile.pod_failures.workload_events import (
    CLUSTER_SCOPED,
    ObjectEvents,
    event_cause,
    events_selector,
    lacks_pods,
)
from ssa_operator.reconcile.recreate.requests import recover_pods

log = logging.getLogger("ssa_operator")


CHECKS_LIMIT = 50
"""Children whose pods and Events one reconcile lists: it takes a quarter of a second."""


async def diagnose_pods(
    outcomes: Sequence[Child],
    memories: ChildMemories,
    reconcile: Reconcile,
) -> tuple[tuple[Child, ...], Mapping[Identity, PodCheck]]:
    """The outcomes, with the cause of failure that the pods of unready workloads show; and the pod checks of these."""
    now, monotonic = reconcile.cluster.clock.now(), reconcile.cluster.clock.monotonic()
    pod_checks: dict[Identity, PodCheck] = {}
    explained: list[Child] = []
    left = CHECKS_LIMIT
    for outcome in outcomes:
        explained.append(outcome)
        if outcome.live is not None and outcome.result not in (Result.FAILED, Result.WAITING, Result.PRUNED):
            identity = outcome.live.identity
            found = outcome.readiness_of(outcome.live, now)
            check = pod_check(outcome.live, memories.of(identity).pods, found, monotonic)
            if check is not None and check.due <= monotonic:
                left -= 1
                if left >= 0:
                    cause = await _cause(outcome.live, check.cause, reconcile, now)
                    check = check.after_check(cause, monotonic)
                else:
                    check = replace(check, due=monotonic + FIRST_CHECK_AFTER)
            if check is not None and (recovered := await recover_pods(outcome, reconcile, now)):
                check = replace(check, cause=recovered)
            if check is not None:
                pod_checks[identity] = check
                explained[-1] = replace(outcome, cause=check.cause)
    return tuple(explained), pod_checks


async def _cause(live: LiveObject, reported: str, reconcile: Reconcile, now: float) -> str:
    if live.identity.group_kind not in WORKLOADS:
        return await event_cause_of(live, reconcile, reported)
    pods = named_pods(live, await _pods(live, reconcile))
    if cause := failure_cause(pods, now):
        return cause
    if lacks_pods(live.body):
        return await event_cause_of(live, reconcile, reported)
    if (unready := unready_pod(pods, now)) is None:
        return ""
    name, pod = unready
    found = await event_cause_of(pod, reconcile, reported.removeprefix(f"{name}: "))
    return found and f"{name}: {found}"


async def _pods(live: LiveObject, reconcile: Reconcile) -> Sequence[LiveObject]:
    if (labels := selector(live)) is None:
        return ()
    try:
        resource = await reconcile.cluster.children.resource(POD, "v1")
        pods, _ = await reconcile.client.list(resource, live.identity.namespace, labels)
    except REQUEST_ERRORS as error:
        log.debug("the pods of %s can't be listed: %s", live.identity, error)
        return ()
    return pods


log = logging.getLogger("ssa_operator")

EVENT = GroupKind("", "Event")

LIMIT = 500
"""The most Events that are read of one object. Its controller aggregates them, so there are only a few."""

_NAMESPACES = 1000
"""The most namespaces whose missing permission is remembered."""

_decode = decoder(ObjectEvents)


async def event_cause_of(live: LiveObject, reconcile: Reconcile, reported: str) -> str:
    """Why an object isn't ready, by its newest Warning Event; '' if that is unknown. `reported` is the cause that was
    found before.
    """
    namespace = live.identity.namespace or CLUSTER_SCOPED
    try:
        resource = await reconcile.cluster.children.resource(EVENT, "v1")
        scope = calls.Scope(resource, namespace, field_selector=events_selector(live))
        response = await reconcile.client.send(calls.list_page(scope, limit=LIMIT))
        return event_cause(_decode(response.body).items or (), reported)
    except (ApiError, CredentialsError, UnknownKind, msgspec.DecodeError) as error:
        _log(error, namespace, reconcile)
    return ""


def _log(error: Exception, namespace: str, reconcile: Reconcile) -> None:
    where, known = (reconcile.account, namespace), reconcile.cluster.without_events
    is_forbidden = isinstance(error, ApiError) and error.forbidden
    if not is_forbidden or where in known:
        log.debug("the Events of an object in %s can't be listed: %s", namespace, error)
        return
    if len(known) < _NAMESPACES:
        known.add(where)
        who = reconcile.account or "the operator"
        log.warning("%s: %s may not list events, so no status quotes why an object isn't ready", namespace, who)
