"""What a pass knows of the cluster when it plans.

Promises:
- What becomes of a child is decided from this and from what was rendered, and from nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from ssa_operator.core.objects.identity import GroupKind, Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.policies.feedback_loops import FeedbackLoop
from ssa_operator.core.policies.field_conflicts import ConflictHistory
from ssa_operator.core.policies.parent_records import ParentRecords
from ssa_operator.core.policies.recreate import Recreation
from ssa_operator.core.policies.unchanged import ApplyRecord


class ApplyScope(StrEnum):
    """Which manifests a pass applies: all of them, or only those that are not proven unchanged."""

    ALL = "Everything"
    CHANGED = "Unproven"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindState:
    """What the cluster says of a kind: `namespaced`, whether its watch is `synced`, and else the `problem` with it.

    barred: whether the problem stays until somebody grants a right. announces: whether its objects are ready only once
    their status was written.
    """

    namespaced: bool
    synced: bool
    problem: str = ""
    needs_permission: bool = False
    reports_status: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Everything that a pass knows of the cluster when it plans.

    objects: every watched object, whoever's it is. strangers: what was found to exist without our label, and no watch
    shows. hidden: why others could not be looked at. own: those with this parent's label. kinds: the kinds of these,
    of what is rendered and of what was last reported; one that is not here is unknown to the cluster. proofs: what our
    last applies left behind. left: the objects when they were last as we want them. recreations: what was deleted to
    be made anew. parents: all parents that exist, by uid; everyone: whether all of them are known already. claims: the
    uid of the parent for which each identity was last rendered. converged: the digest of the template set that this
    parent was last brought to, None where this process has not done so yet; settled: the children that it then had.
    cluster_scope: the folder's setting. reconcile_at: what the parent's annotation of that name says. successors: for
    an object that is no longer rendered, those of its kind that were made in its stead. records: what the parent keeps
    for us. outlived: what the same templates rendered for the parent before, from other data or at another time.
    feuds: what others did to children of ours. unrest: those that change each time they are applied. begun: whether
    this process has looked at the parent before. confidential: whether fields of children must not be named, as their
    names may hold a Secret's content. now: seconds since the epoch.
    """

    parent: LiveObject
    objects: Mapping[Identity, LiveObject]
    own: Sequence[LiveObject]
    kinds: Mapping[GroupKind, KindState]
    apply_records: Mapping[Identity, ApplyRecord]
    apply_scope: ApplyScope
    parents: Mapping[str, Identity] = field(default_factory=dict)
    all_parents_known: bool = True
    claims: Mapping[Identity, str] = field(default_factory=dict)
    recreations: Mapping[Identity, Recreation] = field(default_factory=dict)
    converged: str | None = None
    settled: frozenset[Identity] | None = None
    cluster_scope: bool = False
    reconcile_at: str = ""
    successors: Mapping[Identity, frozenset[Identity]] = field(default_factory=dict)
    records: ParentRecords = field(default_factory=ParentRecords)
    unlabelled: Mapping[Identity, LiveObject] = field(default_factory=dict)
    unreadable: Mapping[Identity, str] = field(default_factory=dict)
    outlived: frozenset[Identity] = frozenset()
    left: Mapping[Identity, LiveObject] = field(default_factory=dict)
    conflict_histories: Mapping[Identity, ConflictHistory] = field(default_factory=dict)
    reconciled_before: bool = False
    feedback_loops: Mapping[Identity, FeedbackLoop] = field(default_factory=dict)
    confidential: bool = False
    now: float = 0.0

    @property
    def confirmed(self) -> bool:
        """Whether somebody confirmed the deletion that was held."""
        return self.records.held_prune is not None and self.records.held_prune.reconcile_at != self.reconcile_at
