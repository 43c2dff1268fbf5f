"""Deletes an object whose immutable field changed, to recreate it.

Before the deletion, the operator checks that the object is its own, that the new manifest is valid (by a dry run under
another name), and that the volumes of a StatefulSet can grow. It does not wait for the end of the deletion: the watch
event requeues the parent, and the next reconcile recreates the object. After a restart, the first reconcile does.

Promises:
- Without the annotation `recreate` in the manifest, nothing is deleted.
- If a check or a request fails, the old object stays unchanged, and the outcome names the failure and its reason.
- An object is deleted only in the state that the operator knows: an object that took its name meanwhile stays, and a
  changed one is judged again.
- Nothing is deleted while the operator's view of the parent is outdated.
- An object with generated values is deleted only after they are on record, for the case that this process dies.
- An object with a number of replicas that others set is deleted only after the parent has recorded the number.
- In a dry run, the outcome has the new object that the checks returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.discovery import REQUEST_ERRORS
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.annotations import Recreate
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.source_location import SourceLocation, parse_field
from ssa_operator.reconcile.child import Child, FailureReason, Result, waiting_outcome
from ssa_operator.reconcile.child_memory import Recreation
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.failures import (
    causes_text,
    failed_outcome,
    failed_request,
    location_of_error,
    refusals_of,
)
from ssa_operator.reconcile.immutable_fields import changed_field, immutable_fields
from ssa_operator.reconcile.kept_values import keep_replicas, keep_values
from ssa_operator.reconcile.pod_failures.rules import POD
from ssa_operator.reconcile.prune.requests import why_outdated
from ssa_operator.reconcile.recreate.rules import (
    ANNOTATION,
    CLAIM,
    POD_NAME_LABEL,
    Growth,
    deletion_message,
    grown_templates,
    growths,
    immutable_advice,
    is_refused_again,
    may_have_left_pods,
    pod_to_replace,
    pods_to_adopt,
    probe,
    propagation,
    reason_to_keep,
    refusal_is_about_trial,
    repeated_refusal,
    template_labels,
    was_left_by_former_parent,
)
from ssa_operator.reconcile.replicas.requests import scale_paths
from ssa_operator.reconcile.replicas.rules import OthersReplicas, others_replicas, with_replicas
from ssa_operator.schema.crd_schema import object_schema


class ImmutableChange(Struct, frozen=True, kw_only=True):
    """An apply that the API server refused because an immutable field changed."""

    step: Child
    manifest: Manifest
    resource: Resource
    """How the cluster serves the object's kind."""
    error: ApiError
    """The refusal."""
    schema: Mapping[str, Any] | None
    """The schema of the object's CRD, None without one."""
    field: str
    """The path of the immutable field."""
    note: str | None = None
    """What the message says of other managers."""

    @property
    def location(self) -> SourceLocation:
        return self.manifest.document.location_of(parse_field(self.field, self.manifest.body))

    @property
    def causes(self) -> str:
        """The API server's words, and what the object has of other managers."""
        return "; ".join(filter(None, (causes_text(self.error), self.note)))


def immutable_change(
    step: Child, manifest: Manifest, resource: Resource, error: ApiError, reconcile: Reconcile, note: str | None = None
) -> ImmutableChange | None:
    """The immutable field that a refused apply changed, None if it was refused for another reason. `note` is what the
    message says of other managers.
    """
    if not error.invalid:
        return None
    crd = reconcile.cluster.crds.get(resource.name)
    schema = object_schema(crd, resource.version) if crd is not None else None
    kind = manifest.identity.group_kind
    fields = immutable_fields(kind, refusals_of(error), schema)
    if not fields:
        return None
    field = fields[0] if step.live is None else changed_field(kind, fields, manifest.body, step.live.body)
    return ImmutableChange(
        step=step, manifest=manifest, resource=resource, error=error, schema=schema, field=field, note=note
    )


async def recreate(change: ImmutableChange, reconcile: Reconcile) -> Child:
    """Delete the object if its manifest allows that. If it is gone at once, returns the step that recreates it. Raises
    CredentialsError.
    """
    try:
        return await _recreate(change, reconcile)
    except ApiError as error:
        outcome = failed_request(change.step, error, change.location)
        return replace(outcome, message=f"{_kept(change)}: {error}")


async def _recreate(change: ImmutableChange, reconcile: Reconcile) -> Child:
    identity, recreation = change.manifest.identity, change.step.memory.recreation
    former = change.step.live
    if former is not None and was_left_by_former_parent(change.manifest, former):
        # No event of it reaches the parent, because it has another parent's label.
        return waiting_outcome(
            change.step, former, "was left by a former parent of this name; waits for its garbage collection"
        )
    if change.manifest.instructions.recreate is Recreate.NEVER:
        return _conflict(change, f"{immutable_advice(change.manifest, change.field)} ({change.causes})")
    if is_refused_again(recreation, change.manifest, former):
        return _conflict(change, f"{repeated_refusal(identity, change.field)} ({change.causes})")
    live = change.step.live
    if live is None:
        live = await reconcile.client.get(change.resource, identity.name, identity.namespace)
    if live.deleting:
        return waiting_outcome(change.step, live, deletion_message(live, recreation))
    reason = reason_to_keep(change.manifest, live)
    if reason:
        return _conflict(change, f"{_kept(change)}: {reason} ({change.causes})")
    paths = scale_paths(change.resource, reconcile.cluster)
    replicas = others_replicas(change.manifest, live, paths)
    checked = await _dry_run(change, live, reconcile, with_replicas(change.manifest, replicas, paths))
    if isinstance(checked, Child):
        return checked
    grown = grown_templates(change.manifest, live)
    if grown:
        too_small = await _grow_volumes(change, live, grown, reconcile)
        if too_small is not None:
            return too_small
    if reconcile.cluster.dry_run:
        return replace(change.step, live=live).ended(
            Result.RECREATED,
            live=checked,
            message=f"{change.field} is immutable",
        )
    return await _delete(change, live, replicas, reconcile)


async def _dry_run(
    change: ImmutableChange, live: LiveObject, reconcile: Reconcile, complete: Manifest
) -> Child | LiveObject | None:
    """The outcome if a dry run refuses the new manifest or fails. If the manifest can be applied, the object that it
    would become, under another name; None where only the API server's answer to a real apply can show it. `complete` is
    the manifest with the number of replicas that others set.
    """
    identity, probed = change.manifest.identity, probe(complete, live)
    options = calls.ApplyOptions(dry_run=True, secret=change.manifest.document.secret)
    try:
        applied = await reconcile.client.apply(
            change.resource, identity.namespace, probed.name, probed.encoded, options
        )
    except ApiError as error:
        if error.terminal and refusal_is_about_trial(probed, refusals_of(error), error.words.message, change.schema):
            return None
        message = str(error).replace(probed.name, identity.name)
        outcome = failed_request(change.step, error, location_of_error(change.manifest, error) or change.location)
        return replace(outcome, message=f"{_kept(change)}: the new manifest was refused in a dry run: {message}")
    return applied.live


async def _grow_volumes(
    change: ImmutableChange, live: LiveObject, grown: Mapping[str, str], reconcile: Reconcile
) -> Child | None:
    """Grow the volumes of a StatefulSet to the size in its new template: all of them, or none.

    The API server decides whether they can grow (by allowVolumeExpansion of the StorageClass).
    """
    claims = await reconcile.cluster.children.resource(CLAIM, "v1")
    existing, _ = await reconcile.client.list(claims, live.identity.namespace)
    all_growths = growths(live, grown, existing)
    for dry_run in (True,) if reconcile.cluster.dry_run else (True, False):
        for growth in all_growths:
            claim = growth.claim.identity
            request = calls.merge_patch(claims, claim.namespace, claim.name, growth.patch(), dry_run=dry_run)
            try:
                await reconcile.client.send(request)
            except ApiError as error:
                return _too_small(change, growth, error)
    return None


def _too_small(change: ImmutableChange, growth: Growth, error: ApiError) -> Child:
    outcome = failed_request(change.step, error, change.location)
    message = (
        f"{_kept(change)}: {growth.claim.identity} can't grow from {growth.present} to {growth.storage}: "
        f"{_first_line(error.message)}"
    )
    return replace(outcome, message=message, retryable=outcome.retryable or not growth.bound)


async def recover_pods(outcome: Child, reconcile: Reconcile, now: float) -> str:
    """Have a StatefulSet adopt the pods that a former one left, and delete the next one that it has adopted and can't
    update. Returns what the status says.
    """
    live, manifest = outcome.live, outcome.manifest
    if live is None or manifest is None or not may_have_left_pods(manifest, live):
        return ""
    try:
        resource = await reconcile.cluster.children.resource(POD, "v1")
        pods, _ = await reconcile.client.list(resource, live.identity.namespace, POD_NAME_LABEL)
        left, pod = pods_to_adopt(live, pods), pod_to_replace(live, pods, now)
        if not left and pod is None:
            return ""
        why = await why_outdated(reconcile)
        for each in left if why is None else ():
            patch = encode({"metadata": {"uid": each.uid, "labels": template_labels(live)}})
            await reconcile.client.merge_patch(resource, each.identity.namespace, each.identity.name, patch)
        if pod is not None and why is None:
            options = calls.DeleteOptions(uid=pod.uid, resource_version=pod.resource_version)
            await reconcile.client.delete(resource, pod.identity.namespace, pod.identity.name, options)
    except REQUEST_ERRORS as error:
        why = str(error)
    text = "pods of the former StatefulSet get the labels of the new one"
    if not left:
        text = "a pod of the former StatefulSet lacks a volume, and is replaced"
    return f"{text}: {why}" if why else text


async def _delete(
    change: ImmutableChange, live: LiveObject, replicas: OthersReplicas | None, reconcile: Reconcile
) -> Child:
    identity, has_generated_values = live.identity, change.manifest.document.has_generated_values
    pending = Recreation(
        digest=change.manifest.digest,
        created=False,
        deleted_uid=live.uid,
        why=f"{change.field} is immutable",
        old=live if has_generated_values else None,
    )
    memory = replace(change.step.memory, recreation=pending)
    step = replace(change.step, memory=memory, replicas=replicas)
    if why := await why_outdated(reconcile):
        return waiting_outcome(change.step, live, f"{pending.why}; {why}")
    if has_generated_values:
        try:
            await keep_values(reconcile, live, pending.why)
        except ValueError as error:
            return _conflict(change, f"{_kept(change)}: its generated values could be lost: {error}")
    if replicas is not None:
        try:
            await keep_replicas(reconcile, identity, replicas)
        except ValueError as error:
            return waiting_outcome(change.step, live, f"{_kept(change)}: its replicas could be lost: {error}")
    with reconcile.cluster.writing(identity):
        try:
            options = calls.DeleteOptions(
                uid=live.uid,
                propagation=propagation(change.manifest).value,
                # The object's finalizers and its generated values must be unchanged since the operator decided.
                resource_version=live.resource_version,
            )
            remaining = await reconcile.client.delete(change.resource, identity.namespace, identity.name, options)
        except ApiError as error:
            if error.conflict:
                # The event of the object that has its name now requeues the parent.
                return waiting_outcome(change.step, None, "was changed meanwhile; the operator tries again")
            raise
        if remaining is None:
            reconcile.cluster.deleted(live)
            return replace(step, live=None, reason=pending.why)
        reconcile.cluster.written(remaining)
    return waiting_outcome(step, remaining, deletion_message(remaining, pending))


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _kept(change: ImmutableChange) -> str:
    annotation = f"{ANNOTATION}: {change.manifest.instructions.recreate}"
    field = f"{change.manifest.identity}: {change.field}"
    return f"{field} is immutable, and in spite of {annotation} the object is kept as it is"


def _conflict(change: ImmutableChange, message: str) -> Child:
    return failed_outcome(change.step, message, problem=FailureReason.CONFLICT, location=change.location)
