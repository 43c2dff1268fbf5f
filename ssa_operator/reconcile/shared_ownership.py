"""Decides what a parent does with an object that it shares with other parents (`ssa-operator.dev/apply: Shared`).

Promises:
- Every parent that renders the object alike is an owner of it, and none is its controller. A parent that no longer
  renders it takes back its own owner reference; the last one deletes it. Kubernetes deletes it with its last owner.
- If parents render it differently, it stays as its earlier owners render it. The parent that differs is in `Conflict`,
  and the message names both parents and the first field that differs.
- When all owners change alike, the object follows: an owner that differs waits only while another owner still renders
  the present form. A parent that is the only owner changes the object freely.
- No single parent takes over an object that others share, and nothing that counts is only in memory.
- Either all owners have an owner reference, or none has: Kubernetes would delete the object with the last owner that
  has one, although another one still renders it.
- A parent that is deleted without its children is no owner any more. An owner that this process doesn't know counts,
  because it may be a parent of another folder; the message says how a user ends that.
- What a parent gives up while others own it counts as changed and not as pruned, in Events, in `plan` and in `diff`.
- The owners in one process take turns. Owners in other processes are kept out by the resourceVersion of each write.

How it works:
All parents apply with one field manager, and the API server removes what an apply of this manager leaves out. So each
apply carries the owner references of all owners, in the order of the object, with the object's resourceVersion as
precondition. If two parents write at once, the second one is refused and reads the object again.

The annotation `ssa-operator.dev/owners` records the digest of the manifest that the object has (`render`), and for each
owner the digest of what it rendered last. An owner that renders another form first records that, as a vote. The object
changes once no other owner is recorded with the present form: the last owner that changes applies it. The events of
these writes requeue all owners.

The label `ssa-operator.dev/parent-uid` of a shared object is `shared`. So all owners send one and the same manifest,
the watches of all shards select the object, and no label has to move when an owner goes. Its owners are found by the
annotation and the owner references.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ssa_operator.kube.api.discovery import REQUEST_ERRORS
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest, may_own
from ssa_operator.objects.shared_record import OWNERS_ANNOTATION, SharedRecord
from ssa_operator.objects.source_location import field_text, first_difference
from ssa_operator.reconcile.child import Child, FailureReason, Result, waiting_outcome
from ssa_operator.reconcile.observed import Observed, ObservedParents

if TYPE_CHECKING:
    from ssa_operator.reconcile.current_reconcile import Reconcile


def with_owners(manifest: Manifest, live: LiveObject | None) -> Manifest:
    """The manifest of a shared object as it is applied: with all owners that the object has."""
    shared = manifest.shared
    if shared is None:
        return manifest
    record = _owners(live, owned=manifest.owned)
    record = SharedRecord(shared.digest, record.owners).with_owner(shared.uid, shared.digest)
    metadata = manifest.body["metadata"]
    references = metadata.get("ownerReferences", [])
    if live is not None:
        references = _in_order(_references(live), references, record)
    metadata = {
        **metadata,
        "annotations": {**metadata.get("annotations", {}), OWNERS_ANNOTATION: str(record)},
        **({"ownerReferences": references} if references else {}),
    }
    body = {**manifest.body, "metadata": metadata}
    return replace(manifest, body=body, encoded=encode(body))


def vote_patch(live: LiveObject, uid: str, digest: str) -> bytes | None:
    """The merge patch that records what an owner renders now, None if that is recorded, or if the parent is no owner.
    The object stays as it is.
    """
    record = live.shared or SharedRecord()
    return None if record.owners.get(uid) in (None, digest) else _patch(live, record.with_owner(uid, digest))


def release_patch(live: LiveObject, uid: str) -> bytes | None:
    """The merge patch by which a parent gives up an object that others own, too; None if the parent is the last
    owner.
    """
    return leave_patch(live, uid) if live.shared is not None and live.shared.others(uid) else None


def leave_patch(live: LiveObject, uid: str) -> bytes | None:
    """The merge patch after which a parent is no owner of a shared object, even if it is the last one; None if it is
    none.
    """
    if live.shared is None or not live.belongs_to(uid):
        return None
    references = [each for each in _references(live) if each.get("uid") != uid]
    return _patch(live, live.shared.limited_to(live.shared.others(uid)), references)


def released_outcome(step: Child, live: LiveObject | None, uid: str) -> Child | None:
    """The outcome of a prune by which a parent gives up an object, None if no other parent owns it."""
    patch = None if live is None or live.shared is None else release_patch(live, uid)
    if live is None or patch is None:
        return None
    metadata, changed = live.body["metadata"], json.loads(patch)["metadata"]
    annotations = {**metadata.get("annotations", {}), **changed["annotations"]}
    metadata = {**metadata, **changed, "annotations": annotations}
    after = LiveObject.of({**live.body, "metadata": metadata})
    kept = replace(step, reason=f"{step.reason}; its other owners keep it")
    return kept.ended(Result.CONFIGURED, live=after)


def owners_text(live: LiveObject, uids: Sequence[str], parents: ObservedParents) -> str:
    """Owners of an object, as messages name them."""
    by_uid = {each.uid: f"{each.kind} {each.name}" for each in live.owner_references}
    unknown = "a parent with the uid {} (if it no longer exists, remove the uid from the annotation {})"
    names = [str(parents.find(uid) or by_uid.get(uid) or unknown.format(uid, OWNERS_ANNOTATION)) for uid in uids]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more" if names else ""


def _owners(live: LiveObject | None, *, owned: bool) -> SharedRecord:
    """The owners of an object that count for a manifest: those with an owner reference if the manifest gets one."""
    record = None if live is None else live.shared
    if live is None or record is None:
        return SharedRecord()
    return record.limited_to({each.uid for each in live.owner_references}) if owned else record


def _references(live: LiveObject) -> list[dict[str, Any]]:
    """The owner references of an object, as the API server returned them."""
    return [each for each in live.body["metadata"].get("ownerReferences", []) if isinstance(each, dict)]


def _in_order(
    present: Sequence[dict[str, Any]], own: Sequence[dict[str, Any]], record: SharedRecord
) -> list[dict[str, Any]]:
    """The owner references to apply, in the order of the object: an apply in another order would change it."""
    applied = {each.get("uid"): each for each in own}
    kept = [applied.get(each.get("uid"), each) for each in present if each.get("uid") in {*applied, *record.owners}]
    known = {each.get("uid") for each in kept}
    return [*kept, *(each for uid, each in applied.items() if uid not in known)]


def _patch(live: LiveObject, record: SharedRecord, references: Sequence[dict[str, Any]] | None = None) -> bytes:
    metadata: dict[str, Any] = {
        "uid": live.uid,
        "resourceVersion": live.resource_version,
        "annotations": {OWNERS_ANNOTATION: str(record)},
    }
    if references is not None:
        metadata["ownerReferences"] = references
    return encode({"metadata": metadata})


# Rows of the tables in reconcile.decide.


def is_owned_otherwise(observed: Observed, step: Child) -> Child | None:
    """Refuses to share an object whose owners Kubernetes treats differently from this parent."""
    shared, record = step.wanted.shared, step.present.shared
    if shared is None or record is None:
        return None
    others, parents, me = list(record.others(shared.uid)), observed.parents, observed.parent.identity
    if not others or step.wanted.owned == any(each.uid in record.owners for each in step.present.owner_references):
        return None
    if not step.wanted.owned:
        why = f"Kubernetes deletes it with them, and {me} in another namespace can't be an owner"
    elif not parents.all_parents_known:
        return step.waiting("waits: it isn't known yet whether the parents that share it still exist")
    elif others := [uid for uid in others if _is_elsewhere(parents.find(uid), step.present)]:
        why = f"Kubernetes would delete it with {me}, because they are in other namespaces and can't be owners"
    else:
        return None  # its owners are gone, or another client removed their owner references
    who = owners_text(step.present, others, parents)
    return _in_conflict(step, f"is shared by {who}: {why}; give it another name")


def is_rendered_differently(observed: Observed, step: Child) -> Child | None:
    """Refuses a manifest that differs from what another owner of the object still renders."""
    shared, live = step.wanted.shared, step.present
    record = _owners(live, owned=step.wanted.owned)
    if shared is None or record.render == shared.digest:
        return None
    planned, identity = observed.parents.planned_shares, step.wanted.identity
    renders = {
        uid: planned[uid].get(identity, "") if uid in planned else digest
        for uid, digest in record.others(shared.uid).items()
    }
    standing = [uid for uid, digest in renders.items() if digest == record.render]
    if not standing:
        return None
    who, me = owners_text(live, standing, observed.parents), observed.parent.identity
    body = {name: value for name, value in step.wanted.body.items() if name != "metadata"}
    metadata = {part: step.wanted.body["metadata"].get(part, {}) for part in ("labels", "annotations")}
    path = first_difference(body, live.body) or first_difference({"metadata": metadata}, live.body)
    field = f" (first difference: {field_text(path)})" if path and not observed.confidential else ""
    why = (
        f"is rendered differently by {me} and by {who}, which owned it before{field}; it stays as it is until they "
        "render it alike, or until one of them gives it up"
    )
    return replace(_in_conflict(step, why), vote=shared.digest)


def gets_owner(_: Observed, step: Child) -> Child | None:
    """Applies the manifest where the object doesn't have the parent as an owner yet, or has another form."""
    shared, live = step.wanted.shared, step.present
    if shared is None:
        return None
    record = _owners(live, owned=step.wanted.owned)
    if live.shared is None or shared.uid not in record.owners:
        return step.applied("gets its parent as an owner")
    if record.render != shared.digest or record.owners[shared.uid] != shared.digest:
        return step.applied("no other owner renders its present form")
    return None


def _is_elsewhere(parent: Identity | None, live: LiveObject) -> bool:
    """Whether a parent exists that Kubernetes doesn't allow as an owner of an object."""
    return parent is not None and not may_own(parent.namespace, live.identity.namespace)


def _in_conflict(step: Child, why: str) -> Child:
    # A change of the object requeues the parents that were refused it.
    return replace(step.refused(why, FailureReason.CONFLICT), live=step.present, claimed_by_other=True)


def other_owners(live: LiveObject, uid: str, parents: ObservedParents) -> str:
    """The parents that share an object which another parent wants for itself alone; '' if there are none."""
    record = live.shared
    others = [] if record is None else list(record.others(uid))
    return owners_text(live, others, parents)


OTHERS_TURN = "waits: another parent that shares it writes it, and the API server takes long to answer"


async def record_vote(step: Child, reconcile: Reconcile) -> LiveObject | None:
    """Record on a shared object what its owner renders now. Returns the object as it is then. If it changed meanwhile,
    its event requeues the parent, and any other failure leaves it to the next resync: the parent is in conflict anyway.
    """
    live, uid = step.live, reconcile.uid
    patch = None if live is None else vote_patch(live, uid, step.vote)
    if live is None or patch is None or reconcile.cluster.dry_run:
        return live
    try:
        resource = await reconcile.cluster.children.resource(live.identity.group_kind, live.version)
        async with reconcile.cluster.children.shared_turn(step.identity, uid) as granted:
            now = reconcile.cluster.children.of(uid).get(step.identity)
            if not granted or now is None or now.resource_version != live.resource_version:
                return live
            return await _patched(live, patch, resource, reconcile)
    except REQUEST_ERRORS:
        return live


async def release(step: Child, resource: Resource, reconcile: Reconcile) -> LiveObject | Child:
    """Give up an object that other parents share. Returns the outcome, or the object to delete if no other parent owns
    it. Raises ApiError, `conflict` if it changed meanwhile.
    """
    live, identity, uid = step.live, step.identity, reconcile.uid
    async with reconcile.cluster.children.shared_turn(identity, uid, patient=reconcile.cluster.dry_run) as granted:
        if not granted:
            return waiting_outcome(step, live, OTHERS_TURN)
        current = await reconcile.client.find(resource, identity.name, identity.namespace)
        if current is None or live is None or current.uid != live.uid or not current.belongs_to(uid):
            return step.ended(Result.PRUNED)
        outcome, patch = released_outcome(step, current, uid), release_patch(current, uid)
        if outcome is None or patch is None:
            return current
        if reconcile.cluster.dry_run:
            return outcome
        return replace(outcome, live=await _patched(current, patch, resource, reconcile))


async def _patched(live: LiveObject, patch: bytes, resource: Resource, reconcile: Reconcile) -> LiveObject:
    identity = live.identity
    with reconcile.cluster.writing(identity):
        written = await reconcile.client.merge_patch(resource, identity.namespace, identity.name, patch)
        return reconcile.cluster.written(written)
