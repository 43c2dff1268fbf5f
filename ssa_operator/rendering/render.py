"""One render: a folder's templates and a parent to documents.

Promises:
- Rendering never raises for a template's or a value's fault: each is a problem with its place.
- Each file is rendered on its own: a failed one leaves the others alone.
- The same templates and the same parent give the same documents.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ssa_operator.core.rendered import Document, Problem, Rendered, StatusFields
from ssa_operator.core.world import World
from ssa_operator.rendering import bounds
from ssa_operator.rendering.faults import problem_of
from ssa_operator.rendering.inquiry import Inquiry
from ssa_operator.rendering.nodes import DocumentError, Filling, Node
from ssa_operator.rendering.observed import Unknown, known, settled
from ssa_operator.rendering.shape import manifests
from ssa_operator.rendering.templates import Entry, Templates
from ssa_operator.rendering.text import Composition

if TYPE_CHECKING:
    from ssa_operator.rendering.sources import Folder


def render(templates: Templates | Folder, parent: Mapping[str, Any]) -> Rendered:
    """The documents of one parent, as the API server returned it.

    A folder whose files failed to load gives their problems too, beside what its last good templates render.
    """
    failed: tuple[Problem, ...] = ()
    if not isinstance(templates, Templates):
        failed = templates.problems
        if templates.templates is None:
            return Rendered(problems=failed)
        templates = templates.templates
    variables = {**templates.globals, **_variables(parent)}
    results = [result for entry in templates.entries for result in _documents(templates, entry, variables)]
    return Rendered(
        documents=tuple(result for result in results if isinstance(result, Document)),
        problems=failed + tuple(result for result in results if isinstance(result, Problem)),
        digest=templates.digest,
    )


def _variables(parent: Mapping[str, Any]) -> dict[str, Any]:
    metadata = _part(parent, "metadata")
    return {
        "object": parent,
        "metadata": metadata,
        "spec": _part(parent, "spec"),
        "status": _part(parent, "status"),
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "labels": _part(metadata, "labels"),
        "annotations": _part(metadata, "annotations"),
    }


def _part(body: Mapping[str, Any], field: str) -> Any:
    part = body.get(field)
    return {} if part is None else part


def _documents(templates: Templates, entry: Entry, variables: dict[str, Any]) -> list[Document | Problem]:
    with bounds.bounded():
        try:
            nodes, filling = _nodes(templates, entry, variables)
            return [result for node in nodes for result in manifests(node, filling)]
        except Exception as error:  # noqa: BLE001 - whatever a template does is its problem, not ours
            return [problem_of(error, templates, entry.name, variables)]


def _nodes(templates: Templates, entry: Entry, variables: dict[str, Any]) -> tuple[tuple[Node, ...], Filling]:
    if entry.template is None:
        return entry.documents, Filling()
    context = entry.template.new_context(variables, shared=True)
    composition = Composition(entry.template.root_render_func(context))
    return templates.skeleton(composition.marked, entry.name), Filling(
        composition.values, composition.texts, composition.carried
    )


def render_status(templates: Templates | Folder, parent: Mapping[str, Any], world: World) -> StatusFields:
    """The fields of `_status.yaml.j2`, empty where there is none; what is unknown of the children is left out."""
    if not isinstance(templates, Templates):
        if templates.templates is None:
            return StatusFields()
        templates = templates.templates
    if templates.status is None:
        return StatusFields()
    variables = {**templates.globals, **_variables(parent), **Inquiry(world, lenient=True).functions}
    with bounds.bounded():
        try:
            return StatusFields(fields=_fields(*_nodes(templates, templates.status, variables)))
        except Exception as error:  # noqa: BLE001 - whatever a template does is its problem, not ours
            return StatusFields(problems=(problem_of(error, templates, templates.status.name, variables),))


def _fields(nodes: tuple[Node, ...], filling: Filling) -> Mapping[str, Any]:
    if not nodes:
        return {}
    if len(nodes) > 1:
        raise DocumentError("_status.yaml.j2 must give one mapping; remove this document", nodes[1].place)
    status = nodes[0].build(filling)
    if filling.carried:
        status = known(settled(status, []))
    if isinstance(status, Unknown):
        return {}
    if not isinstance(status, dict):
        raise DocumentError("_status.yaml.j2 must give a mapping of status fields", nodes[0].place)
    return status
