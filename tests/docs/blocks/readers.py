"""Which test reads each code block of the pages.

Promises:
- The first reader of READERS that reads a block checks it. A block without a reader is a mistake.
- What another test reads is known by what that test names itself: `READ` has its blocks.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import promql_parser

from docs.generate import command_pages, transcripts
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.parent_records.rules import (
    INVENTORY_ANNOTATION,
    parent_records_body,
    read_parent_records,
    unreadable_records_message,
)
from tests.cli.test_manners import COMMANDS
from tests.docs import (
    test_cookbook,
    test_editors,
    test_from_helm,
    test_gitops,
    test_readme,
    test_side_by_side,
    test_templates,
)
from tests.docs.blocks import command_outputs, page_templates, programs, quoted_messages, typed_commands, yaml_blocks
from tests.docs.blocks.pages import Block
from tests.docs.blocks.typed_commands import tracked, typed
from tests.operator.admission import test_admission
from tests.packaging.checkout import ROOT

OTHER_TESTS = (
    test_admission,
    test_cookbook,
    test_editors,
    test_from_helm,
    test_gitops,
    test_readme,
    test_side_by_side,
    test_templates,
)
"""The tests of single pages."""

READ_BY_OTHER_TESTS = frozenset(block for test in OTHER_TESTS for block in test.READ)


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


def _is_language(language: str) -> Callable[[Block], bool]:
    return lambda block: block.language == language


def _checked_elsewhere(_: Block) -> Sequence[str]:
    """Nothing: another test compares the block with what the operator does."""
    return ()


@functools.cache
def _transcripts() -> dict[str, tuple[list[str], list[str]]]:
    """The commands and the saved files of each page whose transcripts are played."""
    return {
        page.relative_to(ROOT).as_posix(): (
            [str(command) for command in transcripts.commands(page)],
            transcripts.saved_files(page),
        )
        for page in transcripts.pages()
    }


def _pages_played(page: str) -> list[str]:
    """The pages whose transcripts are those of a page: of a page in docs/commands, the ones that it is made from."""
    if (ROOT / page).parent == transcripts.GENERATED:
        folder = command_pages.PROSE.relative_to(ROOT).as_posix()
        return [each for each in _transcripts() if each.startswith(f"{folder}/{Path(page).stem}")]
    return [page] if page in _transcripts() else []


def _unplayed(block: Block) -> Sequence[str]:
    played = {command for page in _pages_played(block.page) for command in _transcripts()[page][0]}
    shown = re.split(r"^(?=\$ )", block.text, flags=re.MULTILINE)
    return [f"no test types this: {each}" for each in shown if each and each not in played]


def _is_saved(block: Block) -> bool:
    return any(block.text in _transcripts()[page][1] for page in _pages_played(block.page))


def _is_output(block: Block) -> bool:
    return block in [command_outputs.shown(command) for command in command_outputs.BEGINNINGS]


def _is_usage(block: Block) -> bool:
    usages = (command_pages.usage(command, ("ssa-operator", *words)) for words, command in COMMANDS.items())
    return (ROOT / block.page).parent == command_pages.FOLDER and block.language == "" and block.text.strip() in usages


def _wrong_commands(block: Block) -> Sequence[str]:
    return programs.mistakes(typed(block.page)[block], typed(block.page).values())


def _is_line_of_example(block: Block) -> bool:
    """Whether a page of an example shows a part of the example's templates."""
    return Path(block.page).parts[0] == "examples" and block.language == "yaml" and not yaml_blocks.is_whole(block)


def _not_in_example(block: Block) -> Sequence[str]:
    folder = (ROOT / block.page).parent / "templates"
    lines = {line.strip() for path in folder.rglob("*.j2") for line in path.read_text(encoding="utf-8").splitlines()}
    return [
        f"no template of the example has this line: {line}"
        for line in block.text.splitlines()
        if line.strip() not in lines
    ]


def _wrong_templates(block: Block) -> Sequence[str]:
    return page_templates.rendered_page(block.page, READ_BY_OTHER_TESTS).mistakes[block]


def _wrong_python(block: Block) -> Sequence[str]:
    """Python is a part of a module that the page names."""
    try:
        compile(block.text, str(block), "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        return [str(error)]
    named = re.findall(r"`([\w/]+\.py)`", block.before)
    texts = [(ROOT / "ssa_operator" / path).read_text(encoding="utf-8") for path in named]
    shown = "".join(block.text.split())
    if any(shown in "".join(text.split()) for text in texts):
        return ()
    return [f"{' and '.join(named) or 'no module'} before the block has these lines"]


def _wrong_json(block: Block) -> Sequence[str]:
    """JSON is the inventory of a parent, as the operator writes it."""
    try:
        json.loads(block.text)
    except json.JSONDecodeError as error:
        return [str(error)]
    if INVENTORY_ANNOTATION not in block.before:
        return ["the line before names no annotation that holds this"]
    text = block.text.strip()
    metadata = {"name": "web", "namespace": "default", "uid": "u", "annotations": {INVENTORY_ANNOTATION: text}}
    parent = LiveObject.of({"apiVersion": "example.com/v1", "kind": "Echo", "metadata": metadata})
    if problem := unreadable_records_message(parent):
        return [problem]
    written = parent_records_body(parent, read_parent_records(parent))["metadata"]["annotations"][INVENTORY_ANNOTATION]
    return [] if written == text else [f"the operator writes {written}"]


def _wrong_promql(block: Block) -> Sequence[str]:
    try:
        promql_parser.parse(block.text)
    except ValueError as error:
        return [str(error)]
    return []


def _wrong_dockerfile(block: Block) -> Sequence[str]:
    """A Dockerfile copies files of the repository onto an image."""
    found = []
    for line in block.text.splitlines():
        instruction, _, rest = line.partition(" ")
        if instruction not in ("FROM", "COPY"):
            found.append(f"the tests know no instruction {instruction}")
        if instruction == "COPY" and not any(path.startswith(f"{rest.split()[0]}/") for path in tracked()):
            found.append(f"there is no {rest.split()[0]}")
    return found


READERS: tuple[Reader, ...] = (
    Reader("a transcript that is played", _is_language("console"), _unplayed),
    Reader("a file that a transcript saves", _is_saved, _checked_elsewhere),
    Reader("an example or a text of another test", lambda block: block in READ_BY_OTHER_TESTS, _checked_elsewhere),
    Reader("the output of a command in its test", _is_output, _checked_elsewhere),
    Reader("the usage of a command", _is_usage, _checked_elsewhere),
    Reader("commands", typed_commands.holds_commands, _wrong_commands),
    Reader("a line of an example", _is_line_of_example, _not_in_example),
    Reader("a template", page_templates.is_template, _wrong_templates),
    Reader("YAML", _is_language("yaml"), yaml_blocks.mistakes),
    Reader("messages of the operator", _is_language("text"), quoted_messages.mistakes),
    Reader("Python", _is_language("python"), _wrong_python),
    Reader("JSON", _is_language("json"), _wrong_json),
    Reader("PromQL", _is_language("promql"), _wrong_promql),
    Reader("a Dockerfile", _is_language("Dockerfile"), _wrong_dockerfile),
)
"""What checks blocks, in this order."""
