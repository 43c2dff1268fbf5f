"""Draws the diagrams of the documentation: each `docs/diagrams/*.dot` as an SVG image beside it.

No test compares the images byte by byte: their layout depends on the fonts of the machine.
"""

from __future__ import annotations

from pathlib import Path

import pygraphviz

FOLDER = Path(__file__).parents[1] / "diagrams"


def write() -> None:
    """Draw all diagrams."""
    for source in sorted(FOLDER.glob("*.dot")):
        pygraphviz.AGraph(filename=str(source)).draw(str(source.with_suffix(".svg")), prog="dot")
