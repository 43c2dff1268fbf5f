"""Fights: somebody else changes what we apply, we put it back, and so on without end and without an error.

Promises:
- A foreign change is known by ownership: our managedFields entry lost a field, or somebody of our own name wrote, or
  the object went. It names who took which field, as far as managedFields tell.
- One change of a field, or a few within a while, are put back at once; past that (`Tolerance`) it is a fight, and the
  pauses between repairs grow to a cap. Repairing never ends, and never ends with the other's value once it is quiet.
- A fight is over when the other didn't answer a repair for longer than it ever took before. Another manifest for the
  object starts with a clean slate.
- Time is an argument, in seconds on one clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from ssa_operator.core.policies.unchanged import Proof, untouched
from ssa_operator.core.objects.identity import GroupKind, Identity
from ssa_operator.core.objects.live_object import MANAGER, PARENT_UID_LABEL, Live, split_entry
from ssa_operator.core.objects.managed_fields import Path, changed, holder, lost, path_text
from ssa_operator.core.policies.backoff import doubled

DIVIDE = "stop one of the two, or divide the parents between them with --namespace or --selector"
_SHOWN = 4
_KEPT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
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
class Take:
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
class Intrusion:
    """One foreign change of an object: what was taken; nothing where the object itself was deleted."""

    takes: tuple[Take, ...] = ()

    @property
    def deleted(self) -> bool:
        return not self.takes

    @property
    def fields(self) -> frozenset[str]:
        """What it is counted by; '' where no field can be named."""
        return frozenset(field for take in self.takes for field in take.fields or ("",)) or frozenset({""})

    def text(self, *, confidential: bool = False) -> str:
        """`kubectl-set (Update) changed spec.replicas`; with `confidential` no field is named."""
        if self.deleted:
            return "it was deleted"
        return " and ".join(
            f"{take.who()} {'changed' if take.manager else 'removed'} {_listed(take.fields, confidential)}"
            for take in self.takes
        )


@dataclass(frozen=True, slots=True)
class Strike:
    """A foreign change and when it was seen."""

    at: float
    intrusion: Intrusion


@dataclass(frozen=True, slots=True, kw_only=True)
class Feud:
    """The foreign changes of one object.

    digest: the manifest that they are about. strikes: the newest last. answered: when the last one was put back, None
    while it isn't. rounds: strikes since it became a fight, 0 where it is none. slowest: the longest time that the
    other took after a repair. due: when the last strike may be put back. quiet: how long the other must not answer.
    """

    digest: bytes
    strikes: tuple[Strike, ...]
    answered: float | None = None
    rounds: int = 0
    slowest: float = 0.0
    due: float = 0.0
    quiet: float = 0.0

    @property
    def fighting(self) -> bool:
        return self.rounds > 0

    @property
    def pending(self) -> Intrusion | None:
        """The foreign change that is not put back yet."""
        return self.strikes[-1].intrusion if self.answered is None else None

    def held(self, now: float) -> bool:
        """Whether the last foreign change is left standing for now."""
        return self.fighting and self.answered is None and now < self.due

    def again_at(self, looked: float) -> float | None:
        """When the object has to be looked at without an event, after a pass that looked at the moment `looked`: for
        the next repair, or to find the fight over. What was due in that pass and still isn't done waits for what keeps
        it.
        """
        if not self.fighting:
            return None
        if self.answered is not None:
            return self.answered + self.quiet
        return self.due if self.held(looked) else None

    def text(self, kind: GroupKind, *, confidential: bool = False) -> str:
        """What goes on and what to do about it; it stays the same while the same goes on."""
        if self.strikes[-1].intrusion.deleted:
            once = (
                "; a Job that is removed when it has finished wants ssa-operator.dev/apply: Once"
                if kind == GroupKind("batch", "Job")
                else ""
            )
            return (
                f"it is deleted, or loses its label {PARENT_UID_LABEL}, again and again; "
                f"stop whoever does that, or take it out of the templates{once}"
            )
        takes = self.repeated()
        said = " and ".join(
            f"{take.who()} {'changes' if take.manager else 'removes'} {_listed(take.fields, confidential)}"
            for take in takes
        )
        if any(take.manager == MANAGER for take in takes):
            return f"{said} again and again: it applies other templates to the same parent; {DIVIDE}"
        return f"{said} again and again; take that out of the template, or stop the other manager"

    def repeated(self) -> tuple[Take, ...]:
        """Who keeps taking what: what was taken more than once, of each manager."""
        counts: Counter[tuple[str, str, str, str]] = Counter(
            (take.manager, take.operation, take.subresource, field)
            for strike in self.strikes
            for take in strike.intrusion.takes
            for field in take.fields or ("",)
        )
        least = min(2, max(counts.values()))
        fields: dict[tuple[str, str, str], list[str]] = {}
        for (manager, operation, subresource, field), count in sorted(counts.items()):
            if count >= least:
                fields.setdefault((manager, operation, subresource), []).append(field)
        return tuple(
            Take(manager=manager, operation=operation, subresource=subresource, fields=tuple(filter(None, names)))
            for (manager, operation, subresource), names in fields.items()
        )


def intrusion(held: Proof, left: Live | None, live: Live | None) -> Intrusion:
    """What others did to an object since our last apply: `held` is its proof, `left` the object as it was then (None
    where that is unknown), `live` as it is now.
    """
    if live is None or live.uid != held.uid:
        return Intrusion()
    return Intrusion(takes(held.entry, left, live))


def takes(entry: bytes, left: Live | None, live: Live, subresource: str = "") -> tuple[Take, ...]:
    """Who took which field out of our managedFields entry; or out of our hands under our own name, which leaves us the
    entry with another time.
    """
    time_before, fields_before = split_entry(entry)
    time, fields = split_entry(live.own_entry(subresource))
    missing = lost(fields_before, fields)
    altered = changed(fields, left.body, live.body) if left is not None else ()
    # What is still ours and has another value: whoever wrote that did so under our name.
    if fields and (time != time_before or altered or not missing):
        everything = _texts({*missing, *altered})
        return (Take(manager=MANAGER, operation="Apply", subresource=subresource, fields=everything),)
    if not live.metadata.managed_fields:
        return (Take(fields=("metadata.managedFields",)),)
    found: dict[tuple[str, str, str], list[Path]] = {}
    for path in missing:
        by = holder(live, path, subresource == "status")
        who = (by.manager, by.operation, by.subresource) if by is not None else ("", "", "")
        found.setdefault(who, []).append(path)
    return tuple(
        Take(manager=manager, operation=operation, subresource=at, fields=_texts(paths))
        for (manager, operation, at), paths in sorted(found.items())
    )


def provoked(feud: Feud | None, digest: bytes, found: Intrusion, now: float, tolerance: Tolerance) -> Feud:
    """The feud after a foreign change was seen for the first time."""
    if feud is None or feud.digest != digest:
        return Feud(digest=digest, strikes=(Strike(now, found),), due=now)
    recent = [strike for strike in feud.strikes if strike.at > now - tolerance.window]
    strikes = (*recent[-_KEPT:], Strike(now, found))
    counts = Counter(field for strike in strikes for field in strike.intrusion.fields)
    fighting = feud.fighting or max(counts.values()) > tolerance.changes
    rounds = feud.rounds + 1 if fighting else 0
    slowest = max(feud.slowest if feud.fighting else 0.0, now - (feud.answered or now))
    pause = doubled(tolerance.base, tolerance.cap, rounds - 1) if fighting else 0.0
    return replace(
        feud,
        strikes=strikes,
        answered=None,
        rounds=rounds,
        slowest=slowest,
        due=now + pause,
        # The other may be slow by nature, a controller with an interval: silence means something only after that.
        quiet=min(max(tolerance.quiet, 3 * slowest), tolerance.window),
    )


def answered(feud: Feud, now: float) -> Feud:
    """The feud after our apply put things back."""
    return replace(feud, answered=now) if feud.answered is None else feud


def lives(feud: Feud, now: float, tolerance: Tolerance) -> bool:
    """Whether a feud still has to be remembered."""
    if feud.answered is None:
        return True
    if feud.fighting:
        return now < feud.answered + feud.quiet
    return feud.strikes[-1].at > now - tolerance.window


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What foreign changes are found by: the proofs of our last applies, the objects as they were then and as they are
    now, and whether the watch of a kind is synced.
    """

    proofs: Mapping[Identity, Proof]
    left: Mapping[Identity, Live]
    objects: Mapping[Identity, Live]
    synced: Callable[[GroupKind], bool]


def watched(feuds: Mapping[Identity, Feud], scene: Scene, now: float, tolerance: Tolerance) -> dict[Identity, Feud]:
    """The feuds as a pass finds them: the ones that are over are forgotten, each foreign change is counted once."""
    found = {identity: feud for identity, feud in feuds.items() if lives(feud, now, tolerance)}
    for identity, held in scene.proofs.items():
        if not scene.synced(identity.group_kind):
            continue
        live, left, feud = scene.objects.get(identity), scene.left.get(identity), found.get(identity)
        if live is not None and (live.deleting or untouched(held, left, live)):
            if feud is not None and not live.deleting:
                found[identity] = answered(feud, now)  # it came back by itself
            continue
        if feud is not None and feud.answered is None and feud.digest == held.digest:
            continue
        change = intrusion(held, left, live)
        found[identity] = provoked(feud, held.digest, change, now, tolerance)
    return found


def _texts(paths: Collection[Path]) -> tuple[str, ...]:
    return tuple(path_text(path) for path in sorted(paths))


def _listed(fields: Sequence[str], confidential: bool) -> str:
    if confidential or not fields:
        return "fields of ours"
    more = f" and {len(fields) - _SHOWN} more" if len(fields) > _SHOWN else ""
    return ", ".join(fields[:_SHOWN]) + more
