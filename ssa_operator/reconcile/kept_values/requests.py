"""Writes, reads and deletes the records of generated values, and of numbers of replicas that others set, while the
operator recreates the objects.

Promises:
- An object with generated values is deleted only after the API server has stored its values in a Secret.
- The next process reads them before it renders the parent. If it can't read them, it renders nothing, because a render
  would generate other values.
- An object with replicas that others set is deleted only after the parent has recorded the number.
- The Secret is deleted when an apply of the object succeeded, or when the object is no longer rendered. If that fails,
  the next reconcile deletes it, whether it applies the object again or not.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ssa_operator.kube.api.request import ApplyOptions, DeleteOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.child_memory import ChildMemory
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.kept_values.rules import obsolete_values, read_secret, secret_body, secret_identity
from ssa_operator.reconcile.parent_records.requests import save_parent_records
from ssa_operator.reconcile.parent_records.rules import MANAGER
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.replicas.rules import OthersReplicas

_SECRET = Resource(group="", version="v1", plural="secrets", kind="Secret", namespaced=True)


class UnkeepableValuesError(ValueError):
    """Generated values that no Secret can keep; the text says why."""


async def keep_values(reconcile: Reconcile, live: LiveObject, why: str) -> None:
    """Store the generated values of an object that is deleted next. `why` is the reason for messages.

    Raises ApiError, ParentRecordsError or UnkeepableValuesError if they can't be stored.
    """
    if reconcile.plan is None:
        return
    async with reconcile.lock:  # the parent's annotation is one for all objects
        secret = secret_identity(reconcile.parent.live, live.identity)
        if secret is None:
            raise UnkeepableValuesError("neither it nor its parent has a namespace for a Secret that keeps them")
        kept_values = reconcile.records.kept_values | {live.identity}
        await save_parent_records(reconcile, replace(reconcile.records, kept_values=kept_values))
        parent = reconcile.parent
    body = encode(secret_body(parent.live, secret, live, why))
    await reconcile.client.apply(_SECRET, secret.namespace, secret.name, body, ApplyOptions(manager=MANAGER))


async def keep_replicas(reconcile: Reconcile, identity: Identity, replicas: OthersReplicas) -> None:
    """Record the number of replicas that others set in an object that is deleted next.

    Raises ApiError, or ParentRecordsError if it can't be recorded.
    """
    if reconcile.plan is None:
        return
    async with reconcile.lock:
        records = reconcile.records
        if records.replicas.get(identity) != replicas:
            records = replace(records, replicas={**records.replicas, identity: replicas})
            await save_parent_records(reconcile, records)


async def restore_kept_values(reconcile: Reconcile) -> None:
    """Remember the recreations that a former process began, with the objects as they were. Raises ApiError."""
    parent, memories = reconcile.parent.live, reconcile.state.children
    restored = dict[Identity, ChildMemory]()
    # A parent has no more children than that, but users who may edit it may write any number of names.
    for identity in sorted(reconcile.records.kept_values)[: reconcile.parent.folder.settings.max_children]:
        if memories.of(identity).recreation is not None or identity in reconcile.cluster.children:
            continue
        secret = secret_identity(parent, identity)
        if secret is None:
            continue
        found = await reconcile.client.find(_SECRET, secret.name, secret.namespace)
        recreation = read_secret(parent, identity, found) if found is not None else None
        if recreation is not None:
            restored[identity] = replace(memories.of(identity), recreation=recreation)
    if restored:
        reconcile.state = replace(reconcile.state, children=memories.with_children(restored))


async def delete_kept_values(reconcile: Reconcile, plan: Plan, outcomes: Iterable[Child]) -> frozenset[Identity]:
    """Delete the Secrets of values that need no record any more. Returns the objects that had these values."""
    kept = sorted(reconcile.records.kept_values)[: reconcile.parent.folder.settings.max_children]
    if not kept:
        return frozenset()
    obsolete = _obsolete(reconcile, kept, plan, outcomes)
    for identity in obsolete:
        secret = secret_identity(reconcile.parent.live, identity)
        if secret is None:
            continue
        found = await reconcile.client.find(_SECRET, secret.name, secret.namespace)
        if found is not None and found.parent_uid == reconcile.uid:
            await reconcile.client.delete(_SECRET, secret.namespace, secret.name, DeleteOptions(uid=found.uid))
    return obsolete


def obsolete_replicas(reconcile: Reconcile, plan: Plan, outcomes: Iterable[Child]) -> frozenset[Identity]:
    """The objects whose number of replicas needs no record any more."""
    kept = reconcile.records.replicas
    return _obsolete(reconcile, kept, plan, outcomes) if kept else frozenset()


def _obsolete(
    reconcile: Reconcile, kept: Iterable[Identity], plan: Plan, outcomes: Iterable[Child]
) -> frozenset[Identity]:
    rendered = {step.identity for step in plan.steps if step.action is not Action.PRUNE and step.location is not None}
    return obsolete_values(
        kept,
        applied={outcome.identity for outcome in outcomes if _is_applied(outcome)},
        rendered=rendered if plan.rendered.complete else None,
        existing=reconcile.cluster.children,
    )


def _is_applied(outcome: Child) -> bool:
    """Whether the API server accepted an apply of the rendered manifest, in this reconcile or in an earlier one of this
    process, so that the object has its values.
    """
    if outcome.action is not Action.APPLY and not outcome.unchanged:
        return False
    if outcome.result in (Result.FAILED, Result.WAITING):
        return False
    return outcome.live is not None and not outcome.live.deleting
