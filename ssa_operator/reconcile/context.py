"""The reconcile that the present task works on: its id for log lines, and its stages for metrics and traces.

Promises:
- Each reconcile has an id of its own. Every task that it starts knows it, except watches, which outlive it.
- Outside of a reconcile, and without a tracer, a stage costs nothing.
- A context holds names of objects and no content.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from ssa_operator.objects.context_values import set_within

if TYPE_CHECKING:
    from ssa_operator.informers.parents import ParentKey
    from ssa_operator.kube.api.request import Request
    from ssa_operator.kube.api.transport import RequestObserver


class Stage(StrEnum):
    """A part of a reconcile."""

    OBSERVE = "observe"
    """Reads the caches and renders, with the waits for new informers."""
    RENDER = "render"
    """Renders the folder once."""
    PLAN = "plan"
    ACT = "act"
    """Applies and deletes children."""
    PUBLISH = "publish"
    """Emits Events and writes the status."""


class Tracer(Protocol):
    """Records spans."""

    def span(self, name: str, attributes: Mapping[str, str]) -> AbstractContextManager[object]:
        """A span of the block, a child of the span of the block around it."""

    def result(self, result: str) -> None:
        """The result of the present reconcile, as the metric `ssa_operator_reconcile_total` has it."""

    def request(self, request: Request, code: int, seconds: float) -> None:
        """A span of a request that ended now, a child of the span of the present block."""


class TracedRequests:
    """Hands each request on to another observer, and records a span of it."""

    def __init__(self, observer: RequestObserver, tracer: Tracer) -> None:
        self._observer = observer
        self._tracer = tracer
        self.retried = observer.retried
        self.limited = observer.limited
        self.listed = observer.listed

    def answered(self, request: Request, code: int, seconds: float) -> None:
        self._observer.answered(request, code, seconds)
        self._tracer.request(request, code, seconds)


class ReconcileContext(Struct, frozen=True, kw_only=True):
    """A reconcile in progress, as logs, metrics and traces name it."""

    key: ParentKey
    reconcile_id: str
    """A UUID, as controller-runtime's `reconcileID`."""
    rendered: Callable[[float], object]
    """Receives the seconds of each render."""
    tracer: Tracer | None = None
    step: bytes = b""
    """What `StepRecord.begin` takes for each step, b'' if none is recorded."""


_current: ContextVar[ReconcileContext | None] = ContextVar("ssa_operator_reconcile", default=None)


def current() -> ReconcileContext | None:
    """The reconcile that the present task works on, None outside of reconciles."""
    return _current.get()


def current_step() -> bytes:
    """The step of the present reconcile, b'' outside of reconciles."""
    context = _current.get()
    return context.step if context is not None else b""


@contextmanager
def reconciling(
    key: ParentKey, rendered: Callable[[float], object] = float, tracer: Tracer | None = None, step: bytes = b""
) -> Iterator[None]:
    """Run the block, and each task that it starts, as a reconcile of this parent."""
    context = ReconcileContext(key=key, reconcile_id=str(uuid.uuid4()), rendered=rendered, tracer=tracer, step=step)
    with set_within(_current, context):
        if tracer is None:
            yield
            return
        attributes = {
            "ssa_operator.folder": key.folder,
            "k8s.namespace.name": key.namespace,
            "ssa_operator.parent.name": key.name,
            "ssa_operator.reconcile_id": context.reconcile_id,
        }
        with tracer.span("reconcile", attributes):
            yield


def stage(name: Stage) -> AbstractContextManager[object]:
    """Run the block as a stage of the present reconcile."""
    context = _current.get()
    if context is None:
        return _NO_STAGE
    span = _NO_STAGE if context.tracer is None else context.tracer.span(name.value, {})
    return _measured(context, span) if name is Stage.RENDER else span


_NO_STAGE = nullcontext()


@contextmanager
def _measured(context: ReconcileContext, span: AbstractContextManager[object]) -> Iterator[None]:
    """Run the block in the span, and report its seconds of processor time as those of a render."""
    started = time.thread_time()
    try:
        with span:
            yield
    finally:
        context.rendered(time.thread_time() - started)
