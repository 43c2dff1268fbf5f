"""Calls of Python's own methods by templates (`text.strip()`, `list.index(x)`), within the limits of a render.

Promises:
- A method's input and output are counted before the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from jinja2.exceptions import SecurityError

from ssa_operator.rendering.values import limits
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
