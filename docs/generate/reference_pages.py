"""Makes docs/reference from the code: what templates can use, and every name that users meet.

Promises:
- A description is the docstring of a definition. A definition without one is an error that names it.
- The pages depend on the code alone.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.tests import TESTS as JINJA_TESTS
from typer.main import get_command

from docs.generate import openapi, promises
from docs.generate.attribute_docs import assigned, docs_of
from ssa_operator.cli.main import application_of
from ssa_operator.objects.annotations import DEFAULT, PREFIX, Instructions
from ssa_operator.objects.readiness import ReadinessState
from ssa_operator.operator.metrics import Metrics
from ssa_operator.reconcile.status.author_status import ConditionType
from ssa_operator.reconcile.status.verdict import ReadyReason
from ssa_operator.reconcile.step import FailureReason
from ssa_operator.rendering.jinja import filters, functions, strategic_merge, text_filters
from ssa_operator.rendering.jinja.folder_files import FolderFiles
from ssa_operator.rendering.jinja.template_api import TemplateAPI
from ssa_operator.tools.findings.codes import CODES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"

OPENAPI = "openapi.json"

_WRAPPED: Mapping[str, Callable[..., Any]] = {
    "from_yaml": text_filters.from_yaml,
    "merge": strategic_merge.merge,
    "to_yaml": filters.to_yaml,
    "tojson": filters.to_json,
}
"""The functions of the filters that are not in OWN, because they accept template text as it is."""

_NOTE = "<!-- `make docs` writes this page from the code. -->"
_PROMISES = "What each module promises. The tests of a folder are in the folder of the same name in `tests/`."
_JINJA = "https://jinja.palletsprojects.com/en/stable/templates/"
_OBJECTS = "ssa_operator.objects"
_RECORDS = "ssa_operator.reconcile.parent_records.rules"

PARENT_ANNOTATIONS = (
    ("ssa_operator.reconcile.suspension.rules", "ANNOTATION"),
    ("ssa_operator.reconcile.observation", "RECONCILE_AT"),
)
"""The constants of annotations that users set on a parent."""

RECORDED = (
    ("ssa_operator.objects.annotations", "FINALIZER"),
    (_RECORDS, "INVENTORY_ANNOTATION"),
    (_RECORDS, "ONCE_ANNOTATION"),
    (_RECORDS, "HELD_PRUNE_ANNOTATION"),
    (_RECORDS, "GENERATED_VALUES_ANNOTATION"),
    (_RECORDS, "REPLICAS_ANNOTATION"),
    (_RECORDS, "APPLIED_ANNOTATION"),
    (_RECORDS, "SELECTOR_ANNOTATION"),
)
"""The constants of what the operator writes on a parent."""

LABELS = (
    (f"{_OBJECTS}.manifest", "MANAGED_BY_LABEL"),
    (f"{_OBJECTS}.live_object", "PARENT_UID_LABEL"),
    (f"{_OBJECTS}.live_object", "BUCKET_LABEL"),
)
"""The constants of labels of children."""

VARIABLES = (
    ("ssa_operator.cli.application", "DEBUG"),
    ("ssa_operator.devcluster.binaries", "ASSETS_VARIABLE"),
    ("ssa_operator.devcluster.binaries", "CACHE_DIRECTORY_VARIABLE"),
    ("ssa_operator.devcluster.cluster", "STATE_DIRECTORY_VARIABLE"),
)
"""The constants of environment variables that belong to no option."""


def pages() -> Mapping[Path, str]:
    """The text of each page. Raises ValueError for a definition without a description."""
    made = {
        "templates": ("What a template can use", _templates()),
        "metadata": ("Labels, annotations and finalizers", _metadata()),
        "status": ("Conditions, reasons and states", _status()),
        "metrics": ("Metrics", _metrics()),
        "environment": ("Environment variables", _environment()),
        "checks": ("Finding codes of check", _checks()),
        "promises": ("Promises", [_PROMISES, *promises.sections(ROOT / "ssa_operator")]),
    }
    found = {FOLDER / f"{name}.md": _page(title, parts) for name, (title, parts) in made.items()}
    index = [f"- [{title}]({name}.md)" for name, (title, _) in made.items()]
    index.append(f"- [The JSON of the web view]({OPENAPI}), as an OpenAPI document")
    commands = "- [Commands](../commands/README.md), with their options, exit codes and JSON"
    readme = _page("Reference", ["\n".join([commands, *index])])
    return {FOLDER / "README.md": readme, FOLDER / OPENAPI: openapi.text(), **found}


def write() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


def _page(title: str, parts: Iterable[str]) -> str:
    return "\n\n".join([f"# {title}", _NOTE, *parts]) + "\n"


def _templates() -> Iterator[str]:
    yield "[Writing templates](../templates.md) explains them, with examples."
    yield "## Variables"
    missing = (functions.VARIABLES | functions.SETTINGS) - dict(_variables()).keys()
    if missing:
        raise ValueError(f"VARIABLE_DESCRIPTIONS in rendering/jinja/functions.py describes no {', '.join(missing)}")
    yield _table(("variable", "meaning"), ((f"`{name}`", text) for name, text in _variables()))
    yield "## Functions"
    queries = {name: getattr(TemplateAPI, f"_{name}") for name in functions.CLUSTER_FUNCTIONS}
    files = FolderFiles().functions()
    others = {name: each for name, each in functions.FUNCTIONS.items() if _is_own(each)}
    yield _table(
        ("function", "result"), (_function(name, each) for name, each in sorted({**queries, **files, **others}.items()))
    )
    jinja = sorted(functions.FUNCTIONS.keys() - others.keys())
    yield f"Jinja's own: {_names(jinja)}, `namespace` ([Jinja]({_JINJA}#list-of-global-functions))."
    yield "These names of Jinja can't be used:"
    yield _table(("name", "reason"), ((f"`{name}`", text) for name, text in sorted(functions.REMOVED.items())))
    yield "## Filters"
    described = {**filters.OWN, **_WRAPPED}
    own = (filters.FILTERS.keys() - JINJA_FILTERS.keys()) | {"tojson"}
    if unknown := own - described.keys():
        raise ValueError(f"reference_pages._WRAPPED has no function for the filters {', '.join(unknown)}")
    yield _table(
        ("filter", "result"),
        (_function(name, described[name], skip=1) for name in sorted(own)),
    )
    known = sorted((filters.FILTERS.keys() & JINJA_FILTERS.keys()) - {"tojson"})
    yield f"Jinja's own: {_names(known)} ([Jinja]({_JINJA}#list-of-builtin-filters))."
    yield "## Tests"
    yield _table(("test", "result"), (_function(*each, skip=1) for each in sorted(filters.OWN_TESTS.items())))
    names = sorted(filters.TESTS.keys() & JINJA_TESTS.keys())
    yield f"Jinja's own: {_names(names)} ([Jinja]({_JINJA}#list-of-builtin-tests))."


def _variables() -> Iterator[tuple[str, str]]:
    yield from {
        **functions.VARIABLE_DESCRIPTIONS,
        **functions.STATUS_DESCRIPTIONS,
        **functions.SETTING_DESCRIPTIONS,
    }.items()


def _is_own(function: Callable[..., Any]) -> bool:
    return str(getattr(function, "__module__", "")).startswith("ssa_operator.")


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _function(name: str, function: Any, skip: int = 0) -> tuple[str, str]:
    """The call of a function or filter, and the first paragraph of its docstring. `skip` arguments are not written."""
    doc = inspect.getdoc(function)
    if not doc:
        raise ValueError(f"the function of {name} has no docstring ({function!r})")
    arguments = [each for each in inspect.signature(function).parameters.values() if each.name != "self"][skip:]
    shown = ", ".join(_argument(each) for each in arguments if not each.name.startswith("_"))
    call = f"{name}({shown})" if shown or not skip else name
    return f"`{call}`", re.split(r"\n\n|\s+Raises ", doc)[0]


def _argument(argument: inspect.Parameter) -> str:
    prefix = "*" if argument.kind is argument.VAR_POSITIONAL else "**" if argument.kind is argument.VAR_KEYWORD else ""
    default = "" if argument.default is argument.empty else f"={_literal(argument.default)}"
    return f"{prefix}{argument.name}{default}"


def _literal(value: Any) -> str:
    if isinstance(value, bool | type(None)):
        return {True: "true", False: "false", None: "none"}[value]
    return f'"{value}"' if isinstance(value, str) else str(value)


def _metadata() -> Iterator[str]:
    yield "## Annotations of a manifest"
    yield "They are instructions for the operator, which doesn't send them to the cluster."
    docs = _attribute_docs(Instructions)
    yield _table(
        ("annotation", "meaning", "values", "default"), map(_instruction, Instructions.__struct_fields__, docs)
    )
    yield "## Annotations of a parent"
    yield _table(("annotation", "meaning"), map(_constant, PARENT_ANNOTATIONS))
    yield "## What the operator writes on a parent"
    yield _table(("name", "meaning"), map(_constant, RECORDED))
    yield "## Labels of children"
    yield _table(("label", "meaning"), map(_constant, LABELS))


_INSTRUCTION_NAMES = {"finalize": "on"}
"""The annotations that have another name than their field."""

_INSTRUCTION_VALUES = {"after": "`Kind/name, ...`", "on": "`finalize`"}
"""The values of annotations whose type doesn't list them."""


def _instruction(field: str, doc: str) -> tuple[str, str, str, str]:
    name = _INSTRUCTION_NAMES.get(field, field.replace("_", "-"))
    default = getattr(DEFAULT, field)
    if isinstance(default, StrEnum):
        return f"`{PREFIX}{name}`", doc, ", ".join(f"`{each}`" for each in type(default)), f"`{default}`"
    if isinstance(default, bool) and name not in _INSTRUCTION_VALUES:
        return f"`{PREFIX}{name}`", doc, '`"true"`, `"false"`', f'`"{str(default).lower()}"`'
    return f"`{PREFIX}{name}`", doc, _INSTRUCTION_VALUES.get(name, "an expression"), ""


def _status() -> Iterator[str]:
    yield "[Running an operator](../operation.md#status) explains them."
    yield "## Conditions"
    yield _table(("condition", "meaning"), _members(ConditionType))
    yield "## Reasons of Ready"
    yield _table(("reason", "meaning"), [*_members(ReadyReason), *_members(FailureReason)])
    yield "## States of children"
    yield "Each entry of `status.resources` has one in `state`."
    yield _table(("state", "meaning"), _members(ReadinessState))


def _members(kind: type[StrEnum]) -> Iterator[tuple[str, str]]:
    return ((f"`{member}`", doc) for member, doc in zip(kind, _attribute_docs(kind), strict=True))


def _metrics() -> Iterator[str]:
    yield "`/metrics` of `run` serves them ([Running an operator](../operation.md#http))."
    yield _table(
        ("metric", "type", "labels", "meaning"),
        (
            (f"`{metric.name}`", metric.type, _names(metric.labels), metric.documentation)
            for metric in Metrics().definitions()
        ),
    )


def _environment() -> Iterator[str]:
    yield "Each option can be set by a variable. The option wins. Folders of a repeatable option are separated by `:`."
    rows: dict[str, dict[str, list[str]]] = {}
    for words, command in _commands(get_command(application_of())):
        for parameter in command.params:
            if parameter.envvar:
                options = rows.setdefault(str(parameter.envvar), {})
                option = max(parameter.opts, key=len)
                options.setdefault(option, []).append(f"`{words}`" if words else "all commands")
    yield _table(
        ("variable", "option", "commands"),
        (
            (f"`{variable}`", ", ".join(f"`{each}`" for each in options), ", ".join(_unique(options.values())))
            for variable, options in sorted(rows.items())
        ),
    )
    yield "## Variables without an option"
    yield _table(("variable", "meaning"), map(_constant, VARIABLES))


def _unique(groups: Iterable[list[str]]) -> list[str]:
    return list(dict.fromkeys(each for group in groups for each in group))


def _commands(command: Any, *words: str) -> Iterator[tuple[str, Any]]:
    yield " ".join(words), command
    for name, each in getattr(command, "commands", {}).items():
        yield from _commands(each, *words, name)


def _checks() -> Iterator[str]:
    yield "`ssa-operator check --explain CODE` prints the same."
    for code, found in CODES.items():
        yield f"## {code}"
        yield f"{str(found.severity).capitalize()}: {found.title}."
        yield found.explanation


def _constant(place: tuple[str, str]) -> tuple[str, str]:
    """The value of a constant of a module, and its docstring."""
    module = importlib.import_module(place[0])
    doc = docs_of(inspect.getsource(module)).get(place[1])
    if not doc:
        raise ValueError(f"{place[0]}.{place[1]} has no docstring")
    return f"`{getattr(module, place[1])}`", doc


def _attribute_docs(kind: type) -> list[str]:
    """The docstrings of the attributes of a class, in order."""
    (node,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(node, ast.ClassDef)
    names = [name for each in node.body for name in assigned(each)]
    docs = docs_of("\n".join(map(ast.unparse, node.body)))
    missing = [name for name in names if name not in docs]
    if missing:
        raise ValueError(f"{kind.__module__}.{kind.__name__}: {', '.join(missing)} have no docstrings")
    return [docs[name] for name in names]


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *(row for row in rows if row)]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in cells)} |".replace("  ", " ") for cells in lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))
