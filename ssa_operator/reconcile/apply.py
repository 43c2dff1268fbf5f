"""Applying one manifest, and deleting one object.

Promises:
- An object is created only where none exists. One that turns out to exist is returned, and planned as what it is.
- Generated values, and a manifest that reads its own object (`live`), are applied only to the object that they were
  read from, as it was then. If more than its status has changed, the operator reads it again, and the next reconcile
  renders it.
- What Kubernetes does not collect with the parent is not created while the operator's view of the parent is old: the
  parent may have no record of it any more. Neither is a child that was deleted: its parent may be gone.
- No child is applied from the moment on that the cache shows the deletion of its parent: an owner reference to a parent
  that is gone would have the garbage collector delete the child, also one that was orphaned.
- A field that a template stops writing goes, also where the API server would restore it from the same field by another
  name, or keeps it in an annotation because the version of the manifest lacks it.
- An object is deleted only as the operator knows it: what was recreated under the same name stays, and so does what no
  longer belongs to the parent. A change that concerns neither doesn't prevent the deletion.
"""

from __future__ import annotations

from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Applied
from ssa_operator.kube.api.conflicts import retry_on_conflict
from ssa_operator.kube.api.discovery import REQUEST_ERRORS, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.managed_fields import has_owned_content
from ssa_operator.objects.manifest import Manifest
from ssa_operator.reconcile.adoption import (
    adopt_fields_patch,
    depends_on_known,
    former_version_patch,
    only_if_absent,
    only_to_known,
    with_patched_metadata,
    without_former_fields,
)
from ssa_operator.reconcile.child import Child, FailureReason, Result, waiting_outcome
from ssa_operator.reconcile.child_memory import Recreation
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.failures import failed_outcome, failed_request, location_of_error
from ssa_operator.reconcile.prune.outdated_view import is_outdated
from ssa_operator.reconcile.prune.requests import why_outdated, why_parent_outdated
from ssa_operator.reconcile.recreate.requests import ImmutableChange, immutable_change
from ssa_operator.reconcile.refusals.known_refusals import after_apply
from ssa_operator.reconcile.refusals.requests import answer_refusal, answer_returned_fields
from ssa_operator.reconcile.replicas.requests import hand_over, scale_paths
from ssa_operator.reconcile.replicas.rules import (
    Handover,
    find_handover,
    last_replicas,
    with_handed_over,
    with_replicas,
)
from ssa_operator.reconcile.resync.unchanged import is_counted_as_change, is_same_apply, is_same_content
from ssa_operator.reconcile.shared_ownership import OTHERS_TURN, release, with_owners


class Existing(Struct, frozen=True):
    """A step whose object was planned to be created, and the object that exists."""

    step: Child
    live: LiveObject


async def apply_shared(step: Child, reconcile: Reconcile) -> Child | Existing | ImmutableChange:
    """Apply the manifest of an object that several parents share, after the requests of its other owners in this
    process. If one of these has changed the object, it is returned.
    """
    uid = reconcile.uid
    async with reconcile.cluster.children.shared_turn(step.identity, uid, patient=reconcile.cluster.dry_run) as granted:
        if not granted:
            return waiting_outcome(step, step.live, OTHERS_TURN)
        now = reconcile.cluster.children.of(uid).get(step.identity)
        if now is not None and (step.live is None or now.resource_version != step.live.resource_version):
            return Existing(step, now)
        return await apply(step, reconcile)


async def apply(step: Child, reconcile: Reconcile) -> Child | Existing | ImmutableChange:
    """Apply the manifest of a step. Instead of an outcome, returns an object that exists although the plan doesn't know
    it, an apply that was refused because of an immutable field, or what to apply after a refusal. Raises
    REQUEST_ERRORS.
    """
    assert step.manifest is not None
    manifest = with_owners(step.manifest, step.live)
    if reconcile.parent_leaves:
        return waiting_outcome(step, step.live, "is not applied, because its parent is being deleted")
    resource = await reconcile.cluster.children.resource(manifest.identity.group_kind, manifest.version)
    ready = step
    try:
        with reconcile.cluster.writing(manifest.identity):
            if why := await _why_not_gained(step, manifest, reconcile):
                return waiting_outcome(step, step.live, why)
            if step.live is not None:
                adopts = not step.live.owned_fields()
                prepared = await _prepare(step, manifest, resource, reconcile, adopts=adopts)
                ready = replace(step, live=prepared.live)
                if not prepared.keeps_fields:
                    instead = await answer_returned_fields(ready, manifest, resource, reconcile)
                    if instead is not None:
                        return instead
                done = await _apply_to_prepared(prepared, step, manifest, resource, reconcile)
                if not isinstance(done, Applied):
                    return _after_change(step, step.live, done, reconcile)
                applied = done
            else:
                created = await _create(step, manifest, resource, reconcile)
                if isinstance(created, LiveObject):
                    return Existing(step, created)
                applied = created
            is_same = is_same_content if reconcile.cluster.dry_run else is_same_apply
            same = step.live is not None and is_same(step.live, applied.live)
            counted = (
                step.live is not None
                and not reconcile.cluster.dry_run
                and is_counted_as_change(step.live, applied.live)
            )
            applied = replace(applied, live=reconcile.cluster.written(applied.live, changed=not (same or counted)))
    except ValueError as error:
        return failed_outcome(step, str(error), problem=FailureReason.INVALID_MANIFEST)
    except ApiError as error:
        return await _after_refusal(ready, manifest, resource, error, reconcile)
    # `diff` shows what a dry run would give up by itself.
    before = applied.live if reconcile.cluster.dry_run else step.live
    return replace(_applied(step, manifest, applied, before, same=same or counted), counted=counted)


async def _after_refusal(
    step: Child, manifest: Manifest, resource: Resource, error: ApiError, reconcile: Reconcile
) -> Child | ImmutableChange:
    try:
        answer = await answer_refusal(step, manifest, resource, error, reconcile)
    except REQUEST_ERRORS as failure:
        return failed_request(step, failure)
    if isinstance(answer, Child):
        return answer
    change = immutable_change(step, manifest, resource, error, reconcile, answer)
    return change or _refused(step, manifest, error, answer)


def _applied(step: Child, manifest: Manifest, applied: Applied, before: LiveObject | None, *, same: bool) -> Child:
    memory, left = step.memory, ""
    refusal, recreation = memory.refusal, memory.recreation
    if before is not None:
        refusal, left = after_apply(refusal, manifest, before, applied.live)
    if not applied.created:
        # An apply that succeeds resets the repeated refusals.
        recreation, result = None, Result.UNCHANGED if same else Result.CONFIGURED
    elif recreation is not None and not recreation.created:
        recreation = Recreation(digest=manifest.digest, created=True, deleted_uid=recreation.deleted_uid)
        result = Result.RECREATED
    else:
        result = Result.CREATED
    if refusal is not memory.refusal or recreation is not memory.recreation:
        step = replace(step, memory=replace(memory, refusal=refusal, recreation=recreation))
    return step.ended(result, live=applied.live, message=left, warnings=applied.warnings)


async def _create(step: Child, manifest: Manifest, resource: Resource, reconcile: Reconcile) -> Applied | LiveObject:
    """Apply where no object exists; an object that exists is returned as it is."""
    paths, gone = scale_paths(resource, reconcile.cluster), reconcile.cluster.children.last_seen(manifest.identity)
    replicas = last_replicas(manifest, step.replicas, gone, paths)
    complete = with_replicas(manifest, replicas, paths)
    created = await _create_if_absent(complete, resource, reconcile)
    if complete is manifest or isinstance(created, LiveObject) or reconcile.cluster.dry_run:
        return created
    live = reconcile.cluster.written(created.live)
    return replace(created, live=await hand_over(manifest, live, resource, reconcile, replicas))


async def _create_if_absent(manifest: Manifest, resource: Resource, reconcile: Reconcile) -> Applied | LiveObject:
    try:
        return await _send(manifest, only_if_absent(manifest), resource, reconcile)
    except ApiError as error:
        if error.code != 409:
            raise
    existing = await reconcile.client.find(resource, manifest.identity.name, manifest.identity.namespace)
    if existing is not None:
        return existing
    # It was deleted meanwhile, or this API server fails the precondition for an absent object, too.
    return await _send(manifest, manifest.encoded, resource, reconcile)


async def _why_not_gained(step: Child, manifest: Manifest, reconcile: Reconcile) -> str | None:
    """Why the parent must not get an object that it doesn't have, None where it may or has it. Once the parent is gone,
    the operator no longer deletes the object, or removes the parent from the owners of a shared one; from owner
    references, the garbage collector does so each time. Raises ApiError.
    """
    shared, live = manifest.shared, step.live
    if live is None:
        last_seen = reconcile.cluster.children.last_seen(manifest.identity)
        is_gained = manifest.deleted_by_operator or last_seen is not None
    else:
        is_gained = shared is not None and (live.shared is None or shared.uid not in live.shared.owners)
    return await why_parent_outdated(reconcile) if is_gained and not reconcile.cluster.dry_run else None


async def _apply_to_known(
    live: LiveObject, manifest: Manifest, resource: Resource, reconcile: Reconcile
) -> Applied | LiveObject | None:
    """Apply to an object as it was read. Returns the object as it is now where the manifest must not be applied to it,
    None where it is gone.
    """
    if reconcile.cluster.dry_run or not depends_on_known(manifest):
        return await _send(manifest, manifest.encoded, resource, reconcile)
    identity = manifest.identity

    async def change(current: LiveObject | None) -> Applied | LiveObject | None:
        if current is None or is_outdated(live, current):
            return current
        # At most its status has changed.
        return await _send(manifest, only_to_known(manifest, current), resource, reconcile)

    read = partial(reconcile.client.find, resource, identity.name, identity.namespace)
    return await retry_on_conflict(read, change, known=live, is_conflict=_is_other_version)


def _is_other_version(error: ApiError) -> bool:
    """Whether an object has changed, or was recreated and the apply had the uid of its predecessor."""
    return error.conflict or (error.invalid and any(cause.field == "metadata.uid" for cause in error.causes))


def _after_change(step: Child, known: LiveObject, current: LiveObject | None, reconcile: Reconcile) -> Child:
    """The outcome where an object is another one than the cache has, or gone. The next reconcile has it."""
    if current is not None and current.parent_uid == known.parent_uid != "":
        current = reconcile.cluster.written(current, changed=False)
    elif current is None or current.uid != known.uid:
        reconcile.cluster.deleted(known)
    what = "was deleted" if current is None else "was changed"
    return waiting_outcome(step, current, f"{what} meanwhile, and its watch is behind; the operator has read it again")


class _Prepared(Struct, frozen=True):
    """An object whose fields have the owners with which the manifest can be applied."""

    live: LiveObject
    handover: Handover | None = None
    """What a dry run only shows to get other owners."""
    keeps_fields: bool = False
    """Whether the manifest has all fields that the operator owns, so that the apply gives up none."""


async def _prepare(
    step: Child, manifest: Manifest, resource: Resource, reconcile: Reconcile, *, adopts: bool
) -> _Prepared:
    """Change the owners of fields before an apply: adopt those of former managers, so that obsolete ones are removed,
    and hand over the number of replicas that the manifest leaves to others.
    """
    live, replicas = step.live, step.replicas
    assert live is not None
    if step.unchanged and live.shared is None:
        return _Prepared(live, keeps_fields=True)
    if not adopts and live.own_api_version() == manifest.api_version and has_owned_content(live, manifest.body):
        return _Prepared(live, keeps_fields=True)
    patch = adopt_fields_patch(live, manifest.api_version, reconcile.former_managers) if adopts else None
    if reconcile.cluster.dry_run:
        owned = live if patch is None else with_patched_metadata(live, patch)
        return _Prepared(owned, find_handover(manifest, owned, scale_paths(resource, reconcile.cluster), replicas))
    if patch is not None:
        live = await reconcile.client.merge_patch(resource, live.identity.namespace, live.identity.name, patch)
    return _Prepared(await hand_over(manifest, live, resource, reconcile, replicas))


async def _apply_to_prepared(
    prepared: _Prepared, step: Child, manifest: Manifest, resource: Resource, reconcile: Reconcile
) -> Applied | LiveObject | None:
    """Apply to an object. Returns the object as it is now, or None, if it is not the one that the manifest may be
    applied to.
    """
    live = step.live
    assert live is not None
    if reconcile.cluster.dry_run:
        return await _dry_run(live, prepared, manifest, resource, reconcile)
    done = await _apply_to_known(prepared.live, manifest, resource, reconcile)
    if isinstance(done, Applied) and (patch := former_version_patch(live, done.live, manifest)):
        identity = manifest.identity
        return replace(
            done, live=await reconcile.client.merge_patch(resource, identity.namespace, identity.name, patch)
        )
    if live.managed_fields or not isinstance(done, Applied):
        return done
    # The first apply gave a manager to the fields that had none.
    again = await _prepare(replace(step, live=done.live), manifest, resource, reconcile, adopts=True)
    return done if again.live is done.live else await _apply_to_known(again.live, manifest, resource, reconcile)


async def _dry_run(
    live: LiveObject, prepared: _Prepared, manifest: Manifest, resource: Resource, reconcile: Reconcile
) -> Applied:
    """The answer of a dry run. That of a patch would have no effect on that of the apply."""
    handover = prepared.handover
    complete = manifest if handover is None else with_handed_over(manifest, handover)
    applied = await _send(manifest, complete.encoded, resource, reconcile)
    result = applied.live if handover is None else handover.patched(applied.live)
    if not live.owned_fields():
        result = without_former_fields(live, result, complete, reconcile.former_managers)
    return replace(applied, live=result)


async def _send(manifest: Manifest, body: bytes, resource: Resource, reconcile: Reconcile) -> Applied:
    identity = manifest.identity
    options = calls.ApplyOptions(dry_run=reconcile.cluster.dry_run, secret=manifest.document.secret)
    return await reconcile.client.apply(resource, identity.namespace, identity.name, body, options)


async def prune(step: Child, reconcile: Reconcile) -> Child:
    """Delete the object of a step, if it is still the one that was planned for and no other parents share it. Raises
    REQUEST_ERRORS.
    """
    live = step.live
    assert live is not None
    try:
        resource = await reconcile.cluster.children.resource(live.identity.group_kind, live.version)
        if kept := await _kept_by_old_view(step, reconcile):
            return kept
        if live.shared is not None:
            last = await release(step, resource, reconcile)
            if isinstance(last, Child):
                return last
            live = last
        remaining = await _delete(live, resource, reconcile)
    except UnknownKind as error:
        return _not_deleted(step, str(error))
    except ApiError as error:
        # An object that was recreated under the same name, has another owner now or changed again is not deleted.
        if not error.conflict:
            raise
        return _not_deleted(step, f"another object has its name by now, or it changed meanwhile ({error.message})")
    if remaining is None:
        reconcile.cluster.deleted(live)
    else:
        reconcile.cluster.written(remaining)
    return step.ended(Result.PRUNED, live=remaining)


async def _kept_by_old_view(step: Child, reconcile: Reconcile) -> Child | None:
    """The outcome of an object that the operator must not delete by what it knows, None where it may."""
    try:
        why = await why_outdated(reconcile)
    except ApiError as error:
        message = f"{step.identity} is kept, because what its deletion follows from can't be read again: {error}"
        return replace(failed_request(step, error), message=message)
    return waiting_outcome(step, step.live, f"{step.reason}; {why}") if why else None


async def _delete(live: LiveObject, resource: Resource, reconcile: Reconcile) -> LiveObject | None:
    """Delete an object as it is in the cache; if it changed meanwhile and still belongs to the parent, as it is now."""
    identity = live.identity
    options = calls.DeleteOptions(
        uid=live.uid, resource_version=live.resource_version, dry_run=reconcile.cluster.dry_run
    )
    try:
        return await reconcile.client.delete(resource, identity.namespace, identity.name, options)
    except ApiError as error:
        if not error.conflict:
            raise
        conflict = error
    now = await reconcile.client.find(resource, identity.name, identity.namespace)
    if now is None:
        return None
    if (now.uid, now.parent_uid, now.shared) != (live.uid, live.parent_uid, live.shared) or not now.owned_fields():
        raise conflict
    options = replace(options, resource_version=now.resource_version)
    return await reconcile.client.delete(resource, identity.namespace, identity.name, options)


def _not_deleted(step: Child, why: str) -> Child:
    """The outcome of an object that the cache still holds and the API server no longer has as it was."""
    message = f"{step.reason}; waits until its watch shows the present state: {why}"
    return step.ended(Result.WAITING, live=step.live, message=message, retryable=True)


def _refused(step: Child, manifest: Manifest, error: ApiError, note: str | None) -> Child:
    """A refused apply: the API server's message, at the template line that wrote the first field in it. `note` is what
    the message says of other managers.
    """
    if "Only one reference can have Controller set to true" in error.words.message:
        message = (
            f"{step.identity} is controlled by another object; give it another name, or let go of it there ({error})"
        )
        return failed_outcome(step, message, problem=FailureReason.CONFLICT)
    outcome = failed_request(step, error, location_of_error(manifest, error))
    if error.too_large:
        return replace(outcome, message=f"{error}; render less into the object, or divide it")
    if note:
        outcome = replace(outcome, message=f"{outcome.message}; {note}")
    if step.memory.recreation is not None and not step.memory.recreation.created:
        # The operator has deleted the object, and it is missing until an apply succeeds. A quota, for example, may
        # still count the old object.
        return replace(outcome, retryable=True)
    return outcome
