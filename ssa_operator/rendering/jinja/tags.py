"""The tags `{% return value %}` and `{% do f(x) %}`, and errors about tags that don't exist or are not closed.

Promises:
- A macro's result is the value of `{% return value %}` with its type, instead of the macro's text.
- The macro ends at `{% return %}`. What it wrote before is not part of its result.
- The value stays a number, a list, a mapping or a value of the cluster, and waits for nothing by itself.
- A macro that ends without `{% return %}` gives its text, as in Jinja.
- `{% return %}` outside of a macro, in a `{% call %}` block, and in a recursive loop is a syntax error with its line.
- `{% do %}` calls a function or a macro, as `warn`. Anything else is a syntax error that names what to write instead.
- A block without an end is reported where it begins.
- A tag that doesn't exist is reported where it is, with the one that is meant.
- An end that closes another block names the line of the block that is open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from jinja2 import TemplateSyntaxError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser

from ssa_operator.objects.messages import did_you_mean
from ssa_operator.rendering.jinja.functions import REMOVED

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
            parser.fail(
                "values can't be changed in a template, so {% do %} only calls functions, as in {% do warn(object, "
                "reason, message) %}; write list + [item] or dict(mapping, **other); to accumulate in a loop, use "
                "namespace()",
                line,
            )
        return nodes.ExprStmt(expression).set_lineno(line, override=True)


_OPEN = r"The innermost block that needs to be closed is '(\w+)'"
_UNKNOWN = r"Encountered unknown tag '(\w+)'"
_EXPECTED = r"'(\w+)'"
_TAGS = (
    "block", "break", "call", "continue", "do", "extends", "filter", "for", "from", "if", "import", "include", "macro",
    "raw", "return", "set", "with",
)  # fmt: skip
_OTHERS = {"elseif": "elif", "elsif": "elif", "loop": "for"}
"""Tags of other languages."""


def block_error(error: TemplateSyntaxError, tokens: Iterable[tuple[int, str, str]]) -> TemplateSyntaxError:
    """The error, with the line and the words of the block that is open; the same one if it is about something else.
    `tokens` are those of the template: line, type and text.
    """
    message = error.message or ""
    unknown, found = re.search(_UNKNOWN, message), re.search(_OPEN, message)
    tag = unknown[1] if unknown else ""
    if tag in REMOVED:
        return error
    if tag == "end" or (tag and not tag.startswith("end")):
        return TemplateSyntaxError(_no_tag(tag, message), error.lineno)
    if found is None:
        words = f"{{% {tag} %}} closes nothing; remove it, or open the block"
        return TemplateSyntaxError(words, error.lineno) if tag else error
    open_tag = found[1]
    line = _last_open(open_tag, tokens, error.lineno)
    if not line:
        return error
    if not tag:
        return TemplateSyntaxError(f"{{% {open_tag} %}} has no {{% end{open_tag} %}}", line)
    words = f"{{% {tag} %}} is here before {{% end{open_tag} %}}, which closes the {{% {open_tag} %}} of line {line}"
    return TemplateSyntaxError(words, error.lineno)


def _no_tag(name: str, message: str) -> str:
    """The message about a tag that doesn't exist. Jinja's own one names those that may be here, which end a block."""
    expected = re.findall(_EXPECTED, message.partition("following tags: ")[2].partition(". ")[0])
    known = [*expected, *_TAGS]
    other = _OTHERS.get(name, "")
    what_to_do = f"write {{% {other} %}}" if other in known else did_you_mean(name, known)
    return f"there is no tag {{% {name} %}}" + (f"; {what_to_do}" if what_to_do else "")


def _last_open(tag: str, tokens: Iterable[tuple[int, str, str]], last: int) -> int:
    """The line of the last tag of this name that is not closed up to a line, 0 if there is none."""
    opened: list[int] = []
    for line, name in _tags(tokens):
        if line > last:
            break
        if name == tag:
            opened.append(line)
        elif name == f"end{tag}" and opened:
            opened.pop()
    return opened[-1] if opened else 0


def _tags(tokens: Iterable[tuple[int, str, str]]) -> Iterator[tuple[int, str]]:
    """The line and the name of each tag."""
    begins = False
    for line, kind, text in tokens:
        if kind == "name" and begins:
            yield line, text
        begins = kind == "block_begin" or (begins and kind == "whitespace")
