"""Slows down feedback loops: a child whose template reads an object that is derived from the child.

Promises:
- The operator slows down only a child that is part of a loop: it is made of what templates render, and they read it, or
  it reads itself. A chain of children is no loop, and neither are repeated changes by others.
- A loop may lead through several parents of this process, if their templates read each other's children or each other's
  parents by name: a parent's status follows from its children.
- A child in a loop may change ALLOWED_CHANGES times without a pause. Then each pause is twice as long as the last.
- During a pause no event of the parent applies that child. The parent's other children don't wait for it.
- A loop is over when the child hasn't changed for twice its last pause, and at least for SETTLED_AFTER.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ssa_operator.core.objects.annotations import Reference
from ssa_operator.core.objects.built_in_kinds import ApiKind
from ssa_operator.core.objects.cluster_view import Lookup, Question, Selection
from ssa_operator.core.objects.dependency_graph import circular
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.render_result import Dependency, Document, Rendered, Wait
from ssa_operator.core.policies.backoff import backoff

ALLOWED_CHANGES = 6
"""Successive changes of a child without a pause."""

SETTLED_AFTER = 30.0
"""Seconds without a change after which a loop is over, or twice the last pause where that is longer."""

NOTHING: Mapping[Identity, Collection[Identity]] = {}
"""Children that read nothing by name."""


class ChangeSeries(Struct, frozen=True, kw_only=True):
    """Successive changes that follow from each other, and the pauses between them."""

    changes: int
    """How many there were."""
    changed_at: float
    """When the last one was, in seconds on the process's monotonic clock."""

    @property
    def slowed_down(self) -> bool:
        """Whether there were too many to settle soon."""
        return self.changes > ALLOWED_CHANGES

    @property
    def apply_due(self) -> float:
        """When the operator may make the next change."""
        return self.changed_at + (backoff(self.changes - ALLOWED_CHANGES, 0.0) if self.slowed_down else 0.0)

    @property
    def settles_at(self) -> float:
        """When the series is over, if no change follows before."""
        return self.changed_at + max(SETTLED_AFTER, 2 * (self.apply_due - self.changed_at))

    def apply_delayed(self, now: float) -> bool:
        """Whether the operator doesn't make the next change yet."""
        return now < self.apply_due

    def again_at(self, now: float) -> float | None:
        """When the parent must be reconciled even without an event; None without a pause."""
        return None if not self.slowed_down else self.apply_due if self.apply_delayed(now) else self.settles_at


class FeedbackLoop(ChangeSeries, frozen=True, kw_only=True):
    """The successive changes of one child that is part of a loop: how often applying the child changed it."""

    reads: Question
    """What the child reads that is derived from it."""

    def text(self, identity: Identity) -> str:
        """The message about the loop."""
        itself = self.reads == Reference(identity.kind, identity.name) or (
            isinstance(self.reads, Lookup) and self.reads.identity == identity
        )
        read = "itself" if itself else f"{self.reads}, which is derived from it"
        return (
            f"{identity} changes each time it is applied, because it reads {read}; the operator applies it with backoff"
        )


def without_settled(feedback_loops: Mapping[Identity, FeedbackLoop], now: float) -> Mapping[Identity, FeedbackLoop]:
    """The loops that are not over."""
    return {identity: loop for identity, loop in feedback_loops.items() if now < loop.settles_at}


def with_changes(
    feedback_loops: Mapping[Identity, FeedbackLoop],
    rendered: Rendered,
    changed: Iterable[Identity],
    lives: Sequence[LiveObject],
    now: float,
    read_by: Mapping[Identity, Collection[Identity]] = NOTHING,
) -> Mapping[Identity, FeedbackLoop]:
    """The loops after a reconcile that changed these children; `lives` are all children that exist. `read_by` has what
    each child of any parent reads by name.
    """
    changed = list(changed)
    if not changed or not rendered.asked:
        return feedback_loops
    found = dict(feedback_loops)
    looping = _children_in_loops(rendered, lives)
    for identity in changed:
        reads = looping.get(Reference(identity.kind, identity.name)) or _query_that_leads_back(
            identity, rendered, read_by
        )
        if reads is not None:
            before = found.get(identity)
            found[identity] = FeedbackLoop(changes=before.changes + 1 if before else 1, changed_at=now, reads=reads)
    return found


def _children_in_loops(rendered: Rendered, lives: Sequence[LiveObject]) -> Mapping[Reference, Question]:
    """The children that are part of a loop, each with a query whose answer is part of the same loop."""
    answers: dict[Question, list[Reference]] = {}
    reads: dict[Reference, dict[Reference, Question]] = {}
    for name, dependencies in _dependencies(rendered):
        targets = reads.setdefault(name, {})
        for dependency in dependencies:
            if dependency.after:
                continue
            query = dependency.query
            if query not in answers:
                answers[query] = list(_children_in_answer(query, lives))
            for target in answers[query]:
                targets.setdefault(target, query)
    loops = circular({name: list(targets) for name, targets in reads.items()})
    return {name: reads[name][targets[0]] for name, targets in loops.items()}


def reads_by_name(
    rendered: Rendered, rendered_children: Collection[Identity]
) -> Mapping[Identity, Collection[Identity]]:
    """What each of these children of a parent reads by name: objects that it looks up, and other children."""
    found: dict[Identity, Collection[Identity]] = {}
    for document in rendered.documents:
        if not document.dependencies:
            continue
        name = (document.body["kind"], document.body["metadata"]["name"])
        targets = dict.fromkeys(
            target
            for dependency in document.dependencies
            if not dependency.after
            for target in _named(dependency.query, rendered_children)
        )
        for identity in rendered_children if targets else ():
            if (identity.kind, identity.name) == name:
                found[identity] = targets
    return found


def _named(query: Question, children: Iterable[Identity]) -> Iterator[Identity]:
    match query:
        case Lookup():
            yield query.identity
        case Reference():
            yield from (identity for identity in children if (identity.kind, identity.name) == (query.kind, query.name))


def _query_that_leads_back(
    identity: Identity, rendered: Rendered, read_by: Mapping[Identity, Collection[Identity]]
) -> Question | None:
    """The lookup of a child that reads an object which is derived from the child, None where it has none."""
    if identity not in read_by:
        return None
    for name, dependencies in _dependencies(rendered):
        if name != Reference(identity.kind, identity.name):
            continue
        for dependency in dependencies:
            query = dependency.query
            if isinstance(query, Lookup) and not dependency.after and _leads_to(identity, query.identity, read_by):
                return query
    return None


def _leads_to(target: Identity, start: Identity, read_by: Mapping[Identity, Collection[Identity]]) -> bool:
    """Whether `start` reads the target, or reads what reads it."""
    seen, pending = {start}, [start]
    while pending:
        for each in read_by.get(pending.pop(), ()):
            if each == target:
                return True
            if each not in seen:
                seen.add(each)
                pending.append(each)
    return False


def _dependencies(rendered: Rendered) -> Iterator[tuple[Reference, Sequence[Dependency]]]:
    results: tuple[Document | Wait, ...] = (*rendered.documents, *rendered.waits)
    for result in results:
        identity = result.identity
        if identity is not None and result.dependencies:
            yield Reference(identity.kind, identity.name), result.dependencies


def _children_in_answer(query: Question, lives: Sequence[LiveObject]) -> Iterator[Reference]:
    if isinstance(query, Reference):
        yield query
    for live in lives:
        if answers(query, live):
            yield Reference(live.identity.kind, live.identity.name)


def answers(query: Question, live: LiveObject) -> bool:
    """Whether an object is part of the answer to a query."""
    match query:
        case Lookup():
            return query.identity == live.identity
        case Selection():
            within = query.namespace in ("", live.identity.namespace)
            labels = live.metadata.labels
            same_kind = query.group_kind == live.identity.group_kind
            return same_kind and within and all(labels.get(name) == value for name, value in query.labels)
        case Reference() | ApiKind():
            return False
