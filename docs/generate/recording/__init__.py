"""Records how a Helm chart becomes an operator: a session in a terminal, as a moving picture (docs/new.svg).

Promises:
- The picture shows what the commands printed, each below its prompt, with colours.
- The session has an error of a template and its repair.
- The picture refers to nothing outside of itself. A reader who wants no motion sees its last part.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

import pyte

from docs.generate.picture import svg
from docs.generate.transcripts import ROOT
from tests.packaging.helm_build import helm_program

RECORDING = ROOT / "docs" / "new.svg"
CHART = Path(__file__).with_name("shop")
"""What the session begins with: the chart of a web server with its database."""

TEMPLATE = "templates/shops.example.com/deployment.yaml.j2"
SESSION = (
    ("helm template shop ./shop | ssa-operator new Shop --group example.com --from-manifests -",),
    ("ssa-operator check", f"sed -i s/deployment.replicas/deployment.replcas/ {TEMPLATE}", "ssa-operator check"),
    (f"sed -i s/replcas/replicas/ {TEMPLATE}", "ssa-operator check"),
    ("ssa-operator render examples/shop.yaml --output table",),
)
"""The commands of each screen."""

COLUMNS, LINES = 110, 25
SECONDS = 5
"""How long a screen stays."""


def taken() -> str:
    """The moving picture of the session. It needs Go, which builds helm once."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(CHART, Path(folder) / CHART.name)
        screens = [_screen(commands, folder) for commands in SESSION]
    return animated([svg(screen, "ssa-operator new", f"new{at}") for at, screen in enumerate(screens)])


def animated(frames: list[str]) -> str:
    """Pictures of one size that follow each other."""
    box = re.search(r'viewBox="[^"]*"', frames[0])
    assert box is not None
    rules = [".frame { visibility: hidden }"]
    for at in range(len(frames)):
        start, end = (f"{100 * each / len(frames):.4g}%" for each in (at, at + 1))
        hidden = "" if at == 0 else "0% { visibility: hidden } "
        rules.append(
            f"@keyframes frame{at} {{ {hidden}{start} {{ visibility: visible }} {end} {{ visibility: hidden }} }}"
        )
        rules.append(f".frame{at} {{ animation: frame{at} {SECONDS * len(frames)}s step-end infinite }}")
    still = f".frame {{ animation: none }} .frame{len(frames) - 1} {{ visibility: visible }}"
    rules.append(f"@media (prefers-reduced-motion: reduce) {{ {still} }}")
    parts = [f'<g class="frame frame{at}">\n{frame}</g>\n' for at, frame in enumerate(frames)]
    style = "\n".join(rules)
    return f'<svg {box[0]} xmlns="http://www.w3.org/2000/svg">\n<style>\n{style}\n</style>\n{"".join(parts)}</svg>\n'


def _screen(commands: tuple[str, ...], folder: str) -> pyte.Screen:
    """The screen of a terminal in which a user typed these commands."""
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    for command in commands:
        stream.feed(f"$ {command}\r\n".encode() + _output(command, folder))
    return screen


def _output(command: str, folder: str) -> bytes:
    """What a command prints in a terminal, whatever its exit code is."""
    own, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    programs = (Path(sys.executable).parent, helm_program().parent, os.environ["PATH"])
    path = os.pathsep.join(map(str, programs))
    environment = {**os.environ, "TERM": "xterm-256color", "PATH": path}
    with subprocess.Popen(command, shell=True, cwd=folder, env=environment, stdin=its, stdout=its, stderr=its):
        os.close(its)
        output = b""
        while data := _read(own):
            output += data
    os.close(own)
    return output


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # the command has closed its side
        return b""


def write(picture: str, path: Path = RECORDING) -> None:
    """Write the moving picture into the docs."""
    path.write_text(picture, encoding="utf-8")
