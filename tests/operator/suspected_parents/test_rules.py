"""The rules about suspected parents, as values."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.operator.suspected_parents.rules import (
    FIRST_PAUSE,
    LONGEST_PAUSE,
    SUSPECTS_LIMIT,
    Suspects,
    Version,
    due_at,
    read_suspects,
    suspicion,
    with_attempt,
    with_held,
    without,
    write_suspects,
)

PILL, OTHER = ("echoes.example.com", "default", "pill"), ("echoes.example.com", "", "other")
OLD, NEW = Version(1, "digest"), Version(2, "digest")


def held(
    suspects: Suspects, process: str, *, at: float = 0.0, version: Version = OLD, certain: bool = True
) -> Suspects:
    return with_held(suspects, PILL, version, at, process, certain=certain)


def times(suspects: Suspects) -> list[int]:
    return [each.times for each in suspects]


def test_a_process_counts_once_however_long_and_often_a_parent_holds_it() -> None:
    first = held(held((), "a"), "a")
    assert times(first) == [1]
    attempt = with_attempt(first, PILL, OLD, 1.0, "b")
    assert times(attempt) == [2]
    assert times(held(attempt, "b")) == [2]
    assert times(held(attempt, "c")) == [3]


def test_a_death_in_a_short_step_proves_nothing_until_an_attempt_dies_too() -> None:
    suspects = held((), "a", certain=False)
    assert times(suspects) == [0]
    assert times(with_attempt(suspects, PILL, OLD, 1.0, "b")) == [1]


def test_a_changed_spec_or_template_begins_anew() -> None:
    suspects = with_attempt(with_attempt(held((), "a"), PILL, OLD, 1.0, "b"), PILL, OLD, 2.0, "c")
    (suspect,) = suspects
    assert due_at(suspect, OLD, 2.0) == 2.0 + 2 * FIRST_PAUSE
    for version in (NEW, Version(1, "other digest")):
        assert due_at(suspect, version, 2.0) == 2.0
        assert times(with_attempt(suspects, PILL, version, 3.0, "d")) == [1]
        assert times(held(suspects, "d", version=version)) == [1]


@pytest.mark.parametrize(
    ("attempts", "pause"),
    [(0, 0.0), (1, FIRST_PAUSE), (2, 2 * FIRST_PAUSE), (3, 4 * FIRST_PAUSE), (7, LONGEST_PAUSE), (5000, LONGEST_PAUSE)],
)
def test_pauses_grow_with_each_attempt_that_ended_a_process(attempts: int, pause: float) -> None:
    suspects = held((), "a")
    for number in range(attempts):
        suspects = with_attempt(suspects, PILL, OLD, 0.0, str(number))
    assert due_at(suspects[0], OLD, 0.0) == pause


def test_a_wall_clock_that_was_set_back_delays_an_attempt_by_a_pause_at_most() -> None:
    (suspect,) = with_attempt(held((), "a"), PILL, OLD, 1_000_000.0, "b")
    assert due_at(suspect, OLD, 10.0) == 10.0 + FIRST_PAUSE


def test_several_parents_are_suspected_and_forgotten_each_for_itself() -> None:
    both = with_held(held((), "a"), OTHER, OLD, 1.0, "a", certain=True)
    assert [each.key for each in both] == [PILL, OTHER]
    assert [each.key for each in without(both, {PILL})] == [OTHER]
    assert without(both, {PILL, OTHER}) == ()


def test_the_record_has_a_bound_and_keeps_the_newest() -> None:
    suspects: Suspects = ()
    for number in range(SUSPECTS_LIMIT + 5):
        suspects = with_held(suspects, ("f", "n", str(number)), OLD, float(number), "a", certain=True)
    assert [each.name for each in suspects] == [str(number) for number in range(5, SUSPECTS_LIMIT + 5)]


def test_the_record_comes_back_as_it_was_written() -> None:
    suspects = with_held(held((), "a"), OTHER, NEW, 1.5, "b", certain=False)
    assert read_suspects(write_suspects(suspects)) == suspects
    assert write_suspects(()) == ""


@given(
    st.text()
    | st.recursive(st.none() | st.floats(allow_nan=False) | st.text(), st.lists, max_leaves=5).map(
        lambda value: msgspec.json.encode(value).decode()
    )
)
def test_any_text_is_a_record(text: str) -> None:
    assert isinstance(read_suspects(text), tuple)


def test_what_can_not_be_read_of_a_record_is_left_out() -> None:
    known = write_suspects(held((), "a"))[1:-1]
    text = f'[1, null, {{"name": "x"}}, {{"folder": "f", "name": "x", "times": "2"}}, {known}]'
    assert read_suspects(text) == held((), "a")
    assert read_suspects("[" * 100_000) == ()


def test_a_message_names_how_often_and_when_and_what_to_do() -> None:
    (suspect,) = held((), "a", at=0.0)
    assert suspicion(suspect).startswith(
        "the operator was held up or died while it reconciled this parent (once, last at 1970-01-01T00:00:00Z), "
    )
    assert "change its spec or its templates" in suspicion(suspect)
    (suspect,) = with_attempt((suspect,), PILL, OLD, 60.0, "b")
    assert "(2 times, last at 1970-01-01T00:01:00Z)" in suspicion(suspect)


def test_a_forged_time_is_no_error() -> None:
    for at in ("1e300", "-1e300", "253402300800", "1e10", "0", "1e400"):
        for times in ("1000000", "99999999999999999999999", "-1"):
            for suspect in read_suspects(f'[{{"folder": "f", "name": "x", "at": {at}, "times": {times}}}]'):
                assert due_at(suspect, OLD, 0.0) <= LONGEST_PAUSE
                assert suspicion(suspect)
