"""The recording shows how a Helm chart becomes an operator, with a mistake and its repair."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree as ET

import pytest

from docs.generate import recording
from docs.generate.picture import svg
from tests.docs.test_picture import SVG, screen, texts

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
