"""docs/editors.md: the configurations of editors, and what hover shows."""

from __future__ import annotations

import json
import tomllib

import pytest

from ssa_operator.tools.editor.expression_types import Reading
from ssa_operator.tools.editor.hover import hover
from tests.docs.blocks.pages import Block, blocks
from tests.operator.harness import ROOT
from tests.tools.editor.projects import project_of

READ = [block for block in blocks("docs/editors.md") if block.language != "sh"]
"""The blocks of pages that these tests read."""
HOVER, VS_CODE, NEOVIM, HELIX, EMACS = READ

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


def test_hover_shows_what_the_page_says() -> None:
    path = ROOT / "templates" / "echoes.example.com" / "deployment.yaml.j2"
    text = path.read_text(encoding="utf-8")
    line = text[: text.index("{{ spec.replicas")].count("\n")
    column = text.split("\n")[line].rindex("replicas")
    found = hover(Reading(project=project_of(path), path=path, text=text), line, column)
    assert found is not None
    assert found.markdown.replace("```yaml\n", "").replace("\n```", "") == HOVER.text.rstrip()
