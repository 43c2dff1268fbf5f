"""What is to be done with one child in one pass, and why.

Promises:
- Status, events, logs, diff, tree and dry run all speak from this one value, in the words of its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ssa_operator.core.objects.annotations import Reference
from ssa_operator.core.objects.dependency_graph import Edge
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.manifest import Manifest
from ssa_operator.core.objects.render_result import WaitTarget
from ssa_operator.core.objects.source_location import SourceLocation
from ssa_operator.core.policies.field_conflicts import ForeignChange
from ssa_operator.core.policies.recreate import Recreation
from ssa_operator.core.readiness.rules import Readiness


class Action(StrEnum):
    """What is done with one child in one pass."""

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
    INVALID_MANIFEST = "InvalidManifest"
    CONFLICT = "Conflict"
    APPLY_FAILED = "ApplyFailed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One child: the action and the reason for it, in words that can stand in a status.

    successors: of a prune, what takes the object's place and has to be ready before. after: the other steps that have
    to come first. lost: what has to come first and is no step, with the reason. awaited: what it waits for. proven:
    whether the manifest is applied already and nobody changed our fields. intrusion: the foreign change that it puts
    back. contest: what is said of a fight over the child, '' where there is none. recreation: that the object was
    deleted to be made anew before, None where it wasn't. standing: what the object counts as whether it is there or
    not; None where it is judged as it is. barred: whether only a change by somebody else can help a refused step.
    announces: whether the object is ready only once its status was written. unrest: what is said of a child that
    changes each time it is applied, '' of any other. taken: whether it is refused because another parent has the
    object.
    """

    action: Action
    identity: Identity
    reason: str = ""
    manifest: Manifest | None = None
    live: LiveObject | None = None
    problem: FailureReason | None = None
    location: SourceLocation | None = None
    successors: frozenset[Identity] = frozenset()
    after: tuple[Edge, ...] = ()
    lost: tuple[tuple[Reference, str], ...] = ()
    awaited: tuple[WaitTarget, ...] = ()
    unchanged: bool = False
    recreation: Recreation | None = None
    standing: Readiness | None = None
    needs_permission: bool = False
    reports_status: bool = False
    feedback_loops: str = ""
    foreign_change: ForeignChange | None = None
    conflict: str = ""
    claimed_by_other: bool = False
