"""The keys that terminals send."""

from __future__ import annotations

import pytest

from ssa_operator.tools.dev.dev_console import parse_keys


def test_terminals_send_keys_as_sequences() -> None:
    assert parse_keys("\x1b[A\x1bOBq\x1b[5~\x1b[99~G\x1b") == ["up", "down", "q", "pageup", "G", "escape"]


@pytest.mark.parametrize(
    ("sequences", "key"),
    [(("\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~"), "home"), (("\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"), "end")],
)
def test_home_and_end_work_in_every_terminal(sequences: tuple[str, ...], key: str) -> None:
    assert parse_keys("".join(sequences)) == [key] * len(sequences)
