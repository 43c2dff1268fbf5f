"""`{% return value %}`: the result of a macro is a value with its type, instead of the macro's text.

Promises:
- The macro ends at `{% return %}`. What it wrote before is not part of its result.
- The value stays a number, a list, a mapping or a value of the cluster, and waits for nothing by itself.
- A macro that ends without `{% return %}` gives its text, as in Jinja.
- `{% return %}` outside of a macro, in a `{% call %}` block, and in a recursive loop is a syntax error with its line.
"""

from __future__ import annotations

from jinja2 import TemplateSyntaxError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

_NAME = "returned"


class ReturnTag(Extension):
    """The Jinja extension that parses `{% return value %}`; `return_value` finds what it made."""

    tags = frozenset({"return"})  # type: ignore[assignment]  # Jinja changes no tags

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        within = [tag for tag in parser._tag_stack if tag in ("macro", "call", "block")]  # noqa: SLF001 - Jinja's own tags read it
        if not within or within[-1] == "block":
            parser.fail("{% return %} is outside of a macro", line)
        if within[-1] == "call":
            parser.fail(
                "{% return %} is in a {% call %} block, whose result is its text; call the macro in {{ }}", line
            )
        if parser.stream.current.test("block_end"):
            parser.fail("{% return %} has no value; write {% return none %} for none", line)
        call = nodes.Call(nodes.EnvironmentAttribute(_NAME), [parser.parse_tuple()], [], None, None)
        return nodes.ExprStmt(call).set_lineno(line, override=True)


def return_value(node: nodes.Node) -> nodes.Expr | None:
    """The value of a `{% return %}`, None for any other statement."""
    if isinstance(node, nodes.ExprStmt) and isinstance(call := node.node, nodes.Call):
        function = call.node
        if isinstance(function, nodes.EnvironmentAttribute) and function.name == _NAME:
            return call.args[0]
    return None


def check_loop(loop: nodes.For) -> None:
    """Raise TemplateSyntaxError for a `{% return %}` in a recursive loop, which is a function of its own."""
    if not loop.recursive:
        return
    for statement in loop.find_all(nodes.ExprStmt):
        if return_value(statement) is not None:
            raise TemplateSyntaxError(
                "{% return %} is in a recursive loop; put the loop into a macro", statement.lineno
            )
