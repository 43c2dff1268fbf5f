"""Resyncs of parents that are at rest: the applies of the last resync are sent again, without a render.

Promises:
- A reconcile is repeated only if it changed, refused and pruned nothing, waits for nothing, and took no decision by
  what the process remembers (a conflict, a feedback loop, a refusal, a recreation, new names, a warning of the API
  server). It may leave an object alone that is made when absent, or once: a watch shows each change of the object.
- Every manifest that it applied is applied again. If the manifests are very large in total, none are kept.
- A resync repeats the last one only while all of its inputs are the same: the parent, its folder, the
  CRD, the children, what its templates look up, the kinds that the cluster serves and its version; and before the time
  at which the render or the report may change, or at which the permissions of the parent's account are reviewed again.
- Any other cause renders: a change of the parent, of its templates, of a child or of a looked-up object, and a retry.
- If the API server's answer differs from the cache, the change is recorded as after any other apply, and the reconcile
  goes on with a render.
- If a request fails, the reconcile goes on as if nothing had been repeated. If the API server answers 429, the
  reconcile ends, and its retry waits as long as the server asks: a render at once would send the same applies again.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import lru_cache
from sys import intern

from msgspec.structs import replace

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.backoff import earliest
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.compression import Examples, compress
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.reconcile.adoption import only_to_known
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.child_memory import ChildMemories
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.impersonation import ANSWER_LIFETIME
from ssa_operator.reconcile.long_steps import run_all
from ssa_operator.reconcile.parent_state import KindInputs, RepeatableApply, RepeatableResync, ResyncInputs
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.resync.unchanged import is_same_apply
from ssa_operator.reconcile.settings import ApplyMode
from ssa_operator.reconcile.shared_ownership import with_owners
from ssa_operator.reconcile.status.report import Report

SIZE_LIMIT = 4 * 1024 * 1024
"""Bytes of a parent's manifests, which are compressed, at most. Caches hold the objects in any case."""


def resync_inputs(reconcile: Reconcile) -> ResyncInputs | None:
    """All inputs of a resync but time, None if this reconcile is no resync."""
    if reconcile.cluster.settings.apply is not ApplyMode.ALWAYS or reconcile.causes != Cause.RESYNC:
        return None
    children, lookups = reconcile.cluster.children, reconcile.cluster.lookups
    own = children.by_parent(reconcile.uid)
    kinds = {live.identity.group_kind for live in own}
    status_kinds = filter(reconcile.cluster.reports_status, kinds | lookups.kinds_of(reconcile.uid))
    kind_inputs = KindInputs(
        watches=children.watch_states(reconcile.uid),
        status_kinds=frozenset(status_kinds),
        kubernetes_version=lookups.served.kubernetes_version,
    )
    return ResyncInputs(parent=reconcile.parent, children=own, kinds=_shared(kind_inputs))


async def repeatable_resync(
    reconcile: Reconcile,
    inputs: ResyncInputs | None,
    plan: Plan,
    outcomes: Sequence[Child],
    report: Report,
) -> RepeatableResync | None:
    """What the next resync may repeat, after a reconcile that began with these inputs."""
    status = reconcile.state.status
    waits = report.retryable or report.notice or status.deferred is not None or status.conflict is not None
    if inputs is None or waits or not report.complete or reconcile.state.unrecorded_once:
        return None
    if not _are_current(reconcile, inputs):
        return None
    applied = repeatable_applies(plan, outcomes, reconcile.state.children)
    if applied is None:
        return None
    applies, size = list[RepeatableApply](), 0
    for manifest, live in applied:
        apply = repeatable_apply(manifest, live, reconcile.cluster.examples)
        applies.append(apply)
        size += len(apply.compressed)
        if size > SIZE_LIMIT:
            return None
        await reconcile.steps.rest()
    until = reconcile.monotonic() + ANSWER_LIFETIME if reconcile.read_as_account else None
    return RepeatableResync(inputs=inputs, applies=tuple(applies), until=until)


def repeatable_applies(
    plan: Plan, outcomes: Sequence[Child], memories: ChildMemories
) -> Sequence[tuple[Manifest, LiveObject]] | None:
    """The manifests that a reconcile applied, with their objects; None if it is not repeated. `memories` are those
    after the reconcile.
    """
    observed = plan.observed
    if (
        not observed.applies_all
        or not plan.rendered.complete
        or plan.hold_message
        or plan.blocked
        or observed.children.unlabelled
        or observed.children.unreadable
        or observed.records.kept_values
        or observed.records.replicas
        or observed.records.held_prune
        or not memories.at_rest
    ):
        return None
    unseen = plan.unseen
    if not all(_changes_nothing(outcome, observed.parent.uid, unseen) for outcome in outcomes):
        return None
    return [
        (outcome.manifest, outcome.live)
        for outcome in outcomes
        if outcome.action is Action.APPLY and outcome.manifest is not None and outcome.live is not None
    ]


def repeatable_apply(made: Manifest, live: LiveObject, examples: Examples) -> RepeatableApply:
    """The apply of a manifest, compressed by `examples`, which learn from it."""
    compressed, example = compress(only_to_known(with_owners(made, live), live), made.identity.group_kind, examples)
    return RepeatableApply(identity=made.identity, version=intern(made.version), compressed=compressed, example=example)


def _changes_nothing(outcome: Child, parent_uid: str, unseen: Container[Identity]) -> bool:
    live = outcome.live
    if outcome.action is Action.KEEP and outcome.manifest is not None:
        return outcome.identity not in unseen and (live is None or live.belongs_to(parent_uid))
    if outcome.action is Action.UNCHANGED and outcome.unchanged:
        return True  # not even a resync applies it while the object stays as it is
    return (
        outcome.action is Action.APPLY
        and outcome.result is Result.UNCHANGED
        and outcome.unchanged
        and outcome.before is not None
        and live is not None
        and live.resource_version == outcome.before.resource_version
        and live.belongs_to(parent_uid)
    )


async def repeat_resync(reconcile: Reconcile) -> bool:
    """Repeat the applies of the last resync, if none of its inputs has changed. Returns whether the applies changed
    nothing; if it returns False, a render has to follow. Raises ApiError if the API server is too busy.
    """
    known, report = reconcile.state.repeatable, reconcile.state.status.report
    if known is None or report is None or _is_due(report.again_at, reconcile.now()):
        return False
    if _is_due(earliest(known.until, report.due), reconcile.monotonic()):
        return False
    if not _are_current(reconcile, known.inputs):
        return False
    results = await run_all(_repeat(reconcile, each) for each in known.applies)
    if reconcile.throttled is not None and not reconcile.repeated:
        raise reconcile.throttled
    if reconcile.repeated and Result.FAILED not in results:
        # Every manifest is applied, so that the render that follows applies only what it changes.
        reconcile.causes = Cause.CHILD
    return all(result is Result.UNCHANGED for result in results) and not reconcile.repeated


def _are_current(reconcile: Reconcile, inputs: ResyncInputs) -> bool:
    """Whether all inputs of a resync still equal `inputs`."""
    return resync_inputs(reconcile) == inputs and reconcile.cluster.lookups.is_current(reconcile.uid)


async def _repeat(reconcile: Reconcile, apply: RepeatableApply) -> Result:
    """Repeat one apply. What the process has to learn from the answer goes to the turn."""
    cluster, identity = reconcile.cluster, apply.identity
    before = cluster.children.get(identity)
    if before is None or reconcile.parent.leaves:
        return Result.FAILED
    try:
        resource = await cluster.children.resource(identity.group_kind, apply.version)
        with cluster.writing(identity):
            applied = await reconcile.client.apply(
                resource,
                identity.namespace,
                identity.name,
                apply.encoded,
                calls.ApplyOptions(secret=reconcile.state.secrets.of(identity)),
            )
            if applied.live.resource_version == before.resource_version and not applied.warnings:
                return Result.UNCHANGED
            same = not applied.created and is_same_apply(before, applied.live)
            applied = replace(applied, live=cluster.written(applied.live, changed=not same))
    except (ApiError, CredentialsError, UnknownKind, ValueError) as error:
        if isinstance(error, ApiError) and error.throttled:
            reconcile.throttled = error
        # The render that follows sends it again, and reports the failure.
        return Result.FAILED
    # As after any other apply.
    memories = reconcile.state.children
    row = memories.by_child[identity]
    row = replace(row, applied=row.applied and replace(row.applied, applied=applied.live))
    reconcile.state = replace(reconcile.state, children=memories.with_children({identity: row}))
    result = Result.CREATED if applied.created else Result.UNCHANGED if same else Result.CONFIGURED
    reconcile.repeated[identity] = (result, applied.warnings)
    return result


def _is_due(moment: float | None, now: float) -> bool:
    return moment is not None and moment <= now


@lru_cache(maxsize=1000)
def _shared(inputs: KindInputs) -> KindInputs:
    """The same value, which is in memory once for many parents."""
    return inputs


def with_repeated(outcomes: tuple[Child, ...], reconcile: Reconcile) -> tuple[Child, ...]:
    """The outcomes of a reconcile, with what its repeated applies changed before its render."""

    def shown(outcome: Child) -> Child:
        if outcome.identity not in reconcile.repeated or outcome.result is not Result.UNCHANGED:
            return outcome
        result, warnings = reconcile.repeated[outcome.identity]
        reason = "this reconcile applies every manifest"
        return replace(outcome, action=Action.APPLY, reason=reason, result=result, warnings=warnings)

    return tuple(map(shown, outcomes)) if reconcile.repeated else outcomes
