"""The variables and functions of a template: a new function is one entry in these tables.

Promises:
- A template can call the functions in `FUNCTIONS` and `CLUSTER_FUNCTIONS` and no other; the use of another name is an
  error.
- No function here returns random data or reads the clock or the machine, so that two renders of a parent are the same.
- In `try`, an expression that fails is undefined, and its use has the reason: `default` and `is defined` accept it.
- What waits goes on waiting: a value of the cluster that is not known yet is no failure.
- Neither the limits of a render nor the sandbox can be escaped: what they refuse stays an error.
- The document depends on what the failed expression read, and the reason quotes no Secret's content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateRuntimeError, Undefined
from jinja2.exceptions import SecurityError
from jinja2.sandbox import safe_range
from jinja2.utils import Cycler, Joiner

from ssa_operator.rendering.values.limits import LimitError
from ssa_operator.rendering.values.manifest_values import NO_TEXT, Octets, text_of
from ssa_operator.rendering.values.python_errors import ERRORS, translate_error
from ssa_operator.rendering.values.secrecy import HIDDEN_ERROR, quotes_content
from ssa_operator.rendering.values.tracked_values import AwaitedError, TrackedValue, provenance_of, untracked
from ssa_operator.rendering.values.undefined import Missing, MissingFieldError

VARIABLE_DESCRIPTIONS: Mapping[str, str] = {
    "object": "the parent as the API server returned it",
    "metadata": "`metadata` of the parent",
    "spec": "`spec` of the parent; empty without one",
    "status": "`status` of the parent before this reconcile; empty without one",
    "name": "the name of the parent",
    "namespace": "the namespace of the parent; empty for a cluster-scoped one",
    "labels": "the labels of the parent; empty without any",
    "annotations": "the annotations of the parent, without those of the operator and of kubectl apply, so that a child "
    "may copy them",
}
"""The description of each variable, for the reference."""

VARIABLES = frozenset(VARIABLE_DESCRIPTIONS)
"""The variables of every template, including imported and included ones."""

SETTING_DESCRIPTIONS: Mapping[str, str] = {
    "values": "settings of the installation: `_values.yaml` of the folder, overridden by the files of `--values`",
    "operator": "`operator.namespace` and `operator.version`",
    "kubernetes_version": "the version of the cluster's Kubernetes, such as `1.36`",
}
"""The descriptions of the variables that don't depend on the parent, for the reference."""

STATUS_DESCRIPTIONS: Mapping[str, str] = {
    "result": "in `_status.yaml.j2` only: `result.ready`, `result.reason` and `result.message`, what the condition "
    "Ready says of this reconcile",
}
"""The descriptions of the variables that only the status template has, for the reference."""

SETTINGS = frozenset({"values"})
"""The variables with settings of the installation."""

CLUSTER_FUNCTIONS = frozenset(
    {"api_available", "child", "expired", "generated", "live", "lookup", "lookup_all", "ready", "warn"}
)
"""Functions that query the cluster view; each render has its own (see `template_api`)."""


CLUSTER_VARIABLES = frozenset({"kubernetes_version"})
"""The variables whose values are those of the cluster, even in imported and included templates."""


class FailError(TemplateRuntimeError):
    """A template called `fail`, or `required` without a value."""


def fail(message: str) -> NoReturn:
    """Stop the file with an error."""
    raise FailError(text_of(message))


def required(value: Any, message: str) -> Any:
    """The value; an error with the message if it is undefined, none or an empty text."""
    if isinstance(value, Undefined) or value is None or (isinstance(value, str) and not value):
        fail(message)
    return value


TRY_FORM = "try takes one expression, as in try(spec.config | from_json) | default(1)"


def _try(expression: Any) -> NoReturn:  # noqa: ARG001 - the reference shows it
    """The value of the expression, or undefined with the reason where it fails. What waits goes on waiting."""
    # The environment compiles `try(expression)` itself, so that the expression is evaluated within it.
    fail(TRY_FORM)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "cycler": Cycler,
    "dict": dict,
    "fail": fail,
    "joiner": Joiner,
    "range": safe_range,
    "required": required,
    "try": _try,
}

ACCEPTS_TRACKED = "accepts_tracked"
"""The attribute of a function that accepts tracked values as its arguments."""

REMOVED: Mapping[str, str] = {
    "lipsum": "lipsum gives another text each time, so every render would be a change; write a text out",
    "random": "random gives another item each time, so every render would be a change; use first, or an index",
}
"""Names of Jinja that templates can't use, each with the reason and the replacement."""


TRY = "try"
"""The name of the function that the environment compiles to a call of `attempt`."""


def attempt(evaluate: Callable[[], Any]) -> Any:
    """The value of an expression, or undefined with the reason: where it fails, and where it decodes bytes that are no
    text. Raises AwaitedError, LimitError and SecurityError.
    """
    try:
        found = evaluate()
        if not isinstance(plain := untracked(found), Octets) or not plain.is_no_text:
            return found
        if isinstance(found, TrackedValue):
            found.read_untracked(by_control=True)
        return Missing(NO_TEXT)
    except (AwaitedError, LimitError, SecurityError):
        raise
    except (TemplateError, *ERRORS) as error:
        if read := provenance_of(error):
            TrackedValue(None, read).read_untracked(by_control=True)
        if quotes_content(error):
            return Missing(HIDDEN_ERROR)
        if isinstance(error, MissingFieldError):
            name, *below = error.path
            return Missing(error.hint, error.owner, name, below=tuple(below))  # type: ignore[arg-type]  # or a position
        return Missing((error.message if isinstance(error, TemplateError) else None) or translate_error(error))
