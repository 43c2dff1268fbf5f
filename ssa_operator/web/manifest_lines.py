"""A live child as YAML lines, each with its writer.

Promises:
- The attributions are those of `ssa-operator blame`: the templates are rendered as the operator does, and nothing is
  written.
- No line has a Secret's content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ssa_operator.objects.field_attribution import Attribution, Writer
from ssa_operator.objects.source_location import field_text
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.tools.blame.annotated_yaml import yaml_lines
from ssa_operator.tools.blame.blamed_object import BlamedObject, blamed_children
from ssa_operator.tools.connection.object_reference import FoundObject
from ssa_operator.tools.plan.preview import Preview
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
        yield {"text": line.text} if field is None else {"text": line.text, **_writer(blamed, field)}


def _writer(blamed: BlamedObject, field: Attribution) -> dict[str, Any]:
    data: dict[str, Any] = {"path": field_text(field.path), "writer": field.writer.value}
    if field.writer is Writer.TEMPLATE and field.location is not None:
        data |= {"file": field.location.file, "line": field.location.line}
        if origin := blamed.origin(field):
            data["origin"] = origin
    elif field.writer is Writer.MANAGER:
        owner = field.owners[0]
        data |= {"manager": owner.manager, "time": owner.time}
        if owner.subresource:
            data["subresource"] = owner.subresource
    return data
