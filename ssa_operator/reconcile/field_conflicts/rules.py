"""Field conflicts: another manager changes fields that the operator applies, and the operator reverts the change.

Promises:
- The operator detects a foreign change by field ownership: its managedFields entry lost a field, another operator with
  the same field manager wrote, or the object was deleted. The message names the manager and the fields, as far as
  managedFields do.
- The operator reverts a few changes of a field at once. Past the limits of `ConflictPolicy` it is a conflict: the
  pauses between reverts grow to a cap. The operator never stops reverting, and has the last word when the other manager
  is quiet.
- A conflict is over when the other manager has left a revert alone for longer than its slowest answer. A changed
  manifest starts without history.
- Time is an argument, in seconds on the monotonic clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.kube.api.backoff import exponential
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import MANAGER, PARENT_UID_LABEL, LiveObject, split_entry
from ssa_operator.objects.managed_fields import (
    FieldTrees,
    Path,
    changed_fields,
    lost_fields,
    managers_of,
    path_text,
)
from ssa_operator.reconcile.resync.unchanged import ApplyRecord, is_untouched, is_untouched_by_version, with_newest

DIVIDE_PARENTS = "stop one of the two, or divide the parents between them with --namespace or --selector"

_LISTED_FIELDS = 4
"""Fields that a message names."""

RECORDED_FIELDS = 100
"""Fields that are recorded of a change by one manager. Further fields change with them, for example if a manager writes
the whole object.
"""

_RECORDED_CHANGES = 20
"""Foreign changes that a history holds beside the latest."""


class ConflictPolicy(Struct, frozen=True, kw_only=True):
    """Which foreign changes are a conflict, and how the operator then backs off. Times are in seconds."""

    allowed_changes: int = 5
    """Changes of one field within `window` that the operator reverts at once."""
    window: float = 300.0
    backoff_base: float = 1.0
    """The first pause before a revert in a conflict; each further pause is twice as long."""
    backoff_cap: float = 60.0
    """The longest pause before a revert."""
    quiet_period: float = 10.0
    """The least time that the other must leave a revert alone until the conflict is over."""


class ConflictingChange(Struct, frozen=True, kw_only=True):
    """The operator's fields that one other manager changed or removed."""

    manager: str = ""
    """'' if no manager owns the fields any more: they were removed."""
    operation: str = ""
    subresource: str = ""
    fields: tuple[str, ...] = ()
    """The first RECORDED_FIELDS of the fields, as users write them."""
    others: int = 0
    """How many more fields there are."""

    def writer(self) -> str:
        """The manager as messages name it."""
        if self.manager == MANAGER:
            return "another ssa-operator"
        if not self.manager:
            return "an unknown manager"
        of = f" of {self.subresource}" if self.subresource and self.subresource != "status" else ""
        return f"{self.manager} ({self.operation}{of})"


class ForeignChange(Struct, frozen=True):
    """One change of an object by others: its changed fields, or no fields where the object was deleted."""

    field_changes: tuple[ConflictingChange, ...] = ()

    @property
    def deleted(self) -> bool:
        return not self.field_changes

    @property
    def fields(self) -> frozenset[str]:
        """The fields by which changes are counted; '' stands for a change without known fields."""
        return frozenset(field for change in self.field_changes for field in change.fields or ("",)) or frozenset({""})

    def text(self, *, confidential: bool = False) -> str:
        """`kubectl-set (Update) changed spec.replicas`; with `confidential` it names no field."""
        if self.deleted:
            return "it was deleted"
        return " and ".join(
            f"{change.writer()} {'changed' if change.manager else 'removed'} {_listed(change, confidential)}"
            for change in self.field_changes
        )


class DatedChange(Struct, frozen=True):
    """A foreign change and when the operator saw it."""

    seen_at: float
    change: ForeignChange


class ConflictHistory(Struct, frozen=True, kw_only=True):
    """The foreign changes of one object, and how far the operator has reverted them."""

    digest: bytes
    """The digest of the manifest that they are about."""
    changes: tuple[DatedChange, ...]
    """The latest is last."""
    reverted_at: float | None = None
    """When the operator reverted the latest change; None until then."""
    conflict_changes: int = 0
    """Changes since the conflict began; 0 without a conflict."""
    slowest_response: float = 0.0
    """The longest time between a revert and the next change in this conflict."""
    revert_due: float = 0.0
    """When the operator may revert the latest change."""
    quiet_period: float = 0.0
    """How long the other must leave a revert alone until the conflict is over."""

    @property
    def in_conflict(self) -> bool:
        return self.conflict_changes > 0

    @property
    def unreverted(self) -> ForeignChange | None:
        """The foreign change that the operator hasn't reverted yet."""
        return self.changes[-1].change if self.reverted_at is None else None

    def revert_delayed(self, now: float) -> bool:
        """Whether the operator leaves the latest change alone for now."""
        return self.in_conflict and self.reverted_at is None and now < self.revert_due

    def again_at(self, reconciled_at: float) -> float | None:
        """When the operator must reconcile the object without an event: for the next revert, or to end the conflict.

        `reconciled_at` is when the last reconcile began. A revert that was due then and isn't done has failed, and the
        failure has its own retries.
        """
        if not self.in_conflict:
            return None
        if self.reverted_at is not None:
            return self.reverted_at + self.quiet_period
        return self.revert_due if self.revert_delayed(reconciled_at) else None

    def text(self, kind: GroupKind, *, confidential: bool = False) -> str:
        """The message about the conflict and what to do; it stays the same as long as the changes do."""
        if self.changes[-1].change.deleted:
            finished_job = (
                "; if a Job is deleted after it finishes, set ssa-operator.dev/apply: Once"
                if kind == GroupKind("batch", "Job")
                else ""
            )
            return (
                f"it is repeatedly deleted, or loses its label {PARENT_UID_LABEL}; "
                f"stop the process that does this, or remove the manifest from the templates{finished_job}"
            )
        field_changes = self.repeated_changes()
        summary = " and ".join(
            f"{change.writer()} repeatedly {'changes' if change.manager else 'removes'} {_listed(change, confidential)}"
            for change in field_changes
        )
        if any(change.manager == MANAGER for change in field_changes):
            return f"{summary}: it applies other templates to the same parent; {DIVIDE_PARENTS}"
        return f"{summary}; remove it from the template, or stop the other manager"

    def repeated_changes(self) -> tuple[ConflictingChange, ...]:
        """What each manager changed more than once; everything where no field changed twice."""
        counts: Counter[tuple[str, str, str, str]] = Counter(
            (change.manager, change.operation, change.subresource, field)
            for dated in self.changes
            for change in dated.change.field_changes
            for field in change.fields or ("",)
        )
        others = {
            (change.manager, change.operation, change.subresource): change.others
            for dated in self.changes
            for change in dated.change.field_changes
        }
        least = min(2, max(counts.values()))
        fields: dict[tuple[str, str, str], list[str]] = {}
        for (manager, operation, subresource, field), count in sorted(counts.items()):
            if count >= least:
                fields.setdefault((manager, operation, subresource), []).append(field)
        return tuple(
            ConflictingChange(
                manager=by[0], operation=by[1], subresource=by[2], fields=tuple(filter(None, names)), others=others[by]
            )
            for by, names in fields.items()
        )


def find_foreign_change(record: ApplyRecord, live: LiveObject | None) -> ForeignChange:
    """What others did to an object since the recorded apply. `live` is the object now, None if it is gone."""
    if live is None or live.uid != record.uid:
        return ForeignChange()
    return ForeignChange(find_field_changes(record.own_entry, record.applied, live))


def find_field_changes(
    own_entry: bytes, last_applied: LiveObject, live: LiveObject, subresource: str = ""
) -> tuple[ConflictingChange, ...]:
    """Which manager changed which of the fields in the operator's managedFields entry `own_entry`.

    Another operator with the same field manager leaves the entry's fields, and changes its time.
    """
    trees = FieldTrees()
    time_before, fields_before = split_entry(own_entry)
    time, fields = split_entry(live.own_entry(subresource))
    missing = lost_fields(fields_before, fields, trees)
    comparable = last_applied.version == live.version
    altered = changed_fields(fields, last_applied.body, live.body, trees) if comparable else ()
    # A field that the operator still owns and that has another value was written under the operator's name.
    if fields and (time != time_before or altered or not missing):
        return (_field_change((MANAGER, "Apply", subresource), {*missing, *altered}),)
    if not live.managed_fields:
        return (ConflictingChange(fields=("metadata.managedFields",)),)
    found: dict[tuple[str, str, str], list[Path]] = {}
    owners = managers_of(live, missing, subresource == "status", time_before.decode(), trees)
    for path, owner in zip(missing, owners, strict=True):
        manager = (owner.manager, owner.operation, owner.subresource) if owner is not None else ("", "", "")
        found.setdefault(manager, []).append(path)
    return tuple(_field_change(by, paths) for by, paths in sorted(found.items()))


def with_foreign_change(
    history: ConflictHistory | None, digest: bytes, change: ForeignChange, now: float, conflict_policy: ConflictPolicy
) -> ConflictHistory:
    """The history with a foreign change that the operator sees for the first time."""
    if history is None or history.digest != digest:
        return ConflictHistory(digest=digest, changes=(DatedChange(now, change),), revert_due=now)
    recent = [dated for dated in history.changes if dated.seen_at > now - conflict_policy.window]
    changes = (*recent[-_RECORDED_CHANGES:], DatedChange(now, change))
    counts = Counter(field for dated in changes for field in dated.change.fields)
    in_conflict = history.in_conflict or max(counts.values()) > conflict_policy.allowed_changes
    conflict_changes = history.conflict_changes + 1 if in_conflict else 0
    response = now - (history.reverted_at or now)
    slowest = max(history.slowest_response if history.in_conflict else 0.0, response)
    pause = (
        exponential(conflict_policy.backoff_base, conflict_policy.backoff_cap, conflict_changes - 1)
        if in_conflict
        else 0.0
    )
    return replace(
        history,
        changes=changes,
        reverted_at=None,
        conflict_changes=conflict_changes,
        slowest_response=slowest,
        revert_due=now + pause,
        # The other may be slow, as a controller with an interval is: a conflict is over only after a longer silence.
        quiet_period=min(max(conflict_policy.quiet_period, 3 * slowest), conflict_policy.window),
    )


def with_revert(history: ConflictHistory, now: float) -> ConflictHistory:
    """The history after an apply reverted the latest change."""
    return replace(history, reverted_at=now) if history.reverted_at is None else history


def is_relevant(history: ConflictHistory, now: float, conflict_policy: ConflictPolicy) -> bool:
    """Whether the operator still needs the history."""
    if history.reverted_at is None:
        return True
    if history.in_conflict:
        return now < history.reverted_at + history.quiet_period
    return history.changes[-1].seen_at > now - conflict_policy.window


class AppliedChildren(Struct, frozen=True, kw_only=True):
    """A parent's children as the last applies left them, and as they are now."""

    apply_records: Mapping[Identity, ApplyRecord]
    live: Mapping[Identity, LiveObject]
    """The objects as they are now."""
    synced: Callable[[Identity], bool]
    """Whether a watch shows an object, or that there is none."""

    @property
    def compared_bytes(self) -> int:
        """The encoded sizes of the states of children that have to be compared field by field, all together."""
        pairs = ((record.applied, self.live.get(identity)) for identity, record in self.apply_records.items())
        return sum(
            len(applied.raw) + len(live.raw)
            for applied, live in pairs
            if live is not None and not live.deleting and not is_untouched_by_version(applied, live)
        )

    def newest(self) -> AppliedChildren:
        """The same children. The records of unchanged children have their newest versions."""
        records = {
            identity: with_newest(record, live)
            for identity, record in self.apply_records.items()
            if (live := self.live.get(identity)) is not None and not live.deleting
        }
        return replace(self, apply_records={**self.apply_records, **records})


def update_histories(
    histories: Mapping[Identity, ConflictHistory],
    children: AppliedChildren,
    now: float,
    conflict_policy: ConflictPolicy,
) -> dict[Identity, ConflictHistory]:
    """The histories at the beginning of a reconcile: without those that are over, and with each foreign change counted
    once.
    """
    found = {identity: history for identity, history in histories.items() if is_relevant(history, now, conflict_policy)}
    for identity, record in children.apply_records.items():
        if not children.synced(identity):
            continue
        live = children.live.get(identity)
        history = found.get(identity)
        if live is not None and (live.deleting or is_untouched(record, live)):
            if history is not None and not live.deleting:
                found[identity] = with_revert(history, now)  # the other reverted its change itself
            continue
        if history is not None and history.reverted_at is None and history.digest == record.digest:
            continue
        change = find_foreign_change(record, live)
        found[identity] = with_foreign_change(history, record.digest, change, now, conflict_policy)
    return found


def _field_change(by: tuple[str, str, str], paths: Collection[Path]) -> ConflictingChange:
    """The change of some fields by a manager, its operation and a subresource."""
    texts = tuple(path_text(path) for path in sorted(paths)[:RECORDED_FIELDS])
    others = len(paths) - len(texts)
    return ConflictingChange(manager=by[0], operation=by[1], subresource=by[2], fields=texts, others=others)


def _listed(change: ConflictingChange, confidential: bool) -> str:
    if confidential or not change.fields:
        return "fields that ssa-operator applies"
    count = len(change.fields) + change.others - _LISTED_FIELDS
    more = f" and {count} more" if count > 0 else ""
    return ", ".join(change.fields[:_LISTED_FIELDS]) + more
