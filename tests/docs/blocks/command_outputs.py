"""The outputs of commands that docs/commands.md shows. The test of each command compares what it prints.

A transcript shows what a command prints in the repository. These outputs come from other templates.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.docs.blocks.pages import Block, blocks

PAGE = "docs/commands.md"

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
    found = [block for block in blocks(PAGE) if block.text.startswith(BEGINNINGS[command])]
    (block,) = (block for block in found if block.language == "text")
    return block
