"""The line of a file that an error of the API server is about.

Promises:
- The line is that of the first field that the error names.
- An error about the schema of a CRD names its line, too, although the API server names no version then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, SourceLocation, parse_field

_SCHEMA = ("spec", "validation")
"""Where the API server has the schema of a CRD whose versions have the same one."""


def location_in(document: Document, error: ApiError, body: Mapping[str, Any]) -> SourceLocation | None:
    """The line that wrote the first field in an error, None if it names none. `body` is what was sent."""
    for field in error.fields:
        path = _in_file(parse_field(field, body))
        if path:
            return document.location_of(path)
    return None


def _in_file(path: FieldPath) -> FieldPath:
    return ("spec", "versions", 0, "schema", *path[2:]) if path[:2] == _SCHEMA else path
