"""A representative part of the fault matrix. `python -m tests.faults` plays all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from tests.faults.cell import Outcome
from tests.faults.injections import injections
from tests.faults.matrix import play
from tests.faults.story import Phase

PART = [
    ("connection refused", Phase.START_UP),
    ("connection refused", Phase.FINALIZE),
    ("reset after the request", Phase.RECREATE),
    ("429 with Retry-After: 2", Phase.MASS_UPDATE),
    ("truncated JSON", Phase.PRUNE),
    ("watch ended at once", Phase.STEADY_STATE),
    ("410 as an event", Phase.PRUNE),
    ("500", Phase.ROLLOUT),
    ("503", Phase.ORPHAN),
    ("rotated CA", Phase.MASS_UPDATE),
    ("quota exceeded", Phase.RECREATE),
]
"""Each phase once, and each kind of fault that ends within seconds."""


@pytest.mark.cluster
@pytest.mark.slow
async def test_the_operator_keeps_its_promises_in_a_representative_part_of_the_matrix(
    cluster: Cluster, tmp_path: Path
) -> None:
    named = {str(injection): injection for injection in injections()}
    outcomes: list[Outcome] = []
    await play(cluster, tmp_path, [(named[name], phase) for name, phase in PART], outcomes.append)
    assert len(outcomes) == len(PART)
    broken = {f"{each.fault}, {each.phase.value}": each.failures for each in outcomes if each.failures}
    assert not broken
