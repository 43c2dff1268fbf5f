"""What the templates of one render ask the cluster.

Promises:
- Asking never waits; reading what was asked for does, where the cluster does not have it. Of a child, it also waits
  until the child is ready, unless its readiness counts for nobody.
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

from ssa_operator.core.objects.durations import parse_duration
from ssa_operator.core.objects.identity import GroupKind, Identity, split_api_version
from ssa_operator.core.objects.annotations import Reference
from ssa_operator.core.objects.source_location import Place
from ssa_operator.core.readiness.rules import Readiness, State, readiness
from ssa_operator.core.objects.render_result import Awaited
from ssa_operator.core.objects.cluster_view import Answer, Body, Lookup, Question, Selection, World
from ssa_operator.rendering.values.tracked_containers import gathered, settled
from ssa_operator.rendering.jinja.functions import TAKES_OBSERVED
from ssa_operator.rendering.jinja.generated_values import Generation
from ssa_operator.rendering.values.tracked_values import Observed, Source, Unknown, carried, plain, unawaited


class Inquiry:
    """What one render of one parent asks; `lenient` where nothing waits.

    asked: each question with the line that asked it first. again_at: when time alone may change an answer. aged:
    whether it has changed one since the parent was made. branches:
    what the control flow of the file in progress depends on. generation: its generated values, None where it has none.
    holders: the objects that hold generated values, of all files; drawn: those values. secrets: the Secrets that were
    looked at. unready: the children that are there and were not
    read because they are not ready; `uncounted` are those that need not be.
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
        "drawn",
        "generation",
        "holders",
        "secrets",
        "unready",
        "world",
    )

    def __init__(
        self,
        world: World,
        parent: Mapping[str, Any],
        lenient: bool = False,
        uncounted: AbstractSet[Reference] = frozenset(),
    ) -> None:
        self.world = world
        self.asked: dict[Question, Place | None] = {}
        self.again_at: float | None = None
        self.aged = False
        self.holders: dict[Identity, None] = {}
        self.unready: set[Reference] = set()
        self.secrets: list[Body] = []
        self.drawn: dict[str, None] = {}
        self._uncounted = uncounted
        self._done: set[Question] = set()
        self._metadata = parent.get("metadata") or {}
        self._lenient = lenient
        self.begin()

    def begin(self, given: Sequence[str] = ()) -> None:
        """Another file begins, or the same one again with the first of its generated values given."""
        self._given = given
        self.branches: list[Source] = []
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

    def former(self, parent: Mapping[str, Any]) -> Observed:
        """The status that the parent has: to its next status, a field that isn't there is unknown and no error."""
        metadata = self._metadata
        question = Lookup(
            api_version=parent.get("apiVersion", ""),
            kind=parent.get("kind", ""),
            namespace=metadata.get("namespace", ""),
            name=metadata.get("name", ""),
        )
        source = Source(question=question, body=parent, branches=self.branches, awaited=False, lenient=self._lenient)
        return Observed(parent.get("status") or {}, (source,))

    def placed(self, identity: Identity) -> Identity:
        """An identity as a template of this parent means it: in the parent's namespace where it names none."""
        if self.world.namespaced(identity.group_kind) is False:
            return replace(identity, namespace="")
        return identity if identity.namespace else replace(identity, namespace=self._metadata.get("namespace", ""))

    def _child(self, kind: str, name: str) -> Observed | Unknown:
        question = Reference(_text("child", "kind", kind), _text("child", "name", name))
        body = self.world.child(kind, name)
        if body is not None and not self._lenient and body["metadata"].get("deletionTimestamp"):
            # What waits for a child waits for the one that comes after it.
            body = None
        if body is None and self.world.done(kind, name):
            self._done.add(question)
            body = {"kind": kind, "metadata": {"name": name}}
        source = self._source(question, body)
        if body is not None:
            if self._lenient or question in self._uncounted or question in self._done or self._judged(body).usable:
                return Observed(source.body, (source,))
            self.unready.add(question)
        return Unknown((source,), [Awaited(question, state="be ready")], whole=True)

    def _lookup(
        self,
        apiVersion: str,  # noqa: N803 - templates use Kubernetes' names
        kind: str,
        name: str,
        namespace: str | None = None,
        optional: bool = False,
    ) -> Observed | Unknown:
        group = split_api_version(_text("lookup", "apiVersion", apiVersion))[0]
        own = "" if namespace is None else _text("lookup", "namespace", namespace)
        identity = self.placed(Identity(group, _text("lookup", "kind", kind), own, _text("lookup", "name", name)))
        if not identity.namespace and self.world.namespaced(identity.group_kind):
            raise TemplateRuntimeError(
                f"lookup: {kind} lives in namespaces and the parent has none; write namespace=..."
            )
        question = Lookup(api_version=apiVersion, kind=kind, namespace=identity.namespace, name=name)
        answer = self.world.answer(question)
        source = self._source(question, answer.objects[0] if answer.objects else None, awaited=not optional)
        if answer.unknown:
            return self._unknown(source, answer)
        if source.body is None and not optional:
            state = f"exist: {answer.absent}" if answer.absent else ""
            return Unknown((source,), [Awaited(question, state=state)], whole=True)
        return Observed(source.body, (source,))

    def _lookup_all(
        self,
        apiVersion: str,  # noqa: N803 - as above
        kind: str,
        labels: Mapping[str, str] | None = None,
        namespace: str | None = None,
    ) -> Any:
        if type(labels) is dict:
            observed: list[Observed | Unknown] = []
            read = settled({plain(name): value for name, value in labels.items()}, observed)
            if observed:
                return carried(self._lookup_all, (apiVersion, kind, gathered(read, observed), namespace), {})
        group_kind = GroupKind(split_api_version(_text("lookup_all", "apiVersion", apiVersion))[0], kind)
        own = self._metadata.get("namespace", "") if namespace is None else namespace
        wanted = {} if labels is None else labels
        if not isinstance(wanted, Mapping) or not all(isinstance(value, str) for value in wanted.values()):
            raise TemplateRuntimeError("lookup_all: labels must be a mapping of strings, as in {'app': name}")
        question = Selection(
            api_version=apiVersion,
            kind=_text("lookup_all", "kind", kind),
            namespace="" if self.world.namespaced(group_kind) is False else own,
            labels=tuple(sorted(wanted.items())),
        )
        answer = self.world.answer(question)
        found = sorted(answer.objects, key=_by_name)
        source = self._source(question, found, awaited=False)
        return self._unknown(source, answer) if answer.unknown else Observed(found, (source,))

    def _ready(self, asked: Any) -> Observed | Unknown:
        if isinstance(asked, Unknown) and asked.derived:
            return asked  # what is asked for isn't known itself
        source, body = _answer(asked)
        if not isinstance(source.question, Reference):
            answer = self.world.answer(source.question)
            if answer.unknown:
                return self._unknown(source, answer)
        found = source.question in self._done or (body is not None and self._is_ready(body))
        others = tuple(each for each in asked.sources if each is not source)
        return Observed(found, (*others, *unawaited((source,))))

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
        made = born(self._metadata)
        ends = (self.world.now if made is None else made) + seconds
        if ends <= self.world.now and made is not None:
            self.aged = True
            return True
        self._again(ends)
        return False

    def _source(self, question: Question, body: Any, awaited: bool = True) -> Source:
        place = _asking_line()
        self.asked.setdefault(question, place)
        if question.kind == "Secret" and body:
            self.secrets += body if isinstance(body, list) else [body]
        return Source(
            question=question,
            body=body,
            branches=self.branches,
            awaited=awaited,
            lenient=self._lenient,
            place=place,
        )

    def _unknown(self, source: Source, answer: Answer) -> Unknown:
        """What an answer is that can't be given; where somebody has to do something, with the line that asks."""
        place = self.asked[source.question]
        where = f" (looked up at {place})" if answer.barred and place is not None else ""
        awaited = Awaited(source.question, state=f"be known{where}: {answer.unknown}", stalled=answer.barred)
        return Unknown((source,), [awaited], whole=True)

    def _is_ready(self, body: Mapping[str, Any]) -> bool:
        return self._judged(body).state is State.CURRENT

    def _judged(self, body: Mapping[str, Any]) -> Readiness:
        group = split_api_version(body.get("apiVersion", ""))[0]
        announced = self.world.announces(GroupKind(group, body.get("kind", "")))
        found = readiness(body, self.world.now, announced=announced)
        if found.again_at is not None:
            self._again(found.again_at)
        return found

    def _again(self, moment: float) -> None:
        self.again_at = moment if self.again_at is None else min(self.again_at, moment)


setattr(Inquiry._ready, TAKES_OBSERVED, True)  # noqa: SLF001 - its own module


def born(metadata: Mapping[str, Any]) -> float | None:
    """When an object was made, in seconds since the epoch; None where it isn't yet."""
    text = metadata.get("creationTimestamp")
    return datetime.fromisoformat(text).timestamp() if text else None


def _answer(asked: Any) -> tuple[Source, Any]:
    """The answer that a template passes on as it is, and the body in it that is meant.

    Where the question was made of other answers, its own source is the last one. Raises TemplateRuntimeError for
    anything else.
    """
    if isinstance(asked, Unknown) and asked.whole:
        return asked.sources[-1], asked.sources[-1].body
    if isinstance(asked, Observed):
        for source in reversed(asked.sources):
            bodies = source.body if isinstance(source.question, Selection) else (source.body,)
            if any(asked.value is body for body in bodies):
                return source, asked.value
    raise TemplateRuntimeError("ready needs what child or lookup gave, as in ready(child('Job', name))")


def _text(function: str, argument: str, value: Any) -> str:
    if not isinstance(value, str) or (not value and argument != "namespace"):
        what = "null" if value is None else "empty" if value == "" else f"a {type(value).__name__}"
        raise TemplateRuntimeError(f"{function}: {argument} must be a string, and this is {what}")
    return value


def _by_name(body: Mapping[str, Any]) -> tuple[str, str]:
    metadata = body["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


@lru_cache(maxsize=1024)
def _place(template: Template, name: str, line: int) -> Place:
    """Where a line of a template's code comes from; jinja2 works it out anew each time that it is asked."""
    return Place(name, template.get_corresponding_lineno(line))


def _asking_line() -> Place | None:
    """The template line that is being rendered."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the documented way to one's own callers
    while frame is not None:
        template = frame.f_globals.get("__jinja_template__")
        if isinstance(template, Template) and template.name is not None:
            return _place(template, template.name, frame.f_lineno)
        frame = frame.f_back
    return None
