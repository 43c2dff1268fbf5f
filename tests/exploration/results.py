"""What an exploration plays and finds: a subject, a sequence, the states of a parent, and a broken rule.

Promises:
- A change that is refused or fails may change what it renders and applies, and nothing else.
- While a child can't be applied, no child is deleted.
- The status of a failed parent names each child that can't be applied, and in its message a child or a template line.
- The parents' namespaces and uids make no difference, even if texts and the children's names contain them.
- Only what the operator applies is compared: not the status, not the API server's defaults, not fields that only other
  field managers own, and not the operator's own labels and annotations.
- Values that differ between two new parents of one spec don't count: generated values, times, addresses, checksums.
- An object that is applied only once, or only if it is absent, is not compared.
- A difference has no Secret's content.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from ssa_operator.objects.annotations import PREFIX, ApplyPolicy
from ssa_operator.objects.field_attribution import Writer, attribute
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.secret_fields import HIDDEN
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text, location_data
from ssa_operator.reconcile.child import Result
from ssa_operator.reconcile.secrets.content_fields import ContentFields, hidden_in_live, prefix_of
from ssa_operator.reconcile.status.report import Report
from tests.exploration.spec_changes import SpecChange

ABSENT = "(absent)"
"""The placeholder for a field or an object that one of the two lacks."""

_COMPARED_METADATA = frozenset({"annotations", "labels", "ownerReferences"})

_APPLIED = frozenset({Writer.TEMPLATE, Writer.OPERATOR, Writer.EARLIER_TEMPLATE})
"""The writers of the compared fields. A default stays as it was at the creation of the object, for example the
`imagePullPolicy` of a container whose image changes.
"""


class FieldState(Struct, frozen=True, kw_only=True):
    """A field of a child."""

    value: Any
    shown: str
    """The value as a message may show it."""
    location: SourceLocation | None = None
    """The template line that wrote the field, else that of the manifest."""


class ChildState(Struct, frozen=True, kw_only=True):
    """A child, comparable with that of another parent."""

    name: str
    """`Kind/name`, without the parent's namespace and uid."""
    uid: str
    fields: Mapping[str, FieldState]
    compared: bool = True
    """False for an object that is applied once, or only if it is absent."""
    location: SourceLocation | None = None


class ChildDifference(Struct, frozen=True, kw_only=True):
    """A field of a child, or a whole child, that differs."""

    child: str
    field: str
    """'' if one of the parents lacks the child."""
    found: str
    expected: str
    location: SourceLocation | None = None

    def data(self) -> dict[str, Any]:
        """The data for `--output json`."""
        data = {"child": self.child, "field": self.field, "found": self.found, "expected": self.expected}
        return data | location_data(self.location)


class Names(Struct, frozen=True):
    """What is replaced in the names and texts of a parent's children: longer texts first."""

    replaced: Sequence[tuple[str, str]]

    @classmethod
    def of(cls, parent: LiveObject, *, own_name: bool) -> Names:
        """The namespace and the uid of a parent, and its name if the compared parents have other names."""
        identity = parent.identity
        known = [(parent.uid, "<uid>"), (parent.uid.replace("-", ""), "<uid>")]
        known += [(identity.namespace, "<namespace>")] if identity.namespace else []
        known += [(identity.name, "<name>")] if own_name else []
        return cls(tuple(known))

    def text(self, text: str) -> str:
        """A text without them."""
        for old, new in self.replaced:
            text = text.replace(old, new)
        return text

    def value(self, value: Any) -> Any:
        """A value without them."""
        return self.text(value) if isinstance(value, str) else value


def child_state(live: LiveObject, content: ContentFields, names: Names) -> ChildState:
    """The state of a live child, with what the templates render for it and where they put content."""
    manifest, hidden = content.manifest, hidden_in_live(live, content)
    start = manifest.document.location if manifest is not None else None
    fields: dict[str, FieldState] = {}
    for each in attribute(live, manifest):
        if each.writer not in _APPLIED or not _is_compared(each.path):
            continue
        value, above = names.value(each.value), prefix_of(each.path, hidden)
        if above is not None:
            # Names below a hidden field are hidden, too.
            text = names.text(field_text(above))
            value = [*(fields[text].value if text in fields else ()), each.path, value]
            fields[text] = FieldState(value=value, shown=HIDDEN, location=each.location or start)
        else:
            shown = value if isinstance(value, str) else str(value)
            fields[names.text(field_text(each.path))] = FieldState(
                value=value, shown=shown, location=each.location or start
            )
    return ChildState(
        name=names.text(f"{live.identity.kind}/{live.identity.name}"),
        uid=live.uid,
        fields=fields,
        compared=manifest is None or manifest.instructions.apply is ApplyPolicy.ALWAYS,
        location=start,
    )


def _is_compared(path: FieldPath) -> bool:
    if path[0] == "metadata":
        own = len(path) > 2 and path[1] in ("annotations", "labels") and str(path[2]).startswith(PREFIX)
        return len(path) > 1 and path[1] in _COMPARED_METADATA and not own
    return path[0] != "status"


class Variation(Struct, frozen=True):
    """What differs between two new parents of one spec."""

    children: frozenset[str] = field(default_factory=frozenset)
    fields: frozenset[tuple[str, str]] = field(default_factory=frozenset)


def variation(one: Sequence[ChildState], other: Sequence[ChildState]) -> Variation:
    """What differs between the children of two new parents."""
    found = children_differences(one, other)
    return Variation(
        children=frozenset(each.child for each in found if not each.field),
        fields=frozenset((each.child, each.field) for each in found if each.field),
    )


def children_differences(
    found: Sequence[ChildState], expected: Sequence[ChildState], ignored: Variation | None = None
) -> list[ChildDifference]:
    """How the children of a parent differ from those that are expected."""
    ignored = ignored or Variation()
    ours, theirs = ({child.name: child for child in children} for children in (found, expected))
    differences: list[ChildDifference] = []
    for name in dict.fromkeys((*ours, *theirs)):
        one, other = ours.get(name), theirs.get(name)
        if name in ignored.children or any(each is not None and not each.compared for each in (one, other)):
            continue
        if one is None or other is None:
            differences.append(_missing(name, one, other))
            continue
        differences += [each for each in _fields_differ(one, other) if (name, each.field) not in ignored.fields]
    return differences


def _missing(name: str, one: ChildState | None, other: ChildState | None) -> ChildDifference:
    known = one or other
    assert known is not None
    return ChildDifference(
        child=name,
        field="",
        found=ABSENT if one is None else "exists",
        expected=ABSENT if other is None else "exists",
        location=known.location,
    )


def _fields_differ(one: ChildState, other: ChildState) -> list[ChildDifference]:
    differences = []
    for path in dict.fromkeys((*one.fields, *other.fields)):
        ours, theirs = one.fields.get(path), other.fields.get(path)
        if ours is not None and theirs is not None and ours.value == theirs.value:
            continue
        known = ours or theirs
        assert known is not None
        found = ABSENT if ours is None else ours.shown
        expected = ABSENT if theirs is None else theirs.shown
        location = known.location or one.location or other.location
        differences.append(
            ChildDifference(child=one.name, field=path, found=found, expected=expected, location=location)
        )
    return differences


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

    changes: list[SpecChange] = dataclasses.field(default_factory=list)
    phases: list[Phase] = dataclasses.field(default_factory=list)
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
    identities: Mapping[Identity, str] = dataclasses.field(default_factory=dict)
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


_TEMPLATE_LINE = re.compile(r"\.ya?ml(\.j2)?:\d+")


def own_failure(state: Settled, step: int) -> Failure | None:
    """The rule that a state breaks whatever the states before were."""
    if state.crash:
        return Failure(rule=ExplorationRule.CRASH, step=step, message=f"a reconcile ended with {state.crash}")
    if state.endless:
        message = f"reconciles of the same spec change {state.endless}"
        return Failure(rule=ExplorationRule.ENDLESS, step=step, message=message)
    if state.unnamed:
        message = f"the status doesn't name {', '.join(state.unnamed)}: {state.message}"
        return Failure(rule=ExplorationRule.UNNAMED, step=step, message=message)
    return None


def unnamed_failures(report: Report) -> tuple[str, ...]:
    """What the status of a failed parent should name and doesn't."""
    failed = [outcome.identity for outcome in report.outcomes if outcome.result is Result.FAILED]
    reported = {child.identity for child in report.children if child.failed and child.readiness.message}
    unnamed = [str(identity) for identity in failed if identity not in reported]
    message = report.verdict.message
    names = [child.identity.name for child in report.children]
    if not _TEMPLATE_LINE.search(message) and not any(name in message for name in names):
        unnamed.append("a child or a template line in its message")
    return tuple(unnamed)


def broken_by_invalid(before: Settled, after: Settled, step: int) -> Failure | None:
    """What a change that was refused or failed did to the children that it could not replace."""
    if not after.comparable:
        return None
    refused = after.phase is Phase.REFUSED
    ours, theirs = ({child.name: child for child in state.children} for state in (before, after))
    kept = {
        name
        for identity, name in before.identities.items()
        if refused or identity in after.failed or identity not in after.rendered
    }
    lost = [child for name, child in ours.items() if name not in theirs and not _replaced(child, after)]
    recreated = [ours[name] for name in kept if name in theirs and ours[name].uid != theirs[name].uid]
    what = "is refused" if refused else "fails"
    for children, verb in ((lost, "deletes"), (recreated, "recreates")):
        if children:
            named = ", ".join(sorted(child.name for child in children))
            message = f"the change {what}, and {verb} {named}: {after.message}"
            return Failure(rule=ExplorationRule.BROKEN, step=step, message=message)
    same = [name for name in kept if name in theirs]
    differences = children_differences([theirs[name] for name in same], [ours[name] for name in same])
    if differences:
        message = f"the change {what}, and still changes children: {after.message}"
        return Failure(rule=ExplorationRule.BROKEN, step=step, message=message, differences=tuple(differences))
    return None


def _replaced(child: ChildState, after: Settled) -> bool:
    """Whether everything was applied, and a new child of the same kind took the place of a deleted one: a child that
    is applied may still fail, as a Job does.
    """
    if after.phase is Phase.REFUSED or after.failed:
        return False
    kind = child.name.partition("/")[0]
    return any(other.name.partition("/")[0] == kind for other in after.children)
