"""Slows down feedback loops: a child whose template reads an object that is derived from the child.

Promises:
- The operator slows down only a child that is part of a loop: templates read objects that are derived from the child to
  render it, or it reads itself. A chain of children is no loop, and neither are repeated changes by others.
- If another manager changes a field of a child and the templates follow, that change does not count. The child and
  those in a loop with it begin a new series.
- A loop may lead through several parents of this process, if their templates read each other's children or each other's
  parents by name: a parent's status follows from its children.
- A child in a loop may change ALLOWED_CHANGES times without a pause. Then each pause is twice as long as the last.
- During a pause no event of the parent applies that child. The parent's other children don't wait for it.
- Templates that read nothing of the cluster are in no loop.
- A loop is over when the child hasn't changed for twice its last pause, and at least for SETTLED_AFTER.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.cluster_view import Lookup, Question, Selection
from ssa_operator.objects.dependency_graph import circular, components
from ssa_operator.objects.field_set import FieldSets, changed_fields, lost_fields
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject, split_entry
from ssa_operator.objects.render_result import Dependency, Document, Rendered, Wait
from ssa_operator.reconcile.child import CHANGED, Child
from ssa_operator.reconcile.child_memory import ChildMemories
from ssa_operator.reconcile.feedback_loops.series import FeedbackLoop
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.resync.unchanged import ApplyRecord

NOTHING: Mapping[Identity, Collection[Identity]] = {}
"""Children that read nothing by name."""


class Changes(Struct, frozen=True, kw_only=True):
    """The children that a reconcile changed, and the objects that the children of all parents read."""

    changed: Collection[Identity]
    followed: Collection[Identity] = ()
    """The changed children in which the operator took over another manager's values."""
    lives: Sequence[LiveObject]
    """All children that exist."""
    read_by: Mapping[Identity, Collection[Identity]] = NOTHING
    """What each child of any parent reads by name."""


def follows_others(record: ApplyRecord | None, before: LiveObject | None, after: LiveObject) -> bool:
    """Whether other managers changed fields since the recorded apply, and the apply left all of these as they were
    changed.
    """
    if record is None or before is None or record.uid != before.uid:
        return False
    fields = split_entry(record.own_entry)[1]
    sets = FieldSets()
    taken = frozenset(lost_fields(fields, before.owned_fields(), sets))
    if not taken:
        return False
    overwritten = changed_fields(fields, before.body, after.body, sets)
    return not any(path[:length] in taken for path in overwritten for length in range(1, len(path) + 1))


def loops_after(
    memories: ChildMemories,
    outcomes: Sequence[Child],
    rendered: Rendered,
    read_by: Mapping[Identity, Collection[Identity]],
    now: float,
) -> Mapping[Identity, FeedbackLoop | None]:
    """The loops that a reconcile began, continued or ended (None), by child."""
    if not rendered.queries:
        return {}
    changed = {
        outcome.identity: follows_others(memories.of(outcome.identity).applied, outcome.before, outcome.live)
        for outcome in outcomes
        if outcome.foreign_change is None and outcome.result in CHANGED and outcome.live is not None
    }
    if not changed:
        return {}
    changes = Changes(
        changed=[*changed],
        followed=[identity for identity, followed in changed.items() if followed],
        lives=[outcome.live for outcome in outcomes if outcome.live is not None],
        read_by=read_by,
    )
    before = {identity: row.loop for identity, row in memories.by_child.items() if row.loop is not None}
    found = with_changes(before, rendered, changes, now)
    return {each: found.get(each) for each in before.keys() | found.keys() if found.get(each) is not before.get(each)}


def with_changes(
    feedback_loops: Mapping[Identity, FeedbackLoop], rendered: Rendered, changes: Changes, now: float
) -> Mapping[Identity, FeedbackLoop]:
    """The loops after a reconcile with these changes."""
    if not changes.changed or not rendered.queries:
        return feedback_loops
    found = dict(feedback_loops)
    dependencies = dict[Reference, list[Dependency]]()
    for name, own in _dependencies(rendered):
        dependencies.setdefault(name, []).extend(own)
    looping = _children_in_loops(dependencies, changes.lives)
    followed = _in_loop_with(changes.followed, looping)
    for identity in [*found]:
        if Reference(identity.kind, identity.name) in followed:
            del found[identity]
    cycles = components(changes.changed, changes.read_by)
    for identity in changes.changed:
        name = Reference(identity.kind, identity.name)
        if name in followed:
            continue
        queries = looping.get(name)
        reads = next(iter(queries.values())) if queries else None
        if reads is None and identity in changes.read_by:
            reads = _query_that_leads_back(identity, dependencies.get(name, ()), cycles)
        if reads is not None:
            before = found.get(identity)
            found[identity] = FeedbackLoop(changes=before.changes + 1 if before else 1, changed_at=now, reads=reads)
    return found


def _in_loop_with(identities: Iterable[Identity], looping: Mapping[Reference, Iterable[Reference]]) -> set[Reference]:
    """These children, and those that are in a loop with one of them: each reads what the other is derived from."""
    names = {Reference(identity.kind, identity.name) for identity in identities}
    dependants: dict[Reference, list[Reference]] = {}
    for name, targets in looping.items():
        for target in targets:
            dependants.setdefault(target, []).append(name)
    return names.union(*(_reached(name, looping) & _reached(name, dependants) for name in names))


def _reached(start: Reference, edges: Mapping[Reference, Iterable[Reference]]) -> set[Reference]:
    seen, pending = {start}, [start]
    while pending:
        fresh = set(edges.get(pending.pop(), ())) - seen
        seen |= fresh
        pending += fresh
    return seen


def _children_in_loops(
    dependencies: Mapping[Reference, Sequence[Dependency]], lives: Sequence[LiveObject]
) -> Mapping[Reference, Mapping[Reference, Question]]:
    """The children that are part of a loop, each with the children of loops that it reads and the query of each."""
    answers, children = Answers(lives), dict[Question, list[Reference]]()
    reads: dict[Reference, dict[Reference, Question]] = {}
    for name, own in dependencies.items():
        targets = reads.setdefault(name, {})
        for dependency in own:
            if dependency.after:
                continue
            query = dependency.query
            if query not in children:
                children[query] = list(_children_in_answer(query, answers))
            for target in children[query]:
                targets.setdefault(target, query)
    loops = circular({name: list(targets) for name, targets in reads.items()})
    return {name: {target: reads[name][target] for target in targets} for name, targets in loops.items()}


def reads_by_name(
    rendered: Rendered, rendered_children: Collection[Identity]
) -> Mapping[Identity, Collection[Identity]]:
    """What each of these children of a parent reads by name: objects that it looks up, and other children."""
    found: dict[Identity, Collection[Identity]] = {}
    by_name: dict[Reference, list[Identity]] = {}
    for identity in rendered_children:
        by_name.setdefault(Reference(identity.kind, identity.name), []).append(identity)
    for document in rendered.documents:
        if not document.dependencies:
            continue
        targets = dict.fromkeys(
            target
            for dependency in document.dependencies
            if not dependency.after
            for target in _named(dependency.query, by_name)
        )
        if targets:
            name = Reference(document.body["kind"], document.body["metadata"]["name"])
            found.update(dict.fromkeys(by_name.get(name, ()), targets))
    return found


def _named(query: Question, children: Mapping[Reference, Sequence[Identity]]) -> Iterable[Identity]:
    match query:
        case Lookup():
            return (query.identity,)
        case Reference():
            return children.get(query, ())
        case Selection() | ApiKind():
            return ()


def _query_that_leads_back(
    identity: Identity, dependencies: Iterable[Dependency], cycles: Mapping[Identity, int]
) -> Question | None:
    """The lookup of a child that reads an object which is derived from the child, None if it has none. `cycles` has
    the cycle of each object that is in one.
    """
    cycle = cycles.get(identity)
    for dependency in dependencies if cycle is not None else ():
        query = dependency.query
        if isinstance(query, Lookup) and not dependency.after and cycles.get(query.identity) == cycle:
            return query
    return None


def _dependencies(rendered: Rendered) -> Iterator[tuple[Reference, Sequence[Dependency]]]:
    results: tuple[Document | Wait, ...] = (*rendered.documents, *rendered.waits)
    for result in results:
        identity = result.identity
        if identity is not None and result.dependencies:
            yield Reference(identity.kind, identity.name), result.dependencies


def _children_in_answer(query: Question, answers: Answers) -> Iterator[Reference]:
    if isinstance(query, Reference):
        yield query
    elif not isinstance(query, ApiKind):
        for live in answers.to(query):
            yield Reference(live.identity.kind, live.identity.name)


class Answers:
    """Which of some objects are part of the answer to a query. A thousand queries scan the objects once."""

    def __init__(self, lives: Sequence[LiveObject]) -> None:
        self._lives = lives

    @cached_property
    def _by_identity(self) -> Mapping[Identity, LiveObject]:
        return {live.identity: live for live in self._lives}

    @cached_property
    def _by_kind(self) -> Mapping[GroupKind, Sequence[LiveObject]]:
        found: dict[GroupKind, list[LiveObject]] = {}
        for live in self._lives:
            found.setdefault(live.identity.group_kind, []).append(live)
        return found

    @cached_property
    def _by_label(self) -> Mapping[tuple[GroupKind, str, str], Sequence[LiveObject]]:
        found: dict[tuple[GroupKind, str, str], list[LiveObject]] = {}
        for live in self._lives:
            kind = live.identity.group_kind
            for name, value in live.metadata.labels.items():
                found.setdefault((kind, name, value), []).append(live)
        return found

    def to(self, query: Lookup | Selection) -> Iterator[LiveObject]:
        """The objects that are part of the answer."""
        if isinstance(query, Lookup):
            live = self._by_identity.get(query.identity)
            if live is not None:
                yield live
            return
        kind = query.group_kind
        lines = [self._by_label.get((kind, name, value), ()) for name, value in query.labels]
        for live in min(lines, key=len) if lines else self._by_kind.get(kind, ()):
            labels = live.metadata.labels
            within = query.namespace in ("", live.identity.namespace)
            if within and all(labels.get(name) == value for name, value in query.labels):
                yield live


# Rows of the tables in reconcile.decide.


_PAUSED = "changes each time it is applied, and is applied after a pause"


def with_message(_: Observed, step: Child) -> Child:
    """The step with the message of a loop."""
    loop = step.memory.loop
    return replace(step, feedback_loop=loop.text(step.identity)) if loop is not None and loop.slowed_down else step


def awaits_pause(observed: Observed, step: Child) -> Child | None:
    """A child of a loop that does not exist is created after a pause."""
    return step.waiting(_PAUSED) if _is_paused(observed, step) else None


def is_paused(observed: Observed, step: Child) -> Child | None:
    """A child of a loop is applied after a pause."""
    return step.left_unchanged(_PAUSED) if _is_paused(observed, step) else None


def _is_paused(observed: Observed, step: Child) -> bool:
    return step.memory.loop is not None and step.memory.loop.apply_delayed(observed.monotonic)
