"""Beginner's mistakes in `dev`: the first line that its screen has about each one is enough to correct it.

One `dev` has all mistakes at once: each in a folder, a CRD and a namespace of its own. A refused CRD, or an example of
an unknown kind, may explain what is wrong with any other folder, so these mistakes are in a `dev` of their own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.terminal import terminal
from tests.cli.write.test_mistakes import FILES, MISTAKES, NAMES, Mistake, write
from tests.operator.harness import PATIENCE

pytestmark = [pytest.mark.cluster, pytest.mark.exhaustive]

ALL = tuple((f"m{number:02}", mistake) for number, mistake in enumerate(MISTAKES))
OF_KINDS = tuple(each for each in ALL if each[1].file == "crd" or each[1].what == "an example of a kind with a typo")
OTHERS = tuple(each for each in ALL if each not in OF_KINDS)


def files(key: str, mistake: Mistake) -> dict[str, str]:
    """The project with a mistake, whose names have the key."""
    name = NAMES.get(mistake.file, mistake.file)
    text = FILES.get(name, "")
    changed = text.replace(mistake.before, mistake.after, 1) if mistake.before else text + mistake.after
    project = {**FILES, name: changed}
    # The lines below it keep their number.
    project[NAMES["example"]] = project[NAMES["example"]].replace("metadata:\n", f"metadata: # {key}\n")
    return {
        re.sub("^(crds|examples)/", rf"\1/{key}-", path).replace("example.com", f"{key}.example.com"): text.replace(
            "example.com", f"{key}.example.com"
        ).replace("hello", f"hello-{key}")
        for path, text in project.items()
    }


def without_key(line: str) -> str:
    """A line as it is in a project that has this mistake alone."""
    return re.sub(r"(?<![a-z])m\d\d[.-]|-m\d\d\b", "", line)


def shown_lines(text: str, folder: Path) -> list[str]:
    """The lines of an opened text; those that go on in the next line of the screen are joined."""
    found: list[str] = []
    for line in text.replace(f"{folder}/", "").splitlines()[1:]:
        if line.startswith("  ") and found:
            found[-1] += f" {line.strip()}"
        elif line.strip():
            found.append(line.rstrip())
    return found


def first_about(key: str, mistake: Mistake, lines: Sequence[str]) -> str:
    # The name of a folder without a group has no key.
    words = "templates/sites;" if mistake.what == "a folder without a group" else rf"\b{key}\b"
    return next((without_key(line) for line in lines if re.search(words, line)), "")


@pytest.mark.parametrize("mistakes", [OTHERS, OF_KINDS], ids=["templates and examples", "CRDs and kinds"])
async def test_the_first_line_on_the_screen_is_enough_to_correct_a_mistake(
    tmp_path: Path, mistakes: Sequence[tuple[str, Mistake]]
) -> None:
    for key, mistake in mistakes:
        write(tmp_path, files(key, mistake))
    state = str(tmp_path / "state")
    arguments = [f"--{name}={tmp_path / name}" for name in ("templates", "crds", "examples")]

    def unclear(text: str) -> dict[str, tuple[str, list[str]]]:
        """The mistakes whose first line lacks words, which are beside it."""
        lines = shown_lines(text, tmp_path)
        first = {mistake: first_about(key, mistake, lines) for key, mistake in mistakes}
        return {
            mistake.what: (line, missing)
            for mistake, line in first.items()
            if (missing := [each for each in mistake.words if each not in line])
        }

    async with terminal("dev", *arguments, "--listen=", columns=200, lines=320, SSA_OPERATOR_STATE_DIR=state) as shown:
        await shown.shows(" errors", ": error: ")
        # A text stays as it was opened, and errors go on coming for a while: it is opened until all of them are there.
        missing: dict[str, tuple[str, list[str]]] = {}
        try:
            async with asyncio.timeout(PATIENCE):
                while missing or not shown.text.startswith("Errors and Events"):
                    shown.press("v")
                    missing = unclear(await shown.shows("Errors and Events, newest first", "q back"))
                    if missing:
                        shown.press("q")
                        await shown.hides("newest first")
        except TimeoutError:
            raise AssertionError(f"the screen doesn't say enough: {missing}") from None
        shown.press("q")
        shown.press("q")
        assert await shown.ended() == 0
