"""The chart of the page about Helm: `new` prints and writes what the page shows.

The section has a block with manifests, the command, lines that it prints, and parts of files that it writes, whose
names the text before has.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.cli.process import run
from tests.docs.blocks.pages import blocks
from tests.packaging.checkout import ROOT

PAGE = "docs/from-helm.md"
_LINES = (ROOT / PAGE).read_text(encoding="utf-8").splitlines()
_FIRST, _END = _LINES.index("## A web application"), _LINES.index("## What becomes of each kind of thing")

MANIFESTS, COMMAND, OUTPUT, *WRITTEN = (block for block in blocks(PAGE) if _FIRST < block.line <= _END)
READ = (MANIFESTS, COMMAND, OUTPUT, *WRITTEN)
"""The blocks of the page that these tests read."""


async def test_new_makes_of_a_chart_what_the_page_shows(tmp_path: Path) -> None:
    words = shlex.split(COMMAND.text.partition("|")[2])
    code, out, err = await run(*words[1:], f"--templates={tmp_path / 'templates'}", stdin=MANIFESTS.text)
    assert code == 0, err
    printed = {line.replace(f"{tmp_path}/", "") for line in (out + err).splitlines()}
    assert set(OUTPUT.text.splitlines()) <= printed
    names = re.findall(r"`(templates/[^`]+)`", "\n".join(_LINES[MANIFESTS.line : WRITTEN[-1].line]))
    texts = [(tmp_path / name).read_text(encoding="utf-8") for name in names]
    assert texts
    assert [block for block in WRITTEN if not any(block.text in text for text in texts)] == []
