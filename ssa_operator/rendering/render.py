"""One render: a folder's templates and a parent to documents.

Promises:
- Rendering never raises for a template's or a value's fault: each is a problem with its place.
- Each file is rendered on its own: a failed one leaves the others alone.
- The same templates, the same parent and the same answers of the cluster give the same documents.
- A document that can't be made yet waits alone, where that can be told, and else its file does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ssa_operator.core.objects.annotations import PREFIX, Reference
from ssa_operator.core.objects.cluster_view import OFFLINE, ClusterView
from ssa_operator.core.objects.render_result import Dependency, Document, Rendered, RenderProblem, StatusFields, Wait
from ssa_operator.core.policies.adoption import LAST_APPLIED
from ssa_operator.rendering.error_locations import line_of, problem_of
from ssa_operator.rendering.generated_documents import kept
from ssa_operator.rendering.jinja.template_api import TemplateAPI
from ssa_operator.rendering.jinja.templates import Entry, Templates
from ssa_operator.rendering.references import placed, resolved, uncounted
from ssa_operator.rendering.status_redaction import discreet, secrecy_of
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.template_text import Composition
from ssa_operator.rendering.values.tracked_containers import known, settled
from ssa_operator.rendering.values.tracked_values import AwaitedError, UnknownValue
from ssa_operator.rendering.yaml.nodes import DocumentError, Filling, Node
from ssa_operator.rendering.yaml.validation import dependencies, joined, manifests

if TYPE_CHECKING:
    from ssa_operator.rendering.folder.sources import Folder


def render(templates: Templates | Folder, parent: Mapping[str, Any], world: ClusterView = OFFLINE) -> Rendered:
    """The documents of one parent, as the API server returned it, in a world that answers what its templates ask.

    A folder whose files failed to load gives their problems too, beside what its last good templates render.
    """
    failed: tuple[RenderProblem, ...] = ()
    if not isinstance(templates, Templates):
        if templates.templates is None:
            return Rendered(problems=templates.problems)
        failed = tuple(replace(problem, outdated=True) for problem in templates.problems)
        templates = templates.templates
    inquiry = TemplateAPI(world, parent)
    results = _all_results(templates, parent, inquiry)
    known: set[Reference] = set()
    # What a child's readiness counts for is known only once its manifest is rendered.
    while inquiry.unready and not (more := inquiry.unready & uncounted(results)) <= known:
        known |= more
        inquiry = TemplateAPI(world, parent, uncounted=known)
        results = _all_results(templates, parent, inquiry)
    results = resolved(results, inquiry)
    return Rendered(
        documents=tuple([result for result in results if isinstance(result, Document)]),
        waits=tuple([result for result in results if isinstance(result, Wait)]),
        problems=failed + tuple([result for result in results if isinstance(result, RenderProblem)]),
        asked=tuple(inquiry.asked),
        read_unready=frozenset(inquiry.read_unready),
        generated=tuple(inquiry.holders),
        again_at=inquiry.again_at,
        aged=inquiry.aged,
        digest=templates.digest,
        secrets=tuple(inquiry.secrets),
        generated_values=tuple(inquiry.generated_values),
    )


def _all_results(
    templates: Templates, parent: Mapping[str, Any], inquiry: TemplateAPI
) -> list[Document | RenderProblem | Wait]:
    variables = _variables(templates, parent, inquiry)
    return [result for entry in templates.entries for result in _results(templates, entry, variables, inquiry)]


def _variables(templates: Templates, parent: Mapping[str, Any], inquiry: TemplateAPI) -> dict[str, Any]:
    metadata = _part(parent, "metadata")
    variables = {
        **templates.globals,
        "object": parent,
        "metadata": metadata,
        "spec": _part(parent, "spec"),
        "status": _part(parent, "status"),
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "labels": _part(metadata, "labels"),
        "annotations": _copyable(_part(metadata, "annotations")),
    }
    if templates.asks:
        variables.update(inquiry.functions())
    return variables


def _copyable(annotations: Mapping[str, Any]) -> Mapping[str, Any]:
    """The annotations that a child may have too: without the operator's own, and without kubectl's copy."""
    return {key: value for key, value in annotations.items() if not key.startswith(PREFIX) and key != LAST_APPLIED}


def _part(body: Mapping[str, Any], field: str) -> Any:
    part = body.get(field)
    return {} if part is None else part


def _results(
    templates: Templates, entry: Entry, variables: dict[str, Any], inquiry: TemplateAPI
) -> list[Document | RenderProblem | Wait]:
    """What one file gives."""

    def once(given: Sequence[str] = ()) -> list[Document | RenderProblem | Wait]:
        inquiry.begin(given)
        nodes, filling = _nodes(templates, entry, variables)
        results = [result for node in nodes for result in manifests(node, filling)]
        if filling.carried:
            results = [placed(result, inquiry) for result in results]
        return (
            [_of_whole(result, dependencies(inquiry.branches)) for result in results] if inquiry.branches else results
        )

    with limits.bounded():
        try:
            results = once()
            return kept(results, inquiry.generation.values, once, inquiry) if inquiry.generation else results
        except AwaitedError as error:
            made_of = dependencies((*inquiry.branches, *error.unknown.sources))
            return [Wait(location=line_of(error, entry.name), awaited=error.unknown.awaited, dependencies=made_of)]
        except Exception as error:  # noqa: BLE001 - whatever a template does is its problem, not ours
            return [problem_of(error, templates, entry.name, variables)]
        finally:
            if inquiry.generation:
                inquiry.generated_values.update(dict.fromkeys(inquiry.generation.values))


def _of_whole(result: Document | RenderProblem | Wait, more: tuple[Dependency, ...]) -> Document | RenderProblem | Wait:
    """A result with what its whole file depends on."""
    if isinstance(result, RenderProblem):
        return result
    return replace(result, dependencies=joined(result.dependencies, more))


def _nodes(templates: Templates, entry: Entry, variables: dict[str, Any]) -> tuple[tuple[Node, ...], Filling]:
    if entry.template is None:
        return entry.documents, Filling()
    context = entry.template.new_context(variables, shared=True)
    composition = Composition(entry.template.root_render_func(context))
    return templates.skeleton(composition.marked, entry.name), Filling(
        composition.values, composition.texts, composition.carried
    )


def render_status(templates: Templates | Folder, parent: Mapping[str, Any], world: ClusterView) -> StatusFields:
    """The fields of `_status.yaml.j2`, empty where there is none; what is unknown is left out."""
    if not isinstance(templates, Templates):
        if templates.templates is None:
            return StatusFields(problems=templates.problems)
        templates = templates.templates
    if templates.status is None:
        return StatusFields()
    inquiry = TemplateAPI(world, parent, lenient=True)
    variables = _variables(templates, parent, inquiry) | {"status": inquiry.former(parent)}
    fields: Mapping[str, Any] = {}
    problems: tuple[RenderProblem, ...] = ()
    left_out: tuple[str, ...] = ()
    with limits.bounded():
        try:
            nodes, filling = _nodes(templates, templates.status, variables)
            status = _status(nodes, filling)
            if inquiry.secrets:
                redactor = secrecy_of(inquiry.secrets, templates, parent)
                status, left_out = discreet(status, redactor, inquiry.branches)
            fields = _fields(status, nodes, filling)
        except Exception as error:  # noqa: BLE001 - whatever a template does is its problem, not ours
            problems = (problem_of(error, templates, templates.status.name, variables),)
    return StatusFields(
        fields=fields,
        problems=problems,
        asked=tuple(inquiry.asked),
        again_at=inquiry.again_at,
        left_out=left_out,
        secrets=tuple(inquiry.secrets),
    )


def _status(nodes: tuple[Node, ...], filling: Filling) -> Any:
    """What the status template says, not settled yet."""
    if not nodes:
        return {}
    if len(nodes) > 1:
        raise DocumentError("_status.yaml.j2 must give one mapping; remove this document", nodes[1].location)
    return nodes[0].build(filling)


def _fields(status: Any, nodes: tuple[Node, ...], filling: Filling) -> Mapping[str, Any]:
    if filling.carried:
        status = known(settled(status, []))
    if isinstance(status, UnknownValue):
        return {}
    if not isinstance(status, dict):
        raise DocumentError("_status.yaml.j2 must give a mapping of status fields", nodes[0].location)
    return status
