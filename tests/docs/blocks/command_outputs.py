"""The outputs of commands that the pages of docs/commands show. The test of each command compares what it prints.

A transcript shows what a command prints in the repository. These outputs come from other templates.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.docs.blocks import pages
from tests.docs.blocks.pages import Block, blocks

PAGES = tuple(page for page in pages.PAGES if page.startswith("docs/commands/"))

BEGINNINGS: Mapping[str, str] = {
    "blame": "deployment.yaml.j2:",
    "check": "templates/echoes.example.com/deployment.yaml.j2:",
    "coverage": "templates/echoes.example.com/a.yaml.j2:",
    "explore": "echoes.example.com: ",
    "graph": "Echo default/hello\n",
    "render": "examples/echo.yaml:",
}
"""How the output of each command begins."""


def shown(command: str) -> Block:
    """The block with the output of a command."""
    found = [block for page in PAGES for block in blocks(page) if block.text.startswith(BEGINNINGS[command])]
    (block,) = (block for block in found if block.language == "text")
    return block
