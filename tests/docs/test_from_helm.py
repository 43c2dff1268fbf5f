"""The three charts of the page about Helm: `new` prints and writes what the page shows.

Each chart has a block with its manifests, the command, lines that it prints, and parts of files that it writes, whose
names the text before has.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.process import run
from tests.docs.blocks.pages import Block, blocks
from tests.packaging.checkout import ROOT

PAGE = "docs/from-helm.md"
_LINES = (ROOT / PAGE).read_text(encoding="utf-8").splitlines()


def _charts() -> dict[str, list[Block]]:
    """The blocks of each chart, by its heading."""
    first, end = _LINES.index("## Three charts"), _LINES.index("## What becomes of each kind of thing")
    headings = [at for at in range(first, end) if _LINES[at].startswith("### ")]
    return {
        _LINES[at].removeprefix("### "): [block for block in blocks(PAGE) if at < block.line <= after]
        for at, after in zip(headings, [*headings[1:], end], strict=True)
    }


CHARTS = _charts()
READ = {block for found in CHARTS.values() for block in found}
"""The blocks of the page that these tests read."""


@pytest.mark.parametrize("chart", CHARTS)
async def test_new_makes_of_a_chart_what_the_page_shows(chart: str, tmp_path: Path) -> None:
    manifests, command, output, *written = CHARTS[chart]
    words = shlex.split(command.text.partition("|")[2])
    code, out, err = await run(*words[1:], f"--templates={tmp_path / 'templates'}", stdin=manifests.text)
    assert code == 0, err
    printed = {line.replace(f"{tmp_path}/", "") for line in (out + err).splitlines()}
    assert set(output.text.splitlines()) <= printed
    text = "\n".join(_LINES[manifests.line : written[-1].line])
    names = re.findall(r"`((?:templates|tests)/[^`]+)`", text)
    texts = [(tmp_path / name).read_text(encoding="utf-8") for name in names]
    assert texts
    assert [block for block in written if not any(block.text in text for text in texts)] == []
