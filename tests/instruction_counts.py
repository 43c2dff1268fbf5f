"""How much work a function does, in Python's instructions: as many on a busy machine as on an idle one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def instructions(function: Callable[[], object]) -> int:
    """How many instructions of Python the call of a function executes."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count


def is_linear(prepare: Callable[[int], Callable[[], object]], small: int = 60) -> bool:
    """Whether a function does about twice the work for twice as much; `prepare` makes the function for a size."""
    one, other = prepare(small), prepare(2 * small)
    prepare(small)(), prepare(2 * small)()  # fills the caches of modules
    return instructions(other) < 2.5 * instructions(one)
