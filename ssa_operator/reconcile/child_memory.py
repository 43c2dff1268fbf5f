"""What a process remembers of a parent's children between two reconciles: one row a child.

`reconcile.promises` says what the promises learn from a reconcile. The rules of each are in its room.

Promises:
- It is one frozen value. A reconcile returns the next one and changes none.
- A process that loses it applies each child once more, and nothing else changes.
- A row that nothing changed is the same object in the next reconcile, and a child of which nothing is remembered has no
  row.
- Times are in seconds on the process's monotonic clock, so that a wall clock that is set changes no pause.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.kube.api.backoff import earliest
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.feedback_loops.change_bucket import ChangeBucket
from ssa_operator.reconcile.field_conflicts.history import ConflictHistory
from ssa_operator.reconcile.pod_failures.rules import PodCheck
from ssa_operator.reconcile.refusals.known_refusals import KnownRefusal
from ssa_operator.reconcile.resync.unchanged import ApplyRecord


class ChildMemory(Struct, frozen=True, kw_only=True):
    """What a process remembers of one child. A field is replaced by the promise that owns it."""

    applied: ApplyRecord | None = None
    """What its last apply left behind."""
    conflict: ConflictHistory | None = None
    """What other managers changed in it."""
    refusal: KnownRefusal | None = None
    """What the API server refuses of its manifest, although the manifest is not at fault."""
    recreation: Recreation | None = None
    """Set where it was deleted to be recreated."""
    changes: ChangeBucket | None = None
    """How often the operator may still change it."""
    pods: PodCheck | None = None
    """What its pods showed, as long as it isn't ready."""
    warned: frozenset[str] = frozenset()
    """The API server's warnings that were shown."""
    hook_failures: int = 0
    """How often the Job of a finalize hook was replaced because it had failed."""

    @property
    def at_rest(self) -> bool:
        """Whether the next reconcile follows from what is rendered alone. A resync applies all the same, and compares
        the answer with `applied`; `pods` decides on nothing but messages.
        """
        if self.recreation is not None or self.warned or self.hook_failures:
            return False
        if self.changes is not None and self.changes.was_emptied:
            return False
        if self.refusal is not None and (self.refusal.kept or self.refusal.admission):
            return False
        return self.conflict is None or not (self.conflict.in_conflict or self.conflict.reverted_at is None)


NO_MEMORY = ChildMemory()


class ChildMemories(Struct, frozen=True, kw_only=True):
    """What a process remembers of the children of a parent."""

    by_child: Mapping[Identity, ChildMemory] = NOTHING
    observed_at: float = 0.0
    """When a reconcile last looked for foreign changes."""
    new_names: Mapping[GroupKind, ChangeBucket] = NOTHING
    """How often the operator may still create a child that takes the place of one with another name, by kind."""
    follows: bool = False
    """Whether the last reconcile changed what templates read, so that another one follows. No event reports that."""

    def of(self, identity: Identity) -> ChildMemory:
        """What is remembered of a child."""
        return self.by_child.get(identity, NO_MEMORY)

    def with_children(self, changed: Mapping[Identity, ChildMemory]) -> ChildMemories:
        """The memories with these rows in place of the earlier ones."""
        return self.with_rows({**self.by_child, **changed}) if changed else self

    def with_rows(self, rows: Mapping[Identity, ChildMemory]) -> ChildMemories:
        """The memories with these rows and no others."""
        kept = {identity: row for identity, row in rows.items() if row != NO_MEMORY}
        return replace(self, by_child=kept or NOTHING)

    @property
    def applied(self) -> set[Identity]:
        """The children that this process has applied."""
        return {identity for identity, row in self.by_child.items() if row.applied is not None}

    @property
    def next_conflict_at(self) -> float | None:
        """When a foreign change has to be reverted, or a conflict is found to be over."""
        found = [row.conflict for row in self.by_child.values() if row.conflict is not None]
        return earliest(*(conflict.again_at(self.observed_at) for conflict in found)) if found else None

    def due_at(self, now: float) -> float | None:
        """When the parent has to be reconciled even without an event."""
        moments = [self.next_conflict_at]
        for row in self.by_child.values():
            if row.changes is not None:
                moments.append(row.changes.again_at(now))
            if row.pods is not None:
                moments.append(row.pods.due)
        moments += [names.again_at(now) for names in self.new_names.values()]
        if self.follows:
            moments.append(now)
        return earliest(*moments)

    @property
    def at_rest(self) -> bool:
        """Whether the next reconcile follows from what is rendered alone."""
        if self.follows or any(names.was_emptied for names in self.new_names.values()):
            return False
        return all(row.at_rest for row in self.by_child.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Recreation:
    """The deletion of an object that the operator recreates."""

    digest: bytes
    """The digest of the manifest that needs the new object."""
    created: bool
    """Whether the new object was created."""
    deleted_uid: str = ""
    """The uid of the deleted object."""
    why: str = ""
    """The reason, for messages."""
    old: LiveObject | None = field(default=None, compare=False, repr=False)
    """The deleted object, if it held generated values: the new object gets them."""
