"""What to write instead of names that templates don't have, and of the syntax of Go templates, as in Helm's charts.

Promises:
- For a name of Helm, Sprig or Ansible, the suggestion is the name that does the same here, or the reason why none is
  needed.
- For a misspelt name, the suggestion is the nearest existing one.
- `rename` is set only if the new name means the same, so that a program may write it.
- `check`, `render`, `dev` and the status of a parent give the same hint for the same line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from msgspec import Struct

from ssa_operator.objects.messages import near_names


class Suggestion(Struct, frozen=True):
    """What to write instead of an unknown name."""

    text: str
    """An instruction or a question, to follow a semicolon; '' without any."""
    rename: str = ""
    """The name with the same meaning, '' if there is none."""


_RENAMED_FILTERS: Mapping[str, str] = {
    "b64dec": "b64decode",
    "b64enc": "b64encode",
    "combine": "merge",
    "fromJson": "from_json",
    "fromYaml": "from_yaml",
    "mergeOverwrite": "merge",
    "regexReplaceAll": "regex_replace",
    "sha256sum": "sha256",
    "squote": "string",
    "toJson": "tojson",
    "toString": "string",
    "toYaml": "to_yaml",
    "to_json": "tojson",
    "to_nice_json": "tojson",
    "to_nice_yaml": "to_yaml",
}
"""Filters of Helm, Sprig and Ansible, each with ours that does the same."""

_NOT_SAME = frozenset({"combine", "mergeOverwrite", "regexReplaceAll", "squote", "to_nice_json"})
"""Filters whose namesake here takes other arguments, or gives another text."""

_FILTERS: Mapping[str, str] = {
    "bool": "a value keeps its type; compare with == 'true' if it is a string",
    "coalesce": "write a | default(b) | default(c)",
    "dict2items": "write mapping | items",
    "empty": "write `not x`, or `x | default('') == ''`",
    "fail": "call fail('message')",
    "hasKey": "write 'key' in mapping",
    "include": "call a macro: {% import '_macros.yaml.j2' as macros %}, then {{ macros.name(...) }}",
    "kebabcase": "write k8s_name for a legal name of an object",
    "mandatory": "call required(value, 'message')",
    "nindent": "write `key: {{ value }}`: a whole value keeps its structure at any depth; text in a block takes indent",
    "now": "templates have no clock, because a render must always be the same; expired('1h') is the age of the parent",
    "quote": "no value can become YAML syntax, so quote is not needed; `{{ x }}` keeps the type of x, and "
    "`{{ x | string }}` is always a string",
    "randAlphaNum": "call generated(length), which is drawn once and kept",
    "required": "call required(value, 'message')",
    "ternary": "write `a if condition else b`",
    "tpl": "values are data and are never rendered; put the text into the template",
    "trimSuffix": "write x.removesuffix('...')",
    "trimPrefix": "write x.removeprefix('...')",
    "trunc": "write x[:63], or k8s_name for a legal name of an object",
}
"""Filters of Helm, Sprig and Ansible without a namesake that does the same."""

_BOTH = ("coalesce", "hasKey", "include", "nindent", "now", "quote", "randAlphaNum", "ternary", "tpl")
"""Names that other languages have as filters and as functions."""

_NAMES: Mapping[str, str] = {
    **{name: _FILTERS[name] for name in _BOTH},
    "Capabilities": "use api_available(apiVersion, kind) and kubernetes_version",
    "Chart": "a folder of templates is no chart; the version of the operator is operator.version",
    "Files": "use read_file('name') and read_files('*.json')",
    "Release": "use name and namespace, which are those of the parent",
    "Values": "use spec, which is the parent's, or values for the settings of the installation",
    "cr": "use spec, name and namespace, which are those of the parent; object is all of it",
    "parent": "use spec, name and namespace, which are those of the parent; object is all of it",
    "item": "a loop names its variable: {% for item in list %}",
    "null": "write none",
    "nil": "write none",
    "end": "end a block with {% endif %}, {% endfor %} or {% endmacro %}",
    "env": "templates have no environment; use spec, or values for the settings of the installation",
    "printf": "write '%s-%s' | format(a, b), or a ~ '-' ~ b",
    "toYaml": "write value | to_yaml",
    "toJson": "write value | tojson",
    "list": "write [a, b]",
    "default": "write value | default(other)",
    "indent": "write text | indent(4)",
}
"""Functions and variables of Helm, Sprig and Ansible."""

_TESTS: Mapping[str, str] = {
    "empty": "write `is not defined`, or `not x`",
    "failed": "read the conditions of the object's status",
    "match": "use regex_search",
    "search": "use regex_search",
}
"""Tests of Ansible."""


def suggest_filter(name: str, known: Iterable[str]) -> Suggestion:
    """What to write instead of an unknown filter."""
    return _suggest(name, sorted(known), _FILTERS, _RENAMED_FILTERS)


def suggest_test(name: str, known: Iterable[str]) -> Suggestion:
    """What to write instead of an unknown test."""
    return _suggest(name, sorted(known), _TESTS, {})


def suggest_name(name: str, known: Iterable[str], *, list_known: bool = True) -> Suggestion:
    """What to write instead of an unknown function or variable."""
    names = sorted(known)
    found = _suggest(name, names, _NAMES, {})
    return found if found.text or not list_known else Suggestion(f"templates see {', '.join(names)}")


def is_foreign(name: str) -> bool:
    """Whether other template languages have a function or variable of that name."""
    return name in _NAMES


def _suggest(name: str, known: list[str], foreign: Mapping[str, str], renamed: Mapping[str, str]) -> Suggestion:
    target = renamed.get(name)
    if target in known:
        return Suggestion(f"write {target}", "" if name in _NOT_SAME else target)
    if name in foreign:
        return Suggestion(foreign[name])
    same = next((each for each in known if _folded(each) == _folded(name)), None)
    if same is not None:
        return Suggestion(f"write {same}", same)
    near = near_names(name, known) or near_names(name.lower(), known)
    return Suggestion(f"did you mean {near[0]}?" if near else "")


def _folded(name: str) -> str:
    return name.replace("_", "").lower()


GO_SYNTAX = "this is the syntax of a Go template"

GO_KEYWORDS = frozenset({"block", "define", "else", "end", "if", "template", "with"})
"""Keywords that Jinja reads as variables: `{{ if .Values.x }}` is a field of a variable `if`."""

_REPLACEMENTS: tuple[tuple[str, str], ...] = (
    (r"\{\{-?\s*/\*", "write a comment as {# ... #}"),
    (r"\{\{-?\s*(?:if|else\s+if|with)\b", "write {% if ... %}, {% elif ... %} and {% with a = b %}"),
    (r"\{\{-?\s*(?:else|end)\s*-?\}\}", "write {% else %}, and {% endif %} or {% endfor %}"),
    (r"\{\{-?\s*range\b", "write {% for item in list %}, or {% for key, value in mapping | items %}"),
    (r"\{\{-?\s*define\b", "write a macro: {% macro name(argument) %}, in a file whose name begins with _"),
    (r"\{\{-?\s*(?:include|template)\s+\"", _NAMES["include"]),
    (r"\{\{-?\s*tpl\b", _NAMES["tpl"]),
    (r"\{\{-?\s*\$\w*\s*:?=", "write {% set name = value %}"),
    (r"\{\{[^{}]*?[\s(]\.Values\b|\{\{-?\.Values\b", _NAMES["Values"]),
    (r"\{\{[^{}]*?[\s(]\.Release\b|\{\{-?\.Release\b", _NAMES["Release"]),
    (r"\{\{[^{}]*?[\s(]\.Chart\b|\{\{-?\.Chart\b", _NAMES["Chart"]),
    (r"\{\{[^{}]*?[\s(]\.Files\b|\{\{-?\.Files\b", _NAMES["Files"]),
    (r"\{\{[^{}]*?[\s(]\.Capabilities\b|\{\{-?\.Capabilities\b", _NAMES["Capabilities"]),
    (r"\{\{-?\s*quote\b", _NAMES["quote"]),
    (r"\{\{[^{}]*?\blookup\s+[\"$.]", "call lookup(apiVersion, kind, name, namespace='...')"),
    (r"\{\{[^{}]*?\bprintf\s+\"", _NAMES["printf"]),
    (r"\{\{-?\s*default\s+[\"'\w]", _NAMES["default"]),
    (r"\{\{-?\s*toYaml\s+\S", _NAMES["toYaml"]),
    (r"\{\{-?\s*toJson\s+\S", _NAMES["toJson"]),
    (r"\{\{-?\s*\.[A-Za-z]?", "write the name without a dot: {{ item.name }}"),
    (r"\|\s*(?:n?indent|default|trunc)\s+[^\s|}]", "write the arguments of a filter in parentheses"),
)
"""The syntax of Go templates, each with its replacement; the first match of a line counts."""


def jinja_for(line: str) -> str | None:
    """What to write instead of a line with the syntax of Go templates; None for any other line."""
    return next((fix for pattern, fix in _REPLACEMENTS if re.search(pattern, line)), None)


def with_go_hint(message: str, line: str) -> str:
    """The message about a line that Jinja can't read or render, with what to write if it is a Go template's."""
    fix = jinja_for(line)
    return message if fix is None else f"{message}; {GO_SYNTAX}: {fix}"
