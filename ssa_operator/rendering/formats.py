"""String formatting within the bounds of a render.

Promises:
- A width or precision never makes more text than the bounds allow; nothing is formatted before that is known.
- A format string reaches no attribute that the sandbox refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import update_wrapper
from typing import Any

from jinja2.sandbox import SandboxedEnvironment, SandboxedFormatter

from ssa_operator.rendering import bounds
from ssa_operator.rendering.bounds import LimitError

_NUMBERS = re.compile(r"[0-9]+")
_PERCENT = re.compile(r"%(?:\([^)]*\))?([-#0 +*.0-9]*)")


def check_format(template: str, args: tuple[Any, ...]) -> None:
    """Account for the text that `template % args` makes. Raises LimitError."""
    size = len(template)
    for conversion in _PERCENT.finditer(template):
        if "*" in conversion[1]:
            raise LimitError("a width of * in a format can't be bounded; write the number")
        size += sum(int(number[-20:]) for number in _NUMBERS.findall(conversion[1]))
    size += sum(bounds.size_of(arg) for arg in args) * max(1, template.count("%"))
    bounds.current().produce(size)


class _BoundedFormatter(SandboxedFormatter):
    def format_field(self, value: Any, format_spec: str) -> Any:
        numbers = sum(int(number[-20:]) for number in _NUMBERS.findall(format_spec))
        bounds.current().produce(numbers + bounds.size_of(value))
        return super().format_field(value, format_spec)


def bounded_format(environment: SandboxedEnvironment, text: str, mapping: bool) -> Callable[..., str]:
    """What `str.format` (`mapping`: `str.format_map`) of a template does."""
    formatter = _BoundedFormatter(environment)

    def formatted(*args: Any, **kwargs: Any) -> str:
        if mapping:
            (fields,) = args
            return formatter.vformat(text, (), fields)
        return formatter.vformat(text, args, kwargs)

    return update_wrapper(formatted, text.format_map if mapping else text.format)
