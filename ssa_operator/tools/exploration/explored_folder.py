"""What `ssa-operator test --explore` reports: the sequences of each template folder, and their failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ssa_operator.objects.messages import counted
from ssa_operator.schema.spec_changes import SpecChange
from ssa_operator.tools.exploration.child_comparison import ABSENT, ChildDifference
from ssa_operator.tools.exploration.results import Failure, Phase

SHOWN_DIFFERENCES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFailure:
    """A failure, its shortest sequence, and its file."""

    failure: Failure
    changes: Sequence[SpecChange]
    path: Path

    def data(self) -> dict[str, Any]:
        """The data for `--output json`."""
        return {
            "rule": self.failure.rule.value,
            "step": self.failure.step,
            "message": self.failure.message,
            "steps": [change.data() for change in self.changes],
            "differences": [each.data() for each in self.failure.differences],
            "path": str(self.path),
        }

    def lines(self) -> list[str]:
        """The lines for a reader."""
        lines = [f"  {self.failure.rule}: {self.failure.message}"]
        lines += [f"    {at}. {change}" for at, change in enumerate(self.changes, 1)]
        for each in self.failure.differences[:SHOWN_DIFFERENCES]:
            at = "" if each.location is None else f" ({each.location})"
            lines.append(f"    {_difference(each)}{at}")
        if (more := len(self.failure.differences) - SHOWN_DIFFERENCES) > 0:
            lines.append(f"    and {more} more")
        return [*lines, f"    kept in {self.path}"]


def _difference(each: ChildDifference) -> str:
    if each.field:
        return f"{each.child} {each.field} is {_cut(each.found)}, and should be {_cut(each.expected)}"
    return f"{each.child} is missing" if each.found == ABSENT else f"{each.child} exists, and should not"


def _cut(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."


@dataclass(slots=True, kw_only=True)
class ExploredFolder:
    """The results of the sequences of one template folder."""

    folder: str
    sequences: int = 0
    phases: Counter[Phase] = field(default_factory=Counter)
    failures: list[FoundFailure] = field(default_factory=list)
    unrepeated: list[str] = field(default_factory=list)
    """Failures that did not appear again."""
    skipped: str = ""
    """Why it was not explored."""

    def data(self) -> dict[str, Any]:
        """The data for `--output json`."""
        return {
            "folder": self.folder,
            "sequences": self.sequences,
            "changes": {phase.value: self.phases[phase] for phase in Phase},
            "failures": [each.data() for each in self.failures],
            "unrepeated": self.unrepeated,
            **({"skipped": self.skipped} if self.skipped else {}),
        }

    def lines(self) -> list[str]:
        """The lines for a reader."""
        if self.skipped and not self.sequences:
            return [f"{self.folder}: skipped: {self.skipped}"]
        counts = ", ".join(f"{self.phases[phase]} {phase}" for phase in Phase if self.phases[phase])
        failed = counted(len(self.failures), "failure")
        changes = counted(self.phases.total(), "change") + (f" ({counts})" if counts else "")
        lines = [f"{self.folder}: {counted(self.sequences, 'sequence')}, {changes}: {failed}"]
        lines += [line for each in self.failures for line in each.lines()]
        lines += [f"  no new sequences: {self.skipped}"] if self.skipped else []
        return lines + [f"  seen once, and not when it was played again: {each}" for each in self.unrepeated]


def summary(results: Sequence[ExploredFolder]) -> dict[str, int]:
    """The sums over all folders."""
    return {
        "sequences": sum(each.sequences for each in results),
        "changes": sum(each.phases.total() for each in results),
        "failures": sum(len(each.failures) for each in results),
        "skipped": sum(bool(each.skipped) for each in results),
    }


def exploration_data(results: Sequence[ExploredFolder]) -> dict[str, Any]:
    """The results for `--output json`."""
    return {"folders": [each.data() for each in results], "summary": summary(results)}


def exploration_lines(results: Sequence[ExploredFolder]) -> list[str]:
    """The results for a reader."""
    lines = [line for each in results for line in each.lines()]
    if len(results) > 1:
        sums = summary(results)
        counts = f"{counted(sums['sequences'], 'sequence')}, {counted(sums['changes'], 'change')}"
        skipped = f", {sums['skipped']} skipped" if sums["skipped"] else ""
        lines.append(f"{len(results)} template folders: {counts}: {counted(sums['failures'], 'failure')}{skipped}")
    return lines
