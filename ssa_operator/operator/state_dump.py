"""The state of a running operator as lines of text, for SIGUSR1: the work queue, the watches and the tasks.

Promises:
- The lines have names, states and times, and never an object's content: stacks are shown without their variables.
- The dump changes nothing and sends no request.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ssa_operator.informers.parents import ParentKey
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.messages import counted
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.queue import Queue, rank

SHOWN = 20
"""The most parents of one priority that the dump names."""


def state_dump(operator: Operator, now: float, tasks: Iterable[asyncio.Task[Any]]) -> Iterator[str]:
    """The lines. `now` is `time.monotonic()`; `tasks` are all tasks of the event loop."""
    yield from _queue_lines(operator.queue)
    for folder, reason in sorted(operator.missing.items()):
        yield f"folder {folder} waits: {reason}"
    for reflector in operator.controllers.reflectors:
        yield _watch_line(reflector, now)
    for problem in operator.health_problems():
        yield f"problem: {problem}"
    for task in sorted(tasks, key=asyncio.Task.get_name):
        yield _task_line(task)


def _queue_lines(queue: Queue[ParentKey]) -> Iterator[str]:
    running = queue.processing()
    yield f"work queue: {len(queue)} wait, {len(running)} are reconciled, {queue.delayed} causes are due later"
    for key, seconds in sorted(running.items(), key=lambda entry: -entry[1]):
        yield f"reconciled for {seconds:.1f} s: {key}"
    # One priority after the other, because the queue hands them out so.
    for _, items in itertools.groupby(queue.waiting(), key=lambda item: rank(item.causes)):
        parents = list(items)
        for item in parents[:SHOWN]:
            yield f"waits for {item.age:.1f} s: {item.key} ({_names(item.causes)})"
        if len(parents) > SHOWN:
            oldest = max(item.age for item in parents)
            yield f"and {len(parents) - SHOWN} more of this priority; the oldest one waits for {oldest:.1f} s"


def _names(causes: Cause) -> str:
    return ", ".join(str(cause.name) for cause in sorted(causes, reverse=True))


def _watch_line(reflector: Reflector, now: float) -> str:
    age = (
        "nothing received" if reflector.last_event is None else f"last received {now - reflector.last_event:.1f} s ago"
    )
    synced = "synced" if reflector.synced.is_set() else "not synced"
    problem = f": {reflector.problem}" if reflector.problem else ""
    return (
        f"watch of {reflector.scope}: {reflector.state.value}, {synced}, {counted(len(reflector.cache), 'object')}, "
        f"{counted(max(reflector.restarts, 0), 'restart')}, {age}{problem}"
    )


def _task_line(task: asyncio.Task[Any]) -> str:
    places = (
        f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} {frame.f_code.co_name}" for frame in _frames(task)
    )
    return f"task {task.get_name()!r}: {' > '.join(places) or 'done'}"


def _frames(task: asyncio.Task[Any]) -> Iterator[Any]:
    """The frames of a task, from its coroutine to what it awaits. `Task.get_stack` gives only the first one."""
    waiting: Any = task.get_coro()
    while waiting is not None:
        frame = (
            getattr(waiting, "cr_frame", None)
            or getattr(waiting, "ag_frame", None)
            or getattr(waiting, "gi_frame", None)
        )
        if frame is not None:
            yield frame
        waiting = (
            getattr(waiting, "cr_await", None)
            or getattr(waiting, "ag_await", None)
            or getattr(waiting, "gi_yieldfrom", None)
        )
