"""Parents that don't change any more, the rules that each of them keeps, and what differs between two of them.

Promises:
- A change that is refused or fails may change what it renders and applies, and nothing else.
- The status of a failed parent names each child that can't be applied, and in its message a child or a template line.
- Only what the operator applies is compared: not the status, not the API server's defaults, not fields that only other
  field managers own, and not the operator's own labels and annotations. The parents' namespaces and uids make no
  difference, even if texts and the children's names contain them.
- Values that differ between two new parents of one spec don't count: generated values, times, addresses, checksums.
- An object that is applied only once, or only if it is absent, is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from ssa_operator.objects.annotations import PREFIX, ApplyPolicy
from ssa_operator.objects.field_attribution import Writer, attribute
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text
from ssa_operator.reconcile.child import Result
from ssa_operator.reconcile.status.report import Report

ABSENT = "(absent)"
"""The value of a field, or the object, that one of two parents lacks."""

_COMPARED_METADATA = frozenset({"annotations", "labels", "ownerReferences"})

_APPLIED = frozenset({Writer.TEMPLATE, Writer.OPERATOR, Writer.EARLIER_TEMPLATE})
"""The writers of the compared fields. A default stays as it was at the creation of the object, for example the
`imagePullPolicy` of a container whose image changes.
"""

_TEMPLATE_LINE = re.compile(r"\.ya?ml(\.j2)?:\d+")


class BrokenRuleError(AssertionError):
    """A rule that the operator breaks. Hypothesis takes two failures of one class for the same, so that a shorter
    sequence breaks the same rule.
    """


class DiffersFromNewError(BrokenRuleError):
    """The children differ from those of a new parent with the same spec."""


class NotReadyAsNewError(BrokenRuleError):
    """A new parent becomes ready, and this one doesn't; or the other way round."""


class NoRecoveryError(BrokenRuleError):
    """The last good spec doesn't lead back from an error state."""


class BrokenByInvalidError(BrokenRuleError):
    """A change that was refused or failed deleted or changed a child that it could not replace."""


class UnnamedFailureError(BrokenRuleError):
    """The status of a failed parent doesn't name the child or the template line that failed."""


class EndlessChangeError(BrokenRuleError):
    """Reconciles of one spec change a child again and again."""


class CrashError(BrokenRuleError):
    """A reconcile ended with a bug."""


class ChangedByRepeatError(BrokenRuleError):
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
class ChildState:
    """A child, comparable with that of another parent."""

    name: str
    """`Kind/name`, without the parent's namespace and uid."""
    uid: str
    fields: Mapping[str, Any]
    compared: bool = True
    """False for an object that is applied once, or only if it is absent."""
    locations: Mapping[str, SourceLocation | None] = field(default_factory=dict)
    """The template line that wrote each field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledParent:
    """A parent that doesn't change any more, and its children."""

    phase: Phase
    message: str
    children: Mapping[Identity, ChildState] = field(default_factory=dict)
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
    """The children that reconciles of the spec changed again and again."""


class Difference(NamedTuple):
    """A field of a child, or a whole child, that differs."""

    child: str
    field: str
    """'' if one of the parents lacks the child."""
    found: Any
    expected: Any
    location: SourceLocation | None = None

    def __str__(self) -> str:
        at = "" if self.location is None else f" ({self.location})"
        return f"{self.child} {self.field} is {self.found!r}, and should be {self.expected!r}{at}"


def child_state(live: LiveObject, manifest: Manifest | None, parent: LiveObject, *, own_name: bool) -> ChildState:
    """The state of a parent's live child, with what the templates render for it. With `own_name`, the compared parents
    have other names.
    """
    known = parent.identity
    replaced = [parent.uid, parent.uid.replace("-", ""), known.namespace, known.name if own_name else ""]

    def text(value: str) -> str:
        for old, new in zip(replaced, ("<uid>", "<uid>", "<namespace>", "<name>"), strict=True):
            value = value.replace(old, new) if old else value
        return value

    found = [each for each in attribute(live, manifest) if each.writer in _APPLIED and _is_compared(each.path)]
    return ChildState(
        name=text(f"{live.identity.kind}/{live.identity.name}"),
        uid=live.uid,
        fields={
            text(field_text(each.path)): text(each.value) if isinstance(each.value, str) else each.value
            for each in found
        },
        locations={text(field_text(each.path)): each.location for each in found},
        compared=manifest is None or manifest.instructions.apply is ApplyPolicy.ALWAYS,
    )


def _is_compared(path: FieldPath) -> bool:
    if path[0] == "metadata":
        own = len(path) > 2 and path[1] in ("annotations", "labels") and str(path[2]).startswith(PREFIX)
        return len(path) > 1 and path[1] in _COMPARED_METADATA and not own
    return path[0] != "status"


Variation = frozenset[tuple[str, str]]
"""The children and fields that differ between two new parents of one spec, as in `Difference`."""


def variation(one: Iterable[ChildState], other: Iterable[ChildState]) -> Variation:
    """What differs between the children of two new parents."""
    return frozenset((each.child, each.field) for each in differences(one, other))


def differences(
    found: Iterable[ChildState], expected: Iterable[ChildState], ignored: Variation = frozenset()
) -> list[Difference]:
    """How the children of a parent differ from those that are expected."""
    ours, theirs = ({child.name: child for child in children} for children in (found, expected))
    return [
        each
        for name in dict.fromkeys((*ours, *theirs))
        if (name, "") not in ignored
        for each in _differences(ours.get(name), theirs.get(name))
        if (name, each.field) not in ignored
    ]


def _differences(one: ChildState | None, other: ChildState | None) -> Iterable[Difference]:
    known = [each for each in (one, other) if each is not None]
    if not all(each.compared for each in known):
        return
    if one is None or other is None:
        found, expected = (ABSENT if each is None else "there" for each in (one, other))
        yield Difference(known[0].name, "", found, expected)
        return
    for path in dict.fromkeys((*one.fields, *other.fields)):
        ours, theirs = (each.fields.get(path, ABSENT) for each in known)
        if ours != theirs:
            location = one.locations.get(path) or other.locations.get(path)
            yield Difference(one.name, path, ours, theirs, location)


def check_alone(state: SettledParent) -> None:
    """Raises BrokenRuleError if a state breaks a rule, whatever the states before were."""
    if state.crash:
        raise CrashError(f"a reconcile ended with {state.crash}")
    if state.endless:
        raise EndlessChangeError(f"reconciles of the same spec change {state.endless}")
    if state.unnamed:
        raise UnnamedFailureError(f"the status doesn't name {', '.join(state.unnamed)}: {state.message}")


def unnamed_failures(report: Report) -> tuple[str, ...]:
    """What the status of a failed parent should name and doesn't."""
    failed = [outcome.identity for outcome in report.outcomes if outcome.result is Result.FAILED]
    reported = {child.identity for child in report.children if child.failed and child.readiness.message}
    unnamed = [str(identity) for identity in failed if identity not in reported]
    message = report.verdict.message
    if not _TEMPLATE_LINE.search(message) and not any(child.identity.name in message for child in report.children):
        unnamed.append("a child or a template line in its message")
    return tuple(unnamed)


def check_failed_change(before: SettledParent, after: SettledParent) -> None:
    """Raises BrokenByInvalidError if a change that was refused or failed changed children that it could not replace."""
    if not after.comparable:
        return
    refused = after.phase is Phase.REFUSED
    what = "is refused" if refused else "fails"
    lost = [
        child.name
        for identity, child in before.children.items()
        if identity not in after.children and not _is_replaced(child, after)
    ]
    kept = [
        (child, after.children[identity])
        for identity, child in before.children.items()
        if identity in after.children and (refused or identity in after.failed or identity not in after.rendered)
    ]
    recreated = [child.name for child, now in kept if child.uid != now.uid]
    for names, verb in ((lost, "deletes"), (recreated, "recreates")):
        if names:
            raise BrokenByInvalidError(f"the change {what}, and {verb} {', '.join(sorted(names))}: {after.message}")
    if found := differences([now for _, now in kept], [child for child, _ in kept]):
        shown = "; ".join(map(str, found))
        raise BrokenByInvalidError(f"the change {what}, and still changes children: {after.message}: {shown}")


def _is_replaced(child: ChildState, after: SettledParent) -> bool:
    """Whether everything was applied, and a new child of the same kind took the place of a deleted one: a child that
    is applied may still fail, as a Job does.
    """
    if after.phase is Phase.REFUSED or after.failed:
        return False
    return any(other.name.partition("/")[0] == child.name.partition("/")[0] for other in after.children.values())
