"""Finds out why children don't become ready. The operator lists the pods of workloads, and if no pod shows a failure,
the Events of one object: of the workload if it lacks pods, or of a pod that isn't ready; for other kinds, of the child.

Promises:
- Pods and Events are listed only for a child that has been unready for a while: one list of each at most.
- A reconcile checks at most CHECKS_LIMIT children. The others follow after a while.
- If pods can't be listed, because a permission is missing or the API server is unreachable, no cause is reported and no
  verdict changes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ssa_operator.kube.api.discovery import REQUEST_ERRORS
from ssa_operator.objects.identity import Identity
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
from ssa_operator.reconcile.pod_failures.workload_event_requests import event_cause_of
from ssa_operator.reconcile.pod_failures.workload_events import lacks_pods

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
