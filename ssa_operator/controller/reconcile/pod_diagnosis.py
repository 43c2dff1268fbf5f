"""Looking at the pods of workloads that don't become ready.

Promises:
- Nothing is requested for what is ready, or is on its way only shortly.
- What can't be looked at, for a lack of rights or an API server out of reach, is left out: it changes no verdict.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ssa_operator.controller.reconcile.cluster_access import Cluster
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import Live
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.readiness.pod_failures import POD, Doubt, cause, doubt, selector
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError

log = logging.getLogger("ssa_operator")


async def diagnosed(
    outcomes: Sequence[Outcome], before: Mapping[Identity, Doubt], cluster: Cluster, now: float
) -> tuple[tuple[Outcome, ...], Mapping[Identity, Doubt]]:
    """The outcomes, those of workloads that aren't ready with what their pods told; and all that is in doubt."""
    doubts: dict[Identity, Doubt] = {}
    explained = []
    for outcome in outcomes:
        found = outcome
        if outcome.live is not None and outcome.result not in (Result.FAILED, Result.WAITING, Result.PRUNED):
            identity = outcome.live.identity
            held = doubt(outcome.live, before.get(identity), now)
            if held is not None and held.due <= now:
                held = held.looked(await _look(outcome.live, cluster, now), now)
            if held is not None:
                doubts[identity] = held
                found = replace(outcome, cause=held.cause, again_at=held.due)
        explained.append(found)
    return tuple(explained), doubts


async def _look(live: Live, cluster: Cluster, now: float) -> str:
    try:
        resource = await cluster.children.resource(POD, "v1")
        pods, _ = await cluster.client.list(resource, live.identity.namespace, selector(live))
    except (ApiError, CredentialsError, UnknownKind) as error:
        log.debug("the pods of %s can't be looked at: %s", live.identity, error)
        return ""
    return cause(pods, now)
