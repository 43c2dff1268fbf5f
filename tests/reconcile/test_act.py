"""Acting on a plan with unexpected errors and with a cache that is behind."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError, ErrorStatus, Unreachable
from ssa_operator.kube.clock import SYSTEM
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile import plan as plans
from ssa_operator.reconcile.act import act
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.decide import decide_step
from ssa_operator.reconcile.finalization.rules import advances_deletion
from ssa_operator.reconcile.long_steps import run_all
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.parent_records.rules import ParentRecords
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.plan import Plan, make_plan
from tests.objects.example_objects import child, config_map, observed, rendered


def acting(cluster: object) -> Reconcile:
    """A reconcile with this cluster, whose client it is, too."""
    return Reconcile(
        cluster=cast("Any", cluster),
        client=cast("Any", cluster),
        uid=child().uid,
        parent=cast("Any", SimpleNamespace(live=child())),
        records=ParentRecords(),
        state=ParentState(),
        causes=Cause.PARENT,
    )


class Broken:
    """The children of a cluster whose second request meets a bug; the first one is refused after it."""

    clock = SYSTEM

    def __init__(self) -> None:
        self.children = self
        self._broken = asyncio.Event()
        self._asked = 0

    async def resource(self, *_: object) -> Any:
        self._asked += 1
        if self._asked > 1:
            self._broken.set()
            raise RuntimeError("canary")
        await self._broken.wait()
        raise UnknownKind("the cluster serves no ConfigMap")


async def test_a_bug_that_one_child_meets_fails_that_child_alone(caplog: pytest.LogCaptureFixture) -> None:
    plan = make_plan(observed(), rendered(config_map("a"), config_map("b")))
    one, other = await act(plan, acting(Broken()))
    assert one.message == "the cluster serves no ConfigMap"
    assert (other.result, other.retryable) == (Result.FAILED, True)
    assert other.message.endswith("a bug in ssa-operator (RuntimeError); its log has the traceback")
    assert "canary" in caplog.text


async def test_the_log_of_a_bug_quotes_no_value_of_a_parent_that_is_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    plan = make_plan(observed(), rendered(config_map("a"), config_map("b")))
    secret = LiveObject.of({**plan.observed.parent.body, "apiVersion": "v1", "kind": "Secret"})
    plan = replace(plan, observed=replace(plan.observed, parent=secret))
    await act(plan, acting(Broken()))
    assert "RuntimeError" in caplog.text
    assert "RuntimeError: canary" not in caplog.text  # a line of the code may be shown


async def test_a_bug_of_planning_one_child_fails_that_child_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(view: Observed, step: Child) -> Child:
        if step.identity.name == "b":
            raise RecursionError
        return decide_step(view, step)

    monkeypatch.setattr(plans, "decide_step", decide)
    plan = make_plan(observed(), rendered(config_map("a"), config_map("b")))
    assert [(step.identity.name, step.action) for step in plan.steps] == [("a", Action.APPLY), ("b", Action.REFUSE)]
    _, outcome = await act(replace(plan, steps=(plan.steps[1],) * 2), acting(Broken()))
    assert "(RecursionError)" in outcome.message


class Lagging:
    """The children of a cluster that no longer has what the cache shows, and the client that learns of it."""

    def __init__(self, *, refusal: Exception, known: bool) -> None:
        self.children, self.dry_run, self.clock = self, False, SYSTEM
        self._refusal = refusal
        self._known = known

    async def resource(self, *_: object) -> Any:
        if not self._known:
            raise self._refusal

    async def delete(self, *_: object, **__: object) -> None:
        raise self._refusal

    async def find(self, *_: object, **__: object) -> LiveObject:
        return child(uid="another")


@pytest.mark.parametrize(
    ("refusal", "known", "words"),
    [
        (
            ApiError("delete of x", ErrorStatus(code=409, reason="Conflict", message="the UID differs")),
            True,
            "UID differs",
        ),
        (UnknownKind("the cluster serves no ConfigMap"), False, "serves no ConfigMap"),
    ],
    ids=["another object has the name", "the kind is gone"],
)
async def test_a_deletion_that_fails_because_the_cache_is_behind_is_retried_after_a_backoff(
    refusal: Exception, known: bool, words: str
) -> None:
    step = Child(action=Action.PRUNE, identity=child().identity, live=child(), reason="is no longer rendered")
    plan = Plan(steps=(step,), rendered=rendered(), observed=observed())
    (outcome,) = await act(plan, acting(Lagging(refusal=refusal, known=known)))
    assert (outcome.result, outcome.retryable) == (Result.WAITING, True)
    assert words in outcome.message
    assert not advances_deletion([outcome], 0.0)


async def test_the_first_error_of_one_is_raised_as_it_is_once_the_others_are_cancelled() -> None:
    ended = asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def fail() -> None:
        raise Unreachable("GET", "connection refused", sent=False)

    with pytest.raises(Unreachable, match="connection refused"):
        await run_all((wait(), fail()))
    assert ended.is_set()
