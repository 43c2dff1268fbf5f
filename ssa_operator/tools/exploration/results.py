"""The input and the results of an exploration: a subject, a sequence, the states of a parent, and a broken rule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Document
from ssa_operator.schema.spec_changes import SpecChange
from ssa_operator.tools.exploration.child_comparison import ChildDifference, ChildState


class ExplorationRule(StrEnum):
    """A rule that a sequence breaks."""

    DIFFERS = "DiffersFromNew"
    """The children differ from those of a new parent with the same spec."""
    STUCK = "NotReadyAsNew"
    """A new parent becomes ready, and this one doesn't; or the other way round."""
    ROLLBACK = "NoRecovery"
    """The last good spec doesn't lead back from an error state."""
    BROKEN = "BrokenByInvalid"
    """A change that was refused or failed deleted or changed a child that it could not replace."""
    UNNAMED = "UnnamedFailure"
    """The status of a failed parent doesn't name the child or the template line that failed."""
    ENDLESS = "EndlessChange"
    """Reconciles of one spec change a child again and again."""
    CRASH = "Crash"
    """A reconcile ended with a bug."""
    REPEATED = "ChangedByRepeat"
    """A second reconcile of the same spec changes a child."""


class Phase(StrEnum):
    """The result of a spec."""

    READY = "ready"
    UNREADY = "unready"
    """Applied, and not ready in this cluster."""
    FAILED = "failed"
    """The parent reports an error that only another spec repairs."""
    REFUSED = "refused"
    """The API server refuses the parent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExploredObject:
    """The explored objects: the parent that every sequence begins with, and the objects beside it."""

    folder: str
    """The name of the template folder."""
    parent: Document
    beside: tuple[Document, ...] = ()
    """Objects that the templates look up; each parent gets its own."""
    shared: tuple[Document, ...] = ()
    """Objects that the templates look up in a namespace that they name, or in all; all parents have the same."""
    namespaced: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A rule that a sequence breaks."""

    rule: ExplorationRule
    step: int
    """The position of the change, 0 for the parent as it begins."""
    message: str
    differences: tuple[ChildDifference, ...] = ()


@dataclass(slots=True, kw_only=True)
class Played:
    """The result of a sequence."""

    changes: list[SpecChange] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    """The phase after each change."""
    failure: Failure | None = None
    invalid: str = ""
    """Why the sequence can't be played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """A parent that doesn't change any more, and its children."""

    phase: Phase
    message: str
    children: tuple[ChildState, ...] = ()
    identities: Mapping[Identity, str] = field(default_factory=dict)
    """The name of each child in `children`."""
    failed: frozenset[Identity] = frozenset()
    """The children that could not be applied."""
    rendered: frozenset[Identity] = frozenset()
    """The children that the templates render."""
    unnamed: tuple[str, ...] = ()
    """The parts of a failure that the status doesn't name."""
    once_unready: bool = False
    """Whether an object that is applied only once, or only if it is absent, is not ready."""
    comparable: bool = True
    """False if the children depend on the time, or belong to another parent."""
    crash: str = ""
    endless: str = ""
