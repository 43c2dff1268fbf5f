"""Suspends a parent: the operator reports the readiness of its children, and applies and deletes nothing.

Promises:
- The parent's annotation suspends it until a user removes the annotation or deletes the parent. So does the folder's
  setting `suspendWhen`, while its expression over the parent is true. An expression without a value suspends nothing.
- A value of the annotation that is neither true nor false suspends the parent, too, so that a typing error deletes
  nothing.
- `Ready` follows from the live children alone. A suspended parent with healthy children is Ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import bounded
from ssa_operator.objects.predicate import Predicate
from ssa_operator.objects.render_result import StatusFields
from ssa_operator.reconcile.act import diagnose
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.observe import observe
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.planner import plan_parent
from ssa_operator.reconcile.secrets.redacted_report import redacted_outcomes
from ssa_operator.reconcile.status.report import Report, make_suspended_report
from ssa_operator.reconcile.status.requests import publish, scheduled, with_status_fields

ANNOTATION = f"{PREFIX}suspend"
"""The annotation that suspends a parent while it is `"true"`: the operator applies and deletes nothing. Only `"false"`
and `""` mean the same as no annotation.
"""

MESSAGE = f"nothing is applied while the annotation {ANNOTATION} is true"
"""The message of the condition Suspended for the annotation."""

_FALSE = ("", "false")

_SHOWN = 100
"""Characters of the annotation's value in the message."""


def is_suspended(parent: LiveObject, suspend_when: Predicate | None = None) -> bool:
    """Whether a parent is suspended; `suspend_when` is the setting of its folder."""
    return bool(suspension_message(parent, suspend_when))


def suspension_message(parent: LiveObject, suspend_when: Predicate | None = None) -> str | None:
    """The message of the condition Suspended, None if the parent isn't suspended."""
    if parent.deleting:
        return None
    match parent.metadata.annotations.get(ANNOTATION, ""):
        case "true":
            return MESSAGE
        case value if value not in _FALSE:
            written = bounded(value, _SHOWN)
            return f'nothing is applied while the annotation {ANNOTATION} is {written!r}; write "true" or "false"'
    if suspend_when is not None and suspend_when.judge(_variables(parent.body)).holds:
        return f"nothing is applied while suspendWhen in _settings.yaml holds: {suspend_when.text}"
    return None


def _variables(body: Mapping[str, Any]) -> dict[str, Any]:
    """The names of an expression over the parent: its top-level fields, and the variables of templates."""
    metadata = body.get("metadata") or {}
    return {
        **body,
        "object": body,
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "labels": metadata.get("labels") or {},
        "annotations": metadata.get("annotations") or {},
    }


def outcomes_while_suspended(plan: Plan) -> tuple[Child, ...]:
    """The outcome of each step if none is carried out: its object stays unchanged, or stays absent."""
    return tuple(_outcome(step, plan) for step in plan.steps)


def _outcome(step: Child, plan: Plan) -> Child:
    live = step.live
    if live is None:
        # The step of a refused manifest has no object, but an earlier apply may have created one.
        own = plan.observed.children.objects.get(step.identity)
        live = own if own is not None and own.belongs_to(plan.observed.parent.uid) else None
    if step.action is Action.PRUNE:
        reason = "is no longer rendered; it is deleted when the parent is resumed"
        step = replace(step, action=Action.KEEP, reason=reason)
    elif step.manifest is None:
        # The objects of a template that fails or waits count like all other children.
        step = replace(step, action=Action.UNCHANGED)
    message = "" if live is not None else "does not exist; it is applied when the parent is resumed"
    return step.ended(Result.UNCHANGED, live=live, message=message)


async def report_suspended(reconcile: Reconcile, why: str) -> Report:
    """Report on a suspended parent; `why` is the message of `suspension_message`. Raises ApiError, CredentialsError and
    Postponed.
    """
    observed, rendered = await observe(reconcile)
    plan = await plan_parent(reconcile, observed, rendered)
    outcomes = await diagnose(reconcile, outcomes_while_suspended(plan))

    def make(own: StatusFields) -> Report:
        shown = redacted_outcomes(outcomes, reconcile.state.secrets)
        return make_suspended_report(reconcile.parent.live, shown, own, reconcile.now(), why)

    report = await with_status_fields(reconcile, plan.rendered, outcomes, make)
    return await publish(reconcile, scheduled(reconcile, plan.observed, outcomes, report))
