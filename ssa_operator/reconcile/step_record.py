"""Records what runs on the event loop now, a parent's reconcile or another task, in memory that outlives the process.

Promises:
- What is recorded is a step: the code between two awaits of a reconcile, or of a task that it started. It is recorded
  before it begins, and removed when it ends, so that what is left names the parent whose step ended the process.
- Of a task that reconciles no parent, such as a watch or a request to a webhook, the step has the name of the task, and
  the object that it handles. Within such a step, another one may be recorded.
- A render in a thread is recorded beside it, with the last turn that the event loop had meanwhile.
- Another process reads it while a step runs, also one in C that no other thread of this process interrupts.
- A step costs about a microsecond more.

A container's process 1 takes all others of the container with it. So its record is a file in the temporary folder,
which a restart of the container keeps where it is a volume.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

HELD = 1.0
"""Seconds after which a step holds the event loop: far more than the steps of any usual parent."""

_SIZE = mmap.PAGESIZE
_STARTED = struct.Struct("=d")
_LENGTH = struct.Struct("=H")
_TEXT = _STARTED.size + _LENGTH.size
_THREAD = _SIZE // 2
"""Where the record of a render in a thread begins. It is laid out as that of the step of the event loop before it."""
_THREAD_ID = struct.Struct("=I")
_BUSY = _SIZE - 1
_ID = _BUSY - _THREAD_ID.size
_LIMIT = _ID - _THREAD - _TEXT
FILE_NAME = "ssa-operator-step"

_UNNAMED = "Task-"
"""How the name of a task begins that has none of its own."""

_NAME_LIMIT = 200

T = TypeVar("T")


class RecordedStep(NamedTuple):
    """A step of a parent's reconcile, or of another task."""

    folder: str = ""
    """'' where the object is no parent."""
    namespace: str = ""
    name: str = ""
    """Of the parent or the object, '' where none is known."""
    generation: int = 0
    """Of the parent when the reconcile began."""
    templates: str = ""
    """The digest of the folder's templates then."""
    handler: str = ""
    """The task, '' for the reconcile of the parent."""

    def encode(self) -> bytes:
        """The bytes that `StepRecord.begin` takes."""
        text = "\0".join(map(str, self)).encode(errors="replace")[:_LIMIT]
        return _LENGTH.pack(len(text)) + text

    def __str__(self) -> str:
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return " ".join(filter(None, (self.handler and f"{self.handler}:", self.folder, name))).removesuffix(":")

    @property
    def what(self) -> str:
        """What holds the event loop, beside `str`."""
        return "this task" if self.handler else "a step of its reconcile"


class Running(NamedTuple):
    """A step that has not ended."""

    step: RecordedStep
    started: float
    """By the monotonic clock, which all processes of a host share. Of a render in a thread, the event loop's last turn.
    """
    thread_id: int = 0
    """The system's id of the thread of a render, 0 for the event loop's."""


class StepRecord:
    """The record. `on_held` is called after a step that took HELD seconds or more, with these seconds.

    `left` are the steps that were running when the process before this one, in the same container, ended.
    """

    def __init__(self, memory: mmap.mmap, clock: Callable[[], float] = time.monotonic) -> None:
        self._memory = memory
        self._clock = clock
        left = (each.step for each in (self.running(), self.running_in_thread()) if each is not None)
        self.left = tuple(step for step in left if not step.handler)
        self._open: list[tuple[bytes, float]] = []
        """The steps that run, each within the one before, with the moment from which on each counts."""
        self.on_held: Callable[[RecordedStep, float], None] = lambda *_: None
        self._used: float | None = None
        """The processor time of the event loop's thread at its last turn during a render in a thread, None without one.
        """
        self.end_all()

    @classmethod
    def open(cls) -> StepRecord:
        """The record of this process: a file for the first process of a container, else anonymous memory."""
        memory = None
        if os.getpid() == 1:
            # A folder that can't be written costs the record of the last process.
            with contextlib.suppress(OSError):
                memory = _mapped(Path(tempfile.gettempdir()) / FILE_NAME)
        return cls(memory if memory is not None else mmap.mmap(-1, _SIZE))

    def begin(self, step: bytes) -> None:
        """Record a step that begins now."""
        self._memory[_STARTED.size : _STARTED.size + len(step)] = step
        started = self._clock()
        _STARTED.pack_into(self._memory, 0, started)
        self._open.append((step, started))

    def end(self) -> None:
        """Record that the step that began last has ended. One around it counts from now on."""
        step, started = self._open.pop()
        now = self._clock()
        if self._open:
            around, _ = self._open[-1]
            self._open[-1] = around, now
            self._memory[_STARTED.size : _STARTED.size + len(around)] = around
            _STARTED.pack_into(self._memory, 0, now)
        else:
            _STARTED.pack_into(self._memory, 0, 0.0)
        seconds = now - started
        if seconds >= HELD and not self._was_held_by_thread(seconds):
            self.on_held(_step(step[_LENGTH.size :]), seconds)

    def handles(self, namespace: str, name: str) -> None:
        """Record the object that the present step handles, if it is that of a task without a parent."""
        if self._open:
            step, started = self._open[-1]
            if step[_LENGTH.size] == 0:  # no folder
                # As `RecordedStep.encode` gives it, at a third of its time: each event of a watch comes here.
                handler = step[step.rfind(b"\0") + 1 :]
                text = b"\0%b\0%b\x000\0\0%b" % (namespace.encode(), name.encode(), handler)
                step = _LENGTH.pack(len(text[:_LIMIT])) + text[:_LIMIT]
                self._open[-1] = (step, started)
                self._memory[_STARTED.size : _STARTED.size + len(step)] = step

    @contextlib.contextmanager
    def in_thread(self, step: bytes) -> Iterator[Callable[[], None]]:
        """Record that a thread works on a step during the block. What it gives is called by the event loop from time to
        time: a thread that holds the event loop keeps it from that.
        """
        last = self._clock()

        def beat() -> None:
            nonlocal last
            now = self._clock()
            _STARTED.pack_into(self._memory, _THREAD, now)
            if now - last >= HELD and self._was_held_by_thread(now - last):
                self.on_held(_step(step[_LENGTH.size :]), now - last)
            last, self._used = now, time.thread_time()

        self._memory[_THREAD + _STARTED.size : _THREAD + _STARTED.size + len(step)] = step
        beat()
        try:
            yield beat
        finally:
            _STARTED.pack_into(self._memory, _THREAD, 0.0)
            self._used = None

    def _was_held_by_thread(self, seconds: float) -> bool:
        """Whether a render in a thread held the event loop, which needed little processor time meanwhile itself."""
        return self._used is not None and time.thread_time() - self._used < seconds / 2

    def enter_thread(self) -> None:
        """Record that the present thread is the one that works."""
        _THREAD_ID.pack_into(self._memory, _ID, threading.get_native_id())

    def end_all(self) -> None:
        """Record that no step runs."""
        self._open.clear()
        for at in (0, _THREAD):
            _STARTED.pack_into(self._memory, at, 0.0)

    def running(self) -> Running | None:
        """The step that the event loop runs now, None without one."""
        return self._running(0)

    def running_in_thread(self) -> Running | None:
        """The step that a thread works on now, None without one."""
        running = self._running(_THREAD)
        (thread_id,) = _THREAD_ID.unpack_from(self._memory, _ID)
        return running and running._replace(thread_id=thread_id)

    def _running(self, at: int) -> Running | None:
        (started,) = _STARTED.unpack_from(self._memory, at)
        (length,) = _LENGTH.unpack_from(self._memory, at + _STARTED.size)
        text = self._memory[at + _TEXT : at + _TEXT + length]
        if not started or _STARTED.unpack_from(self._memory, at) != (started,):
            return None
        try:
            return Running(_step(text), started)
        except ValueError:  # written by another version, or by nobody
            return None

    @property
    def being_saved(self) -> bool:
        """Whether the process that watches this one writes to the cluster at this moment."""
        return self._memory[_BUSY] != 0

    @being_saved.setter
    def being_saved(self, value: bool) -> None:
        self._memory[_BUSY] = value


def _mapped(path: Path) -> mmap.mmap:
    """The memory of a file of this user. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(f"{path} belongs to another user")
        os.ftruncate(descriptor, _SIZE)
        return mmap.mmap(descriptor, _SIZE)
    finally:
        os.close(descriptor)


def _step(text: bytes) -> RecordedStep:
    folder, namespace, name, generation, templates, handler = text.decode(errors="replace").split("\0")
    return RecordedStep(folder, namespace, name, int(generation), templates, handler)


class RecordedCoroutine(Coroutine[Any, Any, T]):
    """A coroutine each of whose steps is recorded, to be awaited or to be a task. Without a `step`, it is the main one
    of a task, whose name is recorded.
    """

    __slots__ = ("_coroutine", "_record", "_step")

    def __init__(self, coroutine: Coroutine[Any, Any, T], record: StepRecord, step: bytes = b"") -> None:
        self._coroutine = coroutine
        self._record = record
        self._step = step

    def __next__(self) -> Any:
        # `await` and tasks come here, for each step.
        self._record.begin(self._step or self._named())
        try:
            return self._coroutine.send(None)
        finally:
            self._record.end()

    def send(self, value: Any) -> Any:
        self._record.begin(self._step or self._named())
        try:
            return self._coroutine.send(value)
        finally:
            self._record.end()

    def throw(self, *error: Any) -> Any:
        self._record.begin(self._step or self._named())
        try:
            return self._coroutine.throw(*error)
        finally:
            self._record.end()

    def _named(self) -> bytes:
        """The step of the present task, whose name is not known before it runs."""
        task = asyncio.current_task()
        name = task.get_name() if task is not None else ""
        if not name or name.startswith(_UNNAMED):
            name = getattr(self._coroutine, "__qualname__", name)
        self._step = RecordedStep(handler=name.replace("\0", "")[:_NAME_LIMIT]).encode()
        return self._step

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self  # it has all that `await` uses

    def __iter__(self) -> RecordedCoroutine[T]:
        return self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._coroutine, name)  # what debuggers and `Task.get_stack` read


def record_tasks(loop: asyncio.AbstractEventLoop, record: StepRecord, current_step: Callable[[], bytes]) -> None:
    """Record the steps of all tasks that start from now on: those that a step starts as that step, and others by their
    names. `current_step` is b'' outside of reconciles.
    """

    def factory(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        if asyncio.iscoroutine(coroutine):
            coroutine = RecordedCoroutine(coroutine, record, current_step())
        return asyncio.Task(coroutine, loop=loop, **options)

    loop.set_task_factory(factory)
