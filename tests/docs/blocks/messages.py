"""Recognizes what pages quote of the operator: each run of words between names, numbers and punctuation is a part of a
text of its source, or of Kubernetes.
"""

from __future__ import annotations

import ast
import functools
import re

from tests.docs.blocks.pages import Block
from tests.packaging.checkout import ROOT

HOLE = "\0"
"""Stands for a value in a text."""

KUBERNETES = (
    "Job has reached the specified backoff limit",
    f"back-off {HOLE} restarting failed container",
    f"{HOLE} is forbidden: User {HOLE} cannot {HOLE} resource {HOLE} in API group {HOLE} in the namespace {HOLE}",
    f"create Pod {HOLE} in StatefulSet {HOLE} failed error: error looking up service account {HOLE}: {HOLE} not found",
    f"{HOLE} is invalid: Required value: updates to statefulset spec for fields other than {HOLE} are forbidden",
)
"""Messages of Kubernetes that pages quote."""

_RUN = re.compile(r"(?<![^\s(])[a-z][a-z']+(?: [a-z][a-z']+)*(?=[),;:.]*(?:\s|$))")
_NAMES = re.compile(r"\b(?:pods|secrets|pull|registry)\b")
"""Names in quoted messages that look like words of prose."""


def mistakes(block: Block) -> list[str]:
    """The runs of words of a block that the operator doesn't print."""
    runs = _RUN.findall(_NAMES.sub("X", block.text))
    return [f"the operator prints no such message: {run}" for run in runs if not _is_text(run)]


@functools.cache
def _is_text(run: str) -> bool:
    """Whether a text of the source has these words. A value takes the place of at most every second one."""
    words = run.split()
    pattern = "".join((r"(?<![a-z])", " ".join(f"(?:{word}|{HOLE})" for word in words), r"(?![a-z])"))
    return any(2 * found.count(HOLE) <= len(words) for found in re.findall(pattern, "\n".join(source_texts())))


@functools.cache
def source_texts() -> frozenset[str]:
    """The texts of the operator's source, with a hole for each value that is put in."""
    found = {*KUBERNETES}
    for path in (ROOT / "ssa_operator").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                found.add("".join(str(each.value) if isinstance(each, ast.Constant) else HOLE for each in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(re.sub(r"%[sdrg]", HOLE, node.value))
    return frozenset(found)
