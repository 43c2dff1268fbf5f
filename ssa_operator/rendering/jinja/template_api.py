"""What the templates of one render ask the cluster.

Promises:
- Asking never waits; reading what was asked for does, where the cluster does not have it. Of a child, it also waits
  until the child is ready, unless its readiness counts for nobody. `default` and `is defined` wait for neither.
- In a lenient render nothing waits: a child need not be ready for its fields to be read, and may be on its way out.
- Everything that was asked is recorded, with the template line that asked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from types import FrameType
from typing import Any

from jinja2 import Template, TemplateRuntimeError

from ssa_operator.core.objects.annotations import Reference
from ssa_operator.core.objects.cluster_view import Answer, Body, ClusterView, Lookup, Query, Selection
from ssa_operator.core.objects.durations import parse_duration
from ssa_operator.core.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.core.objects.render_result import WaitTarget
from ssa_operator.core.objects.source_location import SourceLocation
from ssa_operator.core.readiness.rules import Readiness, ReadinessState, readiness
from ssa_operator.rendering.jinja.functions import TAKES_OBSERVED
from ssa_operator.rendering.jinja.generated_values import Generation
from ssa_operator.rendering.values.manifest_values import kind_of
from ssa_operator.rendering.values.tracked_containers import gathered, settled
from ssa_operator.rendering.values.tracked_values import (
    Provenance,
    TrackedValue,
    UnknownValue,
    carried,
    plain,
    unawaited,
)


class TemplateAPI:
    """What one render of one parent asks; `lenient` where nothing waits.

    asked: each question with the line that asked it first. again_at: when time alone may change an answer. aged:
    whether it has changed one since the parent was made. branches:
    what the control flow of the file in progress depends on. generation: its generated values, None where it has none.
    holders: the objects that hold generated values, of all files; drawn: those values. secrets: the Secrets that were
    looked at. taken: the questions whose answers are taken as they are, by `default` or `is defined`. unready: the
    children that are there and are not ready; `uncounted` are those that need not be.
    """

    __slots__ = (
        "_done",
        "_given",
        "_lenient",
        "_metadata",
        "_uncounted",
        "again_at",
        "aged",
        "asked",
        "branches",
        "generated_values",
        "generation",
        "holders",
        "read_unready",
        "secrets",
        "unready",
        "world",
    )

    def __init__(
        self,
        world: ClusterView,
        parent: Mapping[str, Any],
        lenient: bool = False,
        uncounted: AbstractSet[Reference] = frozenset(),
    ) -> None:
        self.world = world
        self.asked: dict[Query, SourceLocation | None] = {}
        self.again_at: float | None = None
        self.aged = False
        self.holders: dict[Identity, None] = {}
        self.unready: set[Reference] = set()
        self.secrets: list[Body] = []
        self.read_unready: set[Query] = set()
        self.generated_values: dict[str, None] = {}
        self._uncounted = uncounted
        self._done: set[Query] = set()
        self._metadata = parent.get("metadata") or {}
        self._lenient = lenient
        self.begin()

    def begin(self, given: Sequence[str] = ()) -> None:
        """Another file begins, or the same one again with the first of its generated values given."""
        self._given = given
        self.branches: list[Provenance] = []
        self.generation: Generation | None = None

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions that templates call, one for each of QUESTIONS."""
        return {
            "child": self._child,
            "expired": self._expired,
            "generated": self._generated,
            "lookup": self._lookup,
            "lookup_all": self._lookup_all,
            "ready": self._ready,
        }

    def former(self, parent: Mapping[str, Any]) -> TrackedValue:
        """The status that the parent has: to its next status, a field that isn't there is unknown and no error."""
        metadata = self._metadata
        query = Lookup(
            api_version=parent.get("apiVersion", ""),
            kind=parent.get("kind", ""),
            namespace=metadata.get("namespace", ""),
            name=metadata.get("name", ""),
        )
        source = Provenance(
            query=query,
            body=parent,
            branches=self.branches,
            read_unready=self.read_unready,
            awaited=False,
            lenient=self._lenient,
        )
        return TrackedValue(parent.get("status") or {}, (source,))

    def placed(self, identity: Identity) -> Identity:
        """An identity as a template of this parent means it: in the parent's namespace where it names none."""
        if self.world.namespaced(identity.group_kind) is False:
            return replace(identity, namespace="")
        return identity if identity.namespace else replace(identity, namespace=self._metadata.get("namespace", ""))

    def _child(self, kind: str, name: str) -> TrackedValue | UnknownValue:
        query = Reference(_text("child", "kind", kind), _text("child", "name", name))
        body = self.world.child(kind, name)
        # What waits for a child that is being deleted waits for the one that comes after it.
        leaving = body is not None and not self._lenient and bool(body["metadata"].get("deletionTimestamp"))
        if (body is None or leaving) and self.world.done(kind, name):
            self._done.add(query)
            body = body or {"kind": kind, "metadata": {"name": name}}
        if body is None:
            return UnknownValue((self._source(query, None),), [WaitTarget(query, state="be ready")], whole=True)
        counts = not self._lenient and query not in self._done
        unready = counts and (leaving or (query not in self._uncounted and not self._judged(body).usable))
        if unready and not leaving:
            self.unready.add(query)
        return TrackedValue(body, (self._source(query, body, unready=unready),))

    def _lookup(
        self,
        apiVersion: str,  # noqa: N803 - templates use Kubernetes' names
        kind: str,
        name: str,
        namespace: str | None = None,
        optional: bool = False,
    ) -> TrackedValue | UnknownValue:
        group = split_api_version(_text("lookup", "apiVersion", apiVersion))[0]
        own = "" if namespace is None else _text("lookup", "namespace", namespace)
        identity = self.placed(Identity(group, _text("lookup", "kind", kind), own, _text("lookup", "name", name)))
        if not identity.namespace and self.world.namespaced(identity.group_kind):
            raise TemplateRuntimeError(
                f"lookup: {kind} lives in namespaces and the parent has none; write namespace=..."
            )
        query = Lookup(api_version=apiVersion, kind=kind, namespace=identity.namespace, name=name)
        answer = self.world.answer(query)
        body = answer.objects[0] if answer.objects else None
        source = self._source(query, body, awaited=not optional, unanswered=bool(answer.unknown))
        if answer.unknown:
            return self._unknown(source, answer)
        if source.body is None and not optional:
            state = f"exist: {answer.absent}" if answer.absent else ""
            return UnknownValue((source,), [WaitTarget(query, state=state)], whole=True)
        return TrackedValue(source.body, (source,))

    def _lookup_all(
        self,
        apiVersion: str,  # noqa: N803 - as above
        kind: str,
        labels: Mapping[str, str] | None = None,
        namespace: str | None = None,
    ) -> Any:
        if type(labels) is dict:
            observed: list[TrackedValue | UnknownValue] = []
            read = settled({plain(name): value for name, value in labels.items()}, observed)
            if observed:
                return carried(self._lookup_all, (apiVersion, kind, gathered(read, observed), namespace), {})
        group_kind = GroupKind(split_api_version(_text("lookup_all", "apiVersion", apiVersion))[0], kind)
        own = self._metadata.get("namespace", "") if namespace is None else namespace
        wanted = {} if labels is None else labels
        if not isinstance(wanted, Mapping) or not all(isinstance(value, str) for value in wanted.values()):
            raise TemplateRuntimeError("lookup_all: labels must be a mapping of strings, as in {'app': name}")
        query = Selection(
            api_version=apiVersion,
            kind=_text("lookup_all", "kind", kind),
            namespace="" if self.world.namespaced(group_kind) is False else own,
            labels=tuple(sorted(wanted.items())),
        )
        answer = self.world.answer(query)
        found = sorted(answer.objects, key=_by_name)
        source = self._source(query, found, awaited=False, unanswered=bool(answer.unknown))
        return self._unknown(source, answer) if answer.unknown else TrackedValue(found, (source,))

    def _ready(self, asked: Any) -> TrackedValue | UnknownValue:
        if isinstance(asked, UnknownValue) and asked.derived:
            return asked  # what is asked for isn't known itself
        source, body = _answer(asked)
        if not isinstance(source.query, Reference):
            answer = self.world.answer(source.query)
            if answer.unknown:
                return self._unknown(source, answer)
        found = source.query in self._done or (body is not None and self._is_ready(body))
        others = tuple(each for each in asked.sources if each is not source)
        return TrackedValue(found, (*others, *unawaited((source,))))

    def _generated(self, length: int = 24) -> str:
        if self._lenient:
            raise TemplateRuntimeError("generated has no place in a status; read the object that has the value")
        if self.generation is None:
            self.generation = Generation(self.world, self._given)
        return self.generation.value(length)

    def _expired(self, duration: str) -> bool:
        try:
            seconds = parse_duration(_text("expired", "duration", duration))
        except ValueError as error:
            raise TemplateRuntimeError(f"expired: {error}") from None
        made = creation_time(self._metadata)
        ends = (self.world.now if made is None else made) + seconds
        if ends <= self.world.now and made is not None:
            self.aged = True
            return True
        self._again(ends)
        return False

    def _source(
        self, query: Query, body: Any, *, awaited: bool = True, unready: bool = False, unanswered: bool = False
    ) -> Provenance:
        location = _asking_line()
        self.asked.setdefault(query, location)
        if query.kind == "Secret" and body:
            self.secrets += body if isinstance(body, list) else [body]
        return Provenance(
            query=query,
            body=body,
            branches=self.branches,
            read_unready=self.read_unready,
            awaited=awaited,
            lenient=self._lenient,
            unready=unready,
            unanswered=unanswered,
            location=location,
        )

    def _unknown(self, source: Provenance, answer: Answer) -> UnknownValue:
        """What an answer is that can't be given; where somebody has to do something, with the line that asks."""
        location = self.asked[source.query]
        where = f" (looked up at {location})" if answer.needs_permission and location is not None else ""
        awaited = WaitTarget(
            source.query, state=f"be known{where}: {answer.unknown}", needs_permission=answer.needs_permission
        )
        return UnknownValue((source,), [awaited], whole=True)

    def _is_ready(self, body: Mapping[str, Any]) -> bool:
        return self._judged(body).state is ReadinessState.CURRENT

    def _judged(self, body: Mapping[str, Any]) -> Readiness:
        group = split_api_version(body.get("apiVersion", ""))[0]
        status_kinds = self.world.reports_status(GroupKind(group, body.get("kind", "")))
        found = readiness(body, self.world.now, reports_status=status_kinds)
        if found.again_at is not None:
            self._again(found.again_at)
        return found

    def _again(self, moment: float) -> None:
        self.again_at = moment if self.again_at is None else min(self.again_at, moment)


setattr(TemplateAPI._ready, TAKES_OBSERVED, True)  # noqa: SLF001 - its own module


def creation_time(metadata: Mapping[str, Any]) -> float | None:
    """When an object was made, in seconds since the epoch; None where it isn't yet."""
    text = metadata.get("creationTimestamp")
    return datetime.fromisoformat(text).timestamp() if text else None


def _answer(asked: Any) -> tuple[Provenance, Any]:
    """The answer that a template passes on as it is, and the body in it that is meant.

    Where the question was made of other answers, its own source is the last one. Raises TemplateRuntimeError for
    anything else.
    """
    if isinstance(asked, UnknownValue) and asked.whole:
        return asked.sources[-1], asked.sources[-1].body
    if isinstance(asked, TrackedValue):
        for source in reversed(asked.sources):
            bodies = source.body if isinstance(source.query, Selection) else (source.body,)
            if any(asked.value is body for body in bodies):
                return source, asked.value
    raise TemplateRuntimeError("ready needs what child or lookup gave, as in ready(child('Job', name))")


def _text(function: str, argument: str, value: Any) -> str:
    if not isinstance(value, str) or (not value and argument != "namespace"):
        what = "empty" if value == "" else kind_of(value)
        raise TemplateRuntimeError(f"{function}: {argument} must be a string, and this is {what}")
    return value


def _by_name(body: Mapping[str, Any]) -> tuple[str, str]:
    metadata = body["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


@lru_cache(maxsize=1024)
def _place(template: Template, name: str, line: int) -> SourceLocation:
    """Where a line of a template's code comes from; jinja2 works it out anew each time that it is asked."""
    return SourceLocation(name, template.get_corresponding_lineno(line))


def _asking_line() -> SourceLocation | None:
    """The template line that is being rendered."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to one's own callers
    while frame is not None:
        template = frame.f_globals.get("__jinja_template__")
        if isinstance(template, Template) and template.name is not None:
            return _place(template, template.name, frame.f_lineno)
        frame = frame.f_back
    return None
