"""The pictures and the recording show what a terminal and the web view showed."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree as ET

import pyte
import pytest

from docs.generate import picture, recording
from docs.generate.picture import svg
from docs.generate.screenshots import FOLDER, LARGEST, SHOTS

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


SHOWN = (
    "helm template shop ./shop | ssa-operator new Shop",
    "created templates/shops.example.com/deployment.yaml.j2",
    "next: ssa-operator dev",
    "deployment.yaml.j2:8: error undeclared-field",
    "did you mean spec.deployment.replicas?",
    "ok: check found no errors and no warnings",
    "StatefulSet",
)
"""What a viewer sees, in this order."""


def frames(picture: str) -> list[str]:
    groups = [each for each in ET.fromstring(picture) if each.tag == f"{SVG}g"]
    return [texts(ET.tostring(each, encoding="unicode")) for each in groups]


def test_the_recording_has_an_error_and_its_repair() -> None:
    shown = "".join(frames(recording.RECORDING.read_text(encoding="utf-8")))
    at = 0
    for words in SHOWN:
        at = shown.index(words, at)


def test_frames_follow_each_other_and_stay_still_for_those_who_want_it() -> None:
    picture = recording.animated([svg(screen("one")), svg(screen("two"))])
    assert ["one" in each for each in frames(picture)] == [True, False]
    assert "0% { visibility: visible } 50% { visibility: hidden }" in picture
    assert "50% { visibility: visible } 100% { visibility: hidden }" in picture
    assert "prefers-reduced-motion" in picture
    assert "url(" not in picture.replace("url(#", "")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go, which builds helm")
def test_a_recording_shows_what_the_commands_print_today() -> None:
    taken = frames(recording.taken())
    assert taken == frames(recording.RECORDING.read_text(encoding="utf-8")), "run `python -m docs.generate recording`"


def test_each_picture_of_the_web_view_is_small_and_shown() -> None:
    shown = (FOLDER / "web-view.md").read_text(encoding="utf-8")
    pictures = sorted(FOLDER.glob("*.png"))
    assert pictures != []
    for path in pictures:
        assert path.name in SHOTS, path
        picture = path.read_bytes()
        assert picture.startswith(b"\x89PNG"), path
        assert len(picture) <= LARGEST, path
        assert f"]({path.name})" in shown, path
