"""Converts the exceptions of templates to problems with template lines.

Promises:
- Each problem has the template file, the line, and the lines that included it.
- A message contains no value of the parent, except names of fields.
- If an expression that reads a Secret's content fails, the message quotes no value.
- A message contains no name of a Python class or function, because template authors don't know them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import TemplateNotFound, TemplateSyntaxError
from jinja2.environment import TemplateModule
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.utils import missing

from ssa_operator.objects.declared_fields import DECLARE, declared_siblings, first_undeclared
from ssa_operator.objects.render_result import RenderProblem
from ssa_operator.objects.secret_fields import HIDDEN
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text, misspelt_field
from ssa_operator.rendering.jinja.functions import (
    CLUSTER_FUNCTIONS,
    CLUSTER_VARIABLES,
    FUNCTIONS,
    REMOVED,
    STATUS_DESCRIPTIONS,
    VARIABLES,
    FailError,
)
from ssa_operator.rendering.jinja.suggestions import GO_KEYWORDS, GO_SYNTAX, jinja_for, suggest_name
from ssa_operator.rendering.jinja.template_api import template_line
from ssa_operator.rendering.jinja.templates import SHARED, VALUES, Templates
from ssa_operator.rendering.values.manifest_values import kind_of
from ssa_operator.rendering.values.python_errors import translate_error
from ssa_operator.rendering.values.secrecy import HIDDEN_ERROR, quotes_content
from ssa_operator.rendering.values.undefined import MissingFieldError, path_of
from ssa_operator.rendering.yaml.nodes import DocumentError

_CHAIN_LIMIT = 8
_ASSIGNED = (
    "{% set a.b = c %} changes a value in place, and values can't be changed in a template; write "
    "{% set a = dict(a, b=c) %}; to accumulate in a loop, use namespace()"
)


def problem_of(
    error: Exception,
    templates: Templates,
    name: str,
    variables: Mapping[str, Any],
    schema: Mapping[str, Any] | None = None,
) -> RenderProblem:
    """The problem for an exception of a render; `name` is the file that was rendered, `schema` that of the parent's
    CRD, None if it is unknown.
    """
    if isinstance(error, DocumentError):
        message = HIDDEN_ERROR if quotes_content(error) else str(error)
        return RenderProblem(_with_line(message, templates, error.location), error.location)
    lines = _template_lines(error)
    location = _location(lines) or SourceLocation(name, 1)
    if isinstance(error, TemplateSyntaxError):
        return RenderProblem(
            error.message or "syntax error", SourceLocation(error.name or name, error.lineno, tuple(lines))
        )
    if quotes_content(error):
        return RenderProblem(HIDDEN_ERROR, location)
    hint = error.hint or "" if isinstance(error, MissingFieldError) else ""
    if hint.startswith("parameter '"):  # Jinja's words about one of a macro, which it reads without a value
        argument = hint.split("'")[1]
        message = f"a macro that is called here needs the argument {argument}; give it, or a default to it"
        return RenderProblem(message, _location(lines[1:]) or location)
    go = jinja_for(templates.line(location) or "") if _reads_go_keyword(error) else None
    message = _message(error, variables, schema) if go is None else f"{GO_SYNTAX}: {go}"
    return RenderProblem(message, location, by_author=isinstance(error, FailError))


def _reads_go_keyword(error: Exception) -> bool:
    """Whether a template reads a keyword of Go templates as a variable: `{{ range .x }}` is a field of `range`."""
    if not isinstance(error, MissingFieldError) or not error.path:
        return False
    return error.path[0] in GO_KEYWORDS if error.owner is missing else error.owner is FUNCTIONS["range"]


def location_of_error(error: BaseException, name: str) -> SourceLocation:
    """The template line that raised an exception, and the lines that included it."""
    return _location(_template_lines(error)) or SourceLocation(name, 1)


def _message(error: Exception, variables: Mapping[str, Any], schema: Mapping[str, Any] | None) -> str:
    if isinstance(error, MissingFieldError):
        return _missing_field(error, variables, schema)
    if isinstance(error, RecursionError):
        return "a macro or an include calls itself without end"
    if isinstance(error, TemplateNotFound):
        return f"{error.message} does not exist; names start at the folder, or with {SHARED}/"
    if isinstance(error, SecurityError):
        return f"refused for security: {error.message}"
    if isinstance(error, TemplateError):
        if error.message == "cannot assign attribute on non-namespace object":
            return _ASSIGNED
        return error.message or translate_error(error)
    return translate_error(error)


def _missing_field(error: MissingFieldError, variables: Mapping[str, Any], schema: Mapping[str, Any] | None) -> str:
    if error.hint:
        return error.hint
    if not error.path:
        return "null can't name a field or an item"
    if error.owner is missing:
        return _undefined_name(str(error.path[0]), variables, schema)
    if error.owner is None or isinstance(error.owner, (str, int, float)):
        return f"{field_text(error.path)} is missing: what should hold it is {kind_of(error.owner)}, not a mapping"
    if isinstance(error.owner, TemplateModule):
        return f"{field_text(error.path)} is not defined in the imported file"
    owner, is_setting = _owner_path(error.owner, variables)
    path = field_text((*owner, *error.path))
    otherwise = f"{path} | default(...)"
    if owner and isinstance(error.owner, Mapping) and error.path[0] != HIDDEN:
        # `default` would hide a misspelt name for good.
        field, known = (*owner, error.path[0]), [str(each) for each in error.owner]
        if schema is not None and not is_setting:
            undeclared = first_undeclared((*owner, *error.path), schema)
            if undeclared is not None:
                hint = misspelt_field(undeclared, [*declared_siblings(undeclared, schema), *known])
                return f"{path} is missing, and the CRD declares no {field_text(undeclared)}; {hint or DECLARE}"
            known = [] if error.path[0] in declared_siblings(field, schema) else known
        hint = misspelt_field(field, known)
        if hint is not None:
            declared = f"Or set it in {VALUES}" if is_setting else f"If the CRD declares it, write {otherwise}"
            return f"{path} is missing; {hint} {declared}"
    if is_setting:
        return f"{path} is missing; set it in {VALUES}, or write {otherwise}"
    return f"{path} is missing; if it may be missing, write {otherwise}"


def _owner_path(owner: Any, variables: Mapping[str, Any]) -> tuple[FieldPath, bool]:
    """The path of the mapping or list that lacks a field, () if it isn't part of the parent, and whether it is one of
    the settings in `values`.
    """
    if not isinstance(owner, (Mapping, list)):
        return (), False
    values = variables.get("values")
    if isinstance(values, Mapping) and (setting := path_of(owner, values)) is not None:
        return ("values", *setting), True
    found = path_of(owner, variables["object"])
    if found is None:
        found = next(((name,) for name in sorted(VARIABLES) if variables[name] is owner), ())
    return found, False


def _undefined_name(name: str, variables: Mapping[str, Any], schema: Mapping[str, Any] | None) -> str:
    if name in REMOVED:
        return REMOVED[name]
    if name in STATUS_DESCRIPTIONS:
        return f"{name} is not defined here; only _status.yaml.j2 has it"
    spec = variables["spec"] if isinstance(variables["spec"], Mapping) else {}
    fields = [*declared_siblings(("spec", name), schema or {}), *map(str, spec)]
    known = {*variables, *CLUSTER_FUNCTIONS, *CLUSTER_VARIABLES}
    hint = f"did you mean spec.{name}?" if name in fields else suggest_name(name, known).text
    return f"{name} is not defined; {hint}"


def _template_lines(error: BaseException) -> list[SourceLocation]:
    """The template lines of a traceback, innermost first."""
    locations: list[SourceLocation] = []
    trace = error.__traceback__
    while trace is not None:
        here = template_line(trace.tb_frame, trace.tb_lineno)
        if here is not None and locations[-1:] != [here]:
            locations.append(here)
        trace = trace.tb_next
    return locations[::-1]


def _location(lines: list[SourceLocation]) -> SourceLocation | None:
    if not lines:
        return None
    first, *chain = lines
    return SourceLocation(first.file, first.line, tuple(chain[:_CHAIN_LIMIT]))


def _with_line(message: str, templates: Templates, location: SourceLocation) -> str:
    line = templates.line(location)
    if message.startswith("mapping values are not allowed") and templates.joins_above(location):
        message = "-%} joins this line to the one above"
    return f"{message}: {line}" if line else message
