"""Messages have a limited length."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.messages import shortened


@given(st.text(), st.integers(1, 50))
def test_a_text_is_shortened_in_its_middle(text: str, limit: int) -> None:
    found = shortened(text, limit)
    assert len(found) == min(len(text), limit)
    head, gap, tail = found.partition("…")
    assert text.startswith(head)
    assert found == text or (gap, text.endswith(found[len(head) + 1 :])) == ("…", True) or "…" in text
    assert len(tail) <= limit
