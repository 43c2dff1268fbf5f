"""What the operator's log lines look like."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ssa_operator.operator.process import logging_setup
from ssa_operator.operator.process.streams import LogFormat, LogLevel


@pytest.fixture
def handlers() -> Iterator[None]:
    """The handlers of the test run, which come back after the test."""
    root, own = logging.getLogger(), logging.getLogger("ssa_operator")
    before, level = root.handlers, own.level
    root.handlers = []
    yield
    root.handlers = before
    own.setLevel(level)


@pytest.mark.parametrize("form", LogFormat)
def test_a_value_in_a_message_neither_begins_a_line_nor_controls_a_terminal(
    form: LogFormat, handlers: None, capsys: pytest.CaptureFixture[str]
) -> None:
    logging_setup.configure(form, LogLevel.INFO)
    value = "a\nb\r12:00:00 INFO forged\x1b[2J\x9b31m\u2028c\x00"
    logging.getLogger("ssa_operator").info("ConfigMap %s is refused", value)
    (line,) = capsys.readouterr().err.splitlines()
    assert not [character for character in line if not character.isprintable()]
    assert "forged" in line
