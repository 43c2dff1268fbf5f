"""The steps of a template author in these tests: write files, render them for a parent, read the fields."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.built_in_kinds import BUILT_IN_KINDS, KUBERNETES_VERSION, ApiKind
from ssa_operator.objects.cluster_view import (
    ALLOWED,
    OFFLINE,
    AccessReview,
    Answer,
    Availability,
    ClusterView,
    Lookup,
    Selection,
    Unknown,
    selects,
)
from ssa_operator.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.objects.render_result import Document, Rendered, StatusFields
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.render import render, render_status, render_traced
from ssa_operator.schema.data import is_optional

FOLDER = "echoes.example.com"

HEAD = """apiVersion: v1
kind: ConfigMap
metadata:
  name: c
"""


def parent(spec: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    body = {"apiVersion": "example.com/v1", "kind": "Echo", "metadata": {"name": "e", "namespace": "n", "uid": "u"}}
    return {**body, "spec": dict(spec or {}), **more}


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeClusterView:
    """A cluster view with these objects, at this time."""

    children: tuple[Mapping[str, Any], ...] = ()
    """The live children of the parent."""
    others: tuple[Mapping[str, Any], ...] = ()
    """All other live objects."""
    unsynced: frozenset[str] = frozenset()
    """The kinds whose watch is not synced."""
    applied_once: frozenset[str] = frozenset()
    """The names of children that were applied once and need not exist."""
    status_kinds: frozenset[str] = frozenset()
    """The kinds whose status a controller writes."""
    denied: Mapping[tuple[str, str], AccessReview] = dataclasses.field(default_factory=dict)
    """The kinds and names of children that templates may not read."""
    now: float = 0.0
    """Seconds since the epoch."""
    kubernetes_version: str = KUBERNETES_VERSION
    custom_kinds: frozenset[ApiKind] = frozenset()
    """The kinds that CRDs define."""
    unknown_kinds: frozenset[ApiKind] = frozenset()
    """The kinds of which the operator can't know whether they are served."""
    parent_schema: Mapping[str, Any] | None = None
    """The schema of the parent's CRD."""
    random_numbers: Iterator[int] = dataclasses.field(default_factory=lambda: itertools.cycle(range(61)))

    def synced(self, identity: Identity, /) -> bool:
        return identity.kind not in self.unsynced

    def namespaced(self, kind: GroupKind, /) -> bool:
        return kind.kind not in ("Namespace", "Node")

    def child(self, kind: str, name: str, /) -> Mapping[str, Any] | None:
        found = (body for body in self.children if body["kind"] == kind and body["metadata"]["name"] == name)
        return next(found, None)

    def unreadable(self, asked: Reference | Identity, /) -> AccessReview:
        return self.denied.get((asked.kind, asked.name), ALLOWED)

    def done(self, _: str, name: str, /) -> bool:
        return name in self.applied_once

    def reports_status(self, kind: GroupKind, /) -> bool:
        return kind.kind in self.status_kinds

    def lookup(self, identity: Identity, /) -> Mapping[str, Any] | None:
        return next((body for body in (*self.children, *self.others) if identity_of(body) == identity), None)

    def answer(self, query: Lookup | Selection, /) -> Answer:
        if query.kind in self.unsynced:
            return Answer(unknown=f"the watch of {query.kind} is not synced")
        if isinstance(query, Lookup):
            found = self.lookup(query.identity)
            return Answer(objects=() if found is None else (found,))
        return Answer(
            objects=[
                body
                for body in (*self.children, *self.others)
                if body["apiVersion"] == query.api_version
                and selects(query, identity_of(body), body["metadata"].get("labels", {}))
            ]
        )

    def serves(self, kind: ApiKind, /) -> Availability:
        if kind in self.unknown_kinds:
            return Unknown("its API is in an upgrade")
        return kind in BUILT_IN_KINDS or kind in self.custom_kinds

    def may_lack(self, api_version: str, kind: str, path: FieldPath, /) -> bool:
        return is_optional(api_version, kind, path)

    def random(self, below: int, /) -> int:
        return next(self.random_numbers) % below


def identity_of(body: Mapping[str, Any]) -> Identity:
    metadata = body["metadata"]
    group = split_api_version(body["apiVersion"])[0]
    return Identity(group, body["kind"], metadata.get("namespace", ""), metadata["name"])


def live(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    """A live object; `api_version` among the fields is the `apiVersion`."""
    version = fields.pop("api_version", "v1")
    metadata = {"name": name, "namespace": "n", **fields.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **fields}


def status(text: str, *children: Mapping[str, Any], spec: Mapping[str, Any] | None = None) -> StatusFields:
    """The status fields of a `_status.yaml.j2` with this text."""
    files = {"_status.yaml.j2": text, "a.yaml": HEAD}
    return render_status(templates(files), parent(spec), FakeClusterView(children=children))


def render_with(
    files: Mapping[str, str], cluster: ClusterView, spec: Mapping[str, Any] | None = None, **more: Any
) -> Rendered:
    """The render of files with this cluster view. A traced render gives the same documents."""
    found = render(templates(files), parent(spec, **more), cluster)
    if not found.generated:  # a traced render would draw other random numbers
        traced = render_traced(templates(files), parent(spec, **more), cluster)
        same = {(each.location, repr(each.body)): each.dependencies for each in traced.documents}
        for each in found.documents:
            assert {*same[each.location, repr(each.body)]} == {*each.dependencies}
    return found


def manifest(kind: str, name: str, rest: str = "", api_version: str = "v1") -> str:
    """The text of a manifest."""
    return f"apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: {name}\n{rest}"


def templates(files: Mapping[str, str]) -> Templates:
    """Compiled files of one folder; a name that begins with `_shared/` is beside it."""
    return _compiled(tuple(files.items()))


@functools.cache
def _compiled(files: tuple[tuple[str, str], ...]) -> Templates:
    named = {name if name.startswith("_shared/") else f"{FOLDER}/{name}": text for name, text in files}
    return Templates(FOLDER, named, "digest")


def rendered(files: Mapping[str, str], spec: Mapping[str, Any] | None = None, **more: Any) -> Rendered:
    return render_with(files, OFFLINE, spec, **more)


def document(text: str, spec: Mapping[str, Any] | None = None, **files: str) -> Document:
    """The only document of one template that renders without a problem."""
    result = rendered({"a.yaml.j2": text, **_named(files)}, spec)
    assert result.problems == ()
    (found,) = result.documents
    return found


def field(text: str, spec: Mapping[str, Any] | None = None, **files: str) -> Any:
    """The field `v` of a manifest that has `text` below its head."""
    return document(HEAD + text, spec, **files).body["v"]


def value(expression: str, spec: Mapping[str, Any] | None = None) -> Any:
    """The value of an expression as a whole scalar."""
    return field(f"v: {{{{ {expression} }}}}\n", spec)


def problem(text: str, spec: Mapping[str, Any] | None = None, **files: str) -> str:
    """The only problem of one template that renders nothing."""
    result = rendered({"a.yaml.j2": text, **_named(files)}, spec)
    assert result.documents == ()
    (found,) = result.problems
    return str(found)


def fault(expression: str, spec: Mapping[str, Any] | None = None) -> str:
    """The only problem of a manifest with this expression in its line 5."""
    return problem(HEAD + f"v: {{{{ {expression} }}}}\n", spec)


def _named(files: Mapping[str, str]) -> dict[str, str]:
    return {f"_{name}.yaml.j2": text for name, text in files.items()}
