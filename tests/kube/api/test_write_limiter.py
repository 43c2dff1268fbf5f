import asyncio

import pytest

from ssa_operator.kube.api.write_limiter import MOST, START, WriteLimiter


async def use(pace: WriteLimiter, entered: list[int], number: int, leave: asyncio.Event) -> None:
    async with pace.turn():
        entered.append(number)
        await leave.wait()


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_only_so_many_writes_are_under_way_and_the_rest_go_in_their_order() -> None:
    pace, entered = WriteLimiter(), list[int]()
    leave = [asyncio.Event() for _ in range(START + 3)]
    tasks = [asyncio.create_task(use(pace, entered, number, each)) for number, each in enumerate(leave)]
    await settle()
    assert entered == list(range(START))
    leave[5].set()
    leave[9].set()
    await settle()
    assert entered == list(range(START + 2))
    for each in leave:
        each.set()
    await asyncio.gather(*tasks)
    assert pace.running == 0


async def test_a_cancelled_write_gives_its_place_back() -> None:
    pace, entered = WriteLimiter(), list[int]()
    pace.limit = 1
    leave = asyncio.Event()
    first, waiting, last = (asyncio.create_task(use(pace, entered, number, leave)) for number in range(3))
    await settle()
    first.cancel()  # its place goes to the second, which is cancelled in the same moment
    await asyncio.sleep(0)
    waiting.cancel()
    await settle()
    assert entered[-1] == 2
    leave.set()
    await last
    assert pace.running == 0


async def test_refusals_of_writes_that_were_sent_together_halve_the_limit_once() -> None:
    pace = WriteLimiter()
    async with pace.turn() as one, pace.turn() as two:
        pace.refused(one)
        pace.refused(two)
    assert pace.limit == START / 2
    async with pace.turn() as later:
        pace.refused(later)
    assert pace.limit == START / 4


async def test_there_is_always_room_for_one_write() -> None:
    pace = WriteLimiter()
    for _ in range(20):
        async with pace.turn() as turn:
            pace.refused(turn)
    assert pace.limit == 1


async def test_the_limit_grows_only_while_it_is_reached() -> None:
    pace = WriteLimiter()
    async with pace.turn():
        pace.accepted()
    assert pace.limit == START
    pace.limit = 1
    async with pace.turn():
        pace.accepted()
    assert pace.limit == 2
    pace.limit = float(MOST)
    pace.running = MOST
    pace.accepted()
    assert pace.limit == pytest.approx(MOST)
