"""The picture of `ssa-operator dev` shows what its terminal showed."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pyte
import pytest

from docs.generate import picture

SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> str:
    """All text of a picture, in order. A picture has no breaking spaces."""
    return "".join(each.text or "" for each in ET.fromstring(svg).iter(f"{SVG}text")).replace("\xa0", " ")


def screen(output: str) -> pyte.Screen:
    made = pyte.Screen(40, 3)
    pyte.Stream(made).feed(output)
    return made


def test_the_indentation_of_a_tree_stays() -> None:
    drawn = picture.svg(screen("    └── Pod"))
    assert drawn.startswith('<svg xml:space="preserve"')
    assert "&#160;&#160;&#160;&#160;└──&#160;Pod" in drawn


def test_a_picture_has_the_characters_and_colours_of_the_screen() -> None:
    drawn = picture.svg(screen("└── Pod <a>  \x1b[31mFailed\x1b[0m\r\n\x1b[7mq quit\x1b[0m"))
    assert "└── Pod <a>" in texts(drawn)
    assert "Failed" in texts(drawn)
    plain = picture.svg(screen("└── Pod <a>  Failed\r\nq quit"))
    assert drawn.count("fill: ") > plain.count("fill: ")  # red, and the reverse of the text
    assert "<rect fill" in drawn.replace('<rect fill="#292929"', "")


def test_a_picture_refers_to_nothing_outside() -> None:
    drawn = picture.svg(screen("text"))
    assert "url(" not in drawn.replace("url(#", "")
    assert "@font-face" not in drawn


def test_the_picture_of_the_readme_is_one_of_dev() -> None:
    shown = texts(picture.PICTURE.read_text(encoding="utf-8"))
    assert "Echo default/hello" in shown
    assert "q quit" in shown


@pytest.mark.cluster
@pytest.mark.slow
async def test_a_picture_is_taken_from_a_session_of_dev() -> None:
    shown = texts(await picture.taken())
    assert "ssa-operator dev: 1 parent, all ready" in shown
    assert "Ready Echo/hello" in shown
