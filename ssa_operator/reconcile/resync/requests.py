"""Resyncs of parents that are at rest: the applies of the last resync are sent again, without a render.

Promises:
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

from collections.abc import Sequence
from functools import lru_cache

from msgspec.structs import replace

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.backoff import earliest
from ssa_operator.kube.api.client import Applied
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.causes import Cause
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.impersonation import ANSWER_LIFETIME
from ssa_operator.reconcile.long_steps import run_all
from ssa_operator.reconcile.parent_state import KindInputs, RepeatableResync, ResyncInputs
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.resync.repeatable import SIZE_LIMIT, RepeatableApply, repeatable_applies, repeatable_apply
from ssa_operator.reconcile.resync.unchanged import is_same_apply
from ssa_operator.reconcile.settings import ApplyMode
from ssa_operator.reconcile.status.report import Report


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
    if inputs is None or not report.complete or report.retryable or report.notice:
        return None
    status = reconcile.state.status
    if status.deferred is not None or status.conflict is not None or reconcile.state.unrecorded_once:
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
    _record(reconcile, apply, applied)
    result = Result.CREATED if applied.created else Result.UNCHANGED if same else Result.CONFIGURED
    reconcile.repeated[identity] = (result, applied.warnings)
    return result


def _record(reconcile: Reconcile, apply: RepeatableApply, applied: Applied) -> None:
    """Record what an apply left behind, as after any other apply."""
    memories, identity = reconcile.state.children, apply.identity
    row = memories.by_child[identity]
    row = replace(row, applied=row.applied and replace(row.applied, applied=applied.live))
    reconcile.state = replace(reconcile.state, children=memories.with_children({identity: row}))


def _is_due(moment: float | None, now: float) -> bool:
    return moment is not None and moment <= now


@lru_cache(maxsize=1000)
def _shared(inputs: KindInputs) -> KindInputs:
    """The same value, which is in memory once for many parents."""
    return inputs


def with_repeated(outcomes: Sequence[Child], reconcile: Reconcile) -> tuple[Child, ...]:
    """The outcomes of a reconcile, with what its repeated applies changed before its render."""
    return tuple(
        _with_repeated(outcome, *reconcile.repeated[outcome.identity])
        if outcome.identity in reconcile.repeated and outcome.result is Result.UNCHANGED
        else outcome
        for outcome in outcomes
    )


def _with_repeated(outcome: Child, result: Result, warnings: tuple[str, ...]) -> Child:
    reason = "this reconcile applies every manifest"
    return replace(outcome, action=Action.APPLY, reason=reason, result=result, warnings=warnings)
