"""Reads the namespaces of children that can't be created, read or deleted, because the namespaces may be ending, and
what a parent lives in (reconcile.finalization.deletion_cycles).

Promises:
- A namespace is read only if its end would end a wait, and with the operator's own permissions.
- Without the permission to read a namespace, nothing is known of its end.
- No parent of another operator process is read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.current_reconcile import SharedCluster
from ssa_operator.reconcile.finalization.deletion_cycles import CRD, NAMESPACE, EndingNamespace, namespace_end
from ssa_operator.reconcile.long_steps import run_all
from ssa_operator.reconcile.observed import Observed

log = logging.getLogger("ssa_operator")


async def ending_namespaces(
    names: Iterable[str], parent: LiveObject, cluster: SharedCluster
) -> dict[str, EndingNamespace]:
    """Those of these namespaces that end or have ended. Raises ApiError and CredentialsError."""
    names = sorted({*names} - {""})
    ends = await run_all(_end(name, parent, cluster) for name in names)
    return {name: end for name, end in zip(names, ends, strict=True) if end is not None}


async def _end(name: str, parent: LiveObject, cluster: SharedCluster) -> EndingNamespace | None:
    resource = await cluster.children.resource(NAMESPACE, "v1")
    try:
        found = await cluster.operator_client.find(resource, name)
    except ApiError as error:
        if not error.forbidden:
            raise
        log.debug("namespace %s can't be read, so whether it is being deleted is unknown: %s", name, error)
        return None
    return namespace_end(found, parent)


async def home_is_ending(observed: Observed, cluster: SharedCluster) -> bool:
    """Whether what a parent, or one above it, lives in is being deleted. Raises ApiError and CredentialsError."""
    crds = (cluster.crds.get(each.name) for each in observed.homes if each.group_kind == CRD)
    if any("deletionTimestamp" in crd["metadata"] for crd in crds if crd is not None):
        return True
    namespaces = (each.name for each in observed.homes if each.group_kind == NAMESPACE)
    return bool(await ending_namespaces(namespaces, observed.parent, cluster))


async def without_failures_in_ending_namespaces(
    outcomes: Sequence[Child], parent: LiveObject, cluster: SharedCluster
) -> tuple[Child, ...]:
    """The outcomes of a deletion. An object that may not be deleted goes with its namespace, if that ends."""
    failed = [each for each in outcomes if _failed_deletion(each) and each.identity.namespace]
    if not failed:
        return tuple(outcomes)
    ending = await ending_namespaces((each.identity.namespace for each in failed), parent, cluster)
    return tuple(_excused(each, ending.get(each.identity.namespace)) for each in outcomes)


def _failed_deletion(outcome: Child) -> bool:
    return outcome.result is Result.FAILED and outcome.action is Action.PRUNE


def _excused(outcome: Child, ending: EndingNamespace | None) -> Child:
    if ending is None or not _failed_deletion(outcome):
        return outcome
    message = f"goes with namespace {outcome.identity.namespace}, which {ending.reason}"
    return replace(outcome, result=Result.WAITING, message=message, problem=None, retryable=True)
