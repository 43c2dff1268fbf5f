"""The table of the fault matrix in docs/reliability.md.

Promises:
- A row is a fault: its cells, the longest time from its end until the cluster was right, the most requests of a cell,
  and what was lost or deleted wrongly in all cells.
- A row names how many of its cells failed.
- The page around the table stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from tests.faults.cell import Outcome

BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"

_COLUMNS = ("fault", "cells", "longest time", "most requests", "lost", "deleted wrongly")


def table(outcomes: Sequence[Outcome], head: str) -> str:
    """The table with its caption `head`, as Markdown."""
    faults = dict.fromkeys(outcome.fault for outcome in outcomes)
    rows = [
        f"Measured: {head}. {len(outcomes)} cells.",
        "",
        f"| {' | '.join(_COLUMNS)} |",
        f"|{'---|' * len(_COLUMNS)}",
        *(_row(fault, [outcome for outcome in outcomes if outcome.fault == fault]) for fault in faults),
    ]
    return "\n".join(rows)


def _row(fault: str, cells: Sequence[Outcome]) -> str:
    failed = sum(bool(cell.failures) for cell in cells)
    shown = (
        fault,
        f"{len(cells)}, **{failed} failed**" if failed else len(cells),
        f"{max(cell.seconds for cell in cells):.1f} s",
        max(cell.requests for cell in cells),
        sum(len(cell.lost) for cell in cells),
        sum(len(cell.wrongly_deleted) for cell in cells),
    )
    return f"| {' | '.join(map(str, shown))} |"


def replaced_table(page: str, new: str) -> str:
    """The page with another table. Raises ValueError if it has no place for one."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"the page has no {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{new}\n{END}{after}"
