"""Go's regular expressions match in Python what they match in Go."""

from __future__ import annotations

import pytest

from ssa_operator.core.objects.go_patterns import go_pattern


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
        ("^(?i)ab|cd$", "CD", None),
        ("^((?i)ab|cd)e$", "CDe", True),
        ("^((?i)ab|cd)e$", "CDE", False),
        ("^(?i)(ab)?$", "AB", True),
        ("(?s)^a.b$", "a\nb", True),
        (r"^\x{61}$", "a", True),
        (r"^\$[$]$", "$$", True),
        ("(?P<name>a)(?<other>b)", "ab", True),
    ],
)
def test_a_pattern_matches_what_go_matches(pattern: str, text: str, matches: bool | None) -> None:
    compiled = go_pattern(pattern)
    assert (None if compiled is None else compiled.search(text) is not None) is matches


@pytest.mark.parametrize("pattern", [r"\pL", r"(a)\1", "a(?=b)", "(?U)a+", "(?m)^a$", "[", r"\Qa\E", "a++", "(?>a)"])
def test_a_pattern_without_translation_is_unknown(pattern: str) -> None:
    assert go_pattern(pattern) is None
