"""The table of the perturbations in docs/reliability.md.

Promises:
- A row is a story: how many points of each kind of perturbation were played, and what they broke.
- Stories that were not played again keep their rows, like the page around the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.perturbations.perturbation import Kind
from tests.perturbations.play import Outcome

BEGIN, END = "<!-- perturbations: begin -->", "<!-- perturbations: end -->"

_COLUMNS = ("story", "crashes", "stale views", "unobserved states", "lost", "deleted wrongly", "other")

HEAD = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The outcomes of one kind of perturbation of one story."""

    story: str
    kind: Kind
    outcomes: Sequence[Outcome]

    @property
    def played(self) -> int:
        return sum(outcome.played for outcome in self.outcomes)

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.problem]

    def __str__(self) -> str:
        figures = f"{self.played} of {len(self.outcomes)} points played, {len(self.failed)} failed"
        return f"{self.story}, {self.kind.value}: {figures}"


def replaced_table(page: str, rows: Sequence[Row], head: str) -> str:
    """The page with these stories in its table. Raises ValueError if it has no place for a table."""
    before, _, rest = page.partition(BEGIN)
    present, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    lines = {line.split(" | ")[0].removeprefix("| "): line for line in present.partition(HEAD)[2].splitlines()}
    lines |= {story: _line(story, rows) for story in dict.fromkeys(row.story for row in rows)}
    return f"{before}{BEGIN}\nMeasured: {head}.\n\n{HEAD}" + "\n".join(lines.values()) + f"\n{END}{after}"


def _line(story: str, rows: Sequence[Row]) -> str:
    own = [row for row in rows if row.story == story]
    played = {kind: sum(row.played for row in own if row.kind is kind) for kind in Kind}
    outcomes = [outcome for row in own for outcome in row.outcomes]
    lost = sum(len(outcome.lost) for outcome in outcomes)
    wrong = sum(len(outcome.wrongly_deleted) for outcome in outcomes)
    other = sum(bool(each.problem) and not each.lost and not each.wrongly_deleted for each in outcomes)
    return f"| {' | '.join(map(str, (story, *played.values(), lost, wrong, other)))} |"
