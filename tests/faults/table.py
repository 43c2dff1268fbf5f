"""The table of the fault matrix in docs/reliability.md.

Promises:
- A row is a fault. A phase has the seconds to convergence after the fault ended, and the requests during the fault.
- A phase that a fault can't disturb is a dash. A cell in which the operator broke a promise is marked.
- The page around the table stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.cell import Outcome
from tests.faults.story import Phase

BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"


def table(outcomes: Sequence[Outcome], head: str) -> str:
    """The table with its caption `head`, as Markdown."""
    phases = list(Phase)
    rows = [
        f"Measured: {head}. {len(outcomes)} cells.",
        "",
        f"| fault | {' | '.join(phase.value for phase in phases)} | lost | deleted wrongly |",
        f"|---|{'---|' * len(phases)}---|---|",
    ]
    for fault in dict.fromkeys(outcome.fault for outcome in outcomes):
        cells = {outcome.phase: outcome for outcome in outcomes if outcome.fault == fault}
        shown = [_cell(cells.get(phase)) for phase in phases]
        lost = sum(len(outcome.lost) for outcome in cells.values())
        wrong = sum(len(outcome.wrongly_deleted) for outcome in cells.values())
        rows.append(f"| {fault} | {' | '.join(shown)} | {lost} | {wrong} |")
    return "\n".join(rows)


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return "–"
    return "**failed**" if outcome.failures else f"{outcome.seconds:.1f} s, {outcome.requests}"


def replaced_table(page: str, new: str) -> str:
    """The page with another table. Raises ValueError if it has no place for one."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{new}\n{END}{after}"
