"""Parses CEL expressions.

Promises:
- A parsed expression is a value. The same text is parsed once.
- An expression that isn't CEL, or uses syntax that rules of CRDs can't have, is an error.

The grammar is that of https://github.com/google/cel-spec/blob/master/doc/langdef.md, with optional fields (`a.?b`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from msgspec import Struct

from ssa_operator.schema.cel.field_names import RESERVED


class CELSyntaxError(Exception):
    """A text is no CEL expression."""


class Expression(Struct, frozen=True):
    """A part of an expression."""

    kind: str
    """literal, name, select, index, call, list, map, not, negate, conditional, or a binary operator."""
    value: Any = None
    """The literal, the name of a variable, field or function."""
    parts: tuple[Expression, ...] = ()
    optional: frozenset[int] = frozenset()
    """The positions of optional entries (`[?a]`), and 0 for an optional select or index (`a.?b`)."""
    target: Expression | None = None
    """The receiver of a call, or the operand of a select or index."""


def parts_of(node: Expression) -> Iterator[Expression]:
    """An expression and all in it."""
    yield node
    for part in (*node.parts, *((node.target,) if node.target else ())):
        yield from parts_of(part)


def names(node: Expression) -> Iterator[str]:
    """All names of variables in an expression."""
    return (part.value for part in parts_of(node) if part.kind == "name")


_TOKEN = re.compile(
    r"""
      (?P<skip>\s+|//[^\n]*)
    | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
    | (?P<int>0[xX][0-9a-fA-F]+[uU]?|\d+[uU]?)
    | (?P<string>(?:[rR]?[bB]?|[bB][rR])(?:\"\"\"(?s:.*?)(?<!\\)\"\"\"|'''(?s:.*?)(?<!\\)'''
        |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'))
    | (?P<rawstring>[rR][bB]?(?:"[^"\n]*"|'[^'\n]*'))
    | (?P<quoted>`[^`\n]+`)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<operator>&&|\|\||==|!=|<=|>=|[-+*/%<>!?:.,()\[\]{}])
    """,
    re.VERBOSE,
)

_DEPTH_LIMIT = 200


class _Token(Struct, frozen=True):
    kind: str
    text: str


@lru_cache(maxsize=4096)
def parse(text: str) -> Expression:
    """The expression of a text. Raises CELSyntaxError."""
    parser = _Parser(list(_tokens(text)))
    try:
        found = parser.expression()
    except RecursionError as error:
        raise CELSyntaxError("the expression is nested too deeply") from error
    if parser.peek().kind != "end":
        raise CELSyntaxError(f"unexpected {parser.peek().text}")
    return found


def _tokens(text: str) -> Iterator[_Token]:
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None or found.lastgroup is None:
            raise CELSyntaxError(f"unexpected {text[position]}")
        if found.lastgroup != "skip":
            yield _Token(found.lastgroup, found[0])
        position = found.end()
    yield _Token("end", "end of the expression")


class _Parser:
    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def peek(self) -> _Token:
        return self._tokens[self._at]

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        self._at += token.kind != "end"
        return token

    def _accept(self, *operators: str) -> str | None:
        """The operator that comes next, if it is one of these; None otherwise."""
        token = self.peek()
        if token.text in operators and token.kind in ("operator", "name"):
            self._at += 1
            return token.text
        return None

    def _expect(self, operator: str) -> None:
        if not self._accept(operator):
            raise CELSyntaxError(f"expected {operator} and found {self.peek().text}")

    def expression(self) -> Expression:
        self._depth += 1
        if self._depth > _DEPTH_LIMIT:
            raise CELSyntaxError("the expression is nested too deeply")
        condition = self._binary(0)
        if self._accept("?"):
            yes = self._binary(0)
            self._expect(":")
            condition = Expression("conditional", parts=(condition, yes, self.expression()))
        self._depth -= 1
        return condition

    _LEVELS = (("||",), ("&&",), ("==", "!=", "<=", ">=", "<", ">", "in"), ("+", "-"), ("*", "/", "%"))

    def _binary(self, level: int) -> Expression:
        if level == len(self._LEVELS):
            return self._unary()
        left = self._binary(level + 1)
        while operator := self._accept(*self._LEVELS[level]):
            left = Expression(operator, parts=(left, self._binary(level + 1)))
        return left

    def _unary(self) -> Expression:
        if self._accept("!"):
            return Expression("not", parts=(self._unary(),))
        if self._accept("-"):
            token = self.peek()
            if token.kind in ("int", "float"):
                literal = self._member()
                if literal.kind == "literal" and isinstance(literal.value, (int, float)):
                    return Expression("literal", -literal.value)
                return Expression("negate", parts=(literal,))
            return Expression("negate", parts=(self._unary(),))
        return self._member()

    def _member(self) -> Expression:
        node = self._primary()
        while True:
            if self._accept("."):
                optional = frozenset({0}) if self._accept("?") else frozenset[int]()
                token = self._next()
                if token.kind not in ("name", "quoted"):
                    raise CELSyntaxError(f"expected a field and found {token.text}")
                name = token.text.strip("`")
                if not optional and token.kind == "name" and self._accept("("):
                    node = Expression("call", name, self._items(")")[0], target=node)
                else:
                    node = Expression("select", name, target=node, optional=optional)
            elif self._accept("["):
                optional = frozenset({0}) if self._accept("?") else frozenset[int]()
                node = Expression("index", parts=(self.expression(),), target=node, optional=optional)
                self._expect("]")
            else:
                return node

    def _primary(self) -> Expression:
        if self._accept("("):
            inner = self.expression()
            self._expect(")")
            return inner
        if self._accept("["):
            return Expression("list", None, *self._items("]"))
        if self._accept("{"):
            return self._map()
        self._accept(".")
        token = self._next()
        if token.kind in _LITERALS:
            return Expression("literal", _LITERALS[token.kind](token.text))
        if token.kind != "name" or token.text in RESERVED:
            raise CELSyntaxError(f"unexpected {token.text}")
        if token.text in _CONSTANTS:
            return Expression("literal", _CONSTANTS[token.text])
        if self._accept("("):
            return Expression("call", token.text, self._items(")")[0])
        return Expression("name", token.text)

    def _items(self, end: str) -> tuple[tuple[Expression, ...], frozenset[int]]:
        """The expressions up to a bracket, and the positions of the optional ones."""
        found: list[Expression] = []
        optional: set[int] = set()
        while not self._accept(end):
            if end == "]" and self._accept("?"):
                optional.add(len(found))
            found.append(self.expression())
            if not self._accept(","):
                self._expect(end)
                break
        return tuple(found), frozenset(optional)

    def _map(self) -> Expression:
        found: list[Expression] = []
        optional: set[int] = set()
        while not self._accept("}"):
            if self._accept("?"):
                optional.add(len(found) // 2)
            found.append(self.expression())
            self._expect(":")
            found.append(self.expression())
            if not self._accept(","):
                self._expect("}")
                break
        return Expression("map", None, tuple(found), frozenset(optional))


class Uint(int):
    """An unsigned integer."""


_NUMBER_LIMIT = 1000
"""Characters of a number; no type has so large ones."""


def _integer(text: str) -> int:
    if len(text) > _NUMBER_LIMIT:
        raise CELSyntaxError(f"a number of {len(text)} characters is too long")
    unsigned = text[-1] in "uU"
    number = int(text.rstrip("uU"), 0) if text[:2].lower() == "0x" else int(text.rstrip("uU"))
    return Uint(number) if unsigned else number


_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPE = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)


def _string(text: str) -> str | bytes:
    prefix = text[: re.search("[\"']", text).start()].lower()  # type: ignore[union-attr]
    body = text[len(prefix) :]
    quote = body[:3] if body[:3] in ('"""', "'''") and len(body) >= 6 else body[0]
    body = body[len(quote) : -len(quote)]
    if "b" in prefix:
        if "r" in prefix:
            return body.encode()
        return _ESCAPE.sub(lambda found: _unescaped(found, byte=True), body).encode("utf-8", "surrogateescape")
    return body if "r" in prefix else _ESCAPE.sub(_unescaped, body)


def _unescaped(found: re.Match[str], *, byte: bool = False) -> str:
    hexadecimal, short, long, octal, simple = found.groups()
    if simple is not None:
        if simple not in _SIMPLE and simple not in "\\?\"'`":
            raise CELSyntaxError(f"unknown escape {found[0]}")
        return _SIMPLE.get(simple, simple)
    number = int(octal, 8) if octal else int(hexadecimal or short or long, 16)
    if byte and (hexadecimal or octal) and number > 0x7F:
        return bytes([number]).decode("utf-8", "surrogateescape")
    return chr(number)


_LITERALS: dict[str, Callable[[str], Any]] = {
    "int": _integer,
    "float": float,
    "string": _string,
    "rawstring": _string,
}
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None}
