"""Compiles and judges the expressions of authors over one object: the annotation `ready-when`, and `suspendWhen`.

The rules of a reconcile judge objects in the middle of their work, which can't wait. So an expression that takes long
has no result there yet: the caller has a thread judge what is `missing`, and repeats the work, which is pure.

Promises:
- All expressions of a reconcile together take ALLOWANCE seconds on the event loop at most.
- If there was no time for an expression, it does not hold, and the message says so.
- An object is judged once by each expression, as long as it has the same content.
- An expression takes a second at most. After one that took the whole second, each further expression of the reconcile
  has a tenth.
- An expression sees the top-level fields of the object, the filters, tests and pure functions of templates, and nothing
  else. It runs in the sandbox of templates and within the limits of one template.
- If the evaluation reaches a missing field, the expression does not hold. Only `default`, `is defined` and `is
  undefined` accept one, and fields that `and`, `or` and `if` skip are not reached.
- In a render, the time of an expression is a part of that of the render.
- An expression that fails for an object does not hold for it. The cause contains no value of the object except in the
  messages of `fail` and `required`, and is empty for a Secret.
- A manifest with an invalid expression is a problem at the line of its annotation, and no other manifest is affected.
- The readiness of a child follows from its own annotation everywhere: in `child`, in `ready`, in the order of the
  applies, and in the status.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from typing import Any

from jinja2 import TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.runtime import Undefined
from jinja2.utils import missing
from jinja2.visitor import NodeTransformer

from ssa_operator.objects.annotations import PREFIX
from ssa_operator.objects.context_values import set_within
from ssa_operator.objects.predicate import Judgement, Predicate
from ssa_operator.objects.render_result import Document, RenderProblem, Wait
from ssa_operator.objects.secret_fields import HIDDEN
from ssa_operator.objects.source_location import field_text
from ssa_operator.rendering.jinja.compilation import NestingError
from ssa_operator.rendering.jinja.environment import Environment
from ssa_operator.rendering.jinja.functions import CLUSTER_FUNCTIONS, FUNCTIONS, REMOVED
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.python_errors import translate_error
from ssa_operator.rendering.values.undefined import MissingFieldError, path_of

ALLOWANCE = 0.05
"""Seconds of processor time. A usual expression takes some microseconds."""

NOT_YET = Judgement(holds=False, cause="it takes long, and is judged next")

Evaluate = Callable[[float | None], Judgement]
"""Evaluates an expression for an object within this number of seconds, by default that of a template."""

Body = Mapping[str, Any]


class Judgements:
    """The judgements of one reconcile."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._left = ALLOWANCE
        self._known: dict[tuple[str, str], list[tuple[Body, Judgement]]] = {}
        """By expression and uid of the object, the contents that it had and the results."""
        self.missing: dict[tuple[str, str], tuple[Body, Evaluate]] = {}
        """The expressions for which there was no time, so that the result of the work is not valid yet."""
        self._seconds: float | None = None

    def used(self) -> AbstractContextManager[None]:
        """Use this for the expressions of the block."""
        return set_within(_current, self)

    def judge(self, text: str, body: Body, evaluate: Evaluate) -> Judgement:
        """The judgement of an expression on an object, NOT_YET if there is no time to evaluate it."""
        key = (text, str((body.get("metadata") or {}).get("uid", "")))
        for content, judgement in self._known.get(key, ()):
            if content is body or content == body:
                return judgement
        started = self._clock()
        if self._left > 0:
            try:
                with limits.interruptible(limits.Interrupt(time.thread_time() + self._left)):
                    self._known.setdefault(key, []).append((body, evaluate(None)))
                    return self._known[key][-1][1]
            except limits.Interrupted:
                pass
            finally:
                self._left -= self._clock() - started
        self.missing[key] = (body, evaluate)
        return NOT_YET

    def judge_missing(self) -> None:
        """Evaluate the expressions for which there was no time; another thread may call it."""
        for key, (body, evaluate) in self.missing.items():
            started = self._clock()
            judgement = evaluate(self._seconds)
            if self._clock() - started >= limits.SECONDS_LIMIT:
                self._seconds = limits.SECONDS_AFTER_OVERRUN
            self._known.setdefault(key, []).append((body, judgement))
        self.missing = {}


_current: ContextVar[Judgements | None] = ContextVar("ssa_operator_judgements", default=None)


def current() -> Judgements | None:
    """The judgements of the reconcile in progress. None outside of a reconcile, and in a render, which has its own
    time.
    """
    return None if limits.is_interruptible() else _current.get()


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
        reconcile = current()
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


READY_WHEN = f"{PREFIX}ready-when"
_READY_WHEN = ("metadata", "annotations", READY_WHEN)


def with_ready_when(result: Document | RenderProblem | Wait) -> Document | RenderProblem | Wait:
    """A document or a wait with its compiled expression, or the problem of the document's expression."""
    if isinstance(result, RenderProblem):
        return result
    annotations = result.annotations if isinstance(result, Wait) else result.body["metadata"].get("annotations")
    text = annotations.get(READY_WHEN) if annotations else None
    if not isinstance(text, str):
        return result
    secret = result.secret.covers(field_text(_READY_WHEN))
    try:
        rule = compile_predicate(text)
        return replace(result, ready_when=rule.without_causes(secret=True) if secret else rule)
    except PredicateError as error:
        if isinstance(result, Wait):
            # It is a problem once the document no longer waits.
            return result
        what = f"is no valid expression; it is not shown: {HIDDEN[1:-1]} is a part of it" if secret else error
        return RenderProblem(f"annotation {READY_WHEN} {what}", result.location_of(_READY_WHEN), (result.identity,))
