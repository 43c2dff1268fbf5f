from __future__ import annotations

import asyncio
import contextvars

from ssa_operator.informers.parents import ParentKey
from ssa_operator.reconcile.context import current, reconciling

KEY = ParentKey("echoes.example.com", "default", "web")


async def reconcile() -> None:
    with reconciling(KEY):
        await asyncio.sleep(0)


def test_a_reconcile_that_is_destroyed_in_another_context_changes_nothing_there() -> None:
    running = reconcile()
    contextvars.copy_context().run(running.send, None)
    with reconciling(KEY):
        before = current()
        running.close()
        assert current() is before
    assert current() is None
