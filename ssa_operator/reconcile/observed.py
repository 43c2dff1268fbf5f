"""What a reconcile knows of the cluster when it plans.

Promises:
- The plan follows from this and from what was rendered, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct, field

from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kinds import KindState
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.parent_settings import ParentSettings
from ssa_operator.reconcile.child_memory import ChildMemories
from ssa_operator.reconcile.finalization.deletion_cycles import (
    CRD,
    NAMESPACE,
    EndingNamespace,
    kept_objects,
    why_kept_unless_known,
)
from ssa_operator.reconcile.nested_parents import NO_ANCESTORS, Ancestors
from ssa_operator.reconcile.parent_records.rules import HeldPrune, ParentRecords


class ObservedChildren(Struct, frozen=True, kw_only=True):
    """The objects that may be this parent's children."""

    objects: Mapping[Identity, LiveObject]
    """Every watched object, of any parent."""
    own: Sequence[LiveObject]
    """The objects with this parent's label."""
    kinds: Mapping[GroupKind, KindState]
    """The kinds of these, of what is rendered and of what was last reported. A kind that is not here is unknown to the
    cluster."""
    unserved: Mapping[Identity, str] = field(default_factory=dict)
    """The recorded objects of kinds that the cluster doesn't serve, and that may exist nevertheless, each with the
    reason."""
    unlabelled: Mapping[Identity, LiveObject] = field(default_factory=dict)
    """Objects that exist without our label, and that no watch shows."""
    unreadable: Mapping[Identity, str] = field(default_factory=dict)
    """Why other objects could not be read."""
    forbidden: frozenset[Identity] = frozenset()
    """Those of these that the operator, or the account, may not read."""
    as_rendered: Mapping[Identity, LiveObject | None] = field(default_factory=dict)
    """What the render read of these objects, as they were then: those with generated values, None where there was none,
    and those that templates read by `child` or `live`."""

    def get(self, identity: Identity) -> LiveObject | None:
        """An object as it is now, with our label or without."""
        return self.objects.get(identity) or self.unlabelled.get(identity)


class ObservedParents(Struct, frozen=True, kw_only=True):
    """The other parents, and which objects they claim."""

    existing: Mapping[str, Identity] = field(default_factory=dict)
    """All parents that exist, by uid; under `--shard` those of the shard."""
    all_parents_known: bool = True
    """Whether the watch of every template folder has synced, in each namespace that the operator may read."""
    unread_namespaces: frozenset[str] = frozenset()
    """The namespaces whose parents are not known, because the operator may not read them."""
    claims: Mapping[Identity, str] = field(default_factory=dict)
    """The uid of the parent for which each object was last rendered."""
    ancestors: Ancestors = NO_ANCESTORS
    """The parents above this one."""
    crds: Mapping[GroupKind, str] = field(default_factory=dict)
    """The name of the CRD of each kind that parents are of."""
    planned_shares: Mapping[str, Mapping[Identity, str]] = field(default_factory=dict)
    """In a plan of all parents, what each one that is planned already renders of shared objects. The operator goes by
    what is recorded on the objects.
    """
    in_other_shards: Mapping[str, Identity] = field(default_factory=dict)
    """Those parents that other shards reconcile and whose objects this reconcile met, by uid. No event shows when one
    of them releases an object."""

    def may_exist(self, live: LiveObject) -> bool:
        """Whether the parent whose label an object has may exist although it is not known. An owner is in the object's
        namespace, or in none.
        """
        if not self.all_parents_known:
            return True
        owned = any(owner.controller and owner.uid == live.parent_uid for owner in live.owner_references)
        return live.identity.namespace in self.unread_namespaces if owned else bool(self.unread_namespaces)

    def find(self, uid: str) -> Identity | None:
        """The parent with that uid, None where it is not known to exist."""
        return self.existing.get(uid) or self.in_other_shards.get(uid)


class RenderHistory(Struct, frozen=True, kw_only=True):
    """The template sets that rendered the parent, and what they rendered."""

    digest: str = ""
    """Names the template set of the last reconcile."""
    rendered: frozenset[Identity] = frozenset()
    """The children that this template set rendered, as far as they exist or are rendered now."""
    applied_digest: str | None = None
    """Names the template set that was last applied completely, None where this process has not done so yet."""
    applied_children: frozenset[Identity] | None = None
    """The children of that moment."""
    held_prune: HeldPrune | None = None
    """The prune that is held, also where it can't be recorded on the parent."""
    successors: Mapping[Identity, frozenset[Identity]] = field(default_factory=dict)
    """For a child that is no longer rendered, the children that must be ready before it is deleted."""


class Observed(Struct, frozen=True, kw_only=True, dict=True):
    """Everything that a reconcile knows of the cluster when it plans."""

    parent: LiveObject
    children: ObservedChildren
    parents: ObservedParents = field(default_factory=ObservedParents)
    records: ParentRecords = field(default_factory=ParentRecords)
    """The records that the operator keeps on the parent."""
    memory: ChildMemories = ChildMemories()
    """What the process remembers of the children."""
    renders: RenderHistory = field(default_factory=RenderHistory)
    """What the process remembers of the renders."""
    rendered_before: frozenset[Identity] = frozenset()
    """What the same templates rendered for the parent before, from other data or at another time."""
    reconciled_before: bool = False
    """Whether this process has reconciled the parent before."""
    applies_all: bool = True
    """Whether the reconcile applies all manifests, or only those that may have changed."""
    renewed: bool = False
    """Whether `reconcile_at` has a new value, so that even what changes nothing is applied."""
    settings: ParentSettings = ParentSettings()
    """Those of the folder."""
    planned: bool = False
    """Whether a rollout has planned what the templates delete of all parents, so that it is confirmed."""
    sharded: bool = False
    """Whether children get the label with their parent's bucket."""
    confidential: bool = False
    """Whether messages must not name fields of children, because their names may hold a Secret's content."""
    records_lost: bool = False
    """Whether the parent was reconciled before and has lost its records, which this process doesn't know."""
    ending_namespaces: Mapping[str, EndingNamespace] = field(default_factory=dict)
    """Those namespaces of children that end or have ended, as far as they had to be read."""
    reconcile_at: str = ""
    """The value of the parent's annotation of that name."""
    now: float = 0.0
    """Seconds since the epoch."""
    monotonic: float = 0.0
    """Seconds on the monotonic clock of the process. The times in `memory` are on the same clock."""

    @property
    def confirmed(self) -> bool:
        """Whether a user confirmed the prune that was held."""
        return self.records.held_prune is not None and self.records.held_prune.reconcile_at != self.reconcile_at

    def why_kept(self, identity: Identity) -> str | None:
        """Why an object is never deleted by the parent, None where it may be: the parent lives in it, or a parent above
        it that the operator does not know may.
        """
        found = self.why_home(identity)
        if found is None and self.may_be_home(identity):
            return why_kept_unless_known(self.children.get(identity), self.parent)
        return found

    def may_be_home(self, identity: Identity) -> bool:
        """Whether parents above the parent that the operator does not know may live in an object, if it is old."""
        return bool(self.parents.ancestors.missing) and identity.group_kind in (NAMESPACE, CRD)

    def why_home(self, identity: Identity) -> str | None:
        """Why the parent, or one above it, lives in an object, None where none does."""
        above = self.parents.ancestors.line
        if not above and identity.group_kind not in (NAMESPACE, CRD) and identity != self.parent.identity:
            return None
        if identity.namespace and identity.group_kind in (NAMESPACE, CRD):
            identity = Identity(*identity.group_kind, "", identity.name)  # a record that a user wrote may have one
        return self._kept.get(identity)

    @property
    def homes(self) -> Sequence[Identity]:
        """The namespaces and the CRDs that the parent and those above it live in."""
        return tuple(each for each in self._kept if each.group_kind in (NAMESPACE, CRD))

    def is_above(self, identity: Identity) -> bool:
        """Whether an object is the parent itself, or a parent above it."""
        return identity == self.parent.identity or identity in self.parents.ancestors.line

    @cached_property
    def _kept(self) -> Mapping[Identity, str]:
        return kept_objects((self.parent.identity, *reversed(self.parents.ancestors.line)), self.parents.crds)

    def is_gone(self, identity: Identity) -> bool:
        """Whether the end of an object's namespace proves that it is gone."""
        ending = self.ending_namespaces.get(identity.namespace)
        return ending is not None and ending.is_gone
