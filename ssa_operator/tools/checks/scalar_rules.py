"""The rule about plain scalars of templates that kubectl and Helm read otherwise.

Promises:
- A text is a finding only where a line of a template has it without quotes: no expression gives it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.yaml.kubectl_scalars import SAME, kubectl_scalar
from ssa_operator.tools.findings.field_findings import field_finding
from ssa_operator.tools.findings.findings import Finding


def check_scalars(documents: Iterable[Document], files: Mapping[str, str]) -> Iterator[Finding]:
    """The findings in the manifests of a parent. `files` are the texts of templates, by what locations call them."""
    for document in documents:
        for path, text in _texts(document.body, ()):
            value = kubectl_scalar(text)
            if value is not SAME and _is_plain(document, path, text, files):
                shown = str(value).lower()
                message = f"is the text {text}, where kubectl and Helm read {shown}"
                yield field_finding(document, "ambiguous-scalar", path, message, f'write "{text}" or {shown}')


def _texts(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _texts(item, (*path, at))
    elif isinstance(value, str):
        yield path, value


def _is_plain(document: Document, path: FieldPath, text: str, files: Mapping[str, str]) -> bool:
    """Whether the template's line of a field has the text as a plain scalar. Static files are read as kubectl does."""
    location = document.location_of(path)
    if not location.file.endswith(".j2"):
        return False
    lines = files.get(location.file, "").split("\n")
    line = lines[location.line - 1] if location.line <= len(lines) else ""
    return re.search(rf"(?:[:\-?]\s+|[\[,]\s*){re.escape(text)}\s*(?:[,\]}}]|\s#|$)", line) is not None
