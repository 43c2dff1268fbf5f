"""Rules about values that the text of a template has: passwords, and scalars that kubectl and Helm read otherwise.

Promises:
- A value is a finding only where the line of the template has it, a scalar without quotes: no expression gives it.
- A password is looked for in Secrets and in the variables of containers, by names that say password, secret key or API
  key. No finding shows its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.manifest import POD_SPECS
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, SourceLocation, value_at
from ssa_operator.rendering.yaml.documents import SAME, kubectl_scalar
from ssa_operator.schema.field_errors import mapping_items
from ssa_operator.tools.findings.findings import Finding, field_finding

_NAME = re.compile(
    r"(?:^|[-_.])(?:passw(?:or)?d|passphrase|secret[-_]?key|api[-_]?key|private[-_]?key)$", re.IGNORECASE
)


def check_passwords(documents: Iterable[Document], files: Mapping[str, str]) -> list[Finding]:
    """The findings in the manifests of a parent. `files` are the texts of templates, by what locations call them."""
    return [
        field_finding(document, "plain-password", path, "has a password in the text of the template", fix)
        for document in documents
        for path, name, value, fix in _secrets(document)
        if isinstance(name, str) and _NAME.search(name) and _is_written(document, path, value, files)
    ]


def _secrets(document: Document) -> Iterator[tuple[FieldPath, Any, Any, str]]:
    """The values that may be passwords: path, name, value, and what to do."""
    kind = document.identity.group_kind
    if kind == GroupKind("", "Secret"):
        for part in ("stringData", "data"):
            found = value_at(document.body, (part,))
            for name, value in found.items() if isinstance(found, Mapping) else ():
                fix = f"write {{{{ generated('{name}') }}}}, or read a Secret that is created elsewhere"
                yield (part, name), name, value, fix
    elif kind in POD_SPECS:
        pod = POD_SPECS[kind]
        for key in ("initContainers", "containers"):
            for at, container in mapping_items(value_at(document.body, (*pod, key)), (*pod, key)):
                for place, variable in mapping_items(container.get("env"), (*at, "env")):
                    fix = "read it from a Secret: valueFrom: {secretKeyRef: {name: ..., key: ...}}"
                    yield (*place, "value"), variable.get("name"), variable.get("value"), fix


def _is_written(document: Document, path: FieldPath, value: Any, files: Mapping[str, str]) -> bool:
    """Whether the line of a field has its value as text."""
    line = _line(document.location_of(path), files)
    is_text = isinstance(value, str) and value.strip() and "$(" not in value
    return bool(is_text and value in line and not re.search(r"\{[{%]", line))


def check_scalars(documents: Iterable[Document], files: Mapping[str, str]) -> Iterator[Finding]:
    """The findings in the manifests of a parent. `files` are the texts of templates, by what locations call them."""
    for document in documents:
        for path, text in texts(document.body, ()):
            value = kubectl_scalar(text)
            if value is not SAME and _is_plain(document, path, text, files):
                shown = str(value).lower()
                message = f"is the text {text}, where kubectl and Helm read {shown}"
                yield field_finding(document, "ambiguous-scalar", path, message, f'write "{text}" or {shown}')


def texts(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """The texts in a value, each with its path."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from texts(item, (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from texts(item, (*path, at))
    elif isinstance(value, str):
        yield path, value


def _is_plain(document: Document, path: FieldPath, text: str, files: Mapping[str, str]) -> bool:
    """Whether the template's line of a field has the text as a plain scalar. Static files are read as kubectl does."""
    location = document.location_of(path)
    if not location.file.endswith(".j2"):
        return False
    return (
        re.search(rf"(?:[:\-?]\s+|[\[,]\s*){re.escape(text)}\s*(?:[,\]}}]|\s#|$)", _line(location, files)) is not None
    )


def _line(location: SourceLocation, files: Mapping[str, str]) -> str:
    lines = files.get(location.file, "").split("\n")
    return lines[location.line - 1] if location.line <= len(lines) else ""
