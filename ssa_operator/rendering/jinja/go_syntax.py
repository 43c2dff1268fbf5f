"""What to write instead of the syntax of Go templates, which Helm's charts have: one function for every message.

Promises:
- `check`, `render`, `dev` and the status of a parent give the same hint for the same line.
"""

from __future__ import annotations

import re

from ssa_operator.rendering.jinja.unknown_names import suggest_name

GO_SYNTAX = "this is the syntax of a Go template"

GO_KEYWORDS = frozenset({"block", "define", "else", "end", "if", "template", "with"})
"""Keywords that Jinja reads as variables: `{{ if .Values.x }}` is a field of a variable `if`."""

_REPLACEMENTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\{\{-?\s*/\*"), "write a comment as {# ... #}"),
    (re.compile(r"\{\{-?\s*(?:if|else\s+if|with)\b"), "write {% if ... %}, {% elif ... %} and {% with a = b %}"),
    (re.compile(r"\{\{-?\s*(?:else|end)\s*-?\}\}"), "write {% else %}, and {% endif %} or {% endfor %}"),
    (re.compile(r"\{\{-?\s*range\b"), "write {% for item in list %}, or {% for key, value in mapping | items %}"),
    (re.compile(r"\{\{-?\s*define\b"), "write a macro: {% macro name(argument) %}, in a file whose name begins with _"),
    (re.compile(r"\{\{-?\s*(?:include|template)\s+\""), suggest_name("include", ()).text),
    (re.compile(r"\{\{-?\s*tpl\b"), suggest_name("tpl", ()).text),
    (re.compile(r"\{\{-?\s*\$\w*\s*:?="), "write {% set name = value %}"),
    (re.compile(r"\{\{[^{}]*?[\s(]\.Values\b|\{\{-?\.Values\b"), suggest_name("Values", ()).text),
    (re.compile(r"\{\{[^{}]*?[\s(]\.Release\b|\{\{-?\.Release\b"), suggest_name("Release", ()).text),
    (re.compile(r"\{\{[^{}]*?[\s(]\.Chart\b|\{\{-?\.Chart\b"), suggest_name("Chart", ()).text),
    (re.compile(r"\{\{[^{}]*?[\s(]\.Files\b|\{\{-?\.Files\b"), suggest_name("Files", ()).text),
    (re.compile(r"\{\{[^{}]*?[\s(]\.Capabilities\b|\{\{-?\.Capabilities\b"), suggest_name("Capabilities", ()).text),
    (re.compile(r"\{\{-?\s*quote\b"), suggest_name("quote", ()).text),
    (re.compile(r"\{\{[^{}]*?\blookup\s+[\"$.]"), "call lookup(apiVersion, kind, name, namespace='...')"),
    (re.compile(r"\{\{[^{}]*?\bprintf\s+\""), suggest_name("printf", ()).text),
    (re.compile(r"\{\{-?\s*default\s+[\"'\w]"), suggest_name("default", ()).text),
    (re.compile(r"\{\{-?\s*toYaml\s+\S"), suggest_name("toYaml", ()).text),
    (re.compile(r"\{\{-?\s*toJson\s+\S"), suggest_name("toJson", ()).text),
    (re.compile(r"\{\{-?\s*\.[A-Za-z]?"), "write the name without a dot: {{ item.name }}"),
    (re.compile(r"\|\s*(?:n?indent|default|trunc)\s+[^\s|}]"), "write the arguments of a filter in parentheses"),
)
"""The syntax of Go templates, each with its replacement; the first match of a line counts."""


def jinja_for(line: str) -> str | None:
    """What to write instead of a line with the syntax of Go templates; None for any other line."""
    return next((fix for pattern, fix in _REPLACEMENTS if pattern.search(line)), None)


def with_go_hint(message: str, line: str) -> str:
    """The message about a line that Jinja can't read or render, with what to write if it is a Go template's."""
    fix = jinja_for(line)
    return message if fix is None else f"{message}; {GO_SYNTAX}: {fix}"
