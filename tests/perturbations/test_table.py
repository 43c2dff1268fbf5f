"""The table of the perturbations has a row for each story."""

from __future__ import annotations

from tests.perturbations.perturbation import Kind
from tests.perturbations.play import Outcome
from tests.perturbations.table import BEGIN, END, HEAD, Row, replaced_table


def outcome(*, played: bool = True, lost: tuple[str, ...] = (), problem: str = "") -> Outcome:
    return Outcome(story="a", perturbation="p", played=played, lost=lost, problem=problem)


def test_a_story_has_one_row_and_the_rows_of_the_others_stay() -> None:
    rows = [
        Row(story="a", kind=Kind.UNOBSERVED, outcomes=[outcome(problem="other uids")]),
        Row(story="a", kind=Kind.CRASH, outcomes=[outcome(), outcome(played=False), outcome()]),
        Row(story="a", kind=Kind.STALE, outcomes=[outcome(lost=("a Secret",), problem="a Secret is lost")]),
    ]
    other = "| b | 1 | 1 | 1 | 0 | 0 | 0 |"
    page = f"text\n{BEGIN}\nMeasured: before.\n\n{HEAD}| a | 9 | 9 | 9 | 9 | 9 | 9 |\n{other}\n{END}\nend\n"
    assert replaced_table(page, rows, "now") == (
        f"text\n{BEGIN}\nMeasured: now.\n\n{HEAD}| a | 2 | 1 | 1 | 1 | 0 | 1 |\n{other}\n{END}\nend\n"
    )
