"""Compiles the expressions of authors over one object: the annotation `ready-when`, and the setting `suspendWhen`.

Promises:
- An expression sees the top-level fields of the object, the filters, tests and pure functions of templates, and nothing
  else. It runs in the sandbox of templates and within the limits of one template.
- If the evaluation reaches a missing field, the expression does not hold. Only `default`, `is defined` and `is
  undefined` accept one, and fields that `and`, `or` and `if` skip are not reached.
- In a render, the time of an expression is a part of that of the render. In a reconcile, see
  rendering.jinja.judgements.
- An expression that fails for an object does not hold for it. The cause contains no value of the object except in the
  messages of `fail` and `required`, and is empty for a Secret.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.runtime import Undefined
from jinja2.utils import missing
from jinja2.visitor import NodeTransformer

from ssa_operator.objects.predicate import Judgement, Predicate
from ssa_operator.objects.source_location import field_text
from ssa_operator.rendering.jinja import judgements
from ssa_operator.rendering.jinja.environment import Environment
from ssa_operator.rendering.jinja.functions import CLUSTER_FUNCTIONS, FUNCTIONS, REMOVED
from ssa_operator.rendering.jinja.syntax_limits import NestingError
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.python_errors import translate_error
from ssa_operator.rendering.values.undefined import MissingFieldError, path_of

LENGTH_LIMIT = 1024
"""Characters of an expression."""

_SUBJECT = "an expression over the fields of the object, such as status.phase == 'Running'"

_ACCEPTS_MISSING = frozenset({"d", "default", "defined", "undefined"})
"""The filters and tests whose subject may be missing."""


class PredicateError(ValueError):
    """An expression that can't be compiled; the text says why, and what to write."""


@lru_cache(maxsize=1024)
def compile_predicate(text: str) -> Predicate:
    """The predicate of an expression. Raises PredicateError."""
    if not text.strip():
        raise PredicateError(f"is empty; write {_SUBJECT}")
    if len(text) > LENGTH_LIMIT:
        raise PredicateError(f"is longer than {LENGTH_LIMIT} characters")
    try:
        environment = _environment()
        _check_calls(environment.parsed(text))
        expression = environment.compile_expression(text, undefined_to_none=False)
    except NestingError:
        raise PredicateError("is nested too deeply") from None
    except TemplateSyntaxError as error:
        reason = next((why for name, why in REMOVED.items() if f"'{name}'" in (error.message or "")), None)
        reason = reason or (error.message or "").rstrip(".").replace("end of print statement", "end of the expression")
        raise PredicateError(f"is no valid expression: {reason}; write {_SUBJECT}") from None
    return Predicate(text, _judge(text, expression))


def _judge(text: str, expression: Callable[..., Any]) -> Callable[[Mapping[str, Any]], Judgement]:
    """The function that judges an object by a compiled expression. It remembers the last object, because a command or a
    render judges the same object several times.
    """
    last: tuple[Mapping[str, Any], Judgement] | None = None

    def judge(body: Mapping[str, Any]) -> Judgement:
        nonlocal last
        reconcile = judgements.current()
        if reconcile is not None:
            return reconcile.judge(text, body, lambda seconds: _judgement(expression, body, seconds))
        known = last
        if known is None or known[0] is not body:
            last = known = (body, _judgement(expression, body))
        return known[1]

    return judge


def _judgement(expression: Callable[..., Any], body: Mapping[str, Any], seconds: float | None = None) -> Judgement:
    with limits.enforced_within(seconds):
        try:
            return Judgement(bool(expression(body)))
        except Exception as error:  # noqa: BLE001 - the live object may have any content
            # The name of a missing field may be a Secret's content, as in data[data.token].
            return Judgement(holds=False, cause="" if body.get("kind") == "Secret" else _cause(error, body))


def _cause(error: Exception, body: Mapping[str, Any]) -> str:
    if isinstance(error, MissingFieldError):
        owner = error.owner
        known = path_of(owner, body) if isinstance(owner, (dict, list)) else None
        if error.hint or not (known is not None or owner is missing):
            return error.hint or f"{field_text(error.path)} is missing"
        return f"{field_text((*(known or ()), *error.path))} is missing"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, SecurityError):
        return f"refused for security: {error.message}"
    if isinstance(error, TemplateError):
        return error.message or translate_error(error)
    return translate_error(error)


def _check_calls(tree: nodes.Node) -> None:
    """Raise PredicateError if an expression calls a function that it doesn't have."""
    for call in tree.find_all(nodes.Call):
        name = call.node.name if isinstance(call.node, nodes.Name) else ""
        if name and name not in FUNCTIONS:
            known = ", ".join(sorted(FUNCTIONS))
            what = "queries the cluster" if name in CLUSTER_FUNCTIONS else "is not a function"
            raise PredicateError(f"calls {name}, which {what}; write {_SUBJECT}; its functions are {known}")


class _Environment(Environment):
    """The environment of expressions. It has no template to import."""

    def __init__(self) -> None:
        super().__init__({}, str, queries_cluster=False)
        # An expression has no lines of text to mark.
        self.extensions.clear()
        self.shared_variables = frozenset()

    def parsed(self, text: str) -> nodes.Template:
        """The syntax tree of an expression, or of whatever Jinja accepts as one. `compile_expression` reports
        errors.
        """
        return self.parse("{{ " + text + " }}")

    def _generate(
        self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False
    ) -> str:
        _RequireFields().generic_visit(source)
        return super()._generate(source, name, filename, defer_init)

    def require(self, value: Any) -> Any:
        """The value. Raises MissingFieldError if it is missing."""
        if isinstance(value, Undefined):
            str(value)
        return value


@lru_cache(maxsize=1)
def _environment() -> _Environment:
    return _Environment()


class _RequireFields(NodeTransformer):
    """Wraps everything that an expression reads, so that a missing field ends the evaluation."""

    def visit(self, node: nodes.Node, *_: Any, **__: Any) -> nodes.Node:
        """The node, visited. Its value must not be missing."""
        reads = isinstance(node, nodes.Getattr | nodes.Getitem | nodes.Filter | nodes.Call) or (
            isinstance(node, nodes.Name) and node.ctx == "load"
        )
        return _required(self._lenient(node)) if reads else self._lenient(node)

    def _lenient(self, node: nodes.Node) -> nodes.Node:
        """The node, visited. Its own value may be missing."""
        subject = getattr(node, "node", None) if isinstance(node, _WITH_SUBJECT) else None
        if subject is None:
            return self.generic_visit(node)
        accepts = not isinstance(node, nodes.Filter | nodes.Test) or node.name in _ACCEPTS_MISSING
        subject = self._lenient(subject) if accepts else self.visit(subject)
        # `generic_visit` visits the arguments only.
        node.node = nodes.Const(None)  # type: ignore[attr-defined]
        self.generic_visit(node)
        node.node = subject  # type: ignore[attr-defined]
        return node


_WITH_SUBJECT = (nodes.Getattr, nodes.Getitem, nodes.Filter, nodes.Test, nodes.Call)
"""The expressions that read something of another one."""


def _required(node: nodes.Node) -> nodes.Node:
    return nodes.Call(
        nodes.EnvironmentAttribute("require", lineno=node.lineno), [node], [], None, None, lineno=node.lineno
    )
