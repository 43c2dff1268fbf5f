"""The reconcile that the present task works on: its id for log lines, and the time of its renders.

Promises:
- Each reconcile has an id of its own. Every task that it starts knows it, except watches, which outlive it.
- A context holds names of objects and no content.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from msgspec import Struct

from ssa_operator.objects.context_values import set_within

if TYPE_CHECKING:
    from ssa_operator.informers.parents import ParentKey


class ReconcileContext(Struct, frozen=True, kw_only=True):
    """A reconcile in progress, as logs and metrics name it."""

    key: ParentKey
    reconcile_id: str
    """A UUID, as controller-runtime's `reconcileID`."""
    rendered: Callable[[float], object]
    """Receives the seconds of each render."""


_current: ContextVar[ReconcileContext | None] = ContextVar("ssa_operator_reconcile", default=None)


_PROCESS = str(uuid.uuid4())[:24]
"""The first part of the ids of this process. Drawing each one whole takes as long as a part of a render."""
_numbers = itertools.count(1)


def current() -> ReconcileContext | None:
    """The reconcile that the present task works on, None outside of reconciles."""
    return _current.get()


def reconciling(key: ParentKey, rendered: Callable[[float], object] = float) -> set_within[ReconcileContext | None]:
    """Run the block, and each task that it starts, as a reconcile of this parent."""
    reconcile_id = f"{_PROCESS}{next(_numbers):012x}"
    return set_within(_current, ReconcileContext(key=key, reconcile_id=reconcile_id, rendered=rendered))


@contextmanager
def measured_render() -> Iterator[None]:
    """Run the block, and report its seconds of processor time as those of a render of the present reconcile."""
    context = _current.get()
    started = time.thread_time()
    try:
        yield
    finally:
        if context is not None:
            context.rendered(time.thread_time() - started)
