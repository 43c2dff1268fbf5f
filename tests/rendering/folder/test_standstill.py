"""When a changed templates folder may be loaded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.rendering.folder.folder_snapshot import FolderState
from ssa_operator.rendering.folder.standstill import LIMIT, SETTLED, VANISHED, Standstill


def state(*names: str, version: int = 0, size: int = 1) -> FolderState:
    return dict.fromkeys(names, (1, 1, size, version))


FULL = state("a", "b", "c")


def followed(*steps: tuple[float, FolderState]) -> Standstill:
    """A folder that was loaded with three files at 0, and then had these states, each from a time on."""
    found = Standstill.of(FULL, 0.0)
    for now, each in steps:
        found = found.seen(each, now)
    return found


def test_the_content_of_one_file_is_loaded_at_once() -> None:
    assert followed((7.0, {**FULL, **state("b", version=1)})).due == 7.0


def test_what_is_as_it_was_is_not_loaded() -> None:
    assert followed((7.0, state("a")), (8.0, FULL)).due is None


def test_several_changes_and_new_files_are_loaded_once_they_stand_still() -> None:
    assert followed((7.0, state("a", "b", "c", version=1))).due == 7.0 + SETTLED
    assert followed((7.0, {**FULL, **state("d")})).due == 7.0 + SETTLED


def test_a_folder_that_keeps_changing_is_loaded_after_a_limit() -> None:
    assert followed(*((7.0 + at / 4, state("a", "b", "c", version=at)) for at in range(1, 99))).due == 7.25 + LIMIT


def test_a_deleted_file_is_loaded_after_a_while_also_if_another_one_keeps_changing() -> None:
    touched = ((7.0 + at / 4, state("a", "b", version=at)) for at in range(99))
    assert followed(*touched).due == 7.0 + VANISHED


def test_a_vanished_folder_and_an_emptied_file_are_given_time() -> None:
    assert followed((7.0, {})).due == 7.0 + VANISHED
    assert followed((7.0, {**FULL, **state("b", size=0)})).due == 7.0 + VANISHED


@given(
    st.permutations(sorted(FULL)),
    st.lists(st.floats(0.01, VANISHED * 0.99), min_size=4, max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_a_slow_copy_is_never_loaded_without_a_file_that_it_has(
    order: list[str], pauses: list[float], emptied: bool, gone: bool
) -> None:
    """The folder is removed, and its files come back one by one, each empty at first."""
    found, now = followed((1.0, {} if gone else dict.fromkeys(["folder/"], (1, 1)))), 1.0
    copied: FolderState = {}
    for name, pause in zip(order, pauses, strict=False):
        if emptied:
            now += pause / 2
            assert found.due is None or found.due > now
            found = found.seen({**copied, **state(name, version=1, size=0)}, now)
        now += pause / 2
        assert found.due is None or found.due > now
        copied = {**copied, **state(name, version=1)}
        found = found.seen(copied, now)
    assert found.due is not None
    assert found.due <= now + VANISHED
    assert found.found == copied
