"""What this process remembers of a parent from one reconcile until the next one.

Promises:
- The state is one frozen value, made of the states of the features. A reconcile returns the next one.
- A parent that was recreated under the same name starts without a state.
- Without its state, a parent's next reconcile applies every child once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from ssa_operator.informers.parents import Parent, ParentInformer
from ssa_operator.informers.watch_scopes import ChildScope
from ssa_operator.objects.compression import decompress
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.secret_fields import NO_SECRETS, ParentSecrets, SecretFields
from ssa_operator.reconcile.child_memory import ChildMemories
from ssa_operator.reconcile.observed import RenderHistory
from ssa_operator.reconcile.parent_records.lost_records import NO_NOTICE, RecordsNotice, RecordTexts
from ssa_operator.reconcile.parent_records.rules import AppliedRecord
from ssa_operator.reconcile.retries import Retries
from ssa_operator.reconcile.status.status_history import StatusHistory

NamedObject = tuple[Identity, str | None]
"""The object of a manifest, and its version, None if unknown. The namespace is '' if the manifest names none."""


class RecordedNeeds(Struct, frozen=True):
    """What the needs of a parent follow from, apart from its manifests and objects."""

    inventory: Mapping[Identity, int]
    kinds: frozenset[GroupKind]
    """The recorded kinds."""
    cluster_scope: bool
    """Whether the folder's settings allow children in other namespaces."""
    secrets: Mapping[Identity, SecretFields]
    """Where the children have contents of Secrets, which may name their namespaces."""


class SettledNeeds(Struct, frozen=True, kw_only=True):
    """What a parent's needs followed from when synced watches showed all of them."""

    recorded: RecordedNeeds
    named: Sequence[NamedObject]
    generated: Sequence[Identity]
    """The objects with generated values."""
    objects: frozenset[Identity]
    """The objects of the manifests, each in its namespace. If these are the parent's, and no others, and none of them
    is partial, the objects need nothing else.
    """
    written: Mapping[Identity, str]
    """The `versions_of` these."""
    moment: object
    """The `watch_moment` then."""


class KindInputs(NamedTuple):
    """What a resync follows from that many parents have in common."""

    watches: frozenset[tuple[ChildScope, bool, str]]
    """The watches of the children, each with whether it has synced, and why not."""
    status_kinds: frozenset[GroupKind]
    """Those kinds of children and of looked-up objects that are ready only once their status was written."""
    kubernetes_version: str


class ResyncInputs(Struct, frozen=True, kw_only=True):
    """Everything that a resync follows from, but time and the answers to lookups, whose versions the informers of
    lookups keep.
    """

    parent: Parent
    children: tuple[LiveObject, ...]
    """Each child, as the cache has it."""
    kinds: KindInputs


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RepeatableApply:
    """An apply that changed nothing."""

    identity: Identity
    version: str
    """The version in which the object is applied, without the group."""
    compressed: bytes = dataclasses.field(repr=False)
    """The request's body, compressed by the example."""
    example: bytes | None = dataclasses.field(repr=False)

    @property
    def encoded(self) -> bytes:
        """The request's body."""
        return decompress(self.compressed, self.example)


class RepeatableResync(Struct, frozen=True, kw_only=True):
    """The last resync of a parent, which changed nothing."""

    inputs: ResyncInputs
    applies: tuple[RepeatableApply, ...]
    until: float | None = None
    """When the permissions of the parent's account have to be reviewed again, in seconds on the process's monotonic
    clock. None where its templates read nothing as an account.
    """


class ParentState(Struct, frozen=True, kw_only=True):
    """What the process remembers of a parent between two reconciles."""

    children: ChildMemories = ChildMemories()
    renders: RenderHistory = field(default_factory=RenderHistory)
    status: StatusHistory = field(default_factory=StatusHistory)
    retries: Retries = field(default_factory=Retries)
    secrets: ParentSecrets = NO_SECRETS
    """Where the renders put the contents of Secrets."""
    records: RecordTexts = NOTHING
    """The records on the parent, as the last reconcile left them."""
    applied: AppliedRecord | None = None
    """What was applied, until the status shows it."""
    records_version: str = ""
    """The resourceVersion in which the parent had these records first, as far as reconciles saw it."""
    records_notice: RecordsNotice = NO_NOTICE
    """What the status says of records that another client removed."""
    unrecorded_once: Mapping[str, str] = field(default_factory=dict)
    """The once records that could not be written to the parent yet."""
    unseen_kinds: frozenset[GroupKind] = frozenset()
    """The kinds of children that an earlier process reported, and whose watches have not synced yet."""
    kinds_unknown: bool = False
    """Whether an earlier process may have applied other kinds, whose record can't be read yet."""
    needs: SettledNeeds | None = None
    """What the last render needed, None if watches didn't show all of it."""
    reconcile_at: str = ""
    """The value of the parent's annotation `reconcile-at` in the last reconcile."""
    repeatable: RepeatableResync | None = None
    """What the next resync may repeat without a render, None after any other reconcile."""

    @property
    def ready(self) -> bool:
        """Whether the last report says that the parent is ready."""
        return self.status.report is not None and self.status.report.verdict.ready

    @property
    def unready(self) -> bool:
        """Whether the last report says that the parent is not ready."""
        return self.status.unready

    @property
    def reconciled_before(self) -> bool:
        """Whether this process has reconciled the parent before."""
        return self.status.report is not None


Parents = ParentInformer[ParentState]
"""The parents of a template folder, and what the process remembers of them."""
