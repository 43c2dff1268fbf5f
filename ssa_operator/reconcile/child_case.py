"""What the rules of `reconcile.decide` are asked about: a manifest, and the live object that it may have.

Promises:
- Each rule is asked about the same value, and answers with a step or with nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.render_result import Document
from ssa_operator.reconcile.feedback_loops.series import FeedbackLoop
from ssa_operator.reconcile.field_conflicts.history import ConflictHistory
from ssa_operator.reconcile.observed import Observed
from ssa_operator.reconcile.renames.rename_series import RenameSeries
from ssa_operator.reconcile.resync.unchanged import ApplyRecord
from ssa_operator.reconcile.step import Action, FailureReason, Step


class ChildCase(Struct, frozen=True, kw_only=True):
    """A manifest that has to be decided on, with what the process remembers of the child."""

    observed: Observed
    step: Step
    """The step so far: it applies the manifest."""
    manifest: Manifest
    record: ApplyRecord | None
    """What its last apply left behind."""
    conflict: ConflictHistory | None
    """What other managers changed in the object, where that counts for this manifest."""
    loop: FeedbackLoop | None
    """Whether the child changes each time it is applied."""
    names: RenameSeries | None
    """The series of new names of the child's kind."""

    @property
    def live(self) -> LiveObject:
        assert self.step.live is not None
        return self.step.live

    @property
    def is_newly_named(self) -> bool:
        """Whether the child doesn't exist, and was not applied before."""
        return self.step.live is None and self.record is None

    def applied(self, reason: str, *, unchanged: bool = False) -> Step:
        return replace(self.step, reason=reason, unchanged=unchanged)

    def left_unchanged(self, reason: str, *, unchanged: bool = False) -> Step:
        return replace(self.step, action=Action.UNCHANGED, reason=reason, unchanged=unchanged)

    def kept(self, reason: str) -> Step:
        return replace(self.step, action=Action.KEEP, reason=reason)

    def waiting(self, reason: str) -> Step:
        return replace(self.step, action=Action.WAIT, reason=reason)

    def recreated(self, reason: str) -> Step:
        return replace(self.step, action=Action.RECREATE, reason=reason)

    def refused(self, reason: str) -> Step:
        """The step of a manifest that breaks a rule."""
        return refused_step(self.manifest.identity, reason, self.manifest.document)

    def in_conflict(self, reason: str) -> Step:
        """The step of a manifest whose object the operator leaves to others."""
        return refused_step(self.manifest.identity, reason, self.manifest.document, FailureReason.CONFLICT)


Rule: TypeAlias = Callable[[ChildCase], Step | None]
"""A rule gives the step, or None where it has no answer."""


def refused_step(
    identity: Identity, reason: str, document: Document, problem: FailureReason = FailureReason.INVALID_MANIFEST
) -> Step:
    """The step of a document that is not applied; `reason` follows its name."""
    return Step(action=Action.REFUSE, identity=identity, reason=reason, problem=problem, location=document.location)
