"""One child in a reconcile, as one row: what it is, what is done with it and why, and what became of it.

Promises:
- Status, Events, logs, diff, tree and dry run report the reason of this one value, in the same words.
- A failure is a value like any other. It names the error, the template line, and whether a retry may help.
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


class Result(StrEnum):
    """What became of a child when its step was carried out."""

    PLANNED = "planned"
    """It is not carried out yet."""
    CREATED = "created"
    CONFIGURED = "configured"
    UNCHANGED = "unchanged"
    RECREATED = "recreated"
    PRUNED = "pruned"
    WAITING = "waiting"
    FAILED = "failed"


CHANGED = frozenset({Result.CREATED, Result.CONFIGURED, Result.RECREATED})
"""The results of a step that created or changed an object."""


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


class Child(Struct, frozen=True, kw_only=True):
    """One child. `observe` and `render` give its manifest, object and memory, `decide` its action and reason, which can
    stand in a status, and `act` its result.
    """

    action: Action
    identity: Identity
    reason: str = ""
    manifest: Manifest | None = None
    """What is applied, None where nothing is rendered or the manifest breaks a rule."""
    live: LiveObject | None = None
    """The object as it is now."""
    location: SourceLocation | None = None
    """The template line of the manifest, or of its field that failed. None where nothing is rendered."""

    problem: FailureReason | None = None
    """Why it is refused or failed, for the condition Ready."""
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

    result: Result = Result.PLANNED
    """What became of it."""
    before: LiveObject | None = None
    """The object as it was planned for; `live` is what it became."""
    message: str = ""
    """What it waits for, or why it failed."""
    retryable: bool = False
    """Whether a retry may help without a change by a user."""
    denied: bool = False
    """Whether admission refuses it: a quota, a policy or another plugin. A retry may help, because no event tells when
    the quota is free."""
    retry_after: float = 0.0
    """The seconds that the API server asked to wait before a retry."""
    warnings: tuple[str, ...] = ()
    """The API server's warnings."""
    counted: bool = False
    """Whether the apply changed nothing, and the API server counted it as a change."""
    cause: str = ""
    """Why the object isn't ready, as its pods show it; '' where its own status is all that is known."""
    hides_status: bool = False
    """Whether the messages in the object's status are not shown, because they may quote a Secret's content."""

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

    def applied(self, reason: str, *, unchanged: bool = False) -> Child:
        return replace(self, reason=reason, unchanged=unchanged)

    def left_unchanged(self, reason: str, *, unchanged: bool = False) -> Child:
        return replace(self, action=Action.UNCHANGED, reason=reason, unchanged=unchanged)

    def kept(self, reason: str) -> Child:
        return replace(self, action=Action.KEEP, reason=reason)

    def waiting(self, reason: str) -> Child:
        return replace(self, action=Action.WAIT, reason=reason)

    def recreated(self, reason: str) -> Child:
        return replace(self, action=Action.RECREATE, reason=reason)

    def refused(self, reason: str, problem: FailureReason = FailureReason.INVALID_MANIFEST) -> Child:
        """The step of a manifest that breaks a rule, or whose object the operator leaves to others."""
        return refused_step(self.identity, reason, self.wanted.document, problem)

    def ended(
        self,
        result: Result,
        *,
        live: LiveObject | None = None,
        message: str = "",
        problem: FailureReason | None = None,
        retryable: bool = False,
        denied: bool = False,
        retry_after: float = 0.0,
        location: SourceLocation | None = None,
        warnings: tuple[str, ...] = (),
    ) -> Child:
        """The child after it was carried out; `location` is the template line of the field that failed."""
        return replace(
            self,
            result=result,
            before=self.live if self.result is Result.PLANNED else self.before,
            live=live,
            message=message,
            problem=problem or self.problem,
            retryable=retryable,
            denied=denied,
            retry_after=retry_after,
            location=location or self.location,
            warnings=warnings,
        )

    @property
    def again(self) -> Child:
        """The child as it was before its manifest was applied."""
        location = self.location if self.manifest is None else self.manifest.document.location
        return replace(self, result=Result.PLANNED, live=self.before, problem=None, location=location)

    @property
    def gone(self) -> bool:
        """Whether the parent no longer has the object: it was deleted, or other parents keep it."""
        return self.result is Result.PRUNED or (self.action is Action.PRUNE and self.result is Result.CONFIGURED)

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
) -> Child:
    """The step of a document that is not applied; `reason` follows its name."""
    return Child(action=Action.REFUSE, identity=identity, reason=reason, problem=problem, location=document.location)


def without_creations(steps: Iterable[Child], reason: str) -> list[Child]:
    """The steps. Those that would create an object are refused with a reason, which follows the child's name."""
    return [
        replace(step, action=Action.REFUSE, reason=reason, problem=FailureReason.INVALID_MANIFEST)
        if step.creates
        else step
        for step in steps
    ]


def waiting_outcome(step: Child, live: LiveObject | None, message: str) -> Child:
    """The outcome of a step that the next reconcile tries again."""
    return step.ended(Result.WAITING, live=live, message=message, retryable=True)
