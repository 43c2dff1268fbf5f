"""Which test reads each code block of the pages.

Promises:
- The first reader of READERS that reads a block checks it. A block without a reader is a mistake.
- What another test reads is known by what that test names itself: `READ` has its blocks.
- Each run of words of a quoted message, between names, numbers and punctuation, is in a text of the operator's source.
"""

from __future__ import annotations

import ast
import functools
import importlib
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import promql_parser

from docs.generate import transcripts
from tests.docs.blocks import commands, manifests
from tests.docs.blocks.pages import INDENTED, PAGES, Block, blocks
from tests.packaging.checkout import ROOT

COMMANDS = ("sh", INDENTED)
"""The languages of blocks with commands that a reader types."""

HOLE = "\0"
"""Stands for a value in a text."""

OTHER_TEXTS = (
    "to be known",
    "Job has reached the specified backoff limit",
    f"back-off {HOLE} restarting failed container",
    f"{HOLE} is forbidden: User {HOLE} cannot {HOLE} resource {HOLE} in API group {HOLE} in the namespace {HOLE}",
    f"create Pod {HOLE} in StatefulSet {HOLE} failed error: error looking up service account {HOLE}: {HOLE} not found",
    f"{HOLE} is invalid: Required value: updates to statefulset spec for fields other than {HOLE} are forbidden",
)
"""What pages quote of Kubernetes, and what is joined of two texts."""

_NAMES = re.compile(r"\b(?:main|platform|pods|pull|registry|replicas|secrets)\b")
"""Names in quoted messages that look like words of prose."""

_RUN = re.compile(r"(?<![^\s(])[a-z][a-z']*(?: [a-z][a-z']*)*(?=[),;:.]*(?:\s|$))")


class Reader(NamedTuple):
    """A way to check blocks: what it takes a block for, whether it reads one, and what is wrong with that."""

    name: str
    reads: Callable[[Block], bool]
    mistakes: Callable[[Block], Sequence[str]]


def reader_of(block: Block) -> Reader | None:
    """The reader that checks a block."""
    return next((reader for reader in READERS if reader.reads(block)), None)


@functools.cache
def read_by_other_tests() -> frozenset[Block]:
    """The blocks that tests of single pages compare with what the operator does, and files that transcripts save."""
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    found = [path.relative_to(ROOT) for path, text in texts.items() if re.search(r"^READ\b.* =", text, re.MULTILINE)]
    modules = [importlib.import_module(".".join(path.with_suffix("").parts)) for path in found]
    files = {text for page in transcripts.pages() for text in transcripts.saved_files(page)}
    saved = (block for page in PAGES for block in blocks(page) if block.text in files)
    return frozenset([*(block for module in modules for block in module.READ), *saved])


def wrong_messages(block: Block) -> list[str]:
    """The runs of words of a block that the operator doesn't print."""
    runs = _RUN.findall(_NAMES.sub("X", block.text))
    return [f"the operator prints no such message: {run}" for run in runs if not _is_text(run.split())]


def _is_text(words: list[str]) -> bool:
    """Whether a text of the source has these words. A value takes the place of at most every third one."""
    pattern = rf"(?<![a-z]){' '.join(f'(?:{word}|{HOLE})' for word in words)}(?![a-z])"
    return any(3 * found.count(HOLE) <= len(words) for found in re.findall(pattern, "\n".join(source_texts())))


@functools.cache
def source_texts() -> frozenset[str]:
    """The texts of the operator's source, with a hole for each value that is put in."""
    found = {*OTHER_TEXTS}
    for path in (ROOT / "ssa_operator").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        docstrings = {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                found.add("".join(str(each.value) if isinstance(each, ast.Constant) else HOLE for each in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docstrings:
                found.add(re.sub(r"%[sdrg]", HOLE, node.value))
    return frozenset(found)


def _dockerfile(text: str) -> None:
    """Raises ValueError for a Dockerfile that copies what the repository doesn't have."""
    for instruction, source, *_ in (line.split() for line in text.splitlines()):
        if instruction not in ("FROM", "COPY") or (instruction == "COPY" and not (ROOT / source).exists()):
            raise ValueError(f"the tests know no {instruction}, or there is no {source}")


PARSERS: dict[str, Callable[[str], Any]] = {
    "Dockerfile": _dockerfile,
    "json": json.loads,
    "promql": promql_parser.parse,
}
"""What parses a block of each language that only has to be well-formed. Raises ValueError if it isn't."""


def _unparsed(block: Block) -> Sequence[str]:
    try:
        PARSERS[block.language](block.text)
    except ValueError as error:
        return [str(error)]
    return []


def _others(block: Block) -> Sequence[Block]:
    """The other blocks of the page that the same reader checks."""
    return [each for each in blocks(block.page) if each != block and reader_of(each) == reader_of(block)]


READERS = (
    Reader("a block of another test", lambda each: each in read_by_other_tests(), lambda _: ()),
    Reader(
        "a transcript",
        lambda each: each.language == "console",
        lambda each: ["no test types this"] * (each.text[:2] != "$ "),
    ),
    Reader("commands", lambda each: each.language in COMMANDS, lambda each: commands.mistakes(each, _others(each))),
    Reader("a template", manifests.is_template, lambda each: manifests.wrong_templates(each, _others(each))),
    Reader("YAML", lambda each: each.language == "yaml", manifests.wrong_yaml),
    Reader("messages of the operator", lambda each: each.language == "text", wrong_messages),
    Reader("a text that a parser reads", lambda each: each.language in PARSERS, _unparsed),
)
"""What checks blocks, in this order."""
