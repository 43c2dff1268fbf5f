"""Which test reads each code block of the pages.

Promises:
- The first reader of READERS that reads a block checks it. A block without a reader is a mistake.
- What another test reads is known by what that test names itself: `READ` has its blocks.
"""

from __future__ import annotations

import ast
import functools
import importlib
import json
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import promql_parser

from docs.generate import transcripts
from tests.docs.blocks import commands, messages, templates, yaml_blocks
from tests.docs.blocks.pages import Block, blocks, is_whole
from tests.packaging.checkout import ROOT

PLAYED = {page.relative_to(ROOT).as_posix() for page in transcripts.pages()}
"""The pages whose transcripts are played."""

PARSERS: dict[str, Callable[[str], Any]] = {
    "json": json.loads,
    "promql": promql_parser.parse,
    "python": lambda text: compile(text, "block", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT),
    "toml": tomllib.loads,
}
"""What parses a block of each language that only has to be well-formed."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A way to check blocks."""

    name: str
    """What the reader takes a block for."""
    reads: Callable[[Block], bool]
    mistakes: Callable[[Block], Sequence[str]]
    """What is wrong with a block that it reads."""


def reader_of(block: Block) -> Reader | None:
    """The reader that checks a block."""
    return next((reader for reader in READERS if reader.reads(block)), None)


@functools.cache
def read_by_other_tests() -> frozenset[Block]:
    """The blocks that tests of single pages compare with what the operator does."""
    paths = [
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"^READ\b.* =", path.read_text(), re.MULTILINE)
    ]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    return frozenset(block for name in names for block in importlib.import_module(name).READ)


def _is_saved(block: Block) -> bool:
    return block.page in PLAYED and block.text in transcripts.saved_files(ROOT / block.page)


def _is_line_of_example(block: Block) -> bool:
    return block.page.startswith("examples/") and block.language == "yaml" and not is_whole(block)


def _not_in_example(block: Block) -> Sequence[str]:
    folder = (ROOT / block.page).parent / "templates"
    lines = {line.strip() for path in folder.rglob("*.j2") for line in path.read_text(encoding="utf-8").splitlines()}
    missing = [line for line in block.text.splitlines() if line.strip() not in lines]
    return [f"no template of the example has this line: {line}" for line in missing]


def _on_page(mistakes: Callable[[Block, Sequence[Block]], list[str]]) -> Callable[[Block], list[str]]:
    """A check that sees the other blocks of the page that its reader checks, too."""

    def check(block: Block) -> list[str]:
        others = [each for each in blocks(block.page) if each != block] if (ROOT / block.page).exists() else []
        return mistakes(block, [each for each in others if reader_of(each) == reader_of(block)])

    return check


def _unparsed(block: Block) -> Sequence[str]:
    try:
        PARSERS[block.language](block.text)
    except (SyntaxError, ValueError) as error:
        return [str(error)]
    return []


def _wrong_dockerfile(block: Block) -> Sequence[str]:
    words = [line.split() for line in block.text.splitlines()]
    found = [f"the tests know no instruction {each[0]}" for each in words if each[0] not in ("FROM", "COPY")]
    return [
        *found,
        *(f"there is no {each[1]}" for each in words if each[0] == "COPY" and not (ROOT / each[1]).exists()),
    ]


READERS = (
    Reader(
        "a transcript that is played",
        lambda block: block.language == "console",
        lambda block: [] if block.page in PLAYED and block.text.startswith("$ ") else ["no test types this"],
    ),
    Reader("a file that a transcript saves", _is_saved, lambda _: ()),
    Reader("an example or a text of another test", lambda block: block in read_by_other_tests(), lambda _: ()),
    Reader("commands", commands.holds_commands, _on_page(commands.mistakes)),
    Reader("a line of an example", _is_line_of_example, _not_in_example),
    Reader("a template", templates.is_template, _on_page(templates.mistakes)),
    Reader("YAML", lambda block: block.language == "yaml", yaml_blocks.mistakes),
    Reader("messages of the operator", lambda block: block.language == "text", messages.mistakes),
    Reader("a text that a parser reads", lambda block: block.language in PARSERS, _unparsed),
    Reader("a Dockerfile", lambda block: block.language == "Dockerfile", _wrong_dockerfile),
)
"""What checks blocks, in this order."""
