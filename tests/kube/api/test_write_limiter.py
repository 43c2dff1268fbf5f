import asyncio

import pytest

from ssa_operator.kube.api.write_limiter import INITIAL_WRITES, MAX_WRITES, WriteLimiter


async def use(limiter: WriteLimiter, entered: list[int], number: int, leave: asyncio.Event) -> None:
    async with limiter.slot():
        entered.append(number)
        await leave.wait()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_the_limiter_runs_a_limited_number_of_writes_and_the_others_in_order() -> None:
    limiter, entered = WriteLimiter(), list[int]()
    leave = [asyncio.Event() for _ in range(INITIAL_WRITES + 3)]
    tasks = [asyncio.create_task(use(limiter, entered, number, each)) for number, each in enumerate(leave)]
    await settle()
    assert entered == list(range(INITIAL_WRITES))
    leave[5].set()
    leave[9].set()
    await settle()
    assert entered == list(range(INITIAL_WRITES + 2))
    for each in leave:
        each.set()
    await asyncio.gather(*tasks)
    assert limiter.running == 0


async def test_a_cancelled_write_frees_its_slot() -> None:
    limiter, entered = WriteLimiter(), list[int]()
    limiter.limit = 1
    leave = asyncio.Event()
    first, waiting, last = (asyncio.create_task(use(limiter, entered, number, leave)) for number in range(3))
    await settle()
    first.cancel()  # its place goes to the second, which is cancelled in the same moment
    await asyncio.sleep(0)
    waiting.cancel()
    await settle()
    assert entered[-1] == 2
    leave.set()
    await last
    assert limiter.running == 0


async def test_several_429s_for_writes_that_were_sent_together_halve_the_limit_once() -> None:
    limiter = WriteLimiter()
    async with limiter.slot() as one, limiter.slot() as two:
        limiter.throttled(one)
        limiter.throttled(two)
    assert limiter.limit == INITIAL_WRITES / 2
    async with limiter.slot() as later:
        limiter.throttled(later)
    assert limiter.limit == INITIAL_WRITES / 4


async def test_the_limit_is_never_less_than_one_write() -> None:
    limiter = WriteLimiter()
    for _ in range(20):
        async with limiter.slot() as number:
            limiter.throttled(number)
    assert limiter.limit == 1


async def test_the_limit_grows_only_while_it_is_reached() -> None:
    limiter = WriteLimiter()
    async with limiter.slot():
        limiter.accepted()
    assert limiter.limit == INITIAL_WRITES
    limiter.limit = 1
    async with limiter.slot():
        limiter.accepted()
    assert limiter.limit == 2
    limiter.limit = float(MAX_WRITES)
    limiter.running = MAX_WRITES
    limiter.accepted()
    assert limiter.limit == pytest.approx(MAX_WRITES)
