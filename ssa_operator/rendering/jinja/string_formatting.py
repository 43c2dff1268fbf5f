"""String formatting (`%` and `format`) within the limits of a render.

Promises:
- A width or a precision can't produce more text than the limits allow: the size is checked before the text is made.
- A format string can't reach an attribute that the sandbox refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import update_wrapper
from typing import Any

from jinja2.sandbox import SandboxedEnvironment, SandboxedFormatter

from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.limits import DEPTH_LIMIT, LimitError
from ssa_operator.rendering.values.manifest_values import text_of

_NUMBERS = re.compile(r"[0-9]+")
_PERCENT = re.compile(r"%(?:\([^()]*\))?([-#0 +*.0-9]*)")
_NESTED_NAME = re.compile(r"%\([^()]*\(")


def percent_format(template: str, args: Any) -> str:
    """The result of `template % args`, with each value as text. Raises LimitError."""
    if _NESTED_NAME.search(template):
        raise LimitError("a name with ( in a format can't be bounded; rename the field, or use ~")
    size = len(template)
    for conversion in limits.counted(_PERCENT.finditer(template)):
        if "*" in conversion[1]:
            raise LimitError("a width of * in a format can't be bounded; write the number")
        size += sum(int(number[-20:]) for number in _NUMBERS.findall(conversion[1]))
    fields: Any
    if isinstance(args, Mapping):
        fields = {name: _formattable(arg) for name, arg in args.items()}
        size += max((limits.size_of(arg) for arg in fields.values()), default=0) * template.count("%")
    else:
        fields = tuple(_formattable(arg) for arg in (args if isinstance(args, tuple) else (args,)))
        size += sum(limits.size_of(arg) for arg in fields)
    limits.current().produce(size)
    return str(template % fields)


def _formattable(value: Any) -> Any:
    """A number as it is; another value as text."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else text_of(value)


class _BoundedFormatter(SandboxedFormatter):
    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        check_path(field_name)
        return super().get_field(field_name, args, kwargs)

    def format_field(self, value: Any, format_spec: str) -> Any:
        value = _formattable(value)
        numbers = sum(int(number[-20:]) for number in _NUMBERS.findall(format_spec))
        limits.current().produce(numbers + limits.size_of(value))
        return super().format_field(value, format_spec)

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        return super().convert_field(value if conversion is None else text_of(value), conversion)


def check_path(path: str) -> None:
    """Raise LimitError for a path of fields, as in `a.b[0]`, that is longer than any value is deep."""
    if path.count(".") + path.count("[") > DEPTH_LIMIT:
        raise LimitError(f"a path of more than {DEPTH_LIMIT} fields is too long")


def bounded_format(environment: SandboxedEnvironment, text: str, mapping: bool) -> Callable[..., str]:
    """The function behind `str.format` (with `mapping`: `str.format_map`) in a template."""
    formatter = _BoundedFormatter(environment)

    def formatted(*args: Any, **kwargs: Any) -> str:
        if mapping:
            (fields,) = args
            return formatter.vformat(text, (), fields)
        return formatter.vformat(text, args, kwargs)

    return update_wrapper(formatted, text.format_map if mapping else text.format)
