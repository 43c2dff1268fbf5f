"""The example of a CRD that is given, as a file whose open places are marked.

Promises:
- The file is valid YAML. Where the API server refuses a field, or one is missing, a comment has its words; a missing
  field is a line with `#`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.field_errors import FieldError, error_field
from ssa_operator.tools.blame.annotated_yaml import AnnotatedLine, yaml_lines


def guaranteed_spec(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of the spec in that of an object, where each field may be missing if the spec may be missing."""
    spec: Mapping[str, Any] = (schema.get("properties") or {}).get("spec") or {"type": "object"}
    if "spec" in (schema.get("required") or ()) or "default" in spec:
        return spec
    properties = {
        name: {key: value for key, value in each.items() if key != "default"}
        for name, each in (spec.get("properties") or {}).items()
    }
    return {**{key: value for key, value in spec.items() if key != "required"}, "properties": properties}


def marked_text(body: Mapping[str, Any], errors: Iterable[FieldError]) -> str:
    """The object as YAML, with a comment at each error."""
    lines = list(yaml_lines(body))
    for error in errors:
        at, depth = _place(lines, error.path)
        text = " ".join(f"{error_field(error.path)}: {error.message}".split())
        marks = [f"# to fill in: {text}"]
        if depth < len(error.path):
            marks += [f"# {'  ' * (level - depth)}{part}:" for level, part in enumerate(error.path) if level >= depth]
        indent = "  " * max(depth - (depth == len(error.path)), 0)
        lines[at:at] = [AnnotatedLine(f"{indent}{mark}", error.path) for mark in marks]
    return "".join(f"{line.text}\n" for line in lines)


def _place(lines: list[AnnotatedLine], path: FieldPath) -> tuple[int, int]:
    """The line before which an error of a field belongs, and how many parts of its path the object has: before the
    field, or behind the mapping that lacks it.
    """
    for depth in range(len(path), 0, -1):
        found = [at for at, line in enumerate(lines) if line.field is not None and line.field[:depth] == path[:depth]]
        if found:
            return (found[0] if depth == len(path) else found[-1] + 1), depth
    return (0 if not path else len(lines)), 0
