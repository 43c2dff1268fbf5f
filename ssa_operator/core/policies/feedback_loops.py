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

from ssa_operator.core.objects.dependency_graph import circular
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.annotations import Reference
from ssa_operator.core.objects.live_object import Live
from ssa_operator.core.objects.render_result import Document, Rendered, Use, Wait
from ssa_operator.core.policies.backoff import backoff
from ssa_operator.core.objects.cluster_view import Lookup, Question, Selection

FREE = 6
"""Changes of a child that follow each other without a pause."""

STILL = 30.0
"""Seconds without a change after which a child has come to rest, and twice its last pause where that is more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrest:
    """How often a child changed again, when it did so last (seconds since the epoch), and what it `reads` that follows
    from it.
    """

    changes: int
    last: float
    reads: Question

    @property
    def endless(self) -> bool:
        """Whether it has changed too often to be about to come to rest."""
        return self.changes > FREE

    @property
    def due(self) -> float:
        """When it may be applied again."""
        return self.last + (backoff(self.changes - FREE, 0.0) if self.endless else 0.0)

    @property
    def over_at(self) -> float:
        """When it has come to rest, if it doesn't change until then."""
        return self.last + max(STILL, 2 * (self.due - self.last))

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


def current(unrest: Mapping[Identity, Unrest], now: float) -> Mapping[Identity, Unrest]:
    """Those that have not come to rest."""
    return {identity: each for identity, each in unrest.items() if now < each.over_at}


def changed_again(
    unrest: Mapping[Identity, Unrest],
    rendered: Rendered,
    changed: Iterable[Identity],
    lives: Sequence[Live],
    now: float,
) -> Mapping[Identity, Unrest]:
    """The unrest after a pass that changed these children; `lives` are all children that are there."""
    changed = list(changed)
    if not changed or not rendered.asked:
        return unrest
    found = dict(unrest)
    circles = _circles(rendered, lives)
    for identity in changed:
        reads = circles.get(Reference(identity.kind, identity.name))
        if reads is not None:
            before = found.get(identity)
            found[identity] = Unrest(changes=before.changes + 1 if before else 1, last=now, reads=reads)
    return found


def _circles(rendered: Rendered, lives: Sequence[Live]) -> Mapping[Reference, Question]:
    """The children that are read in circles, each with what it reads there."""
    answers: dict[Question, list[Reference]] = {}
    reads: dict[Reference, dict[Reference, Question]] = {}
    for name, uses in _uses(rendered):
        own = reads.setdefault(name, {})
        for use in uses:
            if use.after:
                continue
            if use.question not in answers:
                answers[use.question] = list(_answers(use.question, lives))
            for target in answers[use.question]:
                own.setdefault(target, use.question)
    circles = circular({name: list(targets) for name, targets in reads.items()})
    return {name: reads[name][targets[0]] for name, targets in circles.items()}


def _uses(rendered: Rendered) -> Iterator[tuple[Reference, Sequence[Use]]]:
    results: tuple[Document | Wait, ...] = (*rendered.documents, *rendered.waits)
    for result in results:
        identity = result.identity
        if identity is not None and result.uses:
            yield Reference(identity.kind, identity.name), result.uses


def _answers(question: Question, lives: Sequence[Live]) -> Iterator[Reference]:
    """The children that are a part of an answer."""
    if isinstance(question, Reference):
        yield question
    for live in lives:
        if answers(question, live):
            yield Reference(live.identity.kind, live.identity.name)


def answers(question: Question, live: Live) -> bool:
    """Whether an object is a part of the answer to what is looked up."""
    match question:
        case Lookup():
            return question.identity == live.identity
        case Selection():
            within = question.namespace in ("", live.identity.namespace)
            labels = live.metadata.labels
            same_kind = question.group_kind == live.identity.group_kind
            return same_kind and within and all(labels.get(name) == value for name, value in question.labels)
        case Reference():
            return False
