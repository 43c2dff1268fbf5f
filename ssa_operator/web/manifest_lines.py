"""A live child, or an object that a template looks up, as YAML lines, each with its writer.

Promises:
- The attributions are those of `ssa-operator blame`: the templates are rendered as the operator does, and nothing is
  written.
- No line has a Secret's content. A looked-up object that another one owns has no lines, because its owner may have made
  it of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.objects.field_attribution import Attribution
from ssa_operator.objects.identity import Identity
from ssa_operator.operator.preview import Preview
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.rendering.yaml.to_yaml import yaml_lines
from ssa_operator.tools.blamed_object import BlamedObject, blamed_children, blamed_looked_up
from ssa_operator.tools.command_target import FoundObject
from ssa_operator.tools.owners import read
from ssa_operator.web.looked_up import is_looked_up, owner_of
from ssa_operator.web.parent_page import key_of


async def manifest_of(
    preview: Preview, client: Client, mapper: RESTMapper, parents: Parents, found: FoundObject, child: Identity
) -> dict[str, Any] | None:
    """The lines of an object, None if it is no live child of the parent, and no live object that its templates look up.
    Raises ApiError.
    """
    parent, key = parents.parent(found.live), key_of(child)
    for one in await blamed_children(preview, parent, lambda identity: key_of(identity) == key):
        data: dict[str, Any] = {"lines": list(_lines(one))}
        return data | ({"note": one.note} if one.note else {})
    if not is_looked_up(preview, await preview.plan(parent), child):
        return None
    live = await read(client, mapper, child)
    if live is None:
        return None
    if owner := owner_of(live):
        note = f"{owner} made it: its lines are not shown, because they may be a Secret's content"
        return {"lines": [], "note": note}
    other = await blamed_looked_up(preview, live)
    return None if other is None else {"lines": list(_lines(other))}


def _lines(blamed: BlamedObject) -> Iterator[dict[str, Any]]:
    fields = {field.path: field for field in blamed.fields}
    for line in yaml_lines(blamed.body):
        field = None if line.field is None else fields.get(line.field)
        yield {"text": line.text} if field is None else {"text": line.text, **_written(blamed, field)}


def _written(blamed: BlamedObject, field: Attribution) -> dict[str, Any]:
    """Who wrote a field. Its value is in the text."""
    data = {name: value for name, value in blamed.field_data(field).items() if name != "value"}
    return {"writer": field.writer.value, **data}
