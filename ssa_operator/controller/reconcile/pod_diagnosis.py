"""Looking at the pods of workloads that don't become ready.

Promises:
- Nothing is requested for what is ready, or is on its way only shortly.
- What can't be looked at, for a lack of rights or an API server out of reach, is left out: it changes no verdict.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.readiness.pod_failures import POD, PodCheck, failure_cause, pod_check, selector
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError

log = logging.getLogger("ssa_operator")


async def diagnose_pods(
    outcomes: Sequence[Outcome], before: Mapping[Identity, PodCheck], cluster: ClusterAccess, now: float
) -> tuple[tuple[Outcome, ...], Mapping[Identity, PodCheck]]:
    """The outcomes, those of workloads that aren't ready with what their pods told; and all that is in doubt."""
    pod_checks: dict[Identity, PodCheck] = {}
    explained = []
    for outcome in outcomes:
        found = outcome
        if outcome.live is not None and outcome.result not in (Result.FAILED, Result.WAITING, Result.PRUNED):
            identity = outcome.live.identity
            held = pod_check(outcome.live, before.get(identity), now)
            if held is not None and held.due <= now:
                held = held.after_check(await _look(outcome.live, cluster, now), now)
            if held is not None:
                pod_checks[identity] = held
                found = replace(outcome, cause=held.cause, again_at=held.due)
        explained.append(found)
    return tuple(explained), pod_checks


async def _look(live: LiveObject, cluster: ClusterAccess, now: float) -> str:
    try:
        resource = await cluster.children.resource(POD, "v1")
        pods, _ = await cluster.client.list(resource, live.identity.namespace, selector(live))
    except (ApiError, CredentialsError, UnknownKind) as error:
        log.debug("the pods of %s can't be looked at: %s", live.identity, error)
        return ""
    return failure_cause(pods, now)
