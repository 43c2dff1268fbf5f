"""Slows down feedback loops: a child whose template reads an object that is derived from the child.

Promises:
- The operator slows down only a child that is part of a loop: templates of the same parent read it, and it is made of
  what they render, or of itself. A chain of children is no loop, and neither are repeated changes by others.
- A child in a loop may change ALLOWED_CHANGES times without a pause. Then each pause is twice as long as the last.
- During a pause no event of the parent applies that child. The parent's other children don't wait for it.
- A loop is over when the child hasn't changed for twice its last pause, and at least for SETTLED_AFTER.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ssa_operator.core.objects.annotations import Reference
from ssa_operator.core.objects.cluster_view import Lookup, Query, Selection
from ssa_operator.core.objects.dependency_graph import circular
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.render_result import Dependency, Document, Rendered, Wait
from ssa_operator.core.policies.backoff import backoff

ALLOWED_CHANGES = 6
"""Successive changes of a child without a pause."""

SETTLED_AFTER = 30.0
"""Seconds without a change after which a loop is over, or twice the last pause where that is longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackLoop:
    """The successive changes of one child that is part of a loop."""

    changes: int
    """How often applying the child changed it."""
    changed_at: float
    """When it changed last, in seconds since the epoch."""
    reads: Query
    """What the child reads that is derived from it."""

    @property
    def slowed_down(self) -> bool:
        """Whether the child changed too often to settle soon."""
        return self.changes > ALLOWED_CHANGES

    @property
    def apply_due(self) -> float:
        """When the operator may apply the child again."""
        return self.changed_at + (backoff(self.changes - ALLOWED_CHANGES, 0.0) if self.slowed_down else 0.0)

    @property
    def settles_at(self) -> float:
        """When the loop is over, if the child doesn't change before."""
        return self.changed_at + max(SETTLED_AFTER, 2 * (self.apply_due - self.changed_at))

    def apply_delayed(self, now: float) -> bool:
        """Whether the operator doesn't apply the child yet."""
        return now < self.apply_due

    def again_at(self, now: float) -> float | None:
        """When the parent must be reconciled even without an event; None without a pause."""
        return None if not self.slowed_down else self.apply_due if self.apply_delayed(now) else self.settles_at

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
) -> Mapping[Identity, FeedbackLoop]:
    """The loops after a reconcile that changed these children; `lives` are all children that exist."""
    changed = list(changed)
    if not changed or not rendered.asked:
        return feedback_loops
    found = dict(feedback_loops)
    looping = _children_in_loops(rendered, lives)
    for identity in changed:
        reads = looping.get(Reference(identity.kind, identity.name))
        if reads is not None:
            before = found.get(identity)
            found[identity] = FeedbackLoop(changes=before.changes + 1 if before else 1, changed_at=now, reads=reads)
    return found


def _children_in_loops(rendered: Rendered, lives: Sequence[LiveObject]) -> Mapping[Reference, Query]:
    """The children that are part of a loop, each with a query whose answer is part of the same loop."""
    answers: dict[Query, list[Reference]] = {}
    reads: dict[Reference, dict[Reference, Query]] = {}
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


def _dependencies(rendered: Rendered) -> Iterator[tuple[Reference, Sequence[Dependency]]]:
    results: tuple[Document | Wait, ...] = (*rendered.documents, *rendered.waits)
    for result in results:
        identity = result.identity
        if identity is not None and result.dependencies:
            yield Reference(identity.kind, identity.name), result.dependencies


def _children_in_answer(query: Query, lives: Sequence[LiveObject]) -> Iterator[Reference]:
    if isinstance(query, Reference):
        yield query
    for live in lives:
        if answers(query, live):
            yield Reference(live.identity.kind, live.identity.name)


def answers(query: Query, live: LiveObject) -> bool:
    """Whether an object is part of the answer to a query."""
    match query:
        case Lookup():
            return query.identity == live.identity
        case Selection():
            within = query.namespace in ("", live.identity.namespace)
            labels = live.metadata.labels
            same_kind = query.group_kind == live.identity.group_kind
            return same_kind and within and all(labels.get(name) == value for name, value in query.labels)
        case Reference():
            return False
