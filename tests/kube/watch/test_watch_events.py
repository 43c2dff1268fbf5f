import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.kube.watch import watch_events as watch_lines
from ssa_operator.kube.watch.watch_events import LineError, LineSplitter


@given(st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line)), st.data())
def test_however_the_stream_is_cut_the_lines_are_the_same(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    reader = LineSplitter()
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [line for piece in pieces for line in reader.feed(piece)] == lines


def test_half_a_line_is_not_a_line() -> None:
    reader = LineSplitter()
    assert reader.feed(b'{"a":') == []
    assert reader.feed(b"1}\n{") == [b'{"a":1}']


def test_a_line_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_lines, "LINE_LIMIT", 10)
    reader = LineSplitter()
    assert reader.feed(b"123456\n789") == [b"123456"]
    assert reader.feed(b"1234567") == []
    with pytest.raises(LineError, match="larger than"):
        reader.feed(b"8")


def test_empty_lines_are_left_out() -> None:
    assert LineSplitter().feed(b"\n\na\n\n") == [b"a"]
