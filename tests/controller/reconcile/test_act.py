"""Acting on a plan with unexpected errors and with a cache that is behind."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ssa_operator.controller.reconcile.act import act
from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.planning.finalization import advances_deletion
from ssa_operator.core.planning.outcome import Result
from ssa_operator.core.planning.plan import Plan, make_plan
from ssa_operator.core.planning.step import Action, Step
from ssa_operator.kube.api.discovery import UnknownKind
from ssa_operator.kube.api.errors import ApiError, ErrorStatus
from tests.core.example_objects import child, config_map, observed, rendered


class Broken:
    """The children of a cluster whose first request waits for ever and whose second one raises an unexpected error."""

    def __init__(self) -> None:
        self.asked = 0
        self.waiting = False

    async def resource(self, *_: object) -> Any:
        self.asked += 1
        if self.asked > 1:
            raise RuntimeError("a bug")
        self.waiting = True
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.waiting = False


async def test_an_unexpected_error_leaves_no_apply_of_the_same_parent_running() -> None:
    children = Broken()
    plan = make_plan(observed(), rendered(config_map("a"), config_map("b")))
    with pytest.raises(ExceptionGroup):
        await act(plan, cast("ClusterAccess", type("Stub", (), {"children": children, "parent_leaves": None})()), 0.0)
    assert children.asked == 2
    assert not children.waiting


class Lagging:
    """The children of a cluster that no longer has what the cache shows, and the client that learns of it."""

    def __init__(self, *, refusal: Exception, known: bool) -> None:
        self.children, self.client, self.former = self, self, frozenset[str]()
        self.dry_run, self.why_outdated = False, None
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
    step = Step(action=Action.PRUNE, identity=child().identity, live=child(), reason="is no longer rendered")
    plan = Plan(steps=(step,), rendered=rendered(), observed=observed())
    (outcome,) = await act(plan, cast("ClusterAccess", Lagging(refusal=refusal, known=known)), 0.0)
    assert (outcome.result, outcome.retryable) == (Result.WAITING, True)
    assert words in outcome.message
    assert not advances_deletion([outcome], 0.0)
