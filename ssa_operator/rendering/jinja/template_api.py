"""The functions with which templates query the cluster, and the record of the queries of one render.

Promises:
- A query alone never waits. A document that reads a field waits until the cluster has the object and the field.
- A document that reads a field of a child also waits until the child is ready, except for a child with the annotation
  `wait: "false"`.
- `default` and `is defined` wait for neither, and `live` never waits.
- In a lenient render nothing waits: it reads the fields of a child that is not ready or that is being deleted.
- The render records every query with the template line that sent it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from types import FrameType, MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

from jinja2 import Template, TemplateRuntimeError
from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.cluster_view import (
    Availability,
    Body,
    ClusterView,
    LiveBodies,
    Lookup,
    Query,
    Question,
    Selection,
    Unknown,
)
from ssa_operator.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.objects.label_selectors import requirements, selector_fault
from ssa_operator.objects.predicate import Predicate
from ssa_operator.objects.readiness import Readiness, ReadinessState, readiness
from ssa_operator.objects.render_result import REASON, ReconcileResult, TemplateWarning, WaitTarget
from ssa_operator.objects.scalars import parse_duration, seconds_of
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.jinja.functions import ACCEPTS_TRACKED
from ssa_operator.rendering.jinja.kept_results import KeptResults
from ssa_operator.rendering.jinja.value_generator import ValueGenerator
from ssa_operator.rendering.values.limits import LimitError
from ssa_operator.rendering.values.manifest_values import kind_of
from ssa_operator.rendering.values.secrecy import Secrecy
from ssa_operator.rendering.values.tracked_containers import strip_provenance, track_data
from ssa_operator.rendering.values.tracked_values import (
    Provenance,
    TrackedValue,
    UnknownValue,
    call_tracked,
    untracked,
    without_waiting,
)
from ssa_operator.rendering.values.undefined import Missing

EVERYTHING: Mapping[str, Any] = MappingProxyType({})
"""The LabelSelector that selects everything."""

LOOKUPS_LIMIT = 1000
"""Objects that the templates of one parent may look up. Each may be a watch of its own."""

WARNINGS_LIMIT = 100
"""Events that the templates of one parent may emit with `warn`."""

_REASON_LIMIT = 128
"""Characters of the reason of an Event."""

NAME_LIMIT = 253
"""Characters of the longest name that an object can have."""


class TemplateAPI:
    """The queries of one render of one parent."""

    def __init__(
        self,
        cluster: ClusterView,
        parent: Mapping[str, Any],
        lenient: bool = False,
        no_wait: AbstractSet[Reference] = frozenset(),
        traced: bool = False,
        ready_when: Mapping[Reference, Predicate] | None = None,
    ) -> None:
        """`lenient`: nothing waits. `no_wait`: the children that don't have to be ready. `traced`: the values record
        the fields that they come from. `ready_when`: the children with a rule of readiness of their own.
        """
        self.cluster = cluster
        self.asked: dict[Query, SourceLocation | None] = {}
        """The queries, each with the first template line that sent it."""
        self.again_at: float | None = None
        """The next time at which time alone may change an answer, in seconds since the epoch."""
        self.aged = False
        """Whether time alone has changed an answer since the parent was created."""
        self.objects_with_generated_values: dict[Identity, None] = {}
        """The objects that contain generated values, of all files."""
        self.unready: set[Reference] = set()
        """The children that exist and are not ready."""
        self.secrets: list[Body] = []
        """The Secrets that the templates read."""
        self.secret_queries: set[Question] = set()
        """The queries whose arguments are a Secret's content."""
        self.read_unready: set[Question] = set()
        """The queries whose answers `default` or `is defined` read, ready or not."""
        self.generated_values: dict[str, None] = {}
        """The generated values of all files."""
        self.apis: dict[ApiKind, Availability] = {}
        """The kinds that templates ask for with `api_available`, each with the answer."""
        self.live_reads: dict[Reference, SourceLocation | None] = {}
        """The children that templates read with `live`, each with the first template line that does."""
        self.judged: set[Reference] = set()
        """The children whose readiness the templates depend on."""
        self.warnings: dict[TemplateWarning, Question] = {}
        """The Events that templates emit with `warn`, each with the query that found its object."""
        self.parent = parent
        self._no_wait = no_wait
        self._ready_when = ready_when or {}
        self._done: set[Query] = set()
        self._metadata = parent.get("metadata") or {}
        self._lenient = lenient
        self._lookups = 0
        self.traced = traced
        """Whether values record the fields that they come from."""
        self.file_provenance: list[Provenance] = []
        """The provenance of the whole file in progress: what its control flow depends on."""
        self.kept = KeptResults(self.file_provenance)
        self.start_file()

    def start_file(self, reused_values: Sequence[str] = ()) -> None:
        """Begin a file, or begin it again with the first of its generated values."""
        self._reused_values = reused_values
        self.file_provenance.clear()  # all values of the render have this list
        self.generator: ValueGenerator | None = None
        """The generated values of the file in progress, None if it has none."""

    def for_trace(self) -> TemplateAPI:
        """One for a traced render of the same parent."""
        return TemplateAPI(
            self.cluster, self.parent, self._lenient, self._no_wait, traced=True, ready_when=self._ready_when
        )

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions that templates call, one for each name in CLUSTER_FUNCTIONS."""
        return {
            "api_available": self._api_available,
            "child": self._child,
            "expired": self._expired,
            "generated": self._generated,
            "live": self._live,
            "lookup": self._lookup,
            "lookup_all": self._lookup_all,
            "ready": self._ready,
            "warn": self._warn,
        }

    def _source(self, query: Question, answer: Any, **fields: Any) -> Provenance:
        """The provenance of an answer of this render."""
        shared: dict[str, Any] = {
            "file_provenance": self.file_provenance,
            "read_unready": self.read_unready,
            "lenient": self._lenient,
            "secret_queries": self.secret_queries,
            "may_lack": self.cluster.may_lack,
        }
        return Provenance(query=query, answer=answer, **(shared | fields))

    def traced_parent(self, parent: Mapping[str, Any], value: Any, *path: str) -> TrackedValue:
        """A field of the parent for a traced render. Nothing waits for it, and no document depends on it."""
        secrecy = _secrecy(parent.get("kind", ""), "")
        # What it reads is not recorded for the file.
        own: dict[str, Any] = {"file_provenance": [], "read_unready": set(), "secret_queries": set()}
        source = self._source(
            _parent_query(parent), parent, awaited=False, path=path, of_parent=True, secrecy=secrecy, **own
        )
        return TrackedValue(value, (source,))

    def secret_parent(self, parent: Mapping[str, Any]) -> TrackedValue:
        """A parent that is a Secret. Nothing waits for a field of it."""
        return TrackedValue(parent, (self._local_source(_parent_query(parent), parent),))

    def _local_source(self, query: Question, answer: Any) -> Provenance:
        """The provenance of content that is no answer of the cluster."""
        kept: dict[str, Any] = {"awaited": False, "lenient": False, "local": True, "read_unready": set()}
        return self._source(query, answer, secrecy=Secrecy.CONTENT, **kept)

    def previous_status(self, parent: Mapping[str, Any]) -> TrackedValue:
        """The current status of the parent, for its next status: a missing field gives an unknown value, not an
        error.
        """
        return self._lenient_value(parent.get("status") or {}, parent)

    def _lenient_value(self, value: Mapping[str, Any], parent: Mapping[str, Any]) -> TrackedValue:
        """The value, of which a missing field gives an unknown value."""
        return TrackedValue(value, (self._source(_parent_query(parent), parent, awaited=False),))

    def result(self, parent: Mapping[str, Any], verdict: ReconcileResult | None) -> Mapping[str, Any] | TrackedValue:
        """What the condition Ready says of this reconcile. Where that is not known, each field is an unknown value."""
        if verdict is not None:
            return {"ready": verdict.ready, "reason": verdict.reason, "message": verdict.message}
        return self._lenient_value({}, parent)

    def resolve_namespace(self, identity: Identity) -> Identity:
        """The identity of an object that a template renders: in the parent's namespace if the template names none."""
        if self.cluster.namespaced(identity.group_kind) is False:
            return replace(identity, namespace="")
        return identity if identity.namespace else replace(identity, namespace=self._metadata.get("namespace", ""))

    def _child(self, kind: str, name: str) -> TrackedValue | UnknownValue:
        """The live object of another manifest of the same render. Reading a field waits until it is ready."""
        query = Reference(_string_argument("child", "kind", kind), _string_argument("child", "name", name))
        review = self.cluster.unreadable(query)
        if review.why_not:
            source = self._record_query(query, None, unanswered=True)
            return self._unknown_answer(source, review.why_not, needs_permission=review.needs_permission)
        body = self.cluster.child(kind, name)
        # A document that waits for a child that is being deleted waits for the next one.
        deleting = body is not None and not self._lenient and bool(body["metadata"].get("deletionTimestamp"))
        if (body is None or deleting) and self.cluster.done(kind, name):
            self._done.add(query)
            body = body or {"kind": kind, "metadata": {"name": name}}
        if body is None:
            return UnknownValue(
                (self._record_query(query, None),), [WaitTarget(query, state="be ready")], is_answer=True
            )
        readiness_counts = not self._lenient and query not in self._done
        unready = readiness_counts and (
            deleting or (query not in self._no_wait and not self._readiness(body, query).usable)
        )
        if unready and not deleting:
            self.unready.add(query)
        return TrackedValue(body, (self._record_query(query, body, unready=unready),))

    def _api_available(self, apiVersion: str, kind: str) -> bool | UnknownValue:  # noqa: N803 - Kubernetes' names
        """Whether the cluster serves a kind now. The parent is reconciled again when that changes. Documents that
        depend on the answer wait while it is unknown.
        """
        asked = ApiKind(
            _string_argument("api_available", "apiVersion", apiVersion), _string_argument("api_available", "kind", kind)
        )
        answer = self.apis.setdefault(asked, self.cluster.serves(asked))
        if not isinstance(answer, Unknown):
            return answer
        source = self._record_query(asked, None, awaited=False, unanswered=True)
        return UnknownValue((source,), [WaitTarget(asked, state=f"be known: {answer.why}")], derived=True)

    def _live(self, kind: str, name: str) -> TrackedValue:
        """The parent's own child in its current state, ready or not, being deleted or not; none if it doesn't exist. It
        never waits.
        """
        query = Reference(_string_argument("live", "kind", kind), _string_argument("live", "name", name))
        source = self._record_query(query, self.cluster.child(kind, name), awaited=False, live=True)
        if why := self.cluster.unreadable(query).why_not:
            raise TemplateRuntimeError(f"live: {query} can't be read: {why}")
        return TrackedValue(source.body, (source,))

    def _lookup(
        self,
        apiVersion: str,  # noqa: N803 - templates use Kubernetes' names
        kind: str,
        name: str,
        namespace: str | None = None,
        optional: bool = False,
    ) -> TrackedValue | UnknownValue:
        """Any other object; by default of the parent's namespace. Reading a field waits until it exists.
        `optional=true` gives none if there is no object.
        """
        group = split_api_version(_string_argument("lookup", "apiVersion", apiVersion))[0]
        own = "" if namespace is None else _string_argument("lookup", "namespace", namespace)
        identity = self.resolve_namespace(
            Identity(group, _string_argument("lookup", "kind", kind), own, _string_argument("lookup", "name", name))
        )
        if not identity.namespace and self.cluster.namespaced(identity.group_kind):
            raise TemplateRuntimeError(
                f"lookup: {kind} lives in namespaces and the parent has none; write namespace=..."
            )
        if len(name) > NAME_LIMIT:
            raise TemplateRuntimeError(f"lookup: no object has a name of {len(name)} characters")
        query = Lookup(api_version=apiVersion, kind=kind, namespace=identity.namespace, name=name)
        answer = self.cluster.answer(query)
        body = answer.objects[0] if answer.objects else None
        source = self._record_query(query, body, awaited=not optional, unanswered=bool(answer.unknown))
        if answer.unknown:
            return self._unknown_answer(source, answer.unknown, needs_permission=answer.needs_permission)
        if source.body is None and not optional:
            state = f"exist: {answer.absent}" if answer.absent else ""
            return UnknownValue((source,), [WaitTarget(query, state=state, absent=True)], is_answer=True)
        return TrackedValue(source.body, (source,))

    def _lookup_all(
        self,
        apiVersion: str,  # noqa: N803 - as above
        kind: str,
        labels: Mapping[str, str] | None = None,
        namespace: str | None = None,
        selector: Mapping[str, Any] | None = EVERYTHING,
        namespaces: Mapping[str, Any] | Sequence[str] | str | None = None,
    ) -> Any:
        """All objects with these labels, sorted by namespace and name. `namespace=""` searches all namespaces.
        `selector` is a LabelSelector: an empty one selects everything, none nothing. `namespaces` is a list of names,
        a LabelSelector of Namespaces, or "" for all.
        """
        chosen = {"labels": labels, "selector": selector, "namespaces": namespaces}
        tracked: list[TrackedValue | UnknownValue] = []
        plain = {name: _plain_argument(value, tracked) for name, value in chosen.items()}
        if tracked:
            select = partial(self._lookup_all, apiVersion, kind, namespace=namespace, **plain)
            return call_tracked(lambda _: select(), (track_data(plain, tracked),), {})
        _string_argument("lookup_all", "apiVersion", apiVersion)
        group_kind = GroupKind.of(apiVersion, _string_argument("lookup_all", "kind", kind))
        wanted = {} if labels is None else labels
        if not isinstance(wanted, Mapping) or not all(isinstance(value, str) for value in wanted.values()):
            raise TemplateRuntimeError("lookup_all: labels must be a mapping of strings, as in {'app': name}")
        if fault := selector_fault(selector):
            raise TemplateRuntimeError(f"lookup_all: the selector {fault}")
        if namespaces is not None and namespace is not None:
            raise TemplateRuntimeError("lookup_all: namespace and namespaces exclude each other; write one of them")
        query = _Wanted(apiVersion, group_kind, wanted, selector)
        if self.cluster.namespaced(group_kind) is False or namespaces == "":
            return self._select(query, "")
        if namespaces is None:
            return self._select(query, self._metadata.get("namespace", "") if namespace is None else namespace)
        return self._select_in(query, namespaces)

    def _select_in(self, wanted: _Wanted, namespaces: Any) -> Any:
        """The objects in some namespaces: a list of names, or a LabelSelector."""
        if isinstance(namespaces, (list, tuple)) and all(isinstance(each, str) and each for each in namespaces):
            found = [self._select(wanted, each) for each in sorted({*namespaces})]
            return call_tracked(lambda *parts: [body for part in parts for body in part], found, {})
        if not isinstance(namespaces, Mapping):
            raise TemplateRuntimeError("lookup_all: namespaces must be a list of names, a selector, or '' for all")
        if fault := selector_fault(namespaces):
            raise TemplateRuntimeError(f"lookup_all: the selector of namespaces {fault}")
        kind = GroupKind("", "Namespace")
        selected = self._select(_Wanted("v1", kind, {}, namespaces), "")
        return call_tracked(
            lambda bodies: self._select(wanted, "", only={body["metadata"]["name"] for body in bodies}), (selected,), {}
        )

    def _select(self, wanted: _Wanted, namespace: str, only: AbstractSet[str] | None = None) -> Any:
        """The objects in a namespace, or in all if it is ''; `only`: those of these namespaces."""
        matched = {} if wanted.selector is None else wanted.selector.get("matchLabels") or {}
        labels = {**matched, **wanted.labels}
        if wanted.selector is None or not matched.items() <= labels.items():
            return []
        query = Selection(
            api_version=wanted.api_version,
            kind=wanted.group_kind.kind,
            namespace=namespace,
            labels=tuple(sorted(labels.items())),
            requirements=requirements(wanted.selector),
            namespaces=None if only is None else tuple(sorted(only)),
        )
        answer = self.cluster.answer(query)
        found = answer.objects if isinstance(answer.objects, LiveBodies) else sorted(answer.objects, key=_by_name)
        source = self._record_query(query, found, awaited=False, unanswered=bool(answer.unknown))
        if answer.unknown:
            return self._unknown_answer(source, answer.unknown, needs_permission=answer.needs_permission)
        return TrackedValue(found, (source,))

    def _ready(self, asked: Any) -> TrackedValue | UnknownValue:
        """Whether the object of `child` or `lookup`, or an item of `lookup_all`, is ready. It never waits."""
        if isinstance(asked, UnknownValue) and asked.derived:
            return asked  # the query depends on an unknown value
        source, body = _answer_of(asked, "ready", "ready(child('Job', name))")
        if isinstance(source.query, Lookup | Selection):
            answer = self.cluster.answer(source.query)
            if answer.unknown:
                return self._unknown_answer(source, answer.unknown, needs_permission=answer.needs_permission)
        found = source.query in self._done or (body is not None and self._is_ready(body, source.query))
        others = tuple(each for each in asked.provenance if each is not source)
        return TrackedValue(found, (*others, *without_waiting((source,))))

    def _warn(self, object: Any, reason: Any, message: Any) -> Missing:  # noqa: A002 - templates use this name
        """In `{% do warn(...) %}`: an Event of type Warning on an object of `child`, `live`, `lookup` or `lookup_all`,
        or on the parent. It is emitted when it is new. There is none while the object doesn't exist or the message
        is unknown.
        """
        written = Missing("warn gives no value; write {% do warn(object, reason, message) %}")
        self.kept.unrepeatable += 1  # what it refuses depends on the file
        if any(isinstance(each, UnknownValue) for each in (object, reason, message)):
            return written
        told = [each for each in (reason, message) if isinstance(each, TrackedValue)]
        if any(each.secret for each in told) or any(source.untracked for source in self.file_provenance):
            raise TemplateRuntimeError(
                "warn: an Event shows no Secret's content; write a reason and a message that don't contain it, and put "
                "a file that writes it as text apart from this one"
            )
        if object is self.parent:
            query: Question = _parent_query(self.parent)
            body: Any = self.parent
        else:
            source, body = _answer_of(object, "warn", "warn(lookup('v1', 'ConfigMap', name), reason, message)")
            query = source.query
        word = _string_argument("warn", "reason", untracked(reason))
        if not REASON.fullmatch(word) or len(word) > _REASON_LIMIT:
            raise TemplateRuntimeError("warn: the reason must be one word in CamelCase, as in NotFound")
        metadata = body.get("metadata", {}) if body is not None else {}
        if metadata.get("name"):
            warning = TemplateWarning(
                api_version=body["apiVersion"],
                kind=body["kind"],
                namespace=metadata.get("namespace", ""),
                name=metadata["name"],
                uid=metadata.get("uid", ""),
                reason=word,
                message=_string_argument("warn", "message", untracked(message)),
            )
            self.warnings.setdefault(warning, query)
        if len(self.warnings) > WARNINGS_LIMIT:
            raise LimitError(f"the templates of one parent may warn {WARNINGS_LIMIT} times, and this is one more")
        return written

    def _generated(self, length: int = 24, prefix: str = "") -> TrackedValue:
        """A random text of letters and digits after the prefix, drawn once: while the live object has a value in that
        field, it is kept.
        """
        if self._lenient:
            raise TemplateRuntimeError(
                "generated can't be used in a status; read the field of the object that has the value"
            )
        self.kept.unrepeatable += 1
        if self.generator is None:
            self.generator = ValueGenerator(self.cluster, self._reused_values)
        value = self.generator.value(length, prefix)
        return TrackedValue(value, (self._local_source(Reference("Secret", "generated"), value),))

    def _expired(self, duration: str, since: Any = "parent") -> bool:
        """Whether the parent is older than the duration (`7d`), or that time has passed `since` an object of `child`,
        `live` or `lookup` was created, or since a timestamp. It is rendered again at exactly that moment.
        """
        try:
            seconds = parse_duration(_string_argument("expired", "duration", duration))
        except ValueError as error:
            raise TemplateRuntimeError(f"expired: {error}") from None
        if since is None:
            return False  # an object that doesn't exist has no age; its creation renders the parent again
        began = creation_time(self._metadata) if since == "parent" else _moment(since)
        ends = (self.cluster.now if began is None else began) + seconds
        if ends <= self.cluster.now and began is not None:
            self.aged = True
            return True
        self._render_again_at(ends)
        return False

    def _record_query(
        self,
        query: Question,
        body: Any,
        *,
        awaited: bool = True,
        unready: bool = False,
        unanswered: bool = False,
        live: bool = False,
    ) -> Provenance:
        location = _calling_line()
        if live and isinstance(query, Reference):
            self.live_reads.setdefault(query, location)
        elif not isinstance(query, ApiKind) and query not in self.asked:
            self._count_lookup(query)
            self.asked[query] = location
        if query.kind == "Secret" and body:
            self.secrets += body if isinstance(body, (list, LiveBodies)) else [body]
        return self._source(
            query,
            body,
            awaited=awaited,
            unready=unready,
            unanswered=unanswered,
            location=location,
            path=() if self.traced else None,
            live=live,
            secrecy=Secrecy.NONE if isinstance(query, ApiKind) else _secrecy(query.kind, body),
        )

    def _count_lookup(self, query: Query) -> None:
        """Raises LimitError for a lookup that is one too many."""
        self._lookups += isinstance(query, (Lookup, Selection))
        if self._lookups > LOOKUPS_LIMIT:
            raise LimitError(f"the templates of one parent may look up {LOOKUPS_LIMIT} objects, and this is one more")

    def _unknown_answer(self, source: Provenance, why: str, *, needs_permission: bool) -> UnknownValue:
        """The unknown value for an answer that no cache has. Names the template line if a permission is missing."""
        location = None if isinstance(source.query, ApiKind) else self.asked[source.query]
        where = f" (looked up at {location})" if needs_permission and location is not None else ""
        awaited = WaitTarget(source.query, state=f"be known{where}: {why}", needs_permission=needs_permission)
        return UnknownValue((source,), [awaited], is_answer=True)

    def _is_ready(self, body: Mapping[str, Any], query: Question) -> bool:
        return self._readiness(body, query).state is ReadinessState.CURRENT

    def _readiness(self, body: Mapping[str, Any], query: Question) -> Readiness:
        ready_when = None
        if isinstance(query, Reference):
            self.judged.add(query)
            ready_when = self._ready_when.get(query)
        group = split_api_version(body.get("apiVersion", ""))[0]
        status_kinds = self.cluster.reports_status(GroupKind(group, body.get("kind", "")))
        # A render reads whether the object is usable. Time alone doesn't change that, so only the report uses again_at.
        return readiness(body, self.cluster.now, reports_status=status_kinds, ready_when=ready_when)

    def _render_again_at(self, moment: float) -> None:
        self.again_at = moment if self.again_at is None else min(self.again_at, moment)


def _secrecy(kind: str, body: Any) -> Secrecy:
    return Secrecy.CONTENT if kind == "Secret" and body is not None else Secrecy.NONE


setattr(TemplateAPI._ready, ACCEPTS_TRACKED, True)  # noqa: SLF001 - its own module
setattr(TemplateAPI._warn, ACCEPTS_TRACKED, True)  # noqa: SLF001 - as above


def creation_time(metadata: Mapping[str, Any]) -> float | None:
    """The creation time of an object in seconds since the epoch; None if the object does not exist yet."""
    return seconds_of(metadata.get("creationTimestamp"))


def _moment(since: Any) -> float:
    """The seconds since the epoch of a timestamp, or of an object's creation. Raises TemplateRuntimeError."""
    is_object = isinstance(since, Mapping) and isinstance(since.get("metadata"), Mapping)
    found = creation_time(since["metadata"]) if is_object else seconds_of(since)
    if found is None:
        raise TemplateRuntimeError(
            "expired: since must be an object of child, live or lookup, or a timestamp such as 2026-01-31T00:00:00Z"
        )
    return found


def _parent_query(parent: Mapping[str, Any]) -> Lookup:
    metadata = parent.get("metadata") or {}
    return Lookup(
        api_version=parent.get("apiVersion", ""),
        kind=parent.get("kind", ""),
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
    )


def _answer_of(asked: Any, function: str, example: str) -> tuple[Provenance, Any]:
    """The provenance and the object of a value that is the whole answer of `child` or `lookup`.

    If the query used other answers, its own provenance is the last one. Raises TemplateRuntimeError for another value.
    """
    if isinstance(asked, UnknownValue) and asked.is_answer:
        return asked.provenance[-1], asked.provenance[-1].body
    if isinstance(asked, TrackedValue):
        for source in reversed(asked.provenance):
            bodies = source.body if isinstance(source.query, Selection) else (source.body,)
            if any(asked.value is body for body in bodies):
                return source, asked.value
    raise TemplateRuntimeError(f"{function} needs what child or lookup gave, as in {example}")


class _Wanted(Struct, frozen=True):
    """What `lookup_all` selects."""

    api_version: str
    group_kind: GroupKind
    labels: Mapping[str, str]
    selector: Mapping[str, Any] | None


def _plain_argument(value: Any, found: list[TrackedValue | UnknownValue]) -> Any:
    """An argument without provenance. Appends its tracked and unknown values to `found`."""
    if type(value) is dict:
        value = {untracked(name): item for name, item in value.items()}
    return strip_provenance(value, found) if type(value) in (dict, list, tuple) else value


def _string_argument(function: str, argument: str, value: Any) -> str:
    if not isinstance(value, str) or (not value and argument != "namespace"):
        what = "empty" if value == "" else kind_of(value)
        raise TemplateRuntimeError(f"{function}: {argument} must be a string, and this is {what}")
    return value


def _by_name(body: Mapping[str, Any]) -> tuple[str, str]:
    metadata = body["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


# Weak keys, because a template that was replaced refers to all others of its old folder.
_template_lines: WeakKeyDictionary[Template, dict[int, SourceLocation]] = WeakKeyDictionary()


def template_line(frame: FrameType, line: int) -> SourceLocation | None:
    """The template line of a line of compiled code, None if the code is no template's."""
    template = frame.f_globals.get("__jinja_template__")
    if not isinstance(template, Template) or template.name is None:
        return None
    known = _template_lines.setdefault(template, {})
    if line not in known:  # jinja2 computes it on each call
        known[line] = SourceLocation(template.name, template.get_corresponding_lineno(line))
    return known[line]


def _calling_line() -> SourceLocation | None:
    """The template line that is being rendered."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to one's own callers
    while frame is not None and (found := template_line(frame, frame.f_lineno)) is None:
        frame = frame.f_back
    return None if frame is None else found
