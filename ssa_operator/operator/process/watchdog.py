"""A process beside the operator that names the reconcile or the task that holds the event loop, while it does.

Promises:
- It does not depend on the operator's process, which may be in a step of C code that no thread interrupts: it reads the
  step record (`reconcile/step_record.py`), and asks the operator's signal handler, which is in C, for the current
  stack.
- After HELD seconds, and when the operator ends in a step, it logs the parent, and records it in the operator's Lease.
  For a task that reconciles no parent, it logs the name and the object.
- If a step of the event loop and a render in a thread run at once, it names the one that uses the processor. When the
  operator ends, it names both, because either may be the reason.
- It ends with the operator, and takes no signal.
- It imports the client of the cluster only to write, in one more process, and shares the memory of the interpreter.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import re
import secrets
import select
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from ssa_operator.operator.process import streams
from ssa_operator.reconcile.step_record import HELD, RecordedStep, Running, StepRecord

POLL_INTERVAL = 0.25
"""Seconds between two reads of the step record."""

STACK_TIMEOUT = 0.5
"""Seconds for which the operator's signal handler may write its stack."""

SAVE_TIMEOUT = 30.0
"""Seconds for which the watchdog tries to save a record."""

_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)

_FRAME = re.compile(r'File "([^"]{1,1000})", line (\d{1,9}) in (\S{1,200})')

_LIBRARIES = re.compile(r"/site-packages/|/lib/python[0-9.]{1,9}/")
"""The folders before the path of a third-party module."""

OWN_CODE = "/ssa_operator/"

Save = Callable[[RecordedStep, str, bool], Awaitable[None]]
"""Writes a step of the process of this name to the record in the cluster. The last argument is whether it took long."""


@dataclass(frozen=True, slots=True)
class Watchdog:
    """The operator's side: `record` is what it records its steps in, `process` its name in the record."""

    record: StepRecord
    process: str
    _kept: tuple[int, ...] = field(repr=False)
    """Descriptors that stay open as long as the operator lives."""


def start(save: Save, configure_logging: Callable[[], None]) -> Watchdog:
    """Start the process. Call it before threads and before imports that the process does not need.

    `configure_logging` is called before the first line is logged.
    """
    record, process = StepRecord.open(), secrets.token_hex(8)
    alive, alive_of_operator = os.pipe()
    stack, stack_of_operator = os.pipe()
    operator = os.getpid()
    gc.freeze()
    if os.fork():
        os.close(alive)
        os.close(stack)
        os.set_blocking(stack_of_operator, False)
        faulthandler.register(signal.SIGUSR2, file=stack_of_operator, all_threads=False)
        return Watchdog(record, process, (alive_of_operator, stack_of_operator))
    code = 1
    try:
        os.close(alive_of_operator)
        os.close(stack_of_operator)
        _become_watchdog()
        _watch(record, operator, alive, stack, lambda step, long: save(step, process, long), configure_logging)
        code = 0
    finally:
        # The exit of Python is the operator's.
        os._exit(code)


def _become_watchdog() -> None:
    gc.disable()
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text("ssa-watchdog")


def _watch(
    record: StepRecord,
    operator: int,
    alive: int,
    stack: int,
    save: Callable[[RecordedStep, bool], Awaitable[None]],
    configure_logging: Callable[[], None],
) -> None:
    """Look at the record until the operator has ended."""
    named: list[Running] = []
    gone = False
    while not gone:
        gone = bool(select.select([alive], [], [], POLL_INTERVAL)[0])
        running = _running(record)
        now = time.monotonic()
        held = [each for each in running if gone or now - each.started >= HELD]
        if held == named:
            continue
        named = held
        if len(held) > 1 and not gone:
            held = [_busier(operator, held, alive)]
        for each in held:
            configure_logging()
            _name(each, None if gone else _place(each.thread_id or operator, stack), gone=gone)
            if not each.step.handler:
                _save(record, each, save, long=now - each.started >= HELD, gone=gone)


def _running(record: StepRecord) -> list[Running]:
    return [each for each in (record.running(), record.running_in_thread()) if each is not None]


def _busier(operator: int, held: list[Running], alive: int) -> Running:
    """The one of these steps whose thread currently uses more of the processor."""

    def used() -> list[int]:
        return [_ticks(operator, each.thread_id or operator) for each in held]

    before = used()
    select.select([alive], [], [], POLL_INTERVAL)
    spent = [now - then for now, then in zip(used(), before, strict=True)]
    return held[spent.index(max(spent))]


def _ticks(process: int, thread: int) -> int:
    """The processor time of a thread, 0 if the system doesn't show it."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{process}/task/{thread}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])
    return 0


def _name(running: Running, place: str | None, *, gone: bool) -> None:
    # Imported here, because a watchdog without anything to report doesn't need it.
    import logging

    from ssa_operator.informers.parents import ParentKey
    from ssa_operator.reconcile.context import reconciling

    step, log = running.step, logging.getLogger("ssa_operator")
    with nullcontext() if step.handler else reconciling(ParentKey(step.folder, step.namespace, step.name)):
        if gone:
            log.error("%s: the operator died in %s", step, step.what)
        else:
            where = f", in {place}" if place else ""
            log.error(
                "%s: %s holds the event loop for over %g s%s; probes and all other parents wait",
                step,
                step.what,
                HELD,
                where,
            )


def _save(
    record: StepRecord,
    running: Running,
    save: Callable[[RecordedStep, bool], Awaitable[None]],
    *,
    long: bool,
    gone: bool,
) -> None:
    """Save the step in a process of its own, so that the memory for it is free again."""
    record.being_saved = True
    try:
        if not gone and running not in _running(record):
            return
        child = os.fork()
        if child:
            # The operator's parent process may have set SIGCHLD to be ignored; then the kernel reaps children.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)
            return
        code = 1
        try:
            import asyncio

            asyncio.run(asyncio.wait_for(save(running.step, long), SAVE_TIMEOUT))
            code = 0
        except Exception as error:  # noqa: BLE001 - there is no one else to report it
            streams.error(f"{running.step}: was not recorded as a suspected parent: {error or type(error).__name__}")
        finally:
            os._exit(code)
    finally:
        record.being_saved = False


def _module_path(file: str) -> str:
    """The path of a module without what differs between machines."""
    before, own, path = file.rpartition(OWN_CODE)
    return f"{own[1:]}{path}" if before else _LIBRARIES.split(file)[-1]


def _place(thread: int, stack: int) -> str | None:
    """The current place in the code of a thread of the operator: its innermost function and the innermost template.
    None if it does not answer.
    """
    with contextlib.suppress(OSError):
        os.kill(thread, signal.SIGUSR2)
        text, deadline = b"", time.monotonic() + STACK_TIMEOUT
        while (left := deadline - time.monotonic()) > 0 and select.select([stack], [], [], left)[0]:
            part = os.read(stack, 65536)
            if not part:
                break
            text += part
            deadline = min(deadline, time.monotonic() + POLL_INTERVAL)
        return place_in(text.decode(errors="replace"))
    return None


def place_in(stack: str) -> str:
    """The place in a stack as faulthandler writes it."""
    frames = _FRAME.findall(stack)
    if not frames:
        return ""
    own = next((frame for frame in frames if OWN_CODE in frame[0]), frames[0])
    shown = dict.fromkeys(f"{name} ({_module_path(file)}:{line})" for file, line, name in (frames[0], own))
    place = ", called by ".join(shown)
    # A console script has no suffix, either, and its frame is that of a module.
    names = (file for file, _, name in frames if name != "<module>" and not file.startswith("<"))
    template = next((file for file in names if not file.endswith(".py")), "")
    return f"{place} while {template} is rendered" if template else place
