"""Measures how long a runaway template holds up the event loop: `python -m benchmarks.stall`.

Sixteen workers render a folder whose templates run until a limit stops them, while a task measures how late it runs, in
the thread's processor time, so that other load does not count. Once they render without turns, and once in the turns of
the reconciler.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from ssa_operator.controller.reconcile.render_turns import RenderTurns
from ssa_operator.rendering.folder.sources import Folder, load_all
from ssa_operator.rendering.render import render

WORKERS = 16

RUNAWAY: Mapping[str, str] = {
    "a loop that computes": (
        "{% set ns = namespace(x=0) %}{% for a in range(1000) %}{% for b in range(90000) %}"
        "{% set ns.x = (ns.x * 31 + b) % 1000003 %}{% endfor %}{% endfor %}"
    ),
    "a list that is sorted again and again": (
        "{% for a in range(1000) %}{% set x = range(50000) | list | sort(reverse=true) %}{% endfor %}"
    ),
    "a text that is parsed again and again": (
        "{% set t = range(20000) | list | to_yaml %}{% for a in range(100000) %}{% set x = t | from_yaml %}{% endfor %}"
    ),
}

PARENT = {
    "apiVersion": "example.com/v1",
    "kind": "Echo",
    "metadata": {"name": "web", "namespace": "default", "uid": "1", "generation": 1},
    "spec": {},
}


def main() -> None:
    print("longest stall of the event loop, in seconds of processor time")
    for name, text in RUNAWAY.items():
        with tempfile.TemporaryDirectory() as root:
            folder = Path(root) / "echoes.example.com"
            folder.mkdir()
            (folder / "map.yaml.j2").write_text(text)
            loaded = load_all((Path(root),)).folders["echoes.example.com"]
            without = asyncio.run(longest_stall(loaded, None))
            turns = asyncio.run(longest_stall(loaded, RenderTurns()))
        print(f"  {name}: {turns:.2f} ({without:.2f} without turns)")


async def longest_stall(folder: Folder, turns: RenderTurns | None) -> float:
    """The longest stall in seconds while each worker renders the folder once."""
    stalls = [0.0]
    measuring = asyncio.create_task(_measure(stalls))
    await asyncio.sleep(0)
    await asyncio.gather(*(_worker(folder, turns) for _ in range(WORKERS)))
    await asyncio.sleep(0)
    measuring.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await measuring
    return max(stalls)


async def _measure(stalls: list[float]) -> None:
    while True:
        last = time.thread_time()
        await asyncio.sleep(0)
        stalls[0] = max(stalls[0], time.thread_time() - last)


async def _worker(folder: Folder, turns: RenderTurns | None) -> None:
    turn: AbstractAsyncContextManager[None] = (
        contextlib.nullcontext() if turns is None else turns.turn(folder.name, folder.digest)
    )
    async with turn:
        render(folder, PARENT)


if __name__ == "__main__":
    main()
