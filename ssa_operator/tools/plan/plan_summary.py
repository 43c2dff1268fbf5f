"""The totals and details of a plan over many parents, as text, Markdown and data.

Promises:
- Each object counts once, by its change. A template that fails counts as failed.
- Objects with the same changes are one detail, with the names of a few of them. Changes of hidden values are the same:
  whether two objects have the same content is not shown.
- The counts of `--output json` keep their names.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.messages import counted
from ssa_operator.objects.rollout_settings import RolloutSettings
from ssa_operator.objects.secret_fields import HIDDEN
from ssa_operator.operator.rollouts.rules import WAVE_LIMIT, Member, canaries
from ssa_operator.reconcile.child import Result
from ssa_operator.reconcile.field_changes import ChangeCause
from ssa_operator.reconcile.secrets.content_fields import HASH
from ssa_operator.reconcile.suspension import is_suspended
from ssa_operator.tools.plan.changes import STYLES, VERBS, ObjectChange, ParentChanges, left_note, notes, object_data


@dataclass(slots=True)
class PlannedWaves:
    """The parents of a folder with rollouts, as they were planned."""

    settings: RolloutSettings
    members: list[Member] = field(default_factory=list)
    changed: bool = False
    pruned: int = 0
    recreated: int = 0

    def add(self, changes: ParentChanges) -> None:
        """Count one parent."""
        live, settings = changes.planned.parent.live, changes.planned.parent.folder.settings
        suspended = is_suspended(live, settings.suspend_when)
        of, labels = live.metadata, live.metadata.labels
        self.members.append(
            Member(uid=live.uid, namespace=of.namespace, name=of.name, labels=labels, suspended=suspended)
        )
        self.changed = self.changed or changes.differs or changes.failed
        self.pruned += sum(each.result is Result.PRUNED for each in changes.objects)
        self.recreated += sum(each.result is Result.RECREATED for each in changes.objects)

    def __str__(self) -> str:
        active = sorted((each for each in self.members if not each.suspended), key=lambda each: each.place)
        first = len(canaries(active, self.settings.canary))
        batch = min(self.settings.batch.of(len(active)), WAVE_LIMIT)
        batches = math.ceil((len(active) - first) / batch)
        waves = f"{'canary' if first == 1 else 'canaries'} {first}"
        waves += f", then {batches} {'batch' if batches == 1 else 'batches'} of at most {batch}" if batches else ""
        deletions = [counted(self.pruned, "deletion")] if self.pruned else []
        deletions += [counted(self.recreated, "recreation")] if self.recreated else []
        asks = self.pruned + self.recreated > self.settings.max_prune
        confirmed = f", more than maxPrune ({self.settings.max_prune}): it waits for `rollout resume`" if asks else ""
        return "; ".join([waves, " and ".join(deletions) + confirmed] if deletions else [waves])


NAMES = 5
"""The objects of one detail that are named."""

_VALUE_LIMIT = 60
"""Characters of a value in a detail."""

_COUNTED = {
    Result.CREATED: "created",
    Result.CONFIGURED: "changed",
    Result.RECREATED: "recreated",
    Result.PRUNED: "pruned",
    Result.UNCHANGED: "unchanged",
    Result.WAITING: "waiting",
    Result.FAILED: "failed",
}
COUNTS = tuple(_COUNTED.values())


@dataclass(slots=True)
class Counts:
    """How many objects have each result."""

    by_name: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))

    def add(self, name: str) -> None:
        self.by_name[name] += 1

    def cells(self, names: Iterable[str]) -> list[str]:
        """The cells of a row; nothing where there is none."""
        return [str(self.by_name[name] or "") for name in names]

    @property
    def unchanged(self) -> bool:
        """Whether nothing happens to any of the objects."""
        return not any(count for name, count in self.by_name.items() if name != _COUNTED[Result.UNCHANGED])


@dataclass(frozen=True, slots=True)
class Detail:
    """Objects that change in the same way."""

    result: Result
    kind: GroupKind
    lines: tuple[str, ...]
    objects: list[Identity] = field(compare=False)

    @property
    def title(self) -> str:
        names = [f"{each.namespace}/{each.name}" if each.namespace else each.name for each in self.objects[:NAMES]]
        more = f" and {len(self.objects) - NAMES} more" if len(self.objects) > NAMES else ""
        return f"{VERBS[self.result]} {self.kind}: {', '.join(names)}{more}"


@dataclass(slots=True)
class PlanSummary:
    """What a reconcile of all parents would change."""

    parents: int = 0
    changed_parents: int = 0
    """The parents that have a change."""
    totals: Counts = field(default_factory=Counts)
    kinds: dict[GroupKind, Counts] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    """Failures beside those of single objects: templates, parents that can't be read, folders that wait."""
    notes: list[str] = field(default_factory=list)
    """Held prunes, suspended parents, and how the plan was made."""
    objects: list[tuple[Identity, ObjectChange]] = field(default_factory=list)
    """The changed objects, each with its parent."""
    waves: dict[str, PlannedWaves] = field(default_factory=dict)
    """The folders with rollouts."""

    def add(self, changes: ParentChanges) -> None:
        """Count one parent."""
        parent, folder = changes.planned.parent.live.identity, changes.planned.parent.folder
        self.parents += 1
        if folder.settings.rollout is not None:
            self.waves.setdefault(folder.name, PlannedWaves(folder.settings.rollout)).add(changes)
        self.changed_parents += changes.differs or changes.failed
        self.notes += [f"{parent} {note}" for note in changes.notes]
        for problem in changes.problems:
            self.problems.append(f"{problem} (for {parent})")
            self._count(parent.group_kind, "failed")
        for wait in changes.waits:
            self.notes.append(f"{wait} (for {parent})")
            self._count(parent.group_kind, "waiting")
        for each in changes.objects:
            self._count(each.identity.group_kind, _COUNTED[each.result])
            if each.notice:
                self.notes.append(f"{each.identity}: {each.notice} (for {parent})")
            if each.differs:
                self.objects.append((parent, each))

    def fail(self, parent: Identity, message: str) -> None:
        """Count a parent that could not be planned."""
        self.parents += 1
        self.changed_parents += 1
        self.problems.append(f"{parent}: {message}")
        self._count(parent.group_kind, "failed")

    def _count(self, kind: GroupKind, name: str) -> None:
        self.totals.add(name)
        self.kinds.setdefault(kind, Counts()).add(name)

    def note_waves(self) -> None:
        """Note how the changes would roll out."""
        self.notes += [f"{name} rolls out in waves: {waves}" for name, waves in self.waves.items() if waves.changed]

    @property
    def failed(self) -> bool:
        return bool(self.problems) or self.totals.by_name["failed"] > 0

    @property
    def headline(self) -> str:
        counts = ", ".join(f"{self.totals.by_name[name]} {name}" for name in COUNTS if self.totals.by_name[name])
        parents = counted(self.parents, "parent")
        return f"{parents}, {self.changed_parents} of them with changes; objects: {counts or 'none'}"

    @property
    def shown_counts(self) -> list[str]:
        """The results that some object has."""
        return [name for name in COUNTS if self.totals.by_name[name]]

    @property
    def rows(self) -> list[list[str]]:
        """A row of `shown_counts` for each kind to which something happens, and the totals; no row without objects."""
        names = self.shown_counts
        rows = [
            [str(kind), *counts.cells(names)] for kind, counts in sorted(self.kinds.items()) if not counts.unchanged
        ]
        return [*rows, ["total", *self.totals.cells(names)]] if names else []

    @property
    def details(self) -> list[Detail]:
        """The changes, equal ones together: failures first, then deletions."""
        found: dict[tuple[Result, GroupKind, tuple[str, ...]], Detail] = {}
        for _, change in self.objects:
            key = change.result, change.identity.group_kind, tuple(_lines(change))
            found.setdefault(key, Detail(*key, [])).objects.append(change.identity)
        return sorted(found.values(), key=lambda each: (_ORDER.index(each.result), each.kind, -len(each.objects)))


_ORDER = (
    Result.FAILED,
    Result.PRUNED,
    Result.RECREATED,
    Result.CONFIGURED,
    Result.CREATED,
    Result.WAITING,
    Result.UNCHANGED,
)


def _lines(change: ObjectChange) -> Iterable[str]:
    """What happens to an object, without its name, so that equal changes are equal."""
    if change.message:
        message = change.message.removeprefix(f"{change.identity} ").removeprefix(f"{change.identity}: ")
        yield message
    for each in change.fields:
        where = f"  {each.location}" if each.location is not None else ""
        if each.cause is ChangeCause.TAKEN:
            where = f" (written by {' and '.join(map(str, each.owners))}){where}"
        yield f"{each.field}: {_shown(each.before)} -> {_shown(each.after)}{where}"
    if change.adopted:
        yield from (note for note in notes(change) if note.startswith("the operator adopts"))
    yield from (left_note(each) for each in change.left if each.handed_over)
    if change.result is Result.CREATED and change.location is not None:
        yield str(change.location)


def _shown(value: Any) -> str:
    if value is None:
        return "(none)"
    text = value if isinstance(value, str) and value.isprintable() else json.dumps(value, ensure_ascii=False)
    text = HASH.sub(HIDDEN, text)
    return text if len(text) <= _VALUE_LIMIT else f"{text[: _VALUE_LIMIT - 1]}…"


# Output.


def text(summary: PlanSummary) -> str:
    """The details for a terminal, below the table."""
    return "\n".join(line for line, _ in styled_lines(summary))


def styled_lines(summary: PlanSummary) -> list[tuple[str, str]]:
    """The lines of the details, each with its style in a terminal."""
    lines: list[tuple[str, str]] = []
    for detail in summary.details:
        lines += [("", ""), (detail.title, STYLES[detail.result]), *((f"  {line}", "") for line in detail.lines)]
    failed = {f"  {problem}" for problem in summary.problems}
    return [*lines, *((line, STYLES[Result.FAILED] if line in failed else "") for line in _remarks(summary))]


def _remarks(summary: PlanSummary) -> list[str]:
    lines = ["", "Problems:", *(f"  {problem}" for problem in summary.problems)] if summary.problems else []
    return [*lines, "", "Notes:", *(f"  {note}" for note in summary.notes)] if summary.notes else lines


def markdown(summary: PlanSummary) -> str:
    """A comment for a pull request."""
    names = summary.shown_counts
    table = [["kind", *names], ["---", *("---:" for _ in names)], *summary.rows] if names else []
    lines = [
        "### ssa-operator plan",
        "",
        summary.headline,
        "",
        *("| " + " | ".join(row) + " |" for row in table),
    ]
    if summary.problems:
        lines += ["", "**Problems**", "", *(f"- {_escaped(problem)}" for problem in summary.problems)]
    if summary.notes:
        lines += ["", "**Notes**", "", *(f"- {_escaped(note)}" for note in summary.notes)]
    details = summary.details
    if details:
        lines += ["", "<details><summary>Changes</summary>", ""]
        for detail in details:
            fence = "`" * (1 + max([2, *(_backticks(line) for line in (detail.title, *detail.lines))]))
            lines += [fence, detail.title, *(f"  {line}" for line in detail.lines), fence, ""]
        lines.append("</details>")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """A text for Markdown, in one line. A zero-width space after each @ keeps GitHub from notifying users."""
    shown = "".join(f"\\{letter}" if letter in "\\`*_[]<>|#&" else letter for letter in " ".join(text.split()))
    return shown.replace("@", "@&#8203;")


def _backticks(text: str) -> int:
    """The longest run of backticks in a text."""
    longest = run = 0
    for letter in text:
        run = run + 1 if letter == "`" else 0
        longest = max(longest, run)
    return longest


def data(summary: PlanSummary) -> dict[str, Any]:
    """The plan for `--output json`."""
    return {
        **summary.totals.by_name,
        "parents": summary.parents,
        "changedParents": summary.changed_parents,
        "kinds": [
            {"group": kind.group, "kind": kind.kind, **summary.kinds[kind].by_name} for kind in sorted(summary.kinds)
        ],
        "problems": summary.problems,
        "notes": summary.notes,
        "objects": [_object(parent, change) for parent, change in summary.objects],
    }


def _object(parent: Identity, change: ObjectChange) -> dict[str, Any]:
    named = {"kind": parent.kind, "namespace": parent.namespace, "name": parent.name}
    return {"parent": named, **object_data(change)}


def table(summary: PlanSummary) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    """The head and the rows of the table by kind."""
    return ("KIND", *(name.upper() for name in summary.shown_counts)), summary.rows
