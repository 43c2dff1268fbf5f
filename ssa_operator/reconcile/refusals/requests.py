"""Reacts to a refused apply: reconcile.refusals.rules interprets it, and dry runs show what the API server accepts.

Promises:
- Nothing is written before a dry run was accepted. Then one patch of managedFields claims the fields that make way, and
  the next apply removes them together with its change: whenever the process dies, the next one continues.
- A value that stays, and what admission changes, are remembered, so that resyncs write nothing and try nothing. Only
  what admission denies is tried again by resyncs.
- The same steps have a field removed that came back: an apply would leave it with its old value, no manager would own
  it, and a new object of the manifest would not have it. A default is not such a field. Only fields of the same mapping
  may make way for that, and only if no manager owns them or their manager gives them up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.field_set import Path, covers, field_names, lacking, leaves
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.managed_fields import (
    managed_entries,
    other_entries,
    owned_by,
    owned_content,
    with_managed_fields,
)
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.merge_keys import IndexedBody
from ssa_operator.objects.messages import bounded
from ssa_operator.objects.source_location import field_text, parse_field
from ssa_operator.reconcile.child import Child, FailureReason, Result
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.failures import causes_text, failed_outcome, location_of_error, refusals_of
from ssa_operator.reconcile.field_changes import LeftField
from ssa_operator.reconcile.recreate.rules import probe, refusal_is_about_trial
from ssa_operator.reconcile.refusals.field_claims import Claim, claim
from ssa_operator.reconcile.refusals.known_refusals import DENIAL_LIMIT, KnownRefusal, admission_notice, left_text
from ssa_operator.reconcile.refusals.rules import (
    TRIALS,
    Candidate,
    RefusedApply,
    admission_changes,
    beside,
    changes_nothing,
    changes_nothing_immutable,
    drop_message,
    find_candidates,
    merged_patch,
    others_message,
    read_refusal,
    with_kept,
)
from ssa_operator.reconcile.resync.unchanged import is_same_content
from ssa_operator.schema.crd_schema import object_schema


async def answer_refusal(
    step: Child, manifest: Manifest, resource: Resource, error: ApiError, reconcile: Reconcile
) -> Child | str | None:
    """The step to apply instead, or the outcome, where the manifest is not at fault. Otherwise what the message about
    the refusal says of other managers; None for nothing. Raises ApiError and CredentialsError.
    """
    live = step.live
    if live is None or live.deleting or step.refusal_answered:
        return None
    if error.denied_by_policy:
        return await _answer_denial(step, manifest, resource, error, reconcile)
    if not error.invalid or error.denied:
        return None
    crd = reconcile.cluster.crds.get(resource.name)
    schema = object_schema(crd, resource.version) if crd is not None else None
    refused = read_refusal(manifest, live, refusals_of(error), schema, reconcile.former_managers)
    if refused is None:
        return None
    trials = _Trials(refused=refused, resource=resource, schema=schema, reconcile=reconcile)
    nearby = find_candidates(refused, None)
    if not (refused.immutable or nearby.candidates or nearby.of_others):
        return None
    fresh, valid, denial = await trials.fresh()
    if refused.immutable and changes_nothing_immutable(refused, fresh):
        return _blame_admission(step, refused, fresh, error)
    if not valid:
        # Else the message about the first refusal says why.
        return f"what may make way for it is unknown: {_DRY_RUN_DENIED} ({denial})" if denial else None
    findings = find_candidates(refused, fresh)
    instead = await _make_way(step, trials, findings.candidates)
    return others_message(findings.named, refused.former) if instead is None else instead


async def _answer_denial(
    step: Child, manifest: Manifest, resource: Resource, error: ApiError, reconcile: Reconcile
) -> Child | None:
    """The step to apply instead, where a webhook or a policy denies the way back of values that others moved."""
    assert step.live is not None
    refused = RefusedApply(manifest=manifest, live=step.live, former=reconcile.former_managers)
    denial = bounded(error.message, DENIAL_LIMIT)
    trials = _Trials(refused=refused, resource=resource, reconcile=reconcile, denial=denial)
    moved = [each for each in find_candidates(refused, None).candidates if each.kept is not None]
    if not moved or (await trials.fresh())[0] is None:
        return None
    return await _make_way(step, trials, moved)


_DRY_RUN_DENIED = "admission denies the dry run under another name that shows it"


class _Trials(Struct, frozen=True, kw_only=True):
    """Dry runs of one manifest."""

    refused: RefusedApply
    resource: Resource
    schema: Mapping[str, Any] | None = None
    returned: tuple[Path, ...] = ()
    """The fields that the object must not have after an apply that is accepted."""
    reconcile: Reconcile
    denial: str = ""
    """How admission denied the manifest, '' if the API server refused it."""

    async def fresh(self) -> tuple[LiveObject | None, bool, str]:
        """The object that the manifest would become under another name, and whether the manifest is valid as far as
        that shows. There is no such object where the API server refuses it, be it for its name alone. The text is how
        admission denies it, '' otherwise.
        """
        probed = probe(self.refused.manifest, self.refused.live)
        try:
            return await self._apply(probed.name, probed.encoded), True, ""
        except ApiError as error:
            words = error.words.message
            valid = error.terminal and refusal_is_about_trial(probed, refusals_of(error), words, self.schema)
            return None, valid, bounded(error.message, DENIAL_LIMIT) if error.denied else ""

    async def choose(self, candidates: Sequence[Candidate]) -> tuple[tuple[Candidate, ...], LiveObject] | None:
        """The candidates that the API server accepts the manifest with, no more than it needs, and the object as the
        trial showed it. None if it accepts none.
        """
        tried = tuple(candidates[:TRIALS])
        for each in tried:
            if (found := await self.accepted((each,))) is not None:
                return (each,), found
        if len(tried) < 2 or (found := await self.accepted(tried)) is None:
            return None
        needed = tried
        for each in tried:
            fewer = tuple(other for other in needed if other is not each)
            if (answer := await self.accepted(fewer)) is not None:
                needed, found = fewer, answer
        return needed, found

    async def accepted(self, chosen: tuple[Candidate, ...]) -> LiveObject | None:
        """The object after an apply without these candidates, None if one of them is needless or refused."""
        found = await self._unless_refused(self._try(chosen))
        if found is None or not is_gone(self.returned, found):
            return None
        for each in chosen if self.refused.immutable or self.denial else ():
            if each.kept is None:
                continue
            rest = with_kept(self.refused.manifest, [other for other in chosen if other is not each])
            name, (farther, nearer) = rest.identity.name, beside(each, rest)
            # What can't move the other way either is immutable, and what can move back a bit has a limit.
            if await self._unless_refused(self._apply(name, farther)) is None:
                return None
            if self.denial and nearer is not None and await self._unless_refused(self._apply(name, nearer)) is not None:
                return None
        return found

    async def _unless_refused(self, trial: Awaitable[LiveObject]) -> LiveObject | None:
        try:
            return await trial
        except ApiError as error:
            if not (error.terminal or error.denied):
                raise
            return None

    async def _try(self, chosen: tuple[Candidate, ...]) -> LiveObject:
        made, identity = with_kept(self.refused.manifest, chosen), self.refused.manifest.identity
        if all(each.kept is not None for each in chosen):
            return await self._apply(identity.name, made.encoded)
        body, after = merged_patch(_claimed(self.refused, chosen).live, made)
        request = calls.json_patch(self.resource, identity.namespace, identity.name, body, dry_run=True)
        answer = LiveObject((await self.reconcile.client.send(request)).body)
        return with_managed_fields(answer, managed_entries(after))

    async def _apply(self, name: str, body: bytes) -> LiveObject:
        manifest = self.refused.manifest
        options = calls.ApplyOptions(dry_run=True, secret=manifest.document.secret)
        return (await self.reconcile.client.apply(self.resource, manifest.identity.namespace, name, body, options)).live


def _claimed(refused: RefusedApply, chosen: Sequence[Candidate]) -> Claim:
    fields = [each.steps for each in chosen if each.kept is None]
    return claim(refused.live, refused.manifest.api_version, fields, refused.former)


async def _make_way(step: Child, trials: _Trials, candidates: Sequence[Candidate]) -> Child | None:
    """Claim the fields that make way. Returns the step that applies the manifest without the values that stay, or the
    outcome; None where no trial is accepted.
    """
    accepted = await trials.choose(candidates)
    if accepted is None:
        return None
    chosen, answer = accepted
    refused, reconcile = trials.refused, trials.reconcile
    dropped, kept = [each for each in chosen if each.kept is None], [each.kept for each in chosen if each.kept]
    digest, uid = refused.manifest.digest, refused.live.uid
    known = KnownRefusal(digest=digest, uid=uid, kept=tuple(kept), denial=trials.denial) if kept else None
    change = None if kept else step.foreign_change
    memory = replace(step.memory, refusal=known)
    reason = f"{step.reason}; {drop_message(dropped)}" if dropped else step.reason
    made = with_kept(refused.manifest, chosen)
    step = replace(step, manifest=made, reason=reason, memory=memory, refusal_answered=True, foreign_change=change)
    if reconcile.cluster.dry_run:
        same = is_same_content(refused.live, answer)
        result = Result.UNCHANGED if same else Result.CONFIGURED
        return step.ended(result, live=answer, message=drop_message(dropped))
    if not dropped:
        return step
    identity = made.identity
    claimed = _claimed(refused, dropped)
    patch = calls.merge_patch(trials.resource, identity.namespace, identity.name, claimed.patch)
    with reconcile.cluster.writing(identity):
        try:
            live = LiveObject((await reconcile.client.send(patch)).body)
        except ApiError as error:
            if error.conflict:
                message = "was changed meanwhile; the operator tries again"
                return step.ended(Result.WAITING, live=step.live, message=message, retryable=True)
            raise
        return replace(step, live=reconcile.cluster.written(live, changed=False))


def _blame_admission(step: Child, refused: RefusedApply, fresh: LiveObject | None, error: ApiError) -> Child:
    """The outcome of an apply that admission changes: the object stays, and is as ready as it was if the manifest
    changes nothing else.
    """
    manifest = refused.manifest
    field = field_text(parse_field(refused.immutable[0]))
    text = admission_notice(manifest, field, admission_changes(refused, fresh), causes_text(error))
    known = KnownRefusal(digest=manifest.digest, uid=refused.live.uid, admission=text)
    step = replace(step, memory=replace(step.memory, refusal=known))
    if changes_nothing(refused, fresh):
        return step.ended(Result.UNCHANGED, live=refused.live)
    location = location_of_error(manifest, error)
    message = f"{step.identity}: the manifest can't be applied: {text}"
    outcome = failed_outcome(step, message, problem=FailureReason.APPLY_FAILED, location=location)
    return replace(outcome, denied=True)  # no event tells when the policy lets it pass


async def answer_returned_fields(
    step: Child, manifest: Manifest, resource: Resource, reconcile: Reconcile
) -> Child | None:
    """The step to apply instead, or the outcome of a dry run, where fields that the manifest no longer has would be
    back after its apply. None if none would, or where nothing helps. Raises ApiError and CredentialsError.
    """
    live = step.live
    if live is None or live.deleting or step.unchanged or step.refusal_answered:
        return None
    dropped = dropped_fields(live, manifest)
    if not dropped:
        return None
    refused = RefusedApply(manifest=manifest, live=live, former=reconcile.former_managers)
    trials = _Trials(refused=refused, resource=resource, reconcile=reconcile)
    applied = await trials.accepted(())
    if applied is None or is_gone(dropped, applied):
        return None
    fresh, _, denial = await trials.fresh()
    if denial:
        stays = tuple(LeftField(path=path, owners=()) for path in dropped if not is_gone((path,), applied))
        known = step.memory.refusal or KnownRefusal(digest=manifest.digest, uid=live.uid)
        known = replace(known, left=(*known.left, *stays), denial=known.denial or f"{_DRY_RUN_DENIED} ({denial})")
        reason = f"{step.reason}; {left_text(stays, known.denial)}"
        memory = replace(step.memory, refusal=known)
        return replace(step, reason=reason, memory=memory, refusal_answered=True)
    returned = () if fresh is None else returned_fields(dropped, live, applied, fresh)
    if not returned:
        return None
    refused = replace(refused, fields=tuple(dict.fromkeys(map(field_names, returned))))
    trials = replace(trials, refused=refused, returned=returned)
    return await _make_way(step, trials, find_candidates(refused, fresh).candidates)


def dropped_fields(live: LiveObject, manifest: Manifest) -> tuple[Path, ...]:
    """The outermost fields that the operator alone owns in an object, and that the manifest does not have."""
    dropped = lacking(owned_content(live), manifest.body)
    if not dropped:
        return ()
    others = [tree for _, tree in other_entries(live)]
    return tuple(path for path in leaves(dropped) if not any(covers(tree, path) for tree in others))


def returned_fields(
    dropped: Sequence[Path], live: LiveObject, applied: LiveObject, fresh: LiveObject
) -> tuple[Path, ...]:
    """The dropped fields that came back. `applied` is the object as an apply would leave it, and `fresh` the one that
    the manifest would become under another name.
    """
    before, after, new = IndexedBody(live.body), IndexedBody(applied.body), IndexedBody(fresh.body)
    owned = [owned_by(applied), *(tree for _, tree in other_entries(applied))]
    return tuple(
        path
        for path in dropped
        if (value := after.value_at(path)) is not None
        and value == before.value_at(path)
        and new.value_at(path) is None
        and not any(covers(tree, path) for tree in owned)
    )


def is_gone(returned: Sequence[Path], found: LiveObject) -> bool:
    """Whether an object has none of these fields."""
    body = IndexedBody(found.body)
    return all(body.value_at(path) is None for path in returned)
