"""Why workloads don't become ready: the operator lists their pods, and where none shows a failure and some are missing,
the Events of the workload, and reports what keeps the pods from starting.

Promises:
- Pods are listed only for a workload that has been unready for a while.
- If pods can't be listed, because a permission is missing or the API server is unreachable, no cause is reported and no
  verdict changes.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.reconcile.workload_events import WorkloadEvents
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.readiness.pod_failures import POD, WORKLOADS, PodCheck, failure_cause, pod_check, selector
from ssa_operator.core.readiness.workload_events import lacks_pods
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import Clock

log = logging.getLogger("ssa_operator")


async def diagnose_pods(
    outcomes: Sequence[Outcome],
    before: Mapping[Identity, PodCheck],
    cluster: ClusterAccess,
    events: WorkloadEvents,
    clock: Clock,
) -> tuple[tuple[Outcome, ...], Mapping[Identity, PodCheck]]:
    """The outcomes, with the cause of failure that the pods of unready workloads show; and the pod checks of these."""
    now, monotonic = clock.now(), clock.monotonic()
    pod_checks: dict[Identity, PodCheck] = {}
    explained: list[Outcome] = []
    for outcome in outcomes:
        explained.append(outcome)
        if outcome.live is not None and outcome.result not in (Result.FAILED, Result.WAITING, Result.PRUNED):
            identity = outcome.live.identity
            found = outcome.step.readiness_of(outcome.live, now)
            check = pod_check(outcome.live, before.get(identity), found, monotonic)
            if check is not None and check.due <= monotonic:
                cause = await _failure_cause(outcome.live, cluster, now)
                if not cause and lacks_pods(outcome.live.body):
                    cause = await events.cause(outcome.live, cluster, check.cause)
                check = check.after_check(cause, monotonic)
            if check is not None:
                pod_checks[identity] = check
                explained[-1] = replace(outcome, cause=check.cause)
    return tuple(explained), pod_checks


async def _failure_cause(live: LiveObject, cluster: ClusterAccess, now: float) -> str:
    if live.identity.group_kind not in WORKLOADS or not selector(live):
        return ""
    try:
        resource = await cluster.children.resource(POD, "v1")
        pods, _ = await cluster.client.list(resource, live.identity.namespace, selector(live))
    except (ApiError, CredentialsError, UnknownKind) as error:
        log.debug("the pods of %s can't be listed: %s", live.identity, error)
        return ""
    return failure_cause(pods, now)
