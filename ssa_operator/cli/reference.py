"""The reference: every name that users meet. The site shows it, and `ssa-operator help TOPIC` prints it.

Promises:
- A meaning is the docstring of a definition. A definition without one is an error that names it.
- The text depends on the code alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any

from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.tests import TESTS as JINJA_TESTS

from ssa_operator.objects import annotations as parent_annotations
from ssa_operator.objects import live_object, manifest
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.rollouts import revisions
from ssa_operator.reconcile.parent_records import rules as parent_records
from ssa_operator.rendering.jinja import filters, functions
from ssa_operator.tools.editor import vocabulary

_JINJA = "https://jinja.palletsprojects.com/en/stable/templates/"

RECORDED = (
    (parent_annotations, "FINALIZER"),
    (parent_records, "INVENTORY_ANNOTATION"),
    (parent_annotations, "UNCONVERTED"),
    (parent_annotations, "NOT_CONVERTED"),
    (parent_records, "ONCE_ANNOTATION"),
    (parent_records, "HELD_PRUNE_ANNOTATION"),
    (parent_records, "GENERATED_VALUES_ANNOTATION"),
    (parent_records, "REPLICAS_ANNOTATION"),
    (parent_records, "APPLIED_ANNOTATION"),
    (parent_records, "SELECTOR_ANNOTATION"),
    (parent_records, "REVISION_ANNOTATION"),
)
"""The constants of what the operator writes on a parent."""

LABELS = ((manifest, "MANAGED_BY_LABEL"), (live_object, "PARENT_UID_LABEL"), (live_object, "BUCKET_LABEL"))
"""The constants of labels of children."""

OF_REVISIONS = tuple(
    (revisions, name)
    for name in ("FOLDER_LABEL", "REVISION_LABEL", "PARTS_ANNOTATION", "ROLLOUT_LABEL", "STATE_ANNOTATION")
)
"""The constants of what the operator writes on ControllerRevisions."""


def text(topic: str, command: Any) -> str:
    """The reference about a topic, as Markdown, for the command `ssa-operator`. Raises ValueError for a definition
    without a description.
    """
    title, parts = _PARTS[topic]
    return "\n\n".join([f"# {title}", *parts(command)]) + "\n"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in cells)} |".replace("  ", " ") for cells in lines)


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", " ".join(text.split()))


def _templates(_: Any) -> Iterator[str]:
    yield "## Variables"
    yield _calls("variable", vocabulary.variables())
    yield "## Functions"
    yield _calls("function", vocabulary.own_functions())
    jinja = sorted(functions.FUNCTIONS.keys() - vocabulary.own_functions().keys())
    yield f"Jinja's own: {_names(jinja)}, `namespace` ([Jinja]({_JINJA}#list-of-global-functions))."
    yield "These names of Jinja can't be used:"
    yield table(("name", "reason"), ((f"`{name}`", text) for name, text in sorted(functions.REMOVED.items())))
    yield "## Filters"
    yield _calls("filter", vocabulary.own_filters())
    known = sorted((filters.FILTERS.keys() & JINJA_FILTERS.keys()) - {"tojson"})
    yield f"Jinja's own: {_names(known)} ([Jinja]({_JINJA}#list-of-builtin-filters))."
    yield "## Tests"
    yield _calls("test", vocabulary.own_tests())
    known = sorted(filters.TESTS.keys() & JINJA_TESTS.keys())
    yield f"Jinja's own: {_names(known)} ([Jinja]({_JINJA}#list-of-builtin-tests))."


def _calls(what: str, words: vocabulary.Words) -> str:
    return table((what, "meaning"), ((f"`{each.form}`", each.meaning) for each in words.values()))


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _metadata(_: Any) -> Iterator[str]:
    yield "## Annotations of a manifest"
    yield "They are instructions for the operator, which doesn't send them to the cluster."
    words = vocabulary.manifest_annotations().values()
    rows = ((f"`{each.name}`", each.meaning, each.form, each.default and f"`{each.default}`") for each in words)
    yield table(("annotation", "meaning", "values", "default"), rows)
    yield "## Annotations of a parent"
    words = vocabulary.parent_annotations().values()
    yield table(("annotation", "meaning"), ((f"`{each.name}`", each.meaning) for each in words))
    yield "## What the operator writes on a parent"
    yield _constants("name", RECORDED)
    yield "## Labels of children"
    yield _constants("label", LABELS)
    yield "## What is on a ControllerRevision"
    yield "They are in the operator's namespace."
    yield _constants("name", OF_REVISIONS)


def _constants(what: str, places: Iterable[tuple[ModuleType, str]]) -> str:
    """The values of constants of modules, with their docstrings."""
    words = [vocabulary.constant(*place) for place in places]
    return table((what, "meaning"), ((f"`{each.name}`", each.meaning) for each in words))


def _metrics(_: Any) -> Iterator[str]:
    yield "`/metrics` of `run` serves them."
    rows = ((f"`{each.name}`", each.type, _names(each.labels), each.documentation) for each in Metrics().definitions())
    yield table(("metric", "type", "labels", "meaning"), rows)


def _environment(command: Any) -> Iterator[str]:
    yield "Each option can be set by a variable. The option wins. Folders of a repeatable option are separated by `:`."
    found: dict[str, tuple[str, dict[str, None]]] = {}
    for words, user in commands(command):
        for each in user.params:
            if each.envvar:
                _, names = found.setdefault(str(each.envvar), (f"`{max(each.opts, key=len)}`", {}))
                names[f"`{' '.join(words)}`" if words else "all commands"] = None
    rows = ((f"`{name}`", option, ", ".join(names)) for name, (option, names) in sorted(found.items()))
    yield table(("variable", "option", "commands"), rows)
    yield "## Variables without an option"
    from ssa_operator.devcluster import binaries, cluster

    without_option = (binaries, "ASSETS_VARIABLE"), (binaries, "CACHE_DIRECTORY_VARIABLE")
    yield _constants("variable", (*without_option, (cluster, "STATE_DIRECTORY_VARIABLE")))


def commands(command: Any, *words: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """A command and all below it, each with its words."""
    yield words, command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, *words, name)


def _checks(_: Any) -> Iterator[str]:
    from ssa_operator.tools.checks.codes import CODES

    yield "`ssa-operator check --explain CODE` prints one of them."
    for code, found in CODES.items():
        yield f"## {code}"
        yield f"{str(found.severity).capitalize()}: {found.problem}."
        yield found.explanation


_PARTS: Mapping[str, tuple[str, Callable[[Any], Iterator[str]]]] = {
    "templates": ("What a template can use", _templates),
    "metadata": ("Labels, annotations and finalizers", _metadata),
    "metrics": ("Metrics", _metrics),
    "environment": ("Environment variables", _environment),
    "checks": ("Finding codes of check", _checks),
}
"""The title and the parts of each topic of `topics.REFERENCE`."""
