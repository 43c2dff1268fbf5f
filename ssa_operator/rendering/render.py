"""Renders a folder's templates for one parent to documents and to its own status fields.

Promises:
- A fault of a template or a value never raises an exception: it is a problem with its template line.
- Each file renders on its own: a file that fails changes no other file.
- The same templates, the same parent and the same answers of the cluster give the same documents.
- A document with an unknown value waits alone. If control flow depends on the value, the whole file waits.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ssa_operator.objects.annotations import LAST_APPLIED, PREFIX, Reference, not_converted
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.cluster_view import OFFLINE, ClusterView, Query
from ssa_operator.objects.context_values import set_within
from ssa_operator.objects.predicate import Predicate
from ssa_operator.objects.render_result import (
    LITERAL,
    Dependency,
    Document,
    ReconcileResult,
    Rendered,
    RenderProblem,
    StatusFields,
    TemplateWarning,
    Wait,
    ready_when_of,
)
from ssa_operator.objects.secret_fields import is_secret
from ssa_operator.objects.source_location import FieldPath, SourceLocation
from ssa_operator.rendering.error_locations import location_of_error, problem_of
from ssa_operator.rendering.generated_values import use_live_values
from ssa_operator.rendering.jinja.kept_results import kept_results
from ssa_operator.rendering.jinja.predicates import with_ready_when
from ssa_operator.rendering.jinja.template_api import TemplateAPI
from ssa_operator.rendering.jinja.templates import ManifestFile, Templates
from ssa_operator.rendering.references import (
    Result,
    no_wait_children,
    resolve_live_reads,
    resolve_references,
)
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.secrecy import HIDDEN_ERROR, mark_error, quotes_content
from ssa_operator.rendering.values.template_text import RenderedText
from ssa_operator.rendering.values.tracked_containers import drop_unknown, redact_status, strip_provenance
from ssa_operator.rendering.values.tracked_values import AwaitedError, UnknownValue, fields_of, provenance_of, untracked
from ssa_operator.rendering.yaml.nodes import DocumentError, Node, SlotValues, find_location
from ssa_operator.rendering.yaml.validation import dependencies_of, manifests, merge_dependencies

if TYPE_CHECKING:
    from ssa_operator.rendering.folder.loaded_folders import Folder


_ANNOTATION_ROUNDS = 16
"""Renders of a folder after which the annotations of children are accepted as they are: each render may depend on the
last.
"""

_KIND = re.compile(r"""^kind:[ ]+["']?([A-Z]\w*)""", re.MULTILINE)
"""The kind of a document, as the text of a file writes it."""


def render_traced(templates: Templates | Folder, parent: Mapping[str, Any], cluster: ClusterView = OFFLINE) -> Rendered:
    """The same as `render`, with the origin of each field and the fields that each dependency reads.

    It takes longer than `render`. A missing field of the parent, which is a problem in `render`, may be a wait here.
    """
    return render(templates, parent, cluster, traced=True)


def render(
    folder: Templates | Folder,
    parent: Mapping[str, Any],
    cluster: ClusterView = OFFLINE,
    *,
    traced: bool = False,
    built_in_readiness: bool = False,
) -> Rendered:
    """The documents of one parent, as the API server returned it; `cluster` answers the queries of its templates.
    With `built_in_readiness`, the annotation `ready-when` of a child replaces no rule.

    If the files of a folder failed to load, the result has their problems and the documents of the last good templates.
    """
    templates, failed = _compiled(folder)
    if templates is None:
        return Rendered(problems=failed)
    if (mark := not_converted(parent)) is not None:
        words = f"the object can't be converted from {mark.version}: {mark.message}; correct the template or the object"
        # Its content is unknown here, and not empty.
        return Rendered(problems=(*failed, RenderProblem(words)), digest=templates.digest)
    api = TemplateAPI(cluster, parent, traced=traced)
    results = _render_files(templates, parent, api)
    no_wait: set[Reference] = set()
    ready_when: dict[Reference, Predicate] = {}
    # The annotations `wait` and `ready-when` of a child are known only after its manifest is rendered.
    for _ in range(_ANNOTATION_ROUNDS):
        more = api.unready & no_wait_children(results) if api.unready else set()
        rules: dict[Reference, Predicate] = {}
        if api.judged and not built_in_readiness:
            known = ready_when_of(result for result in results if not isinstance(result, RenderProblem))
            rules = {
                child: rule for child, rule in known.items() if child in api.judged and ready_when.get(child) != rule
            }
        if more <= no_wait and not rules:
            break
        no_wait |= more
        ready_when |= rules
        api = TemplateAPI(cluster, parent, no_wait=no_wait, traced=traced, ready_when=ready_when)
        results = _render_files(templates, parent, api)
    results = _with_hidden_names(results, api)
    if api.live_reads:
        results = resolve_live_reads(results, api, incomplete=templates.incomplete)
    if api.asked or any(result.dependencies for result in results if not isinstance(result, RenderProblem)):
        results = _with_hidden_names(resolve_references(results, api), api)
    return Rendered(
        documents=tuple([result for result in results if isinstance(result, Document)]),
        waits=tuple([result for result in results if isinstance(result, Wait)]),
        problems=failed + tuple([result for result in results if isinstance(result, RenderProblem)]),
        queries=_asked(api),
        apis=api.apis,
        read_unready=frozenset(api.read_unready | api.live_reads.keys()),
        generated=tuple(api.objects_with_generated_values),
        again_at=api.again_at,
        changed_by_time=api.aged,
        digest=templates.digest,
        secrets=tuple(api.secrets),
        generated_values=tuple(api.generated_values),
        secret_queries=frozenset(api.secret_queries),
        warnings=_warnings(api),
    )


def _compiled(folder: Templates | Folder) -> tuple[Templates | None, tuple[RenderProblem, ...]]:
    """The templates of a folder, None if it never had good ones, and the problems of the files that failed to load."""
    if isinstance(folder, Templates):
        return folder, ()
    if folder.templates is None or not folder.problems:
        return folder.templates, folder.problems
    return folder.templates, tuple([replace(problem, outdated=True) for problem in folder.problems])


def _warnings(api: TemplateAPI) -> tuple[TemplateWarning, ...]:
    """The Events of `warn`, without those on objects that a Secret's content names."""
    return tuple([warning for warning, query in api.warnings.items() if query not in api.secret_queries])


def _asked(api: TemplateAPI) -> tuple[Query, ...]:
    """All queries to the cluster, those of `live` included."""
    return tuple(dict.fromkeys((*api.asked, *api.live_reads)))


def _render_files(templates: Templates, parent: Mapping[str, Any], api: TemplateAPI) -> list[Result]:
    variables = _variables(templates, parent, api)
    if api.traced:
        variables = _traced_variables(variables, parent, api)
    results: list[Result] = [*templates.problems] if templates.incomplete else []
    seconds = templates.surroundings.render_limit
    with set_within(kept_results, api.kept):
        for file in templates.manifest_files:
            try:
                results += _render_file(templates, file, variables, api, seconds)
            except limits.TimeLimitError as error:
                seconds = limits.SECONDS_AFTER_OVERRUN
                results.append(_problem(error, templates, file, variables, api))
    return results


def _problem(
    error: Exception, templates: Templates, file: ManifestFile, variables: Mapping[str, Any], api: TemplateAPI
) -> RenderProblem:
    plain = {name: untracked(value) for name, value in variables.items()}
    problem = problem_of(error, templates, file.name, plain, api.cluster.parent_schema)
    return replace(problem, kinds=tuple(_KIND.findall(templates.source(file.name))))


def variables_of_object(parent: Mapping[str, Any]) -> dict[str, Any]:
    """The variables with the parts of an object."""
    metadata = _mapping_field(parent, "metadata")
    return {
        "object": parent,
        "metadata": metadata,
        "spec": _mapping_field(parent, "spec"),
        "status": _mapping_field(parent, "status"),
        "name": metadata.get("name", ""),
        "namespace": metadata.get("namespace", ""),
        "labels": _mapping_field(metadata, "labels"),
        "annotations": _copyable_annotations(_mapping_field(metadata, "annotations")),
    }


def _variables(templates: Templates, parent: Mapping[str, Any], api: TemplateAPI) -> dict[str, Any]:
    variables = {**templates.globals, **variables_of_object(parent)}
    if is_secret(parent):
        variables["object"] = api.secret_parent(parent)
    if templates.queries_cluster:
        variables.update(api.functions(), kubernetes_version=api.cluster.kubernetes_version)
    return variables


_TRACED: Mapping[str, tuple[str, ...]] = {
    "object": (),
    "metadata": ("metadata",),
    "spec": ("spec",),
    "status": ("status",),
    "name": ("metadata", "name"),
    "namespace": ("metadata", "namespace"),
    "labels": ("metadata", "labels"),
    "annotations": ("metadata", "annotations"),
}
"""The variables with values of the parent, each with its field."""


def _traced_variables(variables: Mapping[str, Any], parent: Mapping[str, Any], api: TemplateAPI) -> dict[str, Any]:
    """The variables, with values that record the fields of the parent that they come from."""
    traced = {
        name: api.traced_parent(parent, value, *_TRACED[name]) if name in _TRACED else value
        for name, value in variables.items()
    }
    # The origin of a setting is `values.<name>`, like the path of a field of the parent.
    traced["values"] = api.traced_parent({**parent, "values": variables["values"]}, variables["values"], "values")
    return traced


def _copyable_annotations(annotations: Mapping[str, Any]) -> Mapping[str, Any]:
    """The annotations that a template can copy to a child, without the operator's and kubectl's own."""
    return {key: value for key, value in annotations.items() if not key.startswith(PREFIX) and key != LAST_APPLIED}


def _mapping_field(body: Mapping[str, Any], field: str) -> Any:
    part = body.get(field)
    return {} if part is None else part


def _render_file(
    templates: Templates, file: ManifestFile, variables: dict[str, Any], api: TemplateAPI, seconds: float | None
) -> list[Result]:
    """The results of one file, rendered within `seconds`. Raises TimeLimitError."""
    parent = untracked(variables["object"]) if api.traced else variables["object"]

    def render_with(generated_values: Sequence[str] = ()) -> list[Result]:
        api.start_file(generated_values)
        nodes, slots = nodes_of(templates, file, variables)
        lost = _holds_content(api)
        results = [result for node in nodes for result in manifests(node, slots, parent, lost=lost)]
        more = dependencies_of(api.file_provenance) if api.file_provenance else ()
        return [_of_file(result, more, api, lost=lost) for result in results]

    with limits.enforced(seconds):
        try:
            results = render_with()
            return use_live_values(results, api.generator.values, render_with, api) if api.generator else results
        except AwaitedError as error:
            location = location_of_error(error, file.name)
            dependencies = dependencies_of((*api.file_provenance, *error.unknown.provenance))
            return [Wait(location=location, awaited=error.unknown.awaited, dependencies=dependencies)]
        except limits.TimeLimitError:
            raise
        except Exception as error:  # noqa: BLE001 - any error of a template is a problem of that template
            if _holds_content(api):
                mark_error(error)
            problem = _problem(error, templates, file, variables, api)
            return [_with_source(problem, error, templates, file, api)]
        finally:
            if api.generator:
                api.generated_values.update(dict.fromkeys(api.generator.values))


def _with_source(
    problem: RenderProblem, error: Exception, templates: Templates, file: ManifestFile, api: TemplateAPI
) -> RenderProblem:
    """The problem with the fields of looked-up objects that the value at fault comes from, as a traced render knows."""
    if api.traced or api.generator or problem.by_author or not provenance_of(error) or quotes_content(error):
        return problem
    traced = api.for_trace()
    parent = traced.parent
    variables = _traced_variables(_variables(templates, parent, traced), parent, traced)
    try:
        with set_within(kept_results, traced.kept):
            nodes_of(templates, file, variables)
    except Exception as again:  # noqa: BLE001 - it is compared with the error
        same = (type(again), str(again)) == (type(error), str(error)) and not quotes_content(again)
        fields = fields_of(provenance_of(again)) if same else ()
        if fields and not any(each.query in traced.secret_queries for each in fields):
            named = " and ".join(map(str, fields[:_SOURCES_SHOWN]))
            return replace(problem, message=f"{problem.message}; the value comes from {named}")
    return problem


_SOURCES_SHOWN = 3


def _of_file(result: Result, more: tuple[Dependency, ...], api: TemplateAPI, *, lost: bool) -> Result:
    """A result with what holds for its whole file: its dependencies, and if `lost`, that any value may be content."""
    if isinstance(result, RenderProblem):
        return replace(result, message=HIDDEN_ERROR) if lost else result
    if isinstance(result, Wait) and result.identity is not None:
        result = dataclasses.replace(result, identity=api.resolve_namespace(result.identity))
    if more:
        result = dataclasses.replace(result, dependencies=merge_dependencies(result.dependencies, more))
    if api.traced and isinstance(result, Document) and result.origin_of is None:
        result = dataclasses.replace(result, origin_of=lambda _: LITERAL)  # it has no value of parent or cluster
    return with_ready_when(result)


def _holds_content(api: TemplateAPI) -> bool:
    """Whether a Secret's content became text or a key of the file in progress without a provenance."""
    return any(source.untracked for source in api.file_provenance)


def _with_hidden_names(results: Sequence[Result], api: TemplateAPI) -> list[Result]:
    """The results, in which no message names an object that a Secret's content names."""
    for result in results:
        if not isinstance(result, RenderProblem) and result.secret.paths and result.secret.instruct:
            api.secret_queries.update(each.query for each in result.dependencies if each.after)
    if not api.secret_queries:
        return [*results]

    def hidden(wait: Wait) -> Wait:
        targets = [replace(each, hidden=True) if each.query in api.secret_queries else each for each in wait.awaited]
        return dataclasses.replace(wait, awaited=tuple(targets))

    return [hidden(result) if isinstance(result, Wait) else result for result in results]


def nodes_of(
    templates: Templates, file: ManifestFile, variables: dict[str, Any]
) -> tuple[tuple[Node, ...], SlotValues]:
    """The parsed documents of one file, and the values for their slots."""
    if file.template is None:
        return file.documents, SlotValues()
    context = file.template.new_context(variables, shared=True)
    text = RenderedText(file.template.root_render_func(context))
    slots = SlotValues(text.values, text.texts, text.sizes, tracked=text.tracked, has_yaml=text.has_yaml)
    return templates.parse_rendered(text.marked, file.name), slots


def render_status(
    folder: Templates | Folder,
    parent: Mapping[str, Any],
    cluster: ClusterView,
    ready_when: Mapping[Reference, Predicate] | None = None,
    result: ReconcileResult | None = None,
) -> StatusFields:
    """The fields of `_status.yaml.j2` without the unknown ones; no fields if there is no such template. `ready_when`
    has the children with a rule of readiness of their own; `result` is None where no reconcile has one.
    """
    templates, failed = _compiled(folder)
    if templates is None:
        return StatusFields(problems=failed)
    if templates.status is None:
        return StatusFields()
    api = TemplateAPI(cluster, parent, lenient=True, ready_when=ready_when)
    variables = _variables(templates, parent, api) | {
        "status": api.previous_status(parent),
        "result": api.result(parent, result),
    }
    fields: Mapping[str, Any] = {}
    problems: tuple[RenderProblem, ...] = ()
    left_out: tuple[str, ...] = ()
    location_of: Callable[[FieldPath], SourceLocation] | None = None
    with set_within(kept_results, api.kept), limits.enforced(templates.surroundings.render_limit):
        try:
            nodes, slots = nodes_of(templates, templates.status, variables)
            status = _status(nodes, slots)
            if slots.tracked or api.file_provenance:
                status, left_out = redact_status(status, whole=_holds_content(api))
            fields = _fields(status, nodes, slots)
            location_of = partial(find_location, nodes[0], slots=slots) if fields else None
        except Exception as error:  # noqa: BLE001 - any error of a template is a problem of that template
            if _holds_content(api):
                mark_error(error)
            problems = (problem_of(error, templates, templates.status.name, variables, cluster.parent_schema),)
    return StatusFields(
        fields=fields,
        problems=problems,
        queries=_asked(api),
        children={query: location for query, location in api.asked.items() if isinstance(query, Reference)},
        apis=api.apis,
        again_at=api.again_at,
        left_out=left_out,
        location_of=location_of,
        secrets=tuple(api.secrets),
        secret_queries=frozenset(query for query in api.secret_queries if not isinstance(query, ApiKind)),
        warnings=_warnings(api),
    )


def _status(nodes: tuple[Node, ...], slots: SlotValues) -> Any:
    """The value of the status template, with provenance."""
    if len(nodes) > 1:
        raise DocumentError("_status.yaml.j2 must give one mapping; remove this document", nodes[1].location)
    return nodes[0].build(slots) if nodes else {}


def _fields(status: Any, nodes: tuple[Node, ...], slots: SlotValues) -> Mapping[str, Any]:
    if slots.tracked:
        status = drop_unknown(strip_provenance(status, []))
    if isinstance(status, UnknownValue):
        return {}
    if not isinstance(status, dict):
        raise DocumentError("_status.yaml.j2 must give a mapping of status fields", nodes[0].location)
    return status
