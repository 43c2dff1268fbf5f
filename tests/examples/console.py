"""The commands that a README tells its reader to type, and what it says that they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_START = re.compile(r"^ssa-operator dev .*--examples (\S+)$", re.MULTILINE)

_PASSING = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z"), "<time>"),
    (re.compile(r"\b(?:\d+\.){3}\d+\b"), "<address>"),
    (re.compile(r"\b(?:\d+[dhms])+\b"), "<age>"),
    (re.compile(r"[ \t]+"), " "),
)
"""What another run prints otherwise: moments, addresses, ages, and the width of their columns."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command and the output that the page shows."""

    text: str
    output: str


def resource(page: Path) -> str:
    """The file whose objects the first command applies."""
    (found,) = _START.findall(page.read_text(encoding="utf-8"))
    return str(found)


def commands(page: Path) -> Iterator[Command]:
    """All commands of a page, in order."""
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            text, _, output = part.partition("\n")
            yield Command(text, output)


def lasting(output: str) -> list[str]:
    """The lines of an output without what differs from run to run."""
    for pattern, word in _PASSING:
        output = pattern.sub(word, output)
    return [line.strip() for line in output.splitlines()]
