"""Keeping an object as it is, but for the version of its owner reference (core.policies.owner_references)."""

from __future__ import annotations

from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.reconcile.failures import failed_outcome, failed_request
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.planning.step import FailureReason, Step
from ssa_operator.core.policies.owner_references import owner_version_patch
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError


async def keep(step: Step, parent: LiveObject, cluster: ClusterAccess) -> Outcome:
    """The outcome of an object that is not applied. Its owner reference may be written."""
    live = step.live
    patch = owner_version_patch(live, parent) if live is not None else None
    if live is None or patch is None or live.deleting or parent.deleting or cluster.dry_run:
        return Outcome(step=step, result=Result.UNCHANGED, live=live)
    identity = live.identity
    try:
        resource = await cluster.children.resource(identity.group_kind, live.version)
        with cluster.writing(identity):
            written = cluster.written(
                await cluster.client.json_patch(resource, identity.namespace, identity.name, patch)
            )
    except (UnknownKind, CredentialsError) as error:
        return failed_outcome(step, str(error), problem=FailureReason.APPLY_FAILED, retryable=True)
    except ApiError as error:
        return failed_request(step, error)
    return Outcome(step=step, result=Result.UNCHANGED, live=written)
