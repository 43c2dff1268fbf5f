"""`{% do f(x) %}`: a call whose result is not written, for `warn`.

Promises:
- `{% do %}` calls a function or a macro. Anything else, as a method that would change a value, is a syntax error with
  its line that names what to write instead.
"""

from __future__ import annotations

from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

NOTHING_TO_DO = (
    "values can't be changed in a template, so {% do %} only calls functions, as in {% do warn(object, reason, "
    "message) %}; write list + [item] or dict(mapping, **other); to accumulate in a loop, use namespace()"
)


class DoTag(Extension):
    """The Jinja extension that parses `{% do f(x) %}`, also with ` if condition`."""

    tags = frozenset({"do"})  # type: ignore[assignment]  # Jinja changes no tags

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        expression = parser.parse_tuple()
        called = expression.expr1 if isinstance(expression, nodes.CondExpr) else expression
        function = called.node if isinstance(called, nodes.Call) else None
        is_macro = isinstance(function, nodes.Getattr) and isinstance(function.node, nodes.Name) and function.attr
        if not isinstance(function, nodes.Name) and not is_macro:
            parser.fail(NOTHING_TO_DO, line)
        return nodes.ExprStmt(expression).set_lineno(line, override=True)
