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
from ssa_operator.rendering.error_locations import location_of_error, problem_of
from ssa_operator.rendering.generated_documents import kept
from ssa_operator.rendering.jinja.template_api import TemplateAPI
from ssa_operator.rendering.jinja.templates import ManifestFile, Templates
from ssa_operator.rendering.references import no_wait_children, placed, resolved
from ssa_operator.rendering.status_redaction import redact_status, redactor_of
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.template_text import RenderedText
from ssa_operator.rendering.values.tracked_containers import drop_unknown, strip_provenance
from ssa_operator.rendering.values.tracked_values import AwaitedError, UnknownValue
from ssa_operator.rendering.yaml.nodes import DocumentError, Node, SlotValues
from ssa_operator.rendering.yaml.validation import dependencies_of, manifests, merge_dependencies

if TYPE_CHECKING:
    from ssa_operator.rendering.folder.sources import Folder


def render(templates: Templates | Folder, parent: Mapping[str, Any], cluster: ClusterView = OFFLINE) -> Rendered:
    """The documents of one parent, as the API server returned it, in a world that answers what its templates ask.

    A folder whose files failed to load gives their problems too, beside what its last good templates render.
    """
    failed: tuple[RenderProblem, ...] = ()
    if not isinstance(templates, Templates):
        if templates.templates is None:
            return Rendered(problems=templates.problems)
        failed = tuple(replace(problem, outdated=True) for problem in templates.problems)
        templates = templates.templates
    api = TemplateAPI(cluster, parent)
    results = _all_results(templates, parent, api)
    known: set[Reference] = set()
    # What a child's readiness counts for is known only once its manifest is rendered.
    while api.unready and not (more := api.unready & no_wait_children(results)) <= known:
        known |= more
        api = TemplateAPI(cluster, parent, no_wait=known)
        results = _all_results(templates, parent, api)
    results = resolved(results, api)
    return Rendered(
        documents=tuple([result for result in results if isinstance(result, Document)]),
        waits=tuple([result for result in results if isinstance(result, Wait)]),
        problems=failed + tuple([result for result in results if isinstance(result, RenderProblem)]),
        asked=tuple(api.asked),
        read_unready=frozenset(api.read_unready),
        generated=tuple(api.objects_with_generated_values),
        again_at=api.again_at,
        aged=api.aged,
        digest=templates.digest,
        secrets=tuple(api.secrets),
        generated_values=tuple(api.generated_values),
    )


def _all_results(
    templates: Templates, parent: Mapping[str, Any], api: TemplateAPI
) -> list[Document | RenderProblem | Wait]:
    variables = _variables(templates, parent, api)
    return [result for entry in templates.manifest_files for result in _results(templates, entry, variables, api)]


def _variables(templates: Templates, parent: Mapping[str, Any], api: TemplateAPI) -> dict[str, Any]:
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
    if templates.queries_cluster:
        variables.update(api.functions())
    return variables


def _copyable(annotations: Mapping[str, Any]) -> Mapping[str, Any]:
    """The annotations that a child may have too: without the operator's own, and without kubectl's copy."""
    return {key: value for key, value in annotations.items() if not key.startswith(PREFIX) and key != LAST_APPLIED}


def _part(body: Mapping[str, Any], field: str) -> Any:
    part = body.get(field)
    return {} if part is None else part


def _results(
    templates: Templates, entry: ManifestFile, variables: dict[str, Any], api: TemplateAPI
) -> list[Document | RenderProblem | Wait]:
    """What one file gives."""

    def once(given: Sequence[str] = ()) -> list[Document | RenderProblem | Wait]:
        api.start_file(given)
        nodes, slots = _nodes(templates, entry, variables)
        results = [result for node in nodes for result in manifests(node, slots)]
        if slots.tracked:
            results = [placed(result, api) for result in results]
        return (
            [_of_whole(result, dependencies_of(api.file_provenance)) for result in results]
            if api.file_provenance
            else results
        )

    with limits.enforced():
        try:
            results = once()
            return kept(results, api.generator.values, once, api) if api.generator else results
        except AwaitedError as error:
            made_of = dependencies_of((*api.file_provenance, *error.unknown.provenance))
            return [
                Wait(location=location_of_error(error, entry.name), awaited=error.unknown.awaited, dependencies=made_of)
            ]
        except Exception as error:  # noqa: BLE001 - whatever a template does is its problem, not ours
            return [problem_of(error, templates, entry.name, variables)]
        finally:
            if api.generator:
                api.generated_values.update(dict.fromkeys(api.generator.values))


def _of_whole(result: Document | RenderProblem | Wait, more: tuple[Dependency, ...]) -> Document | RenderProblem | Wait:
    """A result with what its whole file depends on."""
    if isinstance(result, RenderProblem):
        return result
    return replace(result, dependencies=merge_dependencies(result.dependencies, more))


def _nodes(templates: Templates, entry: ManifestFile, variables: dict[str, Any]) -> tuple[tuple[Node, ...], SlotValues]:
    if entry.template is None:
        return entry.documents, SlotValues()
    context = entry.template.new_context(variables, shared=True)
    rendered_text = RenderedText(entry.template.root_render_func(context))
    return templates.parse_rendered(rendered_text.marked, entry.name), SlotValues(
        rendered_text.values, rendered_text.texts, rendered_text.tracked
    )


def render_status(templates: Templates | Folder, parent: Mapping[str, Any], cluster: ClusterView) -> StatusFields:
    """The fields of `_status.yaml.j2`, empty where there is none; what is unknown is left out."""
    if not isinstance(templates, Templates):
        if templates.templates is None:
            return StatusFields(problems=templates.problems)
        templates = templates.templates
    if templates.status is None:
        return StatusFields()
    api = TemplateAPI(cluster, parent, lenient=True)
    variables = _variables(templates, parent, api) | {"status": api.previous_status(parent)}
    fields: Mapping[str, Any] = {}
    problems: tuple[RenderProblem, ...] = ()
    left_out: tuple[str, ...] = ()
    with limits.enforced():
        try:
            nodes, slots = _nodes(templates, templates.status, variables)
            status = _status(nodes, slots)
            if api.secrets:
                redactor = redactor_of(api.secrets, templates, parent)
                status, left_out = redact_status(status, redactor, api.file_provenance)
            fields = _fields(status, nodes, slots)
        except Exception as error:  # noqa: BLE001 - whatever a template does is its problem, not ours
            problems = (problem_of(error, templates, templates.status.name, variables),)
    return StatusFields(
        fields=fields,
        problems=problems,
        asked=tuple(api.asked),
        again_at=api.again_at,
        left_out=left_out,
        secrets=tuple(api.secrets),
    )


def _status(nodes: tuple[Node, ...], slots: SlotValues) -> Any:
    """What the status template says, not settled yet."""
    if not nodes:
        return {}
    if len(nodes) > 1:
        raise DocumentError("_status.yaml.j2 must give one mapping; remove this document", nodes[1].location)
    return nodes[0].build(slots)


def _fields(status: Any, nodes: tuple[Node, ...], slots: SlotValues) -> Mapping[str, Any]:
    if slots.tracked:
        status = drop_unknown(strip_provenance(status, []))
    if isinstance(status, UnknownValue):
        return {}
    if not isinstance(status, dict):
        raise DocumentError("_status.yaml.j2 must give a mapping of status fields", nodes[0].location)
    return status
