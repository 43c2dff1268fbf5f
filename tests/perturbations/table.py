"""The table of the perturbations in docs/reliability.md.

Promises:
- A row is one kind of perturbation of one story: all its points, how many were played, and what they broke.
- Rows that were not played again stay as they are, like the page around the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.perturbations.play import Outcome

BEGIN, END = "<!-- perturbations: begin -->", "<!-- perturbations: end -->"

_COLUMNS = ("story", "perturbation", "points", "played", "lost", "deleted wrongly", "other differences")

HEAD = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The outcomes of one kind of perturbation of one story."""

    story: str
    kind: str
    outcomes: Sequence[Outcome]

    @property
    def failed(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.problem]

    def __str__(self) -> str:
        played = sum(outcome.played for outcome in self.outcomes)
        lost = sum(len(outcome.lost) for outcome in self.outcomes)
        wrong = sum(len(outcome.wrongly_deleted) for outcome in self.outcomes)
        other = sum(not outcome.lost and not outcome.wrongly_deleted for outcome in self.failed)
        cells = (self.story, self.kind, len(self.outcomes), played, lost, wrong, other)
        return f"| {' | '.join(map(str, cells))} |"


def replaced_table(page: str, rows: Iterable[Row], head: str) -> str:
    """The page with these rows in its table. Raises ValueError if it has no place for a table."""
    before, _, rest = page.partition(BEGIN)
    table, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    lines = {_key(line): line for line in table.splitlines() if line.startswith("| ") and "| points |" not in line}
    lines |= {_key(str(row)): str(row) for row in rows}
    return f"{before}{BEGIN}\nMeasured: {head}.\n\n{HEAD}\n" + "\n".join(lines.values()) + f"\n{END}{after}"


def _key(line: str) -> tuple[str, str]:
    _, story, kind, *_ = line.split("|")
    return story.strip(), kind.strip()
