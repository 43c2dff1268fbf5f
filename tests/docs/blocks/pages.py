"""Finds the code blocks of the pages that people read, as GitHub shows them, also in lists."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from markdown_it import MarkdownIt

from docs.generate.site import sources
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import SlotValues
from tests.packaging.checkout import ROOT

PAGES = sorted(source for source in sources() if source.endswith(".md"))
"""The pages by their paths in the repository."""

INDENTED = "indented"
"""The language of a block without a fence. The pages write commands so."""


@dataclass(frozen=True, slots=True)
class Block:
    """A code block of a page."""

    page: str
    """The path of the page in the repository."""
    line: int
    """The first line of the block, its fence included."""
    language: str
    """The word after the fence, '' for none."""
    text: str
    before: str
    """The last line of prose before the block."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def value(self) -> Any:
        """The value of the only YAML document in the block."""
        (value,) = yaml_values(self)
        return value


@functools.cache
def blocks(page: str) -> tuple[Block, ...]:
    """The code blocks of a page, in order; none of a page that doesn't exist."""
    return blocks_of(page, (ROOT / page).read_text(encoding="utf-8")) if (ROOT / page).exists() else ()


def blocks_of(page: str, text: str) -> tuple[Block, ...]:
    """The code blocks of a page with this text."""
    lines, found = text.splitlines(), []
    for token in MarkdownIt("commonmark").parse(text):
        if token.type in ("fence", "code_block") and token.map is not None:
            before = next((line for line in reversed(lines[: token.map[0]]) if line.strip()), "")
            language = token.info.strip() if token.type == "fence" else INDENTED
            found.append(Block(page, token.map[0] + 1, language, token.content, before.strip()))
    return tuple(found)


def yaml_values(block: Block) -> list[Any]:
    """The values of the YAML documents in a block, by the YAML rules of manifests. Raises DocumentError."""
    return [node.build(SlotValues()) for node in parse(StaticText(block.text, str(block)))]


def is_whole(block: Block) -> bool:
    """Whether a block has whole manifests."""
    return re.search(r"^kind:", block.text, re.MULTILINE) is not None
