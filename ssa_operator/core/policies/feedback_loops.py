"""Children that change each time they are applied, because what they are made of follows from them.

Promises:
- Only what is read in a circle is slowed down: a child that the templates of the same parent read, and that is made of
  what they read, be it of itself. A chain is none, and what others change again and again isn't either.
- Some changes are free: what comes to rest by itself soon is not held up. Then each pause is twice the one before.
- Whatever wakes the parent, such a child is left as it is until its pause is over; nothing else waits for that.
- It is over when the child has kept still for longer than its pauses were.
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
"""Changes of a child that follow each other without a pause."""

SETTLED_AFTER = 30.0
"""Seconds without a change after which a child has come to rest, and twice its last pause where that is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackLoop:
    """How often a child changed again, when it did so last (seconds since the epoch), and what it `reads` that follows
    from it.
    """

    changes: int
    last: float
    reads: Query

    @property
    def endless(self) -> bool:
        """Whether it has changed too often to be about to come to rest."""
        return self.changes > ALLOWED_CHANGES

    @property
    def due(self) -> float:
        """When it may be applied again."""
        return self.last + (backoff(self.changes - ALLOWED_CHANGES, 0.0) if self.endless else 0.0)

    @property
    def over_at(self) -> float:
        """When it has come to rest, if it doesn't change until then."""
        return self.last + max(SETTLED_AFTER, 2 * (self.due - self.last))

    def held(self, now: float) -> bool:
        """Whether it is left as it is for now."""
        return now < self.due

    def again_at(self, now: float) -> float | None:
        """When it has to be looked at again, whatever happens."""
        return None if not self.endless else self.due if self.held(now) else self.over_at

    def text(self, identity: Identity) -> str:
        """What is said of it."""
        itself = self.reads == Reference(identity.kind, identity.name) or (
            isinstance(self.reads, Lookup) and self.reads.identity == identity
        )
        read = "itself" if itself else f"{self.reads}, which follows from it"
        return f"{identity} changes each time it is applied, for it reads {read}; it is applied again in growing pauses"


def without_settled(feedback_loops: Mapping[Identity, FeedbackLoop], now: float) -> Mapping[Identity, FeedbackLoop]:
    """Those that have not come to rest."""
    return {identity: each for identity, each in feedback_loops.items() if now < each.over_at}


def with_changes(
    feedback_loops: Mapping[Identity, FeedbackLoop],
    rendered: Rendered,
    changed: Iterable[Identity],
    lives: Sequence[LiveObject],
    now: float,
) -> Mapping[Identity, FeedbackLoop]:
    """The unrest after a pass that changed these children; `lives` are all children that are there."""
    changed = list(changed)
    if not changed or not rendered.asked:
        return feedback_loops
    found = dict(feedback_loops)
    circles = _circles(rendered, lives)
    for identity in changed:
        reads = circles.get(Reference(identity.kind, identity.name))
        if reads is not None:
            before = found.get(identity)
            found[identity] = FeedbackLoop(changes=before.changes + 1 if before else 1, last=now, reads=reads)
    return found


def _circles(rendered: Rendered, lives: Sequence[LiveObject]) -> Mapping[Reference, Query]:
    """The children that are read in circles, each with what it reads there."""
    answers: dict[Query, list[Reference]] = {}
    reads: dict[Reference, dict[Reference, Query]] = {}
    for name, uses in _uses(rendered):
        own = reads.setdefault(name, {})
        for use in uses:
            if use.after:
                continue
            if use.query not in answers:
                answers[use.query] = list(_answers(use.query, lives))
            for target in answers[use.query]:
                own.setdefault(target, use.query)
    circles = circular({name: list(targets) for name, targets in reads.items()})
    return {name: reads[name][targets[0]] for name, targets in circles.items()}


def _uses(rendered: Rendered) -> Iterator[tuple[Reference, Sequence[Dependency]]]:
    results: tuple[Document | Wait, ...] = (*rendered.documents, *rendered.waits)
    for result in results:
        identity = result.identity
        if identity is not None and result.dependencies:
            yield Reference(identity.kind, identity.name), result.dependencies


def _answers(query: Query, lives: Sequence[LiveObject]) -> Iterator[Reference]:
    """The children that are a part of an answer."""
    if isinstance(query, Reference):
        yield query
    for live in lives:
        if answers(query, live):
            yield Reference(live.identity.kind, live.identity.name)


def answers(query: Query, live: LiveObject) -> bool:
    """Whether an object is a part of the answer to what is looked up."""
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
