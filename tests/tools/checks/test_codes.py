"""The codes of findings, beside their rules."""

from __future__ import annotations

import re
from pathlib import Path

from ssa_operator.tools.checks.codes import CODES


def test_explain_knows_the_code_of_every_rule() -> None:
    written = [
        name
        for file in Path("ssa_operator").rglob("*.py")
        for name in re.findall(r"= Code\.\w+\(\s*\"([^\"]+)\"", file.read_text())
    ]
    assert sorted(written) == [*CODES]


def test_an_earlier_code_has_one_that_replaces_it_and_is_none_itself() -> None:
    earlier = [each for code in CODES.values() for each in code.replaces]
    assert len(earlier) == len(set(earlier))
    assert not set(earlier) & set(CODES)
