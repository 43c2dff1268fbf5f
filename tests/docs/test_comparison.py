"""The comparison with other tools names its sources."""

from __future__ import annotations

import re

from docs.generate.transcripts import ROOT

PAGE = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")


def test_each_number_of_the_table_has_a_source() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("|")]
    cited = {number for row in rows for number in re.findall(r"\[(\d+)\](?!\()", row)}
    sources = "\n".join(part for part in PAGE.split("\n\n") if re.match(r"\[\d+\] ", part))
    assert "https://" in sources
    assert cited == set(re.findall(r"\[(\d+)\](?= (?:and )?\[)", sources))


def test_each_tool_of_the_table_has_a_section_with_a_source() -> None:
    rows = re.findall(r"^\| \[[^]]+\]\(#([a-z-]+)\) \|", PAGE, re.MULTILINE)
    sections = {
        heading.lower().replace(" ", "-"): text
        for heading, text in re.findall(r"(?ms)^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE)
    }
    assert len(rows) == 8
    assert [row for row in rows if "https://" not in sections[row]] == []
