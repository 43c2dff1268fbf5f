"""The overviews that open pages share."""

from __future__ import annotations

from typing import Any

from ssa_operator.web.event_stream import MAX_PAUSE, PAUSE
from ssa_operator.web.overview import SharedOverviews


def test_open_pages_share_an_overview_and_its_cost() -> None:
    now, made = [0.0], []
    shared = SharedOverviews(lambda: now[0])

    def make() -> dict[str, Any]:
        made.append(now[0])
        now[0] += 1  # as long as no overview takes
        return {}

    assert shared.version("first") == "first"
    assert shared.of("all", make) is shared.of("all", make)
    shared.of("unready", make)
    assert len(made) == 2
    assert shared.version("second") == "second"
    now[0] += 2 * PAUSE
    assert shared.version("third") == "second", "both overviews of the first version took long"
    now[0] += MAX_PAUSE
    assert shared.version("third") == "third"
    shared.of("all", make)
    assert len(made) == 3
