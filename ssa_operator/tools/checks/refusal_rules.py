"""Rules about what the API server refuses in manifests beyond their schemas: names, labels, containers and ports.

Promises:
- A rule is that of `schema/manifest_validation.py`. A name or label that is wrong has a suggestion, where one is near.
- No finding shows a value of a Secret, or of a manifest that reads one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ssa_operator.objects.messages import near_names
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.schema.field_errors import ErrorType, FieldError, as_json
from ssa_operator.schema.manifest_validation import name_faults, validate_manifest
from ssa_operator.tools.findings.findings import Finding, field_finding, short_words, shows_values

_NAMES = ("labels", "annotations", "matchLabels", "selector")


def check_refusals(documents: Iterable[Document]) -> list[Finding]:
    """The findings in manifests."""
    return [finding for document in documents for finding in _check(document)]


def _check(document: Document) -> Iterator[Finding]:
    seen = set()
    for error in validate_manifest(document.identity.group_kind, document.body):
        if error.path not in seen:  # too long and of wrong characters is one mistake
            seen.add(error.path)
            yield _finding(document, error)


def _finding(document: Document, error: FieldError) -> Finding:
    path = error.path
    if path[-1:] == ("image",) and error.type is ErrorType.REQUIRED:
        name = value_at(document.body, (*path[:-1], "name"))
        message = f"is missing: container {name} has no image" if isinstance(name, str) else "is missing"
        return field_finding(document, "missing-field", path, message, "")
    if error.type is ErrorType.REQUIRED:
        if error.detail and isinstance(value_at(document.body, path), Mapping):  # a part of it is missing
            message = error.detail if error.detail.startswith("must ") else f"is incomplete: {error.detail}"
            return field_finding(document, "missing-field", path, message, "")
        message = f"is missing; {error.detail}" if error.detail else "is missing"
        return field_finding(document, "missing-field", path, message, "")
    if error.type is ErrorType.FORBIDDEN:
        return field_finding(document, "invalid-value", path, f"must not be set: {error.detail}", "remove it")
    if error.type is ErrorType.DUPLICATE:
        shown = f"is {shown_value(error.value)}, which" if shows_values(document) else "has a value that"
        return field_finding(document, "duplicate-item", path, f"{shown} another item has, too", "")
    if error.type in (ErrorType.TOO_LONG, ErrorType.TOO_MANY):
        return field_finding(document, "invalid-value", path, f"is refused: {error.detail}", "")
    if error.type is ErrorType.NOT_SUPPORTED:
        allowed = re.findall(r'"([^"]*)"', error.detail)
        words = f"must be {' or '.join(allowed)}"
        shown = f"is {shown_value(error.value)}, and " if shows_values(document) else ""
        near = [each for each in allowed if each.lower() == str(error.value).lower()]
        near = near or near_names(str(error.value), allowed)
        fix = f"did you mean {near[0]}?" if near and shows_values(document) else ""
        return field_finding(document, "invalid-value", path, f"{shown}{words}", fix)
    if error.detail.startswith("may not be ") and error.value in ("", None, [], {}):
        return field_finding(
            document, "invalid-value", path, f"must not be set: it {error.detail}", "remove one of both"
        )
    is_name = (bool(path) and path[-1] == "name") or any(part in _NAMES for part in path)
    words = short_words(error.detail)
    message = f"is {shown_value(error.value)}: {words}" if shows_values(document) else f"is refused: {words}"
    is_text = isinstance(error.value, str) and error.value
    fix = _suggestion(document, path, error.value) if is_name and is_text and shows_values(document) else ""
    return field_finding(document, "invalid-name" if is_name else "invalid-value", path, message, fix)


_SHOWN = 100


def shown_value(value: Any) -> str:
    """A value in a message: a text as it is written, and all else as JSON; the beginning of a long one."""
    if isinstance(value, str):
        text = value or "empty"
    else:
        try:
            text = as_json(value)
        except (TypeError, ValueError):
            text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


_SHELL = re.compile(r"\$\{?(\w+)}?|<(\w+)>")


def _suggestion(document: Document, path: FieldPath, value: Any) -> str:
    """What to write instead of a name or a label's value, as a sentence; '' for none."""
    text = str(value)
    if found := _SHELL.fullmatch(text):
        return f"write {{{{ {found[1] or found[2]} }}}}"
    if "{{" in text or "{%" in text:
        return ""
    is_label = path[-1] != "name"
    better = re.sub(r"[^\w.-]+", "-", text, flags=re.ASCII).strip("-_.")
    better = better if is_label else better.replace("_", "-").lower()
    if not is_label and path == ("metadata", "name") and name_faults(document.identity.group_kind)(better):
        better = better.replace(".", "-")
    if better and better != text and len(better) <= 63:
        return (
            f"write {better}, or a lower filter: {{{{ ... | lower }}}}" if better == text.lower() else f"write {better}"
        )
    return ""
