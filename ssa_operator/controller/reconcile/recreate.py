"""Deleting an object whose immutable field changed, so that it is made anew.

The order: is it ours, is the new manifest valid (a dry run under another name), do a StatefulSet's volumes grow; only
then it is deleted. Its deletion is not waited for here: the event of it brings the pass that makes it anew, and so does
the first pass of another process, where this one ends in between.

Promises:
- Without the manifest's annotation nothing is deleted.
- Where anything of this fails, the old object is left as it is, and the outcome says which step failed and why.
- It is deleted with its uid as precondition: what took its name meanwhile is left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.controller.reconcile.failures import failed_outcome, failed_request, place_of_error
from ssa_operator.core.objects.annotations import Recreate
from ssa_operator.core.objects.crd_schema import object_schema
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.manifest import NEVER_RECREATED, Manifest
from ssa_operator.core.objects.messages import shortened
from ssa_operator.core.objects.source_location import SourceLocation, parse_field
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.planning.step import FailureReason, Step
from ssa_operator.core.policies.immutable_fields import FieldRefusal, changed_field, immutable_field
from ssa_operator.core.policies.recreate import (
    ANNOTATION,
    CLAIM,
    Growth,
    Recreation,
    deletion_message,
    grown_templates,
    growths,
    immutable_advice,
    probe,
    propagation,
    proves_nothing,
    reason_to_keep,
    repeated_refusal,
)
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import CredentialsError

_CAUSE_LIMIT = 300
"""Characters of one of the API server's causes: it quotes values, and the one of a Job is its whole pod template."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Immutable:
    """An apply that was refused because a field can't change: which field, and where it was written."""

    step: Step
    manifest: Manifest
    resource: Resource
    error: ApiError
    schema: Mapping[str, Any] | None
    field: str

    @property
    def location(self) -> SourceLocation:
        return self.manifest.document.location_of(parse_field(self.field, self.manifest.body))

    @property
    def words(self) -> str:
        """The API server's, all causes of them, without the difference between old and new that it may add, and of a
        long value only the beginning.
        """
        causes = (f"{cause.field}: {_first_line(cause.message)}" for cause in self.error.causes)
        return "; ".join(shortened(cause, _CAUSE_LIMIT) for cause in causes)


def immutable(
    step: Step, manifest: Manifest, resource: Resource, error: ApiError, cluster: ClusterAccess
) -> Immutable | None:
    """What a refused apply says of an immutable field, None where it was refused for another reason."""
    if not error.invalid:
        return None
    definition = cluster.definitions.get(resource.name)
    schema = object_schema(definition, resource.version) if definition is not None else None
    kind = manifest.identity.group_kind
    field = immutable_field(kind, _refusals(error), schema)
    if not field:
        return None
    if step.live is not None:
        field = changed_field(kind, field, manifest.body, step.live.body)
    return Immutable(step=step, manifest=manifest, resource=resource, error=error, schema=schema, field=field)


async def recreate(found: Immutable, cluster: ClusterAccess) -> Outcome | Step:
    """Delete the object if its manifest asks for that. When it is gone, the step that makes it anew at once."""
    try:
        return await _recreate(found, cluster)
    except CredentialsError as error:
        return failed_outcome(found.step, str(error), problem=FailureReason.APPLY_FAILED, retryable=True)
    except ApiError as error:
        outcome = failed_request(found.step, error, found.location)
        return replace(outcome, message=f"{_kept(found)}: {error}")


async def _recreate(found: Immutable, cluster: ClusterAccess) -> Outcome | Step:
    identity, recreation = found.manifest.identity, found.step.recreation
    if found.manifest.instructions.recreate is Recreate.NEVER or identity.group_kind in NEVER_RECREATED:
        return _conflict(found, f"{immutable_advice(identity, found.field)} ({found.words})")
    if recreation is not None and recreation.digest == found.manifest.digest:
        return _conflict(found, f"{repeated_refusal(identity, found.field)} ({found.words})")
    live = found.step.live
    if live is None:
        live = await cluster.client.get(found.resource, identity.name, identity.namespace)
    if live.deleting:
        return _waits(found.step, live, deletion_message(live, recreation))
    why = reason_to_keep(found.manifest, live)
    if why:
        return _conflict(found, f"{_kept(found)}: {why} ({found.words})")
    invalid = await _disproved(found, live, cluster)
    if invalid is not None:
        return invalid
    grown = grown_templates(found.manifest, live)
    if grown:
        small = await _grow(found, live, grown, cluster)
        if small is not None:
            return small
    return await _delete(found, live, cluster)


async def _disproved(found: Immutable, live: LiveObject, cluster: ClusterAccess) -> Outcome | None:
    """The outcome where the new manifest isn't valid, or can't be shown to be."""
    identity, probed = found.manifest.identity, probe(found.manifest, live)
    options = calls.ApplyOptions(dry_run=True, redactor=cluster.redactor)
    try:
        await cluster.client.apply(found.resource, identity.namespace, probed.name, probed.encoded, options)
    except ApiError as error:
        if error.terminal and proves_nothing(probed, _refusals(error), error.message, found.schema):
            return None
        words = str(error).replace(probed.name, identity.name)
        outcome = failed_request(found.step, error, place_of_error(found.manifest, error) or found.location)
        return replace(outcome, message=f"{_kept(found)}: the new manifest was refused in a dry run: {words}")
    return None


async def _grow(found: Immutable, live: LiveObject, grown: Mapping[str, str], cluster: ClusterAccess) -> Outcome | None:
    """Have the volumes that a StatefulSet keeps grow to what its new template says; all of them, or none.

    Whether they can is for the API server to say (the StorageClass's allowVolumeExpansion).
    """
    claims = await cluster.children.resource(CLAIM, "v1")
    present, _ = await cluster.client.list(claims, live.identity.namespace)
    wanted = growths(live, grown, present)
    for dry_run in (True, False):
        for growth in wanted:
            claim = growth.claim.identity
            request = calls.merge_patch(claims, claim.namespace, claim.name, growth.patch(), dry_run=dry_run)
            try:
                await cluster.client.send(request)
            except ApiError as error:
                return _too_small(found, growth, error)
    return None


def _too_small(found: Immutable, growth: Growth, error: ApiError) -> Outcome:
    outcome = failed_request(found.step, error, found.location)
    message = (
        f"{_kept(found)}: {growth.claim.identity} can't grow from {growth.present} to {growth.storage}: "
        f"{_first_line(error.message)}"
    )
    return replace(outcome, message=message, retryable=outcome.retryable or not growth.bound)


async def _delete(found: Immutable, live: LiveObject, cluster: ClusterAccess) -> Outcome | Step:
    identity, holder = live.identity, found.manifest.document.holder
    pending = Recreation(
        digest=found.manifest.digest,
        made=False,
        why=f"{found.field} is immutable",
        old=live if holder else None,
    )
    with cluster.children.writing(identity):
        try:
            options = calls.DeleteOptions(
                uid=live.uid,
                propagation=propagation(found.manifest).value,
                # What keeps it, and the values that the new one gets, must be as they were judged.
                resource_version=live.resource_version if holder else "",
            )
            left = await cluster.client.delete(found.resource, identity.namespace, identity.name, options)
        except ApiError as error:
            if error.conflict:
                # The event of what took its name has the parent looked at again.
                return _waits(found.step, None, "was changed meanwhile; it is looked at again")
            raise
        if left is None:
            cluster.children.deleted(live)
            return replace(found.step, live=None, reason=pending.why, recreation=pending)
        cluster.children.written(left)
    return _waits(replace(found.step, recreation=pending), left, deletion_message(left, pending))


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _kept(found: Immutable) -> str:
    asked = f"{ANNOTATION}: {found.manifest.instructions.recreate}"
    return f"{found.manifest.identity}: {found.field} is immutable, and in spite of {asked} the object is kept as it is"


def _conflict(found: Immutable, message: str) -> Outcome:
    return failed_outcome(found.step, message, problem=FailureReason.CONFLICT, location=found.location)


def _waits(step: Step, live: LiveObject | None, message: str) -> Outcome:
    return Outcome(step=step, result=Result.WAITING, live=live, message=message, retryable=True)


def _refusals(error: ApiError) -> list[FieldRefusal]:
    return [FieldRefusal(cause.field, cause.message) for cause in error.causes]
