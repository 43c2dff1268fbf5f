"""The result of rendering a template folder for one parent: documents, the origin of each field, waits and problems.

Promises:
- An origin names fields and objects, and never a value.
- An origin in the parent is written as templates write it: `spec.replicas`.
- One document that fails or waits doesn't hide the others: the result has all documents, waits and problems.
- Each document, wait and problem has the template line that it comes from.
- A document lists all of its dependencies, whether the cluster has them or not.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from msgspec import Struct

from ssa_operator.objects.annotations import Reference, is_finalize_hook
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.cluster_view import Availability, Body, Lookup, Query, Question, Selection
from ssa_operator.objects.identity import Identity, split_api_version
from ssa_operator.objects.predicate import Predicate
from ssa_operator.objects.problem_hints import hint
from ssa_operator.objects.secret_fields import NO_SECRET_FIELDS, SecretFields
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text, value_at

REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
"""The reason of a condition or of an Event, as the API server accepts it for conditions."""


class TemplateWarning(Struct, frozen=True, kw_only=True):
    """An Event that a template emits on an object with `warn`."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    message: str

    def __str__(self) -> str:
        identity = Identity(split_api_version(self.api_version)[0], self.kind, self.namespace, self.name)
        return f"Event on {identity}: {self.reason}: {self.message}"


class OriginKind(StrEnum):
    """How the value of a field follows from what the template reads."""

    LITERAL = "literal"
    """It is the template's text."""
    VALUE = "value"
    """It is the value of a field that the template reads."""
    COMPUTED = "computed"
    """An expression or a text contains what the template reads."""
    DEFAULT = "default"
    """It is the template's default, because the field that it reads is missing."""
    GENERATED = "generated"
    """It is a generated value, or contains one."""


class FieldRead(Struct, frozen=True):
    """A field that a template reads."""

    query: Question | None
    """The query for the object; None for the parent."""
    path: FieldPath
    """The field of the object, () for the whole object; the first part of a `lookup_all` is a position in the list."""

    def __str__(self) -> str:
        field = field_text(self.path)
        if self.query is None:
            return field or "object"
        match self.query:
            case Reference():
                function = "child"
            case Lookup():
                function = "lookup"
            case Selection():
                function = "lookup_all"
            case ApiKind():
                function = "api_available"
        return f"{function}({self.query})" + (f".{field}" if field and not field.startswith("[") else field)


class Origin(Struct, frozen=True):
    """The origin of one field's value."""

    kind: OriginKind
    reads: tuple[FieldRead, ...] = ()
    """The fields that the value follows from."""

    def __str__(self) -> str:
        fields = ", ".join(dict.fromkeys(map(str, self.reads)))
        match self.kind:
            case OriginKind.VALUE:
                return fields
            case OriginKind.COMPUTED:
                return f"computed from {fields}"
            case OriginKind.DEFAULT:
                return f"default for {fields}"
            case OriginKind.GENERATED:
                return "generated()"
        return "literal"


LITERAL = Origin(OriginKind.LITERAL)


@dataclass(frozen=True, slots=True)
class Dependency:
    """What a document depends on."""

    query: Question
    awaited: bool
    """Whether the document waits while the cluster doesn't have it; false for `ready`, `default` and the like."""
    after: bool = False
    """Whether the document only comes after it (`ssa-operator.dev/after`), and reads no value of it."""
    location: SourceLocation | None = field(default=None, compare=False)
    """The template line that makes the query."""
    fields: tuple[FieldPath, ...] = field(default=(), compare=False)
    """The fields that the document reads, () for the whole object; only a traced render has them."""


class WaitTarget(Struct, frozen=True):
    """What a document waits for: an object must exist, have a field, or reach a state."""

    query: Question
    field: FieldPath = ()
    """The field that the object must have, () for none."""
    state: str = ""
    """The state that the object must reach, in words that follow "to"; '' for none."""
    needs_permission: bool = False
    """Whether the wait only ends when a user grants a permission."""
    live: bool = False
    """Whether a template reads the field with `live`, which never waits: a missing field is an error."""
    hidden: bool = False
    """Whether a Secret's content names the object, so that no message does."""
    absent: bool = False
    """Whether the looked-up object does not exist."""

    def __str__(self) -> str:
        if self.hidden:
            # After the colon, a reason may name the object.
            state = self.state.partition(": ")[0] or "exist"
            hint = "; allow the operator to list and watch its kind" if self.needs_permission else ""
            return f"an object that a Secret's content names to {state}{hint}"
        if self.state:
            return f"{self.query} to {self.state}"
        if not self.field:
            return f"{self.query} to exist"
        absent = f" (there is no such {self.query.kind})" if self.absent else ""
        return f"{self.query} .{field_text(self.field)}{absent}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One manifest as its template wrote it."""

    body: Mapping[str, Any]
    """Plain JSON data."""
    location: SourceLocation
    """Its first line."""
    location_of: Callable[[FieldPath], SourceLocation]
    """The line that wrote a field, or the nearest field around it."""
    origin_of: Callable[[FieldPath], Origin] | None = None
    """The origin of a field's value; only a traced render has it."""
    dependencies: tuple[Dependency, ...] = ()
    generated_values: tuple[str, ...] = field(default=(), repr=False)
    """The generated values of its file."""
    has_generated_values: bool = False
    """Whether a field of it holds a generated value alone, so that the next render reads the value back from the live
    object.
    """
    secret: SecretFields = NO_SECRET_FIELDS
    """The fields that hold a Secret's content."""
    ready_when: Predicate | None = None
    """The expression that replaces the built-in rules of readiness (`ssa-operator.dev/ready-when`)."""

    @property
    def reads_itself(self) -> bool:
        """Whether it depends on its own object (`live`), so that it must not be applied to a later state of that
        object.
        """
        if not self.dependencies:
            return False
        identity = self.identity
        own = Reference(identity.kind, identity.name)
        return any(each.query == own and not each.after for each in self.dependencies)

    def origin(self, path: FieldPath) -> Origin | None:
        """The origin of a field's value; None if the render isn't traced."""
        if self.origin_of is None:
            return None
        value = value_at(self.body, path)
        if isinstance(value, str) and any(value_of in value for value_of in _spellings(self.generated_values)):
            return Origin(OriginKind.GENERATED)
        return self.origin_of(path)

    @property
    def identity(self) -> Identity:
        """Its identity; the namespace is the one in its metadata, '' without one."""
        metadata = self.body["metadata"]
        group = split_api_version(self.body["apiVersion"])[0]
        return Identity(group, self.body["kind"], metadata.get("namespace") or "", metadata["name"])


def _spellings(values: Iterable[str]) -> Iterator[str]:
    """The values as they are and in base64."""
    for value in values:
        yield value
        yield base64.b64encode(value.encode()).decode().rstrip("=")[:-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A document that can't be rendered yet, or a whole file whose documents are unknown yet."""

    location: SourceLocation
    awaited: tuple[WaitTarget, ...]
    identity: Identity | None = None
    """The object that waits, None if it is unknown. Its live object must not be pruned; while it is unknown, no object
    may be pruned. A namespaced object without a namespace has the parent's.
    """
    version: str | None = None
    """The version of the manifest, without the group; None if it is unknown."""
    dependencies: tuple[Dependency, ...] = ()
    annotations: Mapping[str, Any] = field(default_factory=dict)
    """The annotations that are known already."""
    secret: SecretFields = NO_SECRET_FIELDS
    """The fields that hold a Secret's content."""
    ready_when: Predicate | None = None
    """The expression that replaces the built-in rules of readiness for the live object, if it is known already."""

    def __str__(self) -> str:
        return "waiting for " + " and ".join(map(str, self.awaited))


class RenderProblem(Struct, frozen=True):
    """An error of a template or of one of its documents; `str` gives the message for users."""

    message: str
    location: SourceLocation | None = None
    of: tuple[Identity, ...] = ()
    """The documents that it prevents, if they are known."""
    kinds: tuple[str, ...] = ()
    """Of a file that fails: the kind of each document that its text writes, as far as the text shows it."""
    outdated: bool = False
    """Whether it prevents no document, because it is an error of files that don't load: the last good ones are
    rendered.
    """
    by_author: bool = False
    """Whether a template reports it with `fail` or `required`."""

    def __str__(self) -> str:
        what_to_do = hint(self.message)
        text = f"{self.message}; {what_to_do}" if what_to_do else self.message
        return f"{self.location}: {text}" if self.location else text


class ConversionError(ValueError):
    """An object can't be converted. The message names file and line, or the object and what to do."""

    def __init__(self, message: str, problem: RenderProblem | None = None) -> None:
        super().__init__(message)
        self.problem = problem
        """The problem of the template, None if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The result of rendering a folder."""

    documents: tuple[Document, ...] = ()
    waits: tuple[Wait, ...] = ()
    problems: tuple[RenderProblem, ...] = ()
    queries: tuple[Query, ...] = ()
    """All queries to the cluster, those of failed files included."""
    read_unready: frozenset[Question] = frozenset()
    """The queries whose answers templates read even if they are not ready."""
    apis: Mapping[ApiKind, Availability] = field(default_factory=dict)
    """The kinds that templates ask for with `api_available`, each with the answer."""
    generated: tuple[Identity, ...] = ()
    """The objects that hold generated values."""
    again_at: float | None = None
    """When the render may change without an event, in seconds since the epoch."""
    changed_by_time: bool = False
    """Whether it has changed without an event since the parent was created."""
    digest: str = ""
    """The digest of the template set."""
    secrets: tuple[Body, ...] = field(default=(), repr=False, compare=False)
    """The Secrets that templates read."""
    generated_values: tuple[str, ...] = field(default=(), repr=False, compare=False)
    """The generated values of all files."""
    secret_queries: frozenset[Question] = frozenset()
    """The queries that a Secret's content names."""
    warnings: tuple[TemplateWarning, ...] = ()
    """The Events that the templates emit with `warn`."""

    @property
    def ready_when(self) -> dict[Reference, Predicate]:
        """The children with a rule of readiness of their own, including those whose document waits."""
        return ready_when_of((*self.documents, *self.waits))

    @property
    def without_hooks(self) -> Rendered:
        """Without the finalize hooks: the children while the parent is not being deleted."""
        return self._select(hooks=False) if self.has_hooks else self

    @property
    def finalizing(self) -> Rendered:
        """Only the finalize hooks."""
        return self._select(hooks=True)

    @property
    def has_hooks(self) -> bool:
        """Whether there are finalize hooks."""
        return any(map(is_hook, self.documents)) or any(map(is_hook, self.waits))

    def _select(self, *, hooks: bool) -> Rendered:
        return replace(
            self,
            documents=tuple(document for document in self.documents if is_hook(document) is hooks),
            waits=tuple(wait for wait in self.waits if is_hook(wait) is hooks),
        )

    @property
    def complete(self) -> bool:
        """Whether all documents of all templates are rendered; otherwise no object may be pruned."""
        return not self.problems and not self.waits


def ready_when_of(results: Iterable[Document | Wait]) -> dict[Reference, Predicate]:
    """The children with a rule of readiness of their own."""
    return {
        Reference(result.identity.kind, result.identity.name): result.ready_when
        for result in results
        if result.identity is not None and result.ready_when is not None
    }


def is_hook(result: Document | Wait) -> bool:
    """Whether it is a finalize hook: applied only when the parent is being deleted."""
    annotations = result.body["metadata"].get("annotations") if isinstance(result, Document) else result.annotations
    return bool(annotations) and is_finalize_hook(annotations)


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """What the condition Ready says of a reconcile, for the status template."""

    ready: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFields:
    """The result of rendering `_status.yaml.j2`."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    """The fields whose values are known."""
    problems: tuple[RenderProblem, ...] = ()
    queries: tuple[Query, ...] = ()
    """All queries to the cluster."""
    children: Mapping[Reference, SourceLocation | None] = field(default_factory=dict, repr=False, compare=False)
    """The children that the template reads by `child`, each with the first line that does."""
    apis: Mapping[ApiKind, Availability] = field(default_factory=dict)
    """The kinds that the template asks for with `api_available`, each with the answer."""
    again_at: float | None = None
    """When the result may change without an event, in seconds since the epoch."""
    left_out: tuple[str, ...] = ()
    """The fields that would publish the content of a Secret."""
    location_of: Callable[[FieldPath], SourceLocation] | None = field(default=None, repr=False, compare=False)
    """The line that wrote a field, or the nearest field around it; None without a template."""
    secrets: tuple[Body, ...] = field(default=(), repr=False, compare=False)
    """The Secrets that the template reads."""
    secret_queries: frozenset[Query] = frozenset()
    """The queries that a Secret's content names."""
    warnings: tuple[TemplateWarning, ...] = ()
    """The Events that the template emits with `warn`."""
