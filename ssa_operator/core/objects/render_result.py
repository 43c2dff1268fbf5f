"""What rendering a template folder for one parent gave: documents, problems, waits.

Promises:
- All of it is known at once: one failed or waiting document never hides the others.
- Each document, each wait and each problem knows the template line it came from.
- What a document was made of is told, whether the cluster has it or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ssa_operator.core.objects.annotations import is_finalize_hook
from ssa_operator.core.objects.cluster_view import Body, Query
from ssa_operator.core.objects.identity import Identity, split_api_version
from ssa_operator.core.objects.source_location import FieldPath, SourceLocation, field_text


@dataclass(frozen=True, slots=True)
class Dependency:
    """Something of the cluster that a document was made of, or (`after`) only comes after.

    awaited: whether the document waits where the cluster doesn't have it; false for `ready`, `default` and the like.
    place: the template line that asks.
    """

    query: Query
    awaited: bool
    after: bool = False
    location: SourceLocation | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Awaited:
    """What a value waits for: a field of an object, or (`state`) what the object has to become.

    stalled: whether only a change by somebody can bring it about.
    """

    query: Query
    field: FieldPath = ()
    state: str = ""
    stalled: bool = False

    def __str__(self) -> str:
        if self.state:
            return f"{self.query} to {self.state}"
        return f"{self.query} .{field_text(self.field)}" if self.field else f"{self.query} to exist"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One manifest as its template says it: `body` is plain JSON data, `place` its first line.

    `place_of(path)` is the line that wrote a field, or the nearest field around it. drawn: the generated values of its
    file. holder: whether one of them stands alone in it, and so is found again in its live object.
    """

    body: Mapping[str, Any]
    location: SourceLocation
    location_of: Callable[[FieldPath], SourceLocation]
    dependencies: tuple[Dependency, ...] = ()
    generated_values: tuple[str, ...] = field(default=(), repr=False)
    holder: bool = False

    @property
    def identity(self) -> Identity:
        """What it is called, with the namespace that it names itself, '' where it names none."""
        metadata = self.body["metadata"]
        group = split_api_version(self.body["apiVersion"])[0]
        return Identity(group, self.body["kind"], metadata.get("namespace") or "", metadata["name"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A document that can't be made yet, or a whole file where nothing says which documents it has.

    identity: which object waits, None where that is unknown; without a namespace of its own it has the parent's. Its
    live object must not be pruned; where it is None, nothing may be. annotations: those that are known already.
    """

    location: SourceLocation
    awaited: tuple[Awaited, ...]
    identity: Identity | None = None
    dependencies: tuple[Dependency, ...] = ()
    annotations: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "waiting for " + " and ".join(map(str, self.awaited))


@dataclass(frozen=True, slots=True)
class RenderProblem:
    """Why a template or one of its documents can't be used; `str` is the sentence users read.

    of: the documents that it keeps from being made, where that is known. outdated: whether it keeps none from being
    made, as it is one of files that don't load: those of before are rendered.
    """

    message: str
    location: SourceLocation | None = None
    of: tuple[Identity, ...] = ()
    outdated: bool = False

    def __str__(self) -> str:
        return f"{self.location}: {self.message}" if self.location else self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """Everything that one render of a folder gave.

    asked: every question to the cluster, also those of files that failed. read_unready: those whose answers are taken
    as they are, ready or not. generated: which objects hold generated
    values. again_at: when time alone may change the render, in seconds since the epoch. aged: whether it has changed it
    since the parent was made. digest: names the template set. secrets: the Secrets that were looked at; drawn: the
    generated values of all files.
    """

    documents: tuple[Document, ...] = ()
    waits: tuple[Wait, ...] = ()
    problems: tuple[RenderProblem, ...] = ()
    asked: tuple[Query, ...] = ()
    read_unready: frozenset[Query] = frozenset()
    generated: tuple[Identity, ...] = ()
    again_at: float | None = None
    aged: bool = False
    digest: str = ""
    secrets: tuple[Body, ...] = field(default=(), repr=False, compare=False)
    generated_values: tuple[str, ...] = field(default=(), repr=False, compare=False)

    @property
    def standing(self) -> Rendered:
        """Without the finalize hooks: what there is while the parent lives."""
        return self._only(hooks=False) if self.has_hooks else self

    @property
    def finalizing(self) -> Rendered:
        """The finalize hooks alone."""
        return self._only(hooks=True)

    @property
    def has_hooks(self) -> bool:
        """Whether something has to happen before the parent may go."""
        return any(map(_is_hook, self.documents)) or any(is_finalize_hook(wait.annotations) for wait in self.waits)

    def _only(self, *, hooks: bool) -> Rendered:
        return replace(
            self,
            documents=tuple(document for document in self.documents if _is_hook(document) is hooks),
            waits=tuple(wait for wait in self.waits if is_finalize_hook(wait.annotations) is hooks),
        )

    @property
    def complete(self) -> bool:
        """Whether every template gave all of its documents: only then may anything be pruned."""
        return not self.problems and not self.waits


def _is_hook(document: Document) -> bool:
    return is_finalize_hook(document.body["metadata"].get("annotations"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFields:
    """What `_status.yaml.j2` gave: the fields that are known, or why there are none; the rest is as in Rendered.

    left_out: the fields that were made of a Secret's content, which has no place in a status.
    """

    fields: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[RenderProblem, ...] = ()
    asked: tuple[Query, ...] = ()
    again_at: float | None = None
    left_out: tuple[str, ...] = ()
    secrets: tuple[Body, ...] = field(default=(), repr=False, compare=False)
