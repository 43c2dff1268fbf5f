"""What a reconcile does with one child, and why.

Promises:
- Status, Events, logs, diff, tree and dry run report the reason of this one value, in the same words.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.annotations import ApplyPolicy, Reference
from ssa_operator.objects.dependency_graph import Edge
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.predicate import Predicate
from ssa_operator.objects.readiness import Readiness, ReadinessState, readiness
from ssa_operator.objects.render_result import Document, WaitTarget
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile.child_memory import NO_MEMORY, ChildMemory
from ssa_operator.reconcile.field_conflicts.history import ForeignChange
from ssa_operator.reconcile.replicas.rules import OthersReplicas


class Action(StrEnum):
    """What a reconcile does with one child."""

    APPLY = "Apply"
    UNCHANGED = "Unchanged"
    WAIT = "Wait"
    RECREATE = "Recreate"
    PRUNE = "Prune"
    KEEP = "Keep"
    REFUSE = "Refuse"


class FailureReason(StrEnum):
    """Why a step is refused or fails; the reasons of the condition Ready."""

    DEPENDENCY_CYCLE = "DependencyCycle"
    """Manifests wait for each other. The message has the path of the cycle."""
    INVALID_MANIFEST = "InvalidManifest"
    """A manifest breaks a rule: it is outside the parent's namespace, rendered twice, belongs to another parent, or has
    a kind that Kubernetes lacks.
    """
    CONFLICT = "Conflict"
    """A field is immutable, another controller owns the object, another manager keeps changing a field, or another
    owner of a shared object renders it differently.
    """
    APPLY_FAILED = "ApplyFailed"
    """The API server refused an apply. The message has its answer, and the template line that wrote the field."""


class Step(Struct, frozen=True, kw_only=True):
    """One child: the action and its reason, which can stand in a status."""

    action: Action
    identity: Identity
    reason: str = ""
    manifest: Manifest | None = None
    """What is applied, None where nothing is rendered or the manifest breaks a rule."""
    live: LiveObject | None = None
    """The object as it is now."""
    location: SourceLocation | None = None
    """The template line of the manifest."""

    problem: FailureReason | None = None
    """Why it is refused."""
    needs_permission: bool = False
    """Whether a refused step succeeds only after an administrator grants a permission."""
    claimed_by_other: bool = False
    """Whether it is refused because another parent has the object."""
    owner_in_other_shard: bool = False
    """Whether another shard reconciles that parent, so that no event shows when the object is free."""

    vote: str = ""
    """The digest of what the parent renders of an object that it shares and that stays as other owners render it."""

    after: tuple[Edge, ...] = ()
    """The steps that have to come first."""
    missing: tuple[tuple[Reference, str], ...] = ()
    """The children that have to come first and have no step, each with the reason."""
    awaited: tuple[WaitTarget, ...] = ()
    """What the step waits for."""
    successors: frozenset[Identity] = frozenset()
    """Of a prune: the children that take the object's place and must be ready before it is deleted."""

    memory: ChildMemory = NO_MEMORY
    """What the process remembers of the child. A request that changes it changes it here."""
    replicas: OthersReplicas | None = None
    """What others set in the object that was deleted to be recreated."""
    once_readiness: Readiness | None = None
    """The readiness of an object that is applied once, whether it still exists or not."""
    foreign_change: ForeignChange | None = None
    """The change of another manager that the step reverts."""
    conflict: str = ""
    """The message of a field conflict over the child, '' where there is none."""
    refusal_answered: bool = False
    """Whether the step follows from a refusal in this reconcile, so that another one is an answer to it."""
    feedback_loop: str = ""
    """The message of a child that is slowed down because it changes each time it is applied, '' for any other."""
    unchanged: bool = False
    """Whether the manifest is applied already, and no other manager changed our fields."""
    reports_status: bool = False
    """Whether the object is ready only once its status was written."""
    why_kept: str | None = None
    """Why the object is never deleted by the parent although its manifest doesn't say so, None for any other."""
    is_above: bool = False
    """Whether the object is the parent itself, or a parent above it."""
    bug: Exception | None = None
    """The unexpected error that kept the operator from planning the step."""

    ready_when: Predicate | None = None
    """The rule of readiness of a manifest that can't be rendered yet."""

    @property
    def wanted(self) -> Manifest:
        """The manifest of a step that has one."""
        assert self.manifest is not None
        return self.manifest

    @property
    def present(self) -> LiveObject:
        """The live object of a step that has one."""
        assert self.live is not None
        return self.live

    @property
    def policy(self) -> ApplyPolicy:
        """When the manifest is applied. A hook is applied until it is done, and has a record of its own for that."""
        assert self.manifest is not None
        instructions = self.manifest.instructions
        return ApplyPolicy.ALWAYS if instructions.finalize else instructions.apply

    def applied(self, reason: str, *, unchanged: bool = False) -> Step:
        return replace(self, reason=reason, unchanged=unchanged)

    def left_unchanged(self, reason: str, *, unchanged: bool = False) -> Step:
        return replace(self, action=Action.UNCHANGED, reason=reason, unchanged=unchanged)

    def kept(self, reason: str) -> Step:
        return replace(self, action=Action.KEEP, reason=reason)

    def waiting(self, reason: str) -> Step:
        return replace(self, action=Action.WAIT, reason=reason)

    def recreated(self, reason: str) -> Step:
        return replace(self, action=Action.RECREATE, reason=reason)

    def refused(self, reason: str, problem: FailureReason = FailureReason.INVALID_MANIFEST) -> Step:
        """The step of a manifest that breaks a rule, or whose object the operator leaves to others."""
        return refused_step(self.identity, reason, self.wanted.document, problem)

    @property
    def creates(self) -> bool:
        """Whether the step creates an object."""
        return self.action is Action.APPLY and self.live is None

    def readiness_of(self, live: LiveObject, now: float, *, with_cause: bool = True) -> Readiness:
        """The readiness of the live object of the step, by the rule of its manifest if it has one. Without
        `with_cause`, the message quotes nothing that the rule read of the object.
        """
        if self.is_above and self.rule is None:
            # Its own readiness follows from that of this parent, so that neither would ever become ready.
            return Readiness(ReadinessState.CURRENT)
        rule = self.rule if with_cause or self.rule is None else self.rule.without_causes()
        return readiness(live.body, now, reports_status=self.reports_status, ready_when=rule)

    @property
    def rule(self) -> Predicate | None:
        """The rule of readiness that the manifest has, None for that of its kind."""
        return self.ready_when if self.manifest is None else self.manifest.document.ready_when


def refused_step(
    identity: Identity, reason: str, document: Document, problem: FailureReason = FailureReason.INVALID_MANIFEST
) -> Step:
    """The step of a document that is not applied; `reason` follows its name."""
    return Step(action=Action.REFUSE, identity=identity, reason=reason, problem=problem, location=document.location)


def without_creations(steps: Iterable[Step], reason: str) -> list[Step]:
    """The steps. Those that would create an object are refused with a reason, which follows the child's name."""
    return [
        replace(step, action=Action.REFUSE, reason=reason, problem=FailureReason.INVALID_MANIFEST)
        if step.creates
        else step
        for step in steps
    ]
