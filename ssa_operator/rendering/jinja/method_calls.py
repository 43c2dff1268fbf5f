"""Calls of Python's own methods by templates (`text.strip()`, `list.index(x)`), within the limits of a render.

Promises:
- A method's input and output are counted before the call.
- A width or a precision can't produce more text than the limits allow: the size is checked before the text is made.
- A format string can't reach an attribute that the sandbox refuses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import update_wrapper
from typing import Any

from jinja2.exceptions import SecurityError
from jinja2.sandbox import SandboxedEnvironment, SandboxedFormatter

from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.limits import DEPTH_LIMIT, LimitError
from ssa_operator.rendering.values.manifest_values import text_of
from ssa_operator.rendering.values.value_size import check_hash, check_search, size_of

_STRIPS = frozenset({"strip", "lstrip", "rstrip"})
_SEARCHES_BACKWARD = frozenset({"rfind", "rindex", "rpartition", "rsplit"})
_SPLITS = frozenset({"split", "rsplit", "splitlines"})

_PART = 64
"""The bytes of a short string."""

_BLANKS = " \t\n\r\f\v"


def call_string_method(method: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The result of a method of a string. Raises LimitError before it would be too large, or take too long."""
    text: str = method.__self__
    name: str = method.__name__
    numbers = [arg for arg in (*args, *kwargs.values()) if isinstance(arg, int)]
    budget = limits.current()
    match name:
        case "center" | "ljust" | "rjust" | "zfill":
            budget.produce(max([len(text), *numbers]))
        case "expandtabs":
            budget.produce(len(text) + text.count("\t") * max([8, *numbers]))
        case "replace" if len(args) >= 2 and isinstance(args[0], str) and isinstance(args[1], str):
            budget.produce(len(text) + text.count(args[0]) * len(args[1]))
        case "join" if args:
            return joined(text, args[0])
        case "translate" | "maketrans":
            raise SecurityError(f"{name} is not accessible to templates; use replace")
        case _:
            budget.produce(len(text))
            _check_search(name, text, args)
    return method(*args, **kwargs)


def _check_search(name: str, text: str, args: tuple[Any, ...]) -> None:
    """Raise LimitError for a search that takes too long; those from the front take a linear time in Python."""
    sought = args[0] if args and isinstance(args[0], str) else ""
    budget = limits.current()
    if sought and (name in _STRIPS or name in _SEARCHES_BACKWARD):
        budget.read(len(text) * min(len(sought), len(text)), limits.ORDER_LIMIT)
    if name in _SPLITS:
        ends = [sought] if sought else _BLANKS if text.isascii() else ()
        budget.spend(_PART * (sum(map(text.count, ends)) if ends else len(text) // 2))
    if args and not isinstance(args[0], (str, int)):
        budget.read(size_of(args[0]).total)


def joined(between: str, items: Iterable[Any]) -> str:
    """The items with a text between them. Raises LimitError before the result would be too long."""
    texts = []
    size = 0
    for item in limits.counted(items):
        texts.append(item)
        size += len(between) + (len(item) if isinstance(item, str) else 1)
        if size > limits.OUTPUT_LIMIT:
            break
    limits.current().produce(size)
    return between.join(texts)


def check_method_call(method: Any, args: tuple[Any, ...]) -> None:
    """Raise LimitError for a call of a method of a list, a tuple, a mapping or a view that takes too long."""
    owner, name = method.__self__, method.__name__
    if name in ("count", "index"):
        for arg in args[:1]:
            check_search(arg, owner)
            limits.current().read(size_of(arg).total)  # Python writes it into its error
        return
    if name == "copy":
        limits.current().produce(limits.size_of(owner))
    for value in (*args, owner) if name == "isdisjoint" else args:
        check_hash(value)


def checked_pairs(pairs: Iterable[Any]) -> Iterator[Any]:
    """The pairs of a mapping; each one counts as a step, and each key can be hashed."""
    for pair in limits.counted(pairs):
        for key in pair[:1] if isinstance(pair, (list, tuple)) else ():
            check_hash(key)
        yield pair


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
