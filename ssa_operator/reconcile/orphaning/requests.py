"""Reads whether a parent is deleted without its children. Removes the finalizer of such a parent, and the owner
references that the children got back meanwhile (reconcile.orphaning.rules).

Promises:
- A child proves something as the API server has it, and not as a watch that may be behind shows it. One is read, and
  only if it decides.
- The status and an Event say that the children stay, before the operator's finalizer goes.
- Before the operator's finalizer goes, every child is read, and loses an owner reference to the parent. The record of a
  shared object loses the parent.
- A child that may not be read because its namespace is being deleted goes with the namespace.
- If another client changes a child meanwhile, the child is read again, and that change is kept.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ssa_operator.kube.api.conflicts import ATTEMPTS, retry_on_conflict
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.finalization.requests import ending_namespaces
from ssa_operator.reconcile.idle_reports import deleting, report_existing_children
from ssa_operator.reconcile.long_steps import run_all
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.orphaning.rules import CHILDREN_STAY, children_stay, proof_of_deletion
from ssa_operator.reconcile.owner_references import orphan_patch
from ssa_operator.reconcile.parent_records.requests import read_again, save_parent_records
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.render_turns import let_renders_wait
from ssa_operator.reconcile.shared_ownership import leave_patch
from ssa_operator.reconcile.status.events import Event
from ssa_operator.reconcile.status.report import Report


async def read_children_stay(reconcile: Reconcile, observed: Observed) -> bool | None:
    """Whether the children of a parent in deletion stay, None if a user has to decide. Raises ApiError and
    CredentialsError.
    """
    seen, cluster = reconcile.parent.orphans_children, reconcile.cluster
    proof = proof_of_deletion(observed, seen)
    if proof is not None:
        identity = proof.identity
        try:
            resource = await cluster.children.resource(identity.group_kind, proof.version)
            proof = await cluster.operator_client.find(resource, identity.name, identity.namespace)
        except UnknownKind:
            proof = None
        except ApiError as error:
            if not error.forbidden:
                raise
            proof = None
    return children_stay(observed, seen, proof)


async def leave_children(reconcile: Reconcile) -> Report:
    """Remove the finalizer of a parent whose children stay, after the status and an Event have said so. Raises ApiError
    and CredentialsError.
    """
    let_renders_wait()
    event = Event(reason="ChildrenOrphaned", action="Delete", note=CHILDREN_STAY)
    reconcile.cluster.recorder.emit(reconcile.parent.live, (event,))
    reconcile.causes |= Cause.STATUS_OVERDUE  # there is no later time to write it
    try:
        return await _report_children_stay(reconcile)
    finally:
        await release_children(reconcile)
        await save_parent_records(reconcile, ParentRecords())


async def _report_children_stay(reconcile: Reconcile) -> Report:
    """The report, even if the garbage collector changes the parent meanwhile: it removes its own finalizer."""
    for _ in range(ATTEMPTS):
        try:
            return await report_existing_children(reconcile, deleting(CHILDREN_STAY))
        except ApiError as error:
            now = await read_again(reconcile.cluster, reconcile.parent) if error.conflict else None
            if now is None:
                raise
        reconcile.take_parent(replace(reconcile.parent, live=now))
    return await report_existing_children(reconcile, deleting(CHILDREN_STAY))


async def release_children(reconcile: Reconcile, only: Callable[[Identity], object] = lambda _: True) -> None:
    """Remove every owner reference to this parent, or those of some children. No apply is in flight, because reconciles
    of a parent follow each other, so no reference comes back. Raises ApiError and CredentialsError.
    """
    children = [live for live in reconcile.cluster.children.by_parent(reconcile.uid) if only(live.identity)]
    await run_all(_release(live, reconcile) for live in children)


async def _release(live: LiveObject, reconcile: Reconcile) -> None:
    identity, parent = live.identity, reconcile.parent.live
    try:
        resource = await reconcile.cluster.children.resource(identity.group_kind, live.version)
    except UnknownKind:
        return  # its CRD is gone, and the object with it

    async def read() -> LiveObject | None:
        try:
            return await reconcile.client.find(resource, identity.name, identity.namespace)
        except ApiError as error:
            if error.forbidden and await ending_namespaces([identity.namespace], parent, reconcile.cluster):
                return None  # it goes with its namespace
            raise

    async def change(current: LiveObject | None) -> None:
        is_shared = current is not None and current.shared is not None
        patch = None if current is None else (leave_patch if is_shared else orphan_patch)(current, parent.uid)
        if patch is not None:
            send = reconcile.client.merge_patch if is_shared else reconcile.client.json_patch
            with reconcile.cluster.writing(identity):
                reconcile.cluster.written(await send(resource, identity.namespace, identity.name, patch))

    await retry_on_conflict(read, change, is_conflict=lambda error: error.conflict or error.invalid or error.not_found)
