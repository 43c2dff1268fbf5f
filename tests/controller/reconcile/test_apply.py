"""What carrying out a plan leaves behind when it meets a bug of ours."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from ssa_operator.controller.reconcile.apply import act
from ssa_operator.controller.reconcile.cluster_access import ClusterAccess
from ssa_operator.core.planning.plan import make_plan
from tests.core.example_objects import config_map, observed, rendered


class Broken:
    """The children of a cluster whose first question waits for ever and whose second one meets a bug."""

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
        await act(plan, cast("ClusterAccess", type("Stub", (), {"children": children})()), 0.0)
    assert children.asked == 2
    assert not children.waiting
