"""Keeps the generated values of an object on record while the operator recreates it: in a Secret of their own.

Only the object holds its generated values. A process that dies after it deleted the object would lose them. So the
operator copies the object into a Secret before it deletes the object, and names the object in an annotation of the
parent, by which the next process finds the Secret. The number of replicas that others set is recorded on the parent.

Promises:
- The values are in a Secret and nowhere else: not in an annotation, a status or a ConfigMap.
- The annotation is written before the Secret is created, and removed after the Secret is deleted: no Secret is left
  behind, whenever the process dies.
- The garbage collector deletes the Secret with the parent. It is read only if it is the parent's own record of this
  very object.
- The Secret is deleted when an apply of the object succeeded, or when the object is no longer rendered and is gone. If
  that fails, the next reconcile deletes it, whether it applies the object again or not.
- If the next process can't read the values, it renders nothing, because a render would generate other values.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Container, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from ssa_operator.kube.api.request import ApplyOptions, DeleteOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import MANAGER, PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.manifest import MANAGED_BY_LABEL, owner_reference
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.child_memory import ChildMemory, Recreation
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.parent_records.requests import save_parent_records
from ssa_operator.reconcile.parent_records.rules import MANAGER as PARENT_MANAGER
from ssa_operator.reconcile.parent_records.rules import identity_key
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.replicas.rules import OthersReplicas

TYPE = "ssa-operator.dev/generated-values"
"""The type of the Secret."""

_KEY = "object"
_WHY = "why"


def secret_identity(parent: LiveObject, identity: Identity) -> Identity | None:
    """The Secret that keeps the values of an object of this parent; None if no namespace can hold one, because
    neither the parent nor the object is in a namespace.
    """
    namespace = parent.identity.namespace or identity.namespace
    if not namespace:
        return None
    digest = hashlib.sha256(f"{parent.uid}/{identity_key(identity)}".encode()).hexdigest()[:20]
    return Identity("", "Secret", namespace, f"ssa-operator-kept-{digest}")


def secret_body(parent: LiveObject, secret: Identity, live: LiveObject, why: str) -> dict[str, Any]:
    """The body of the apply that records the values of a live object."""
    metadata = {key: value for key, value in live.body["metadata"].items() if key != "managedFields"}
    kept = {key: value for key, value in live.body.items() if key != "status"} | {"metadata": metadata}
    data = {_KEY: encode(kept), _WHY: why.encode()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret.name,
            "namespace": secret.namespace,
            "labels": {MANAGED_BY_LABEL: MANAGER, PARENT_UID_LABEL: parent.uid},
            "ownerReferences": [owner_reference(parent)],
        },
        "type": TYPE,
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }


def read_secret(parent: LiveObject, identity: Identity, secret: LiveObject) -> Recreation | None:
    """The recreation of an object that a former process began, with the object as it was; None if the Secret is no
    such record.
    """
    data = secret.body.get("data")
    if secret.parent_uid != parent.uid or secret.body.get("type") != TYPE or not isinstance(data, dict):
        return None
    try:
        old = LiveObject(base64.b64decode(data.get(_KEY, ""), validate=True))
        why = base64.b64decode(data.get(_WHY, ""), validate=True).decode()
    except (TypeError, ValueError, binascii.Error, msgspec.DecodeError):
        return None
    # It is unknown whether the object was deleted. Without a digest, a refused apply doesn't count as a repeated one.
    return Recreation(digest=b"", created=False, why=why, old=old) if old.identity == identity else None


def obsolete_values(
    kept: Iterable[Identity],
    *,
    applied: Container[Identity],
    rendered: Container[Identity] | None,
    existing: Container[Identity],
) -> frozenset[Identity]:
    """The objects whose values need no record any more. `applied` are those that this reconcile applied, `rendered`
    those that the templates render (None if that is not known completely), `existing` those that exist.
    """
    return frozenset(
        identity
        for identity in kept
        if identity in applied or (rendered is not None and identity not in rendered and identity not in existing)
    )


_SECRET = Resource(group="", version="v1", plural="secrets", kind="Secret", namespaced=True)


async def keep_values(reconcile: Reconcile, live: LiveObject, why: str) -> None:
    """Store the generated values of an object that is deleted next. `why` is the reason for messages.

    Raises ApiError, or ValueError if they can't be stored.
    """
    if reconcile.plan is None:
        return
    async with reconcile.lock:  # the parent's annotation is one for all objects
        secret = secret_identity(reconcile.parent.live, live.identity)
        if secret is None:
            raise ValueError("neither it nor its parent has a namespace for a Secret that keeps them")
        kept_values = reconcile.records.kept_values | {live.identity}
        await save_parent_records(reconcile, replace(reconcile.records, kept_values=kept_values))
        parent = reconcile.parent
    body = encode(secret_body(parent.live, secret, live, why))
    await reconcile.client.apply(_SECRET, secret.namespace, secret.name, body, ApplyOptions(manager=PARENT_MANAGER))


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
