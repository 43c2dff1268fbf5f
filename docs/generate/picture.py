"""Makes the picture of the screen of `ssa-operator dev`, from a session in a terminal on a real control plane.

Promises:
- The picture shows what the terminal showed: characters, colours and reverse video of each cell.
- The picture refers to nothing outside of itself.
"""

from __future__ import annotations

import io
import itertools
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyte
from rich.console import Console
from rich.style import Style
from rich.text import Text

from docs.generate.transcripts import ROOT
from tests.cli.terminal import terminal

PICTURE = ROOT / "docs" / "dev.svg"

COLUMNS, LINES = 100, 24

_TREE = ("all ready", "Echo default/hello Ready", "Pod default/hello", "Ready Echo/hello: ")
"""What the screen has to show before the picture is taken: the last Event says that the Echo is ready."""

_FONT_FACES = re.compile(r"\s*@font-face \{.*?\}\n", re.DOTALL)
"""The fonts that rich's SVG loads from the web. Without them the reader's own monospaced font is used."""


async def taken() -> str:
    """The picture of the Echo of the examples, as SVG."""
    with tempfile.TemporaryDirectory() as state:
        arguments = ("dev", "--examples=examples/echo.yaml", "--listen=")
        environment = {"SSA_OPERATOR_STATE_DIR": state}
        async with terminal(*arguments, columns=COLUMNS, lines=LINES, **environment) as shown:
            for words in _TREE:  # each may take as long as a test waits
                await shown.shows(words)
            picture = svg(shown.screen, instead={state: _USUAL_STATE})
            shown.press("q")
            await shown.ended()
    return picture


_USUAL_STATE = "~/.local/state/ssa-operator"
"""Where users have the state of local clusters, in place of the folder of this session."""


def svg(
    screen: pyte.Screen, title: str = "ssa-operator dev", name: str = "dev", instead: Mapping[str, str] | None = None
) -> str:
    """What a terminal shows, as SVG. The names of its styles begin with `name`; `instead` has texts for others."""
    console = Console(record=True, width=screen.columns, file=io.StringIO(), force_terminal=True)
    for number in range(screen.lines):
        line = Text(no_wrap=True)
        cells = (screen.buffer[number][column] for column in range(screen.columns))
        for style, same in itertools.groupby(cells, _style):
            text = "".join(cell.data for cell in same)
            for shown, usual in (instead or {}).items():
                text = text.replace(shown, usual)
            line.append(text, style)
        console.print(line)
    drawn = console.export_svg(title=title, unique_id=name)
    # Some programs drop the blanks at the beginning of a text, which indent the tree.
    drawn = drawn.replace("<svg ", '<svg xml:space="preserve" ', 1)
    return "\n".join(line.rstrip() for line in _FONT_FACES.sub("", drawn).splitlines()) + "\n"


def _style(cell: pyte.screens.Char) -> Style:
    return Style(color=_color(cell.fg), bold=cell.bold, reverse=cell.reverse)


def _color(name: str) -> str | None:
    """rich's name of a colour of pyte, None for the terminal's own."""
    if name == "default":
        return None
    if re.fullmatch("[0-9a-f]{6}", name):
        return f"#{name}"
    name = name.replace("brown", "yellow")
    return f"bright_{name.removeprefix('bright')}" if name.startswith("bright") else name


def write(picture: str, path: Path = PICTURE) -> None:
    """Write the picture into the docs."""
    path.write_text(picture, encoding="utf-8")
