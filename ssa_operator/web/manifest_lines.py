"""A live child as YAML lines, each with its writer.

Promises:
- The attributions are those of `ssa-operator blame`: the templates are rendered as the operator does, and nothing is
  written.
- No line has a Secret's content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ssa_operator.objects.field_attribution import Attribution
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.tools.blamed_object import BlamedObject, blamed_children
from ssa_operator.tools.command_target import FoundObject
from ssa_operator.tools.plan.preview import Preview
from ssa_operator.tools.printing import yaml_lines
from ssa_operator.web.parent_page import key_of


async def manifest_of(preview: Preview, parents: Parents, found: FoundObject, child: str) -> dict[str, Any] | None:
    """The lines of a child (`node_key`), None if it is no live child of the parent. Raises ApiError."""
    blamed = await blamed_children(preview, parents.parent(found.live), lambda identity: key_of(identity) == child)
    for one in blamed:
        data: dict[str, Any] = {"lines": list(_lines(one))}
        return data | ({"note": one.note} if one.note else {})
    return None


def _lines(blamed: BlamedObject) -> Iterator[dict[str, Any]]:
    fields = {field.path: field for field in blamed.fields}
    for line in yaml_lines(blamed.body):
        field = None if line.field is None else fields.get(line.field)
        yield {"text": line.text} if field is None else {"text": line.text, **_written(blamed, field)}


def _written(blamed: BlamedObject, field: Attribution) -> dict[str, Any]:
    """Who wrote a field. Its value is in the text."""
    data = {name: value for name, value in blamed.field_data(field).items() if name != "value"}
    return {"writer": field.writer.value, **data}
