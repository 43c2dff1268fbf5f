"""The words that authors write, each with its form and its meaning: for the reference and for editors.

Promises:
- A meaning is the docstring of a definition. A definition without one is an error that names it.
- The words depend on the code alone.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import ModuleType
from typing import Any

from jinja2.filters import FILTERS as JINJA_FILTERS

from ssa_operator.objects.annotations import DEFAULT, PREFIX, Instructions
from ssa_operator.objects.parent_settings import AdoptPolicy, ParentSettings
from ssa_operator.rendering.folder.folder_settings import Settings
from ssa_operator.rendering.jinja import filters, functions, strategic_merge, text_filters
from ssa_operator.rendering.jinja.folder_files import FolderFiles
from ssa_operator.rendering.jinja.template_api import TemplateAPI
from ssa_operator.schema.short_schema.field_texts import TYPES

_WRAPPED: Mapping[str, Callable[..., Any]] = {
    "from_yaml": text_filters.from_yaml,
    "merge": strategic_merge.merge,
    "to_yaml": filters.to_yaml,
    "tojson": filters.to_json,
}
"""The functions of the filters that are not in OWN, because they accept template text as it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A name that authors write."""

    name: str
    form: str = ""
    """How it is written: a call with its arguments."""
    meaning: str = ""
    values: tuple[str, ...] = ()
    """The values that it may have, as YAML spells them; () for any."""
    default: str = ""


Words = Mapping[str, Word]
"""Words by their names."""


@cache
def variables() -> Words:
    """The variables of a template. Raises ValueError for one without a description."""
    described = {
        **functions.VARIABLE_DESCRIPTIONS,
        **functions.STATUS_DESCRIPTIONS,
        **functions.SETTING_DESCRIPTIONS,
    }
    missing = (functions.VARIABLES | functions.SETTINGS) - described.keys()
    if missing:
        raise ValueError(f"VARIABLE_DESCRIPTIONS in rendering/jinja/functions.py describes no {', '.join(missing)}")
    return {name: Word(name=name, form=name, meaning=text) for name, text in described.items()}


@cache
def own_functions() -> Words:
    """The functions of a template that are not Jinja's."""
    queries = {name: getattr(TemplateAPI, f"_{name}") for name in functions.CLUSTER_FUNCTIONS}
    others = {name: each for name, each in functions.FUNCTIONS.items() if _is_own(each)}
    found = {**queries, **FolderFiles().functions(), **others}
    return {name: call_of(name, each) for name, each in sorted(found.items())}


@cache
def own_filters() -> Words:
    """The filters of a template that are not Jinja's, or differ from those."""
    described = {**filters.OWN, **_WRAPPED}
    own = (filters.FILTERS.keys() - JINJA_FILTERS.keys()) | {"tojson"}
    if unknown := own - described.keys():
        raise ValueError(f"vocabulary._WRAPPED has no function for the filters {', '.join(unknown)}")
    return {name: call_of(name, described[name], skip=1) for name in sorted(own)}


@cache
def own_tests() -> Words:
    """The tests of a template that are not Jinja's."""
    return {name: call_of(name, each, skip=1) for name, each in sorted(filters.OWN_TESTS.items())}


def _is_own(function: Callable[..., Any]) -> bool:
    return str(getattr(function, "__module__", "")).startswith("ssa_operator.")


def call_of(name: str, function: Any, skip: int = 0) -> Word:
    """The call of a function or filter, and the first paragraph of its docstring. `skip` arguments are not written."""
    doc = inspect.getdoc(function)
    if not doc:
        raise ValueError(f"the function of {name} has no docstring ({function!r})")
    arguments = [each for each in inspect.signature(function).parameters.values() if each.name != "self"][skip:]
    shown = ", ".join(_argument(each) for each in arguments if not each.name.startswith("_"))
    call = f"{name}({shown})" if shown or not skip else name
    return Word(name=name, form=call, meaning=re.split(r"\n\n|\sRaises ", doc)[0].rstrip())


def _argument(argument: inspect.Parameter) -> str:
    prefix = "*" if argument.kind is argument.VAR_POSITIONAL else "**" if argument.kind is argument.VAR_KEYWORD else ""
    default = "" if argument.default is argument.empty else f"={_literal(argument.default)}"
    return f"{prefix}{argument.name}{default}"


def _literal(value: Any) -> str:
    if isinstance(value, bool | type(None)):
        return {True: "true", False: "false", None: "none"}[value]
    return f'"{value}"' if isinstance(value, str) else str(value)


# Annotations.

_INSTRUCTION_NAMES = {"finalize": "on"}
"""The annotations that have another name than their field."""

_INSTRUCTION_FORMS = {"after": "`Kind/name, ...`", "on": "`finalize`"}
"""The values of annotations whose type doesn't list them."""


@cache
def manifest_annotations() -> Words:
    """The annotations of a manifest, by their whole names."""
    words = map(_instruction, Instructions.__struct_fields__, class_docs(Instructions))
    return {word.name: word for word in words}


def _instruction(field: str, doc: str) -> Word:
    name = _INSTRUCTION_NAMES.get(field, field.replace("_", "-"))
    default = getattr(DEFAULT, field)
    if isinstance(default, StrEnum):
        values, form, default = tuple(map(str, type(default))), "", str(default)
    elif isinstance(default, bool) and name not in _INSTRUCTION_FORMS:
        values, form, default = ('"true"', '"false"'), "", f'"{str(default).lower()}"'
    else:
        values = ("finalize",) if name == "on" else ()
        form, default = _INSTRUCTION_FORMS.get(name, "an expression"), ""
    form = form or ", ".join(f"`{each}`" for each in values)
    return Word(name=PREFIX + name, form=form, meaning=doc, values=values, default=default)


@cache
def parent_annotations() -> Words:
    """The annotations of a parent, by their whole names."""
    from ssa_operator.reconcile import observe, suspension
    from ssa_operator.reconcile.orphaning import rules as orphaning

    places = (suspension, "ANNOTATION"), (observe, "RECONCILE_AT"), (orphaning, "ANNOTATION")
    return {word.name: word for word in (constant(*place) for place in places)}


def constant(module: ModuleType, name: str) -> Word:
    """The value of a constant of a module, and its docstring. Raises ValueError if it has none."""
    doc = docs_of(inspect.getsource(module)).get(name)
    if not doc:
        raise ValueError(f"{module.__name__}.{name} has no docstring")
    return Word(name=getattr(module, name), meaning=doc)


# Files of a template folder.

_SETTING_VALUES: Mapping[str, tuple[str, ...]] = {
    "clusterScope": ("true", "false"),
    "adopt": tuple(map(str, AdoptPolicy)),
}
_SETTING_FORMS = {
    "interval": "5s",
    "version": "v1",
    "formerManagers": "[helm]",
    "maxChildren": "5000",
    "maxDepth": "12",
    "renderLimit": "5s",
    "suspendWhen": "\"labels['example.com/pause'] == 'true'\"",
}


@cache
def settings() -> Words:
    """The keys of `_settings.yaml`."""
    docs: dict[str, str] = {}
    for kind in (ParentSettings, Settings):
        docs |= zip(kind.__annotations__, class_docs(kind), strict=True)
    return {name: _setting(name, doc) for name, doc in ((_camel_case(field), doc) for field, doc in docs.items())}


def _setting(name: str, doc: str) -> Word:
    values = _SETTING_VALUES.get(name, ())
    return Word(name=name, form=_SETTING_FORMS.get(name, " | ".join(values)), meaning=doc, values=values)


def _camel_case(field: str) -> str:
    first, *others = field.split("_")
    return first + "".join(map(str.capitalize, others))


def _words(rows: Iterable[tuple[str, str, str]]) -> Words:
    return {name: Word(name=name, form=form, meaning=meaning) for name, form, meaning in rows}


SCHEMA_KEYS = _words(
    (
        ("kind", "kind: Site", "The kind. The name of the folder has the plural and the API group."),
        ("group", "group: example.com", "The API group, which the name of the folder has already."),
        ("version", "version: v1", "The version, `v1alpha1` by default."),
        ("scope", "scope: Cluster", "`Namespaced` (the default) or `Cluster`."),
        ("shortNames", "shortNames: [st]", "Short names for `kubectl get`."),
        ("categories", "categories: [all]", "Categories for `kubectl get`."),
        ("spec", "spec: {replicas: integer}", "The fields of the spec."),
        ("status", "status: {address: string}", "The fields of the status, beside the operator's own."),
        ("types", "types: {Port: {number: integer}}", "Fields by a name, which other fields use as their type."),
        ("validation", "validation: [{rule: ..., message: ...}]", "CEL rules on the spec, which they call `self`."),
        ("columns", "columns: [{name: Size, path: .spec.size}]", "What `kubectl get` shows."),
        ("scale", "scale: {replicas: .spec.replicas}", "The fields for `kubectl scale` and autoscalers."),
        ("versions", "versions: {v1alpha1: {deprecated: write v1}}", "Older versions that stay served."),
    )
)
"""The keys of `_schema.yaml`."""

SCHEMA_MARKERS = _words(
    (
        ("required", "required", "The API server refuses an object without the field."),
        ("immutable", "immutable", "The field can be set, and then neither changed nor removed."),
        ("uniqueItems", "uniqueItems", "No two items of the list are equal."),
        ("default", "default=VALUE", "A text, a number, `true`, or JSON for lists and objects."),
        ("description", 'description="..."', "The description, for `kubectl explain`."),
        ("enum", "enum=a,b", "The allowed values; JSON if one of them has a comma."),
        ("minimum", "minimum=0", "The lowest number."),
        ("maximum", "maximum=9", "The highest number."),
        ("pattern", 'pattern="^[a-z]+$"', "A pattern that the text matches."),
        ("minLength", "minLength=1", "The fewest characters of the text."),
        ("maxLength", "maxLength=63", "The most characters of the text."),
        ("minItems", "minItems=1", "The fewest items of the list."),
        ("maxItems", "maxItems=9", "The most items of the list."),
    )
)
"""The markers of a field in `_schema.yaml`."""

SCHEMA_TYPES = (*TYPES, '"[]string"', '"map[string]string"')
"""The types of a field in `_schema.yaml`."""


def docs_of(source: str) -> dict[str, str]:
    """The docstrings of the assignments of a text, by name."""
    body = ast.parse(source).body
    return {
        name: inspect.cleandoc(after.value.value)
        for each, after in itertools.pairwise(body)
        for name in assigned(each)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    }


def assigned(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def class_docs(kind: type) -> list[str]:
    """The docstrings of the attributes of a class, in order. Raises ValueError if an attribute has none."""
    (node,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(node, ast.ClassDef)
    names = [name for each in node.body for name in assigned(each)]
    docs = docs_of("\n".join(map(ast.unparse, node.body)))
    missing = [name for name in names if name not in docs]
    if missing:
        raise ValueError(f"{kind.__module__}.{kind.__name__}: {', '.join(missing)} have no docstrings")
    return [docs[name] for name in names]
