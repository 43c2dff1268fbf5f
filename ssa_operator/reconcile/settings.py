"""The settings of a reconcile: those options of the operator that decide about a parent and its children."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from ssa_operator.reconcile.field_conflicts.history import ConflictPolicy


class ApplyMode(StrEnum):
    """Which manifests a reconcile applies.

    After a child's event, a reconcile never applies an unchanged manifest. After a new value of `reconcile-at`, it
    always applies every manifest.
    """

    ALWAYS = "always"
    """All manifests, after a change of the parent or its templates and at a resync."""
    CHANGED = "changed"
    """Only the manifests that may have changed."""


class ReconcileSettings(Struct, frozen=True, kw_only=True):
    """What all reconciles of one operator follow from. The defaults are those of `ssa-operator run`."""

    selector: str = ""
    """The operator reconciles only parents with these labels. '': all."""
    sharded: bool = False
    """Whether the operator reconciles one shard of the parents."""
    apply: ApplyMode = ApplyMode.ALWAYS
    """Which manifests a change of a parent or a resync applies: all of them, or only those that may have changed."""
    conflict_policy: ConflictPolicy = field(default_factory=ConflictPolicy)
    """When changes of other field managers are a conflict, and how long the operator backs off."""
