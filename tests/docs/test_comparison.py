"""The comparison with other tools names its sources."""

from __future__ import annotations

import re

from docs.generate.transcripts import ROOT

PAGE = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")


def test_each_tool_of_the_table_has_a_section_and_both_have_a_source() -> None:
    rows = re.findall(r"^\| \[[^]]+\]\(#([a-z-]+)\) \|(.*)$", PAGE, re.MULTILINE)
    sections = {
        heading.lower().replace(" ", "-"): text
        for heading, text in re.findall(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE)
    }
    assert len(rows) == 8
    assert [name for name, row in rows if "https://" not in row or "https://" not in sections[name]] == []
