"""Fights: somebody else changes what we apply, we put it back, and so on without end and without an error.

Promises:
- A foreign change is known by ownership: our managedFields entry lost a field, another operator with our manager name
  wrote, or the object was deleted. It names who took which field, as far as managedFields tell.
- The operator reverts a few changes of a field at once. Past the limits of `ConflictPolicy` it is a conflict: the
  pauses between reverts grow to a cap. Reverting never ends, and the operator writes last once the other is quiet.
- A conflict is over when the other left a revert alone for longer than it ever took before. Another manifest for the
  object starts without history.
- Time is an argument, in seconds on one clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ssa_operator.core.objects.identity import GroupKind, Identity
from ssa_operator.core.objects.live_object import MANAGER, PARENT_UID_LABEL, LiveObject, split_entry
from ssa_operator.core.objects.managed_fields import Path, changed_fields, lost_fields, manager_of, path_text
from ssa_operator.core.policies.backoff import exponential
from ssa_operator.core.policies.unchanged import ApplyRecord, is_untouched

DIVIDE = "stop one of the two, or divide the parents between them with --namespace or --selector"
_SHOWN = 4
_KEPT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictPolicy:
    """How much is put up with before it is a fight, and how a fight goes on; times in seconds.

    changes: so many foreign changes of one field within `window` are put back at once. base, cap: the pause before a
    repair in a fight, doubled each time. quiet: for how long the other must leave a repair alone, at least.
    """

    changes: int = 5
    window: float = 300.0
    base: float = 1.0
    cap: float = 60.0
    quiet: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldTakeover:
    """Who took which fields of ours. `manager` is '' where nobody has them: they were removed. `fields` as users write
    them."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields: tuple[str, ...] = ()

    def who(self) -> str:
        if self.manager == MANAGER:
            return "another ssa-operator"
        if not self.manager:
            return "somebody"
        of = f" of {self.subresource}" if self.subresource and self.subresource != "status" else ""
        return f"{self.manager} ({self.operation}{of})"


@dataclass(frozen=True, slots=True)
class ForeignChange:
    """One foreign change of an object: what was taken; nothing where the object itself was deleted."""

    takeovers: tuple[FieldTakeover, ...] = ()

    @property
    def deleted(self) -> bool:
        return not self.takeovers

    @property
    def fields(self) -> frozenset[str]:
        """What it is counted by; '' where no field can be named."""
        return frozenset(field for take in self.takeovers for field in take.fields or ("",)) or frozenset({""})

    def text(self, *, confidential: bool = False) -> str:
        """`kubectl-set (Update) changed spec.replicas`; with `confidential` no field is named."""
        if self.deleted:
            return "it was deleted"
        return " and ".join(
            f"{take.who()} {'changed' if take.manager else 'removed'} {_listed(take.fields, confidential)}"
            for take in self.takeovers
        )


@dataclass(frozen=True, slots=True)
class DatedChange:
    """A foreign change and when it was seen."""

    at: float
    foreign_change: ForeignChange


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictHistory:
    """The foreign changes of one object.

    digest: the manifest that they are about. strikes: the newest last. answered: when the last one was put back, None
    while it isn't. rounds: strikes since it became a fight, 0 where it is none. slowest: the longest time that the
    other took after a repair. due: when the last strike may be put back. quiet: how long the other must not answer.
    """

    digest: bytes
    changes: tuple[DatedChange, ...]
    answered: float | None = None
    rounds: int = 0
    slowest: float = 0.0
    due: float = 0.0
    quiet: float = 0.0

    @property
    def in_conflict(self) -> bool:
        return self.rounds > 0

    @property
    def pending(self) -> ForeignChange | None:
        """The foreign change that is not put back yet."""
        return self.changes[-1].foreign_change if self.answered is None else None

    def held(self, now: float) -> bool:
        """Whether the last foreign change is left standing for now."""
        return self.in_conflict and self.answered is None and now < self.due

    def again_at(self, looked: float) -> float | None:
        """When the object has to be looked at without an event, after a pass that looked at the moment `looked`: for
        the next repair, or to find the fight over. What was due in that pass and still isn't done waits for what keeps
        it.
        """
        if not self.in_conflict:
            return None
        if self.answered is not None:
            return self.answered + self.quiet
        return self.due if self.held(looked) else None

    def text(self, kind: GroupKind, *, confidential: bool = False) -> str:
        """What goes on and what to do about it; it stays the same while the same goes on."""
        if self.changes[-1].foreign_change.deleted:
            once = (
                "; a Job that is removed when it has finished wants ssa-operator.dev/apply: Once"
                if kind == GroupKind("batch", "Job")
                else ""
            )
            return (
                f"it is deleted, or loses its label {PARENT_UID_LABEL}, again and again; "
                f"stop whoever does that, or take it out of the templates{once}"
            )
        field_takeovers = self.repeated()
        said = " and ".join(
            f"{take.who()} {'changes' if take.manager else 'removes'} {_listed(take.fields, confidential)}"
            for take in field_takeovers
        )
        if any(take.manager == MANAGER for take in field_takeovers):
            return f"{said} again and again: it applies other templates to the same parent; {DIVIDE}"
        return f"{said} again and again; take that out of the template, or stop the other manager"

    def repeated(self) -> tuple[FieldTakeover, ...]:
        """Who keeps taking what: what was taken more than once, of each manager."""
        counts: Counter[tuple[str, str, str, str]] = Counter(
            (take.manager, take.operation, take.subresource, field)
            for strike in self.changes
            for take in strike.foreign_change.takeovers
            for field in take.fields or ("",)
        )
        least = min(2, max(counts.values()))
        fields: dict[tuple[str, str, str], list[str]] = {}
        for (manager, operation, subresource, field), count in sorted(counts.items()):
            if count >= least:
                fields.setdefault((manager, operation, subresource), []).append(field)
        return tuple(
            FieldTakeover(
                manager=manager, operation=operation, subresource=subresource, fields=tuple(filter(None, names))
            )
            for (manager, operation, subresource), names in fields.items()
        )


def foreign_change(held: ApplyRecord, left: LiveObject | None, live: LiveObject | None) -> ForeignChange:
    """What others did to an object since our last apply: `held` is its proof, `left` the object as it was then (None
    where that is unknown), `live` as it is now.
    """
    if live is None or live.uid != held.uid:
        return ForeignChange()
    return ForeignChange(field_takeovers(held.entry, left, live))


def field_takeovers(
    entry: bytes, left: LiveObject | None, live: LiveObject, subresource: str = ""
) -> tuple[FieldTakeover, ...]:
    """Who took which field out of our managedFields entry; or out of our hands under our own name, which leaves us the
    entry with another time.
    """
    time_before, fields_before = split_entry(entry)
    time, fields = split_entry(live.own_entry(subresource))
    missing = lost_fields(fields_before, fields)
    altered = changed_fields(fields, left.body, live.body) if left is not None else ()
    # What is still ours and has another value: whoever wrote that did so under our name.
    if fields and (time != time_before or altered or not missing):
        everything = _texts({*missing, *altered})
        return (FieldTakeover(manager=MANAGER, operation="Apply", subresource=subresource, fields=everything),)
    if not live.metadata.managed_fields:
        return (FieldTakeover(fields=("metadata.managedFields",)),)
    found: dict[tuple[str, str, str], list[Path]] = {}
    for path in missing:
        by = manager_of(live, path, subresource == "status")
        who = (by.manager, by.operation, by.subresource) if by is not None else ("", "", "")
        found.setdefault(who, []).append(path)
    return tuple(
        FieldTakeover(manager=manager, operation=operation, subresource=at, fields=_texts(paths))
        for (manager, operation, at), paths in sorted(found.items())
    )


def with_foreign_change(
    history: ConflictHistory | None, digest: bytes, found: ForeignChange, now: float, conflict_policy: ConflictPolicy
) -> ConflictHistory:
    """The feud after a foreign change was seen for the first time."""
    if history is None or history.digest != digest:
        return ConflictHistory(digest=digest, changes=(DatedChange(now, found),), due=now)
    recent = [strike for strike in history.changes if strike.at > now - conflict_policy.window]
    strikes = (*recent[-_KEPT:], DatedChange(now, found))
    counts = Counter(field for strike in strikes for field in strike.foreign_change.fields)
    fighting = history.in_conflict or max(counts.values()) > conflict_policy.changes
    rounds = history.rounds + 1 if fighting else 0
    slowest = max(history.slowest if history.in_conflict else 0.0, now - (history.answered or now))
    pause = exponential(conflict_policy.base, conflict_policy.cap, rounds - 1) if fighting else 0.0
    return replace(
        history,
        changes=strikes,
        answered=None,
        rounds=rounds,
        slowest=slowest,
        due=now + pause,
        # The other may be slow by nature, a controller with an interval: silence means something only after that.
        quiet=min(max(conflict_policy.quiet, 3 * slowest), conflict_policy.window),
    )


def with_revert(history: ConflictHistory, now: float) -> ConflictHistory:
    """The feud after our apply put things back."""
    return replace(history, answered=now) if history.answered is None else history


def is_relevant(history: ConflictHistory, now: float, conflict_policy: ConflictPolicy) -> bool:
    """Whether a feud still has to be remembered."""
    if history.answered is None:
        return True
    if history.in_conflict:
        return now < history.answered + history.quiet
    return history.changes[-1].at > now - conflict_policy.window


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedChildren:
    """What foreign changes are found by: the proofs of our last applies, the objects as they were then and as they are
    now, and whether the watch of a kind is synced.
    """

    apply_records: Mapping[Identity, ApplyRecord]
    left: Mapping[Identity, LiveObject]
    objects: Mapping[Identity, LiveObject]
    synced: Callable[[GroupKind], bool]


def update_histories(
    histories: Mapping[Identity, ConflictHistory], scene: AppliedChildren, now: float, conflict_policy: ConflictPolicy
) -> dict[Identity, ConflictHistory]:
    """The feuds as a pass finds them: the ones that are over are forgotten, each foreign change is counted once."""
    found = {identity: history for identity, history in histories.items() if is_relevant(history, now, conflict_policy)}
    for identity, held in scene.apply_records.items():
        if not scene.synced(identity.group_kind):
            continue
        live, left, history = scene.objects.get(identity), scene.left.get(identity), found.get(identity)
        if live is not None and (live.deleting or is_untouched(held, left, live)):
            if history is not None and not live.deleting:
                found[identity] = with_revert(history, now)  # it came back by itself
            continue
        if history is not None and history.answered is None and history.digest == held.digest:
            continue
        change = foreign_change(held, left, live)
        found[identity] = with_foreign_change(history, held.digest, change, now, conflict_policy)
    return found


def _texts(paths: Collection[Path]) -> tuple[str, ...]:
    return tuple(path_text(path) for path in sorted(paths))


def _listed(fields: Sequence[str], confidential: bool) -> str:
    if confidential or not fields:
        return "fields of ours"
    more = f" and {len(fields) - _SHOWN} more" if len(fields) > _SHOWN else ""
    return ", ".join(fields[:_SHOWN]) + more
