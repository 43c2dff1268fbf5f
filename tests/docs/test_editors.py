"""docs/editors.md: the configurations of editors."""

from __future__ import annotations

import json
import tomllib

import pytest

from tests.docs.blocks.pages import Block, blocks

READ = [block for block in blocks("docs/editors.md") if block.language != "sh"]
"""The blocks of pages that these tests read."""
VS_CODE, NEOVIM, HELIX, EMACS = READ

COMMAND = ["ssa-operator", "lsp"]


def test_vs_code_and_helix_start_the_command() -> None:
    code = json.loads(VS_CODE.text)
    assert [code["glspc.server.command"], *code["glspc.server.commandArguments"]] == COMMAND
    assert set(code["files.associations"].values()) < set(code["glspc.server.languageId"])
    helix = tomllib.loads(HELIX.text)
    server = helix["language-server"]["ssa-operator"]
    assert [server["command"], *server["args"]] == COMMAND
    assert all("ssa-operator" in each["language-servers"] for each in helix["language"])


@pytest.mark.parametrize(("block", "words"), [(NEOVIM, '"ssa-operator", "lsp"'), (EMACS, '"ssa-operator" "lsp"')])
def test_neovim_and_emacs_start_the_command(block: Block, words: str) -> None:
    assert words in block.text
    for opening, closing in ("()", "{}", "[]"):
        assert block.text.count(opening) == block.text.count(closing)
