"""What other managers change in an object, and how far the operator has reverted it.

Promises:
- A message about a conflict stays the same as long as the changes do.
"""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import MANAGER, PARENT_UID_LABEL

DIVIDE_PARENTS = "stop one of the two, or divide the parents between them with --namespace or --selector"


_LISTED_FIELDS = 4
"""Fields that a message names."""


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
        """The message about the conflict and what to do."""
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


def _listed(change: ConflictingChange, confidential: bool) -> str:
    if confidential or not change.fields:
        return "fields that ssa-operator applies"
    count = len(change.fields) + change.others - _LISTED_FIELDS
    more = f" and {count} more" if count > 0 else ""
    return ", ".join(change.fields[:_LISTED_FIELDS]) + more
