"""Renders and plans parents of files without a cluster, by the operator's own rules, and names waits and problems.

Promises:
- The cluster serves every kind. Its only objects are the given ones, the earlier parents, and what these render. A
  parent that looks itself up finds itself.
- Two parents that render the same object are noticed, as the operator notices them. Two renders of the same parent that
  differ are a problem.
- A parent that the API server would refuse is not rendered. Each reason is named with the line of its field.
- The uid is all zeros and the generation 1; fields of the metadata and the status that the file sets stay. Fields that
  the parent's CRD doesn't declare are removed, and missing fields have its defaults.
- Every wait and problem names the template line and the object. A manifest whose dependencies are not ready is
  complete, and is a wait, too: the operator applies them first.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.annotations import ApplyPolicy, Reference
from ssa_operator.objects.cluster_view import OfflineClusterView
from ssa_operator.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.objects.json_schema import fields, schema_at
from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.manifest import ManifestError, fold_string_data, group_kind
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.readiness import ReadinessState, readiness
from ssa_operator.objects.render_result import Document, Rendered, RenderProblem, StatusFields
from ssa_operator.objects.scalars import timestamp
from ssa_operator.objects.secret_fields import is_secret
from ssa_operator.objects.source_location import FieldPath, SourceLocation
from ssa_operator.operator.preview import Planned, plan_observed, stored_parent
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.reconcile.child import Action, Child
from ssa_operator.reconcile.object_claims import objects_applied
from ssa_operator.reconcile.observe import make_observed
from ssa_operator.reconcile.observed import Observed, ObservedChildren, ObservedParents
from ssa_operator.reconcile.parent_records.rules import identity_key
from ssa_operator.reconcile.watched_children import named_objects, rendered_kinds
from ssa_operator.rendering.determinism import verified
from ssa_operator.rendering.folder.loaded_folders import Folder, Sources
from ssa_operator.rendering.render import render, render_status
from ssa_operator.schema.crd_schema import object_schema
from ssa_operator.schema.data import is_optional
from ssa_operator.schema.field_errors import error_field
from ssa_operator.tools.offline.documents import read_objects
from ssa_operator.tools.offline.project import (
    CRDKind,
    as_served,
    cluster_scoped,
    custom_kinds,
    find_folder,
    read_crd_kinds,
)

OFFLINE_UID = "00000000-0000-0000-0000-000000000000"


class OfflineParentError(Struct, frozen=True, kw_only=True):
    """A reason for which the API server would refuse a parent."""

    location: SourceLocation
    """The line of the field."""
    message: str
    """The API server's words."""


class PrunedField(Struct, frozen=True, kw_only=True):
    """A field that the API server removes from a parent."""

    location: SourceLocation
    message: str
    suggestion: str
    """A declared field with a similar name, as a question; '' for none."""

    def __str__(self) -> str:
        hint = f", {self.suggestion}" if self.suggestion else ""
        return f"{self.location}: {self.message}, and the API server removes it{hint}"


class ReturnedParent(Struct, frozen=True, kw_only=True):
    """A parent as the API server returns it."""

    name: str
    """Its kind and name."""
    body: dict[str, Any]
    errors: tuple[OfflineParentError, ...] = ()
    """Why the API server would refuse it."""
    pruned: tuple[PrunedField, ...] = ()
    unchecked: tuple[str, ...] = ()
    """The checks that were not made offline, with the location of the parent."""


class RefusedParentError(CommandError):
    """The API server would refuse a parent. The text has all reasons in one line, each with its line of the file."""

    def __init__(self, created: ReturnedParent) -> None:
        self.created = created
        reasons = (f"{error.message} (line {error.location.line})" for error in created.errors)
        super().__init__(f"{created.name} is invalid: {'; '.join(reasons)}")

    @property
    def lines(self) -> list[str]:
        """A line for each reason."""
        return [f"{error.location}: {self.created.name} is invalid: {error.message}" for error in self.created.errors]


def created_parent(
    parent: Document, folder: Folder, kinds: Mapping[GroupKind, CRDKind], now: float, namespace: str = "default"
) -> ReturnedParent:
    """The parent as the API server would return it if it accepted it. `now` is in seconds since the epoch.
    `namespace` is that of a parent whose file names none.

    Raises CommandError if its CRD doesn't serve its version.
    """
    served = as_served(parent.body, folder, kinds)
    name = f"{parent.body['kind']} {parent.body['metadata']['name']}"
    metadata = {
        "uid": OFFLINE_UID,
        "generation": 1,
        "resourceVersion": "0",
        "creationTimestamp": timestamp(now),
    }
    given = served.body["metadata"]
    if group_kind(parent) not in cluster_scoped(kinds):
        metadata["namespace"] = namespace
    else:
        # The API server removes it instead of refusing the object.
        given = {key: value for key, value in given.items() if key != "namespace"}
    return ReturnedParent(
        name=name,
        body={**served.body, "metadata": {**metadata, **given}},
        errors=tuple(
            OfflineParentError(location=parent.location_of(error.path), message=str(error)) for error in served.errors
        ),
        pruned=tuple(_pruned_field(parent, path, kinds) for path in served.pruned),
        unchecked=tuple(f"{parent.location}: {name}: not checked offline: {each}" for each in served.unchecked),
    )


def _pruned_field(parent: Document, path: FieldPath, kinds: Mapping[GroupKind, CRDKind]) -> PrunedField:
    known = kinds[group_kind(parent)]
    schema = object_schema(known.definition, split_api_version(parent.body["apiVersion"])[1])
    near = near_names(str(path[-1]), fields(schema_at(schema, path[:-1])))
    return PrunedField(
        location=parent.location_of(path),
        message=f"the CRD {known.folder} declares no {error_field(path)}",
        suggestion=f"did you mean {error_field((*path[:-1], near[0]))}?" if near else "",
    )


class OfflineParent(Struct, frozen=True, kw_only=True):
    """A rendered and planned parent."""

    planned: Planned
    created: ReturnedParent
    """The parent as the API server returns it."""
    status: StatusFields
    """The fields of its `_status.yaml.j2`."""

    @property
    def folder(self) -> Folder:
        return self.planned.parent.folder

    @property
    def observed(self) -> Observed:
        return self.planned.observed

    @property
    def rendered(self) -> Rendered:
        return self.planned.rendered

    @property
    def steps(self) -> tuple[Child, ...]:
        """A step for each document and wait, finalize hooks included."""
        return self.planned.rendered_steps

    @property
    def problems(self) -> tuple[RenderProblem, ...]:
        """The problems of the manifests and of the status."""
        return (*self.rendered.problems, *self.status.problems)


@dataclass(slots=True, kw_only=True)
class OfflineCluster:
    """The replacement of a cluster."""

    sources: Sources

    kinds: Mapping[GroupKind, CRDKind]
    """The kinds of the CRDs in files."""

    now: float
    """Seconds since the epoch."""

    namespace: str = "default"
    """The namespace of parents without one."""

    objects: Mapping[Identity, LiveObject] = field(default_factory=dict)
    """The objects that the cluster has."""

    children: AbstractSet[Identity] | None = None
    """Those of the objects that are the parent's children; None: every one in its namespace may be."""

    built_in_readiness: bool = False
    """Whether objects are judged by the built-in rules alone, because they are made up to be ready by these."""

    claims: dict[Identity, Identity] = field(default_factory=dict)
    """The first parent that renders each object for itself alone."""

    def created(self, parent: Document) -> tuple[Folder, dict[str, Any]]:
        """The template folder of a parent, and the parent as the API server returns it.

        Raises CommandError if it has no template folder, or its CRD doesn't serve its version, and RefusedParentError
        if the API server would refuse it.
        """
        folder, created = self._created(parent)
        return folder, created.body

    def _created(self, parent: Document) -> tuple[Folder, ReturnedParent]:
        folder = find_folder(parent.body, self.sources, self.kinds)
        created = created_parent(parent, folder, self.kinds, self.now, self.namespace)
        if created.errors:
            raise RefusedParentError(created)
        return folder, created

    def render(self, parent: Document, *, verify: bool = True) -> OfflineParent:
        """Render and plan a parent of a file. Unless `verify` is false, it is rendered twice, and a difference is a
        problem. Raises CommandError as `created` does.
        """
        folder, created = self._created(parent)
        body = created.body
        scoped = cluster_scoped(self.kinds)
        view = OfflineClusterView(
            now=self.now,
            cluster_scoped=scoped,
            objects={_identity_of(body): body, **{identity: live.body for identity, live in self.objects.items()}},
            custom_kinds=custom_kinds(self.kinds),
            namespace=body["metadata"].get("namespace", ""),
            children=self.children,
            parent_schema=self._schema_of(body["apiVersion"], body["kind"]),
            optional=lambda version, kind, path: is_optional(version, kind, path, self._schema_of(version, kind)),
        )
        rendered = render(folder, body, view, built_in_readiness=self.built_in_readiness)
        if verify:
            rendered = verified(folder, body, view, rendered, built_in_readiness=self.built_in_readiness)
        live = LiveObject.of(body)
        kind = live.identity.group_kind
        resource = Resource(
            group=kind.group,
            version=live.version,
            kind=kind.kind,
            plural=folder.resource,
            namespaced=kind not in scoped,
        )
        planned = plan_observed(stored_parent(live, folder, resource), self._observed(live, rendered, folder), rendered)
        for identity in objects_applied(planned.rendered_steps, ApplyPolicy.ALWAYS):
            self.claims.setdefault(identity, live.identity)
        status = render_status(folder, body, view, {} if self.built_in_readiness else rendered.ready_when)
        return OfflineParent(planned=planned, created=created, status=status)

    def _schema_of(self, api_version: str, kind: str) -> Mapping[str, Any] | None:
        """The schema of a kind by its CRD, None if there is none."""
        known = self.kinds.get(GroupKind.of(api_version, kind))
        return None if known is None else object_schema(known.definition, split_api_version(api_version)[1])

    def _objects_beside(self, uid: str) -> Mapping[Identity, LiveObject]:
        """The objects, those of a case's children as children of the parent with this uid."""
        if not self.children:
            return self.objects
        named = {identity: self.objects[identity] for identity in self.children & self.objects.keys()}
        return {**self.objects, **{identity: _as_child(live, uid) for identity, live in named.items()}}

    def _observed(self, parent: LiveObject, rendered: Rendered, folder: Folder) -> Observed:
        scoped, kinds = cluster_scoped(self.kinds), rendered_kinds(named_objects(rendered))
        others = {identity: owner for identity, owner in self.claims.items() if owner != parent.identity}
        return make_observed(
            parent,
            folder,
            rendered,
            ObservedChildren(
                objects=self._objects_beside(parent.uid),
                own=(),
                kinds={kind: KindState(namespaced=kind not in scoped, synced=True) for kind in kinds},
            ),
            ObservedParents(
                existing={identity_key(owner): owner for owner in others.values()},
                claims={identity: identity_key(owner) for identity, owner in others.items()},
            ),
            now=self.now,
        )


def _as_child(live: LiveObject, uid: str) -> LiveObject:
    """A child with the label that a case leaves out, so that it is the parent's own in any namespace."""
    metadata = live.body["metadata"]
    labels = {**(metadata.get("labels") or {}), PARENT_UID_LABEL: uid}
    return LiveObject.of({**live.body, "metadata": {**metadata, "labels": labels}})


def _identity_of(body: dict[str, Any]) -> Identity:
    return LiveObject.of(body).identity


def live_objects(
    documents: Iterable[Document], cluster_scoped: AbstractSet[GroupKind], namespace: str
) -> dict[Identity, LiveObject]:
    """The objects of files as live objects: the `stringData` of Secrets is `data`. Raises CommandError if one occurs
    twice, or has a value that is no text.
    """
    found: dict[Identity, LiveObject] = {}
    for document in documents:
        metadata = {"uid": OFFLINE_UID, **document.body["metadata"]}
        if group_kind(document) not in cluster_scoped:
            metadata["namespace"] = metadata.get("namespace") or namespace
        body = {**document.body, "metadata": metadata}
        if is_secret(body) and "stringData" in body:
            body["data"] = dict(body.get("data") or {})
            try:
                fold_string_data(body)
            except ManifestError as error:
                raise CommandError(f"{document.location}: Secret {metadata['name']} {error}", code=2) from None
        live = LiveObject.of(body)
        if live.identity in found:
            raise CommandError(f"{document.location}: {live.identity} is given twice", code=2)
        found[live.identity] = live
    return found


@dataclass(slots=True, kw_only=True)
class RenderedParents:
    """The renders of several parents, one after another."""

    now: float
    """Seconds since the epoch."""

    names_parents: bool = True
    """Whether each wait and problem names the parent."""

    steps: list[Child] = field(default_factory=list)
    """The steps of the manifests that the operator would apply."""

    problems: list[str] = field(default_factory=list)

    waits: list[str] = field(default_factory=list)
    """The documents that would wait, with the objects that they wait for."""

    warnings: list[str] = field(default_factory=list)
    """The Events that the templates emit with `warn`."""

    def add(self, planned: Planned, render_problems: Iterable[RenderProblem]) -> None:
        """Add what one parent renders."""
        observed, rendered = planned.observed, planned.rendered
        problems = list(dict.fromkeys(map(str, render_problems)))
        waits = [f"{wait.location}: a document is {wait}" for wait in rendered.waits if wait.identity is None]
        unready = partial(self._unready, observed, rendered)
        for step in planned.rendered_steps:
            self._add(step, observed, unready, problems, waits)
        identity = observed.parent.identity
        parent = f" (for {identity.kind} {identity.name})" if self.names_parents else ""
        self.problems += [f"{problem}{parent}" for problem in problems]
        self.waits += [f"{wait}{parent}" for wait in waits]
        self.warnings += [f"{warning}{parent}" for warning in rendered.warnings]

    def _add(
        self,
        step: Child,
        observed: Observed,
        unready: Callable[[Identity], bool],
        problems: list[str],
        waits: list[str],
    ) -> None:
        if step.action is Action.REFUSE:
            problems.append(f"{step.location}: {step.identity} {step.reason}")
        elif step.manifest is None:
            waits.append(f"{step.location}: {step.identity} is {step.reason}")
        else:
            self.steps.append(step)
            # The manifest is complete, but the operator applies its dependencies first.
            dependencies = [str(edge) for edge in step.after if unready(edge.target)]
            dependencies += [
                f"{child} to be ready"
                for child, _ in step.missing
                if all(map(unready, _named(child, observed.children.objects)))
            ]
            if dependencies:
                waits.append(f"{step.location}: {step.identity} is waiting for {' and '.join(dependencies)}")

    def _unready(self, observed: Observed, rendered: Rendered, identity: Identity) -> bool:
        live, kind = observed.children.objects.get(identity), observed.children.kinds.get(identity.group_kind)
        if live is None or kind is None:
            return True
        ready_when = rendered.ready_when.get(Reference(identity.kind, identity.name))
        found = readiness(live.body, self.now, reports_status=kind.reports_status, ready_when=ready_when)
        return found.state is not ReadinessState.CURRENT


def _named(child: Reference, objects: Iterable[Identity]) -> list[Identity]:
    """The objects that a reference may mean."""
    return [identity for identity in objects if (identity.kind, identity.name) == (child.kind, child.name)]


def rendered_offline(
    parents: Sequence[Document],
    sources: Sources,
    crds: Sequence[Path],
    objects: Sequence[Path],
    namespace: str,
) -> RenderedParents:
    """What the parents render as new ones, where `child` and `lookup` find the objects of these files.

    What the API server removes from a parent, and what can't be checked without it, goes to standard error. Raises
    CommandError if a file of the CRDs or objects can't be read.
    """
    kinds = read_crd_kinds(crds)
    now = time.time()
    offline = OfflineCluster(
        sources=sources,
        kinds=kinds,
        namespace=namespace,
        objects=live_objects(read_objects(objects), cluster_scoped(kinds), namespace),
        now=now,
    )
    found = RenderedParents(now=now)
    found.problems += [str(problem) for problem in sources.problems]
    for parent in parents:
        try:
            each = offline.render(parent)
        except RefusedParentError as error:
            found.problems += error.lines
            _warn(error.created)
        except CommandError as error:
            found.problems.append(f"{parent.location}: {error}")
        else:
            found.add(each.planned, each.problems)
            _warn(each.created)
    return found


def _warn(created: ReturnedParent) -> None:
    for pruned in created.pruned:
        streams.error(f"warning: {pruned}")
    for unchecked in created.unchecked:
        streams.error(f"note: {unchecked}")
