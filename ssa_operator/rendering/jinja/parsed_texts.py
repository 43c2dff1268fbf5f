"""Parses the long texts of a render off the event loop: a thread parses them, and then the folder is rendered again.

Parsing takes most of the time of a render, and depends only on the text, which has placeholders instead of values.
So the cluster may change while a thread parses. The next render reads the cluster again, at one moment like any render,
and its texts are already parsed.

Promises:
- A render within `used()` parses texts of INLINE_LENGTH characters together at most, and no text twice.
- After DEFERRALS renders whose texts were not parsed, because they change each time, a render parses them itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias

from ssa_operator.rendering.values import limits
from ssa_operator.rendering.yaml.nodes import Node

Nodes: TypeAlias = tuple[Node, ...]

INLINE_LENGTH = 32 * 1024
"""Characters that a render parses itself: 200 small manifests, which take 20 ms."""

DEFERRALS = 4
"""Renders of one reconcile that may leave texts to be parsed."""


class UnparsedError(Exception):
    """A text has to be parsed before the file can be rendered."""


class ParsedTexts:
    """The parsed texts of one reconcile. After a render whose texts are `missing`, they have to be parsed by `parse`,
    and the folder has to be rendered again.
    """

    def __init__(self) -> None:
        self._parsed: dict[tuple[str, str], Nodes | Exception] = {}
        self._missing: dict[tuple[str, str], Callable[[str, str], Nodes]] = {}
        self._inline: int | None = 0
        """Characters that the render in progress has parsed itself, None if it defers nothing."""
        self._deferrals = 0

    @property
    def missing(self) -> bool:
        """Whether the last render lacked the nodes of a text, so that its result is not valid."""
        return bool(self._missing)

    @contextmanager
    def used(self, *, defer: bool = True) -> Iterator[None]:
        """The renders of the block take their nodes from here. Without `defer`, they parse what is missing."""
        self._inline = 0 if defer and self._deferrals < DEFERRALS else None
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)

    def nodes(self, parse: Callable[[str, str], Nodes], marked: str, name: str) -> Nodes:
        """The parsed documents of a text of a file. Raises UnparsedError, and what `parse` raises."""
        found = self._parsed.get((marked, name))
        if isinstance(found, Exception):
            raise found.with_traceback(None)
        if found is not None:
            return found
        if self._inline is None:
            return parse(marked, name)
        self._inline += len(marked)
        if self._inline <= INLINE_LENGTH:
            return parse(marked, name)
        self._missing[marked, name] = parse
        raise UnparsedError

    def parse(self) -> None:
        """Parse the texts that the last render lacked; another thread may call it."""
        for key, parse in self._missing.items():
            try:
                with limits.enforced():
                    self._parsed[key] = parse(*key)
            except Exception as error:  # noqa: BLE001 - the render raises it, and reports it with its template line
                self._parsed[key] = error
        self._missing = {}
        self._deferrals += 1


_current: ContextVar[ParsedTexts | None] = ContextVar("ssa_operator_parsed_texts", default=None)


def parsed_nodes(parse: Callable[[str, str], Nodes], marked: str, name: str) -> Nodes:
    """The parsed documents of a text: those of the render in progress, or parsed now."""
    texts = _current.get()
    return parse(marked, name) if texts is None else texts.nodes(parse, marked, name)
