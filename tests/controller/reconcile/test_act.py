"""The parts of a reconcile that run side by side."""

from __future__ import annotations

import asyncio

import pytest

from ssa_operator.controller.reconcile.act import run_all
from ssa_operator.kube.api.errors import Unreachable


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
