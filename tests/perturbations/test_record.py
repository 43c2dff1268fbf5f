"""A run of the perturbations that was ended goes on where it was."""

from __future__ import annotations

from pathlib import Path

from tests.perturbations.perturbation import Crash, Lag, WritePoint
from tests.perturbations.play import Outcome
from tests.perturbations.record import recorded

CRASH = Crash(WritePoint(0, "patch /api/v1/namespaces/NS/secrets/a", 1), after=True)
LAG = Lag(1, "")

FIRST = Outcome(story="Echo", perturbation=str(CRASH), played=True, lost=("secrets a",), problem="secrets a is missing")
SECOND = Outcome(story="Echo", perturbation=str(LAG), played=False)


def test_outcomes_of_an_ended_run_are_found(tmp_path: Path) -> None:
    path = tmp_path / "outcomes"
    for outcome in (FIRST, SECOND):
        with recorded(path) as record:
            record.add(outcome)
    with recorded(path) as record:
        assert [record.find("Echo", each) for each in (CRASH, LAG)] == [FIRST, SECOND]
        assert record.find("blue-green", LAG) is None


def test_a_half_written_outcome_is_played_again(tmp_path: Path) -> None:
    path = tmp_path / "outcomes"
    with recorded(path) as record:
        record.add(FIRST)
        record.add(SECOND)
    path.write_bytes(path.read_bytes()[:-2])
    with recorded(path) as record:
        assert record.find("Echo", CRASH) == FIRST
        assert record.find("Echo", LAG) is None
        record.add(SECOND)
    with recorded(path) as record:
        assert record.find("Echo", LAG) == SECOND


def test_without_a_file_outcomes_are_kept_in_memory() -> None:
    with recorded(None) as record:
        record.add(SECOND)
        assert record.find("Echo", LAG) == SECOND
