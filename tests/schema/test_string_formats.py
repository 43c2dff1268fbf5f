"""The patterns of CRDs match what they match in Go."""

from __future__ import annotations

import pytest

from ssa_operator.schema.string_formats import go_pattern


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        (r"^a\z", "a\n", False),
        (r"^\d+$", "٣", False),
        (r"^\w+$", "é", False),
        ("^[[:alpha:]]+$", "ab", True),
        ("^[[:alpha:]_]+$", "a1", False),
        ("^[^]a]$", "b", True),
        ("^[a&&b]+$", "&", True),
        ("^[[]$", "[", True),
        ("^(?i)ab|cd$", "CD", True),
        ("^((?i)ab|cd)e$", "CDe", True),
        ("^((?i)ab|cd)e$", "CDE", False),
        ("^(?i)(ab)?$", "AB", True),
        ("(?s)^a.b$", "a\nb", True),
        (r"^\x{61}$", "a", True),
        (r"^\$[$]$", "$$", True),
        (r"^\pL+$", "é", True),
        ("(?m)^b$", "a\nb", True),
        (r"^\Qa.b\E$", "a.b", True),
        ("(?P<name>a)(?<other>b)", "ab", True),
    ],
)
def test_a_pattern_matches_what_go_matches(pattern: str, text: str, matches: bool) -> None:
    assert (go_pattern(pattern).search(text) is not None) is matches


@pytest.mark.parametrize("pattern", [r"(a)\1", "a(?=b)", "[", "a++", "(?>a)"])
def test_a_pattern_that_go_refuses_is_unknown(pattern: str) -> None:
    assert go_pattern(pattern) is None
