"""The author of a parent learns nothing of a Secret by guesses: right and wrong ones look alike."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from tests.operator.harness import ECHOES, Desk, Operate, echo, only, ready_condition, shown

pytestmark = pytest.mark.cluster

RIGHT = "correct-horse-42"
GUESSES = [RIGHT, f"x{RIGHT}", f"{RIGHT[:6]}…", "wrongly-horse-43", "xwrongly-horse-43", "wrongl…"]
"""The right ones first, then as many wrong ones of the same form."""

READS = "{% set pw = lookup('v1', 'Secret', 'vault').data.pw | b64decode %}\n{% set guess = annotations.guess %}\n"
COPY = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: '{{ name }}-copy'\nstringData:\n  pw: '{{ pw }}'\n"
CONFIG = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: tried\n"

CHANNELS = {
    "an error of a template": READS + COPY + CONFIG + "data:\n  a: '{{ expired(guess) }}'\n",
    "a missing field": READS + COPY + CONFIG + "data:\n  a: '{{ spec[guess] }}'\n",
    "an answer about a manifest without the Secret": READS + COPY + CONFIG + "  labels: {a: '{{ guess }}!'}\n",
    "an answer about a manifest with the Secret": READS
    + CONFIG
    + "  labels: {a: '{{ guess }}!'}\ndata: {a: '{{ pw }}'}\n",
    "an instruction": READS + COPY + CONFIG + "  annotations:\n    ssa-operator.dev/recreate: '{{ guess }}'\n",
    "the name of an object": READS
    + COPY
    + CONFIG
    + "data:\n  a: {{ lookup('v1', 'ConfigMap', guess | lower).data.a }}\n",
}


@pytest.fixture
async def folder(desk: Desk, templates: Path) -> Path:
    """The empty folder of an Echo's templates, beside a Secret that they read."""
    await desk.kubectl("create", "secret", "generic", "vault", f"--from-literal=pw={RIGHT}")
    return only(templates) / ECHOES


def guessing(name: str, guess: str) -> dict[str, Any]:
    body = echo(name)
    body["metadata"]["annotations"] = {"guess": guess}
    return body


@pytest.mark.more_cases
@pytest.mark.parametrize("channel", CHANNELS)
async def test_right_and_wrong_guesses_look_alike(channel: str, desk: Desk, operate: Operate, folder: Path) -> None:
    (folder / "a.yaml.j2").write_text(CHANNELS[channel])
    messages = []
    async with operate() as running:
        for at, guess in enumerate(GUESSES):
            await desk.apply(guessing(f"web-{at}", guess))
            found = await desk.until(ECHOES, f"web-{at}", lambda body: bool(ready_condition(body).get("message")))
            await desk.delete(ECHOES, f"web-{at}")
            await desk.gone(ECHOES, f"web-{at}")
            messages.append(without(guess, f"web-{at}", ready_condition(found)["message"]))
        assert RIGHT not in shown(running)
    assert len(set(messages[:3])) == len(set(messages)), messages


def without(guess: str, name: str, message: str) -> str:
    """A message in which one word stands for the guess, and another one for the parent."""
    return message.replace(guess, "GUESS").replace(guess.lower(), "GUESS").replace(name, "PARENT")


async def test_a_guess_in_the_status_is_shown_whether_it_is_right_or_wrong(
    desk: Desk, operate: Operate, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ssa_operator")
    (folder / "a.yaml.j2").write_text(READS + COPY)
    (folder / "_status.yaml.j2").write_text(
        "{% if lookup('v1', 'Secret', 'vault').data.pw is defined %}\n"
        "conditions: [{type: Guessed, status: 'True', reason: Guess, message: '{{ annotations.guess }}'}]\n"
        "{% endif %}\n"
        "phase: '{{ lookup('v1', 'Secret', 'vault').data.pw | b64decode }}'\n"
    )
    async with operate():
        for at, guess in enumerate(GUESSES):
            found = await desk.apply_until_ready(guessing(f"web-{at}", guess))
            (guessed,) = (each for each in found["status"]["conditions"] if each["type"] == "Guessed")
            assert guessed["message"] == guess
            assert "status.phase is left out" in ready_condition(found)["message"]
