"""Makes docs/reference from the code: what templates can use, and every name that users meet.

Promises:
- A description is the docstring of a definition. A definition without one is an error that names it.
- The pages depend on the code alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.tests import TESTS as JINJA_TESTS
from typer.main import get_command

from docs.generate import openapi, promises
from ssa_operator.cli.main import application_of
from ssa_operator.objects.readiness import ReadinessState
from ssa_operator.operator.metrics import Metrics
from ssa_operator.reconcile.status.author_status import ConditionType
from ssa_operator.reconcile.status.verdict import ReadyReason
from ssa_operator.reconcile.step import FailureReason
from ssa_operator.rendering.jinja import filters, functions
from ssa_operator.tools.editor import vocabulary
from ssa_operator.tools.editor.attribute_docs import class_docs
from ssa_operator.tools.editor.vocabulary import Word
from ssa_operator.tools.findings.codes import CODES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "reference"

OPENAPI = "openapi.json"

_NOTE = "<!-- `make docs` writes this page from the code. -->"
_PROMISES = "What each module promises. The tests of a folder are in the folder of the same name in `tests/`."
_JINJA = "https://jinja.palletsprojects.com/en/stable/templates/"
_OBJECTS = "ssa_operator.objects"
_RECORDS = "ssa_operator.reconcile.parent_records.rules"

RECORDED = (
    ("ssa_operator.objects.annotations", "FINALIZER"),
    (_RECORDS, "INVENTORY_ANNOTATION"),
    ("ssa_operator.objects.annotations", "UNCONVERTED"),
    ("ssa_operator.objects.annotations", "NOT_CONVERTED"),
    (_RECORDS, "ONCE_ANNOTATION"),
    (_RECORDS, "HELD_PRUNE_ANNOTATION"),
    (_RECORDS, "GENERATED_VALUES_ANNOTATION"),
    (_RECORDS, "REPLICAS_ANNOTATION"),
    (_RECORDS, "APPLIED_ANNOTATION"),
    (_RECORDS, "SELECTOR_ANNOTATION"),
    (_RECORDS, "REVISION_ANNOTATION"),
)
"""The constants of what the operator writes on a parent."""

LABELS = (
    (f"{_OBJECTS}.manifest", "MANAGED_BY_LABEL"),
    (f"{_OBJECTS}.live_object", "PARENT_UID_LABEL"),
    (f"{_OBJECTS}.live_object", "BUCKET_LABEL"),
)
"""The constants of labels of children."""

_REVISIONS = "ssa_operator.operator.rollouts.revisions"
OF_REVISIONS = (
    (_REVISIONS, "FOLDER_LABEL"),
    (_REVISIONS, "REVISION_LABEL"),
    (_REVISIONS, "PARTS_ANNOTATION"),
    (_REVISIONS, "ROLLOUT_LABEL"),
    (_REVISIONS, "STATE_ANNOTATION"),
)
"""The constants of what the operator writes on ControllerRevisions."""

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
    yield _table(("variable", "meaning"), _calls(vocabulary.variables()))
    yield "## Functions"
    yield _table(("function", "result"), _calls(vocabulary.own_functions()))
    jinja = sorted(functions.FUNCTIONS.keys() - vocabulary.own_functions().keys())
    yield f"Jinja's own: {_names(jinja)}, `namespace` ([Jinja]({_JINJA}#list-of-global-functions))."
    yield "These names of Jinja can't be used:"
    yield _table(("name", "reason"), ((f"`{name}`", text) for name, text in sorted(functions.REMOVED.items())))
    yield "## Filters"
    yield _table(("filter", "result"), _calls(vocabulary.own_filters()))
    known = sorted((filters.FILTERS.keys() & JINJA_FILTERS.keys()) - {"tojson"})
    yield f"Jinja's own: {_names(known)} ([Jinja]({_JINJA}#list-of-builtin-filters))."
    yield "## Tests"
    yield _table(("test", "result"), _calls(vocabulary.own_tests()))
    names = sorted(filters.TESTS.keys() & JINJA_TESTS.keys())
    yield f"Jinja's own: {_names(names)} ([Jinja]({_JINJA}#list-of-builtin-tests))."


def _calls(words: Mapping[str, Word]) -> Iterator[tuple[str, str]]:
    return ((f"`{each.form}`", each.meaning) for each in words.values())


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _metadata() -> Iterator[str]:
    yield "## Annotations of a manifest"
    yield "They are instructions for the operator, which doesn't send them to the cluster."
    words = vocabulary.manifest_annotations().values()
    rows = ((f"`{each.name}`", each.meaning, each.form, each.default and f"`{each.default}`") for each in words)
    yield _table(("annotation", "meaning", "values", "default"), rows)
    yield "## Annotations of a parent"
    words = vocabulary.parent_annotations().values()
    yield _table(("annotation", "meaning"), ((f"`{each.name}`", each.meaning) for each in words))
    yield "## What the operator writes on a parent"
    yield _table(("name", "meaning"), map(_constant, RECORDED))
    yield "## Labels of children"
    yield _table(("label", "meaning"), map(_constant, LABELS))
    yield "## What is on a ControllerRevision"
    yield "They are in the operator's namespace ([rollouts](../rollouts.md#where-revisions-are))."
    yield _table(("name", "meaning"), map(_constant, OF_REVISIONS))


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
    return ((f"`{member}`", doc) for member, doc in zip(kind, class_docs(kind), strict=True))


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
    word = vocabulary.constant(*place)
    return f"`{word.name}`", word.meaning


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *(row for row in rows if row)]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in cells)} |".replace("  ", " ") for cells in lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))
