"""Checks the templates of folders, by their text and by rendering their examples, for `ssa-operator check`.

Promises:
- Every document of an example is rendered: after each render, its manifests are taken for live objects that are ready,
  until nothing new is rendered.
- The other examples are objects that `lookup` finds, with the status that their templates render.
- One broken example hides no finding of another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ssa_operator.checks.field_rules import FolderFields, check_fields
from ssa_operator.checks.findings import Finding
from ssa_operator.checks.manifest_rules import check_manifests
from ssa_operator.checks.ready_objects import ready_object
from ssa_operator.cli.command_error import CommandError
from ssa_operator.cli.offline_cluster import OfflineCluster, OfflineParent
from ssa_operator.cli.template_folders import CRDKind, find_folder, read_version
from ssa_operator.core.objects.crd_schema import object_schema, status_schema
from ssa_operator.core.objects.dependency_graph import graph_of
from ssa_operator.core.objects.identity import GroupKind, Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.render_result import Document, RenderProblem
from ssa_operator.core.planning.step import Action
from ssa_operator.core.status.own_status import own_status, undeclared_fields
from ssa_operator.rendering.folder.sources import Sources
from ssa_operator.rendering.possible_manifests import template_contents

ROUNDS = 100
"""A chain of more manifests than this is not followed to its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """What `check` looks at."""

    sources: Sources
    kinds: Mapping[GroupKind, CRDKind]
    examples: Sequence[Document]
    """Objects of files. Those without a template folder are objects that `lookup` finds."""
    now: float
    """Seconds since the epoch."""


def check_examples(project: Project) -> list[Finding]:
    """The findings of all folders."""
    findings = [_of_problem("template-error", problem) for problem in project.sources.problems]
    for folder in project.sources.folders.values():
        findings += [_of_problem("template-error", problem) for problem in folder.problems]
    parents, others = _parents(project)
    cluster = OfflineCluster(sources=project.sources, kinds=project.kinds, now=project.now)
    lookups = {live.identity: live for live in (LiveObject.of(ready_object(each.body)) for each in others)}
    alone = [_complete(cluster, parent, lookups) for parent in parents]
    complete = [each for each in alone if not isinstance(each, Finding)]
    lookups |= {live.identity: live for live in map(_with_status, complete)}
    cluster.claims.clear()
    for parent, first in zip(parents, alone, strict=True):
        found: OfflineParent | Finding = first
        if not isinstance(first, Finding):
            found = _complete(cluster, parent, {**first.observed.children.objects, **lookups}, verify=True)
        findings += [found] if isinstance(found, Finding) else [*_findings_of(found), *_dropped(found, project)]
    for name in sorted(project.sources.folders.keys() - {each.folder.name for each in complete}):
        message = f"there is no example for templates/{name}"
        findings.append(Finding(code="folder-without-example", message=message, location=None))
    return list(dict.fromkeys(findings))


def check_template_fields(project: Project) -> list[Finding]:
    """The findings about the fields of parents that templates read, by the schemas of the CRDs."""
    folders = []
    for kind in project.kinds.values():
        folder = project.sources.folders.get(kind.folder)
        if folder is None:
            continue
        schema = object_schema(kind.definition, read_version(folder, kind.definition))
        if schema is not None:
            fields = template_contents(folder).fields
            folders.append(FolderFields(folder=folder.name, schema=schema, fields=fields))
    return check_fields(folders)


def _parents(project: Project) -> tuple[list[Document], list[Document]]:
    """The examples that have a template folder, and the others."""
    parents: list[Document] = []
    others: list[Document] = []
    for document in project.examples:
        try:
            find_folder(document.body, project.sources, project.kinds)
        except CommandError:
            others.append(document)
        else:
            parents.append(document)
    return parents, others


def _complete(
    cluster: OfflineCluster, parent: Document, objects: Mapping[Identity, LiveObject], *, verify: bool = False
) -> OfflineParent | Finding:
    """The parent with all manifests that can be rendered while everything is ready. `objects` are there before."""
    cluster.objects = objects
    try:
        found = cluster.render(parent, verify=False)
        for _ in range(ROUNDS):
            manifests = {step.identity: step.manifest for step in found.steps if step.manifest is not None}
            ready = {identity: ready_object(manifest.body) for identity, manifest in manifests.items()}
            if all(_body(cluster, identity) == body for identity, body in ready.items()):
                break
            lives = {identity: LiveObject.of(body) for identity, body in ready.items()}
            cluster.objects = {**cluster.objects, **lives}
            found = cluster.render(parent, verify=False)
        return cluster.render(parent) if verify else found
    except CommandError as error:
        return Finding(code="render-error", message=str(error), location=parent.location)


def _body(cluster: OfflineCluster, identity: Identity) -> object:
    live = cluster.objects.get(identity)
    return live.body if live is not None else None


def _with_status(parent: OfflineParent) -> LiveObject:
    body = dict(parent.observed.parent.body)
    body["status"] = {**(body.get("status") or {}), **parent.status.fields}
    return LiveObject.of(body)


def _findings_of(parent: OfflineParent) -> Iterator[Finding]:
    yield from (_of_problem("render-error", problem) for problem in parent.problems)
    for step in parent.steps:
        if step.action is Action.REFUSE:
            message = f"{step.identity} {step.reason}"
            yield Finding(code="invalid-manifest", message=message, location=step.location)
    yield from _cycles(parent)
    yield from check_manifests(parent.rendered.documents)


def _dropped(parent: OfflineParent, project: Project) -> Iterable[Finding]:
    """What the operator doesn't write of the status."""
    live = parent.observed.parent
    kind = project.kinds.get(live.identity.group_kind)
    schema = None if kind is None else status_schema(kind.definition, live.version)
    own = own_status(live, parent.status)
    for each in (*own.dropped, *undeclared_fields(own, parent.status, schema)):
        yield Finding(code="dropped-status-field", message=each.message, location=each.location)


def _cycles(parent: OfflineParent) -> Iterable[Finding]:
    graph = graph_of(parent.rendered, lambda identity: identity)
    locations = {wait.identity: wait.location for wait in parent.rendered.waits if wait.identity is not None}
    for cycle in graph.cycles():
        message = f"these manifests wait for each other: {graph.path(cycle)}"
        yield Finding(code="dependency-cycle", message=message, location=locations.get(cycle[0]))


def _of_problem(code: str, problem: RenderProblem) -> Finding:
    return Finding(code=code, message=problem.message, location=problem.location)
