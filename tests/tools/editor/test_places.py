"""Every rule answers for every place of every text, and positions count what the protocol says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssa_operator.tools.editor.completion import completions
from ssa_operator.tools.editor.definitions import definition, references, symbols
from ssa_operator.tools.editor.expression_types import Reading
from ssa_operator.tools.editor.hover import hover
from ssa_operator.tools.editor.places import UTF_8, UTF_16, UTF_32, column_of, lines_of, units
from tests.tools.editor.projects import corpus, project_of

FILES = corpus()
SMALL = [each for each in FILES if {"echo-server", "blue-green"} & {*each.parts}]
PIECES = st.sampled_from(
    ("{{ ", "{% ", "}}", "%}", '"', "'", ".", "|", "(", "[", "{#", "---\n", "- ", "\r\n", "\t", "𝔸é", ": ")
)


def ask(reading: Reading, line: int, column: int) -> None:
    """Ask every rule about a place."""
    text = reading.lines[line] if line < len(reading.lines) else ""
    begin, _ = completions(reading, line, column)
    assert 0 <= begin <= max(column, len(text))
    shown = hover(reading, line, column)
    assert shown is None or shown.span.column <= shown.span.end
    targets = [*definition(reading, line, column), *references(reading, line, column)]
    for each in targets:
        assert each.path.is_file()
        assert each.span.line < len(lines_of(reading.project.text(each.path)))
    last = len(reading.lines) - 1
    for symbol in symbols(reading.text, is_template=reading.path.suffix == ".j2"):
        assert 0 <= symbol.range.start.line <= symbol.selection_range.start.line <= last
        assert symbol.range.start.line <= symbol.range.end.line <= last


def ask_about_any_place(data: st.DataObject, files: list[Path]) -> None:
    """Ask every rule about a place of one of some files, or of a file in the middle of an edit."""
    path = data.draw(st.sampled_from(files))
    text = path.read_text()
    at = data.draw(st.integers(0, len(text)))
    if data.draw(st.booleans()):
        text = text[:at] + data.draw(PIECES) + text[at + data.draw(st.integers(0, 30)) :]
    before = lines_of(text[:at])
    ask(Reading(project=project_of(path), path=path, text=text), len(before) - 1, len(before[-1]))


SLOW_TEXTS = (HealthCheck.too_slow, HealthCheck.data_too_large)


@settings(max_examples=15, deadline=None, suppress_health_check=SLOW_TEXTS)
@given(data=st.data())
def test_every_place_of_a_file_has_an_answer(data: st.DataObject) -> None:
    ask_about_any_place(data, SMALL)


@pytest.mark.exhaustive
@settings(max_examples=150, deadline=None, suppress_health_check=SLOW_TEXTS)
@given(data=st.data())
def test_every_place_of_every_file_has_an_answer(data: st.DataObject) -> None:
    ask_about_any_place(data, FILES)


@given(line=st.text(st.characters(exclude_characters="\r\n", exclude_categories=())), data=st.data())
def test_a_position_leads_to_its_column_and_back(line: str, data: st.DataObject) -> None:
    column = data.draw(st.integers(0, len(line)))
    for encoding in (UTF_8, UTF_16, UTF_32):
        assert column_of(line, units(line[:column], encoding), encoding) == column
    assert column_of(line, units(line) + 5) == len(line)
    assert column_of(line, -1) == 0


def test_positions_count_units_of_utf_16_unless_the_client_wants_others() -> None:
    assert [units("𝔸é", each) for each in (UTF_8, UTF_16, UTF_32)] == [6, 3, 2]
    assert column_of("𝔸é", 1) == 0  # within a character
    assert column_of("𝔸é", 2) == 1


def test_a_line_ends_as_the_protocol_says() -> None:
    assert lines_of("a\r\nb\rc\nd\u2028e\f") == ["a", "b", "c", "d\u2028e\f"]
