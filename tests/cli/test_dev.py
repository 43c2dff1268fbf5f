"""`ssa-operator dev` in a terminal: one screen, with keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.terminal import terminal

pytestmark = pytest.mark.cluster

ECHO = """\
apiVersion: example.com/v1
kind: Echo
metadata: {name: hello}
spec: {replicas: 1}
"""


@pytest.mark.slow
async def test_one_screen_shows_the_tree_events_and_errors_and_its_keys_work(tmp_path: Path, templates: Path) -> None:
    (tmp_path / "echo.yaml").write_text(ECHO)
    arguments = ("dev", f"--templates={templates}", f"--examples={tmp_path / 'echo.yaml'}", "--listen=")
    async with terminal(*arguments, SSA_OPERATOR_STATE_DIR=str(tmp_path / "state")) as shown:
        text = await shown.shows("Echo default/hello  Ready", "ReplicaSet default/hello", "Pod default/hello", "q quit")
        assert text.startswith("ssa-operator dev: 1 parent, all ready")
        await shown.shows("Created Echo/hello: created Deployment default/hello")

        broken = templates / "echoes.example.com" / "broken.yaml.j2"
        broken.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ spec.nothing }}\n")
        await shown.shows("1 not ready", "RenderFailed", "echoes.example.com/broken.yaml.j2:4")
        broken.unlink()
        await shown.shows("all ready")

        shown.press("p")
        await shown.shows("Ready, suspended")
        shown.press("p")
        await shown.hides("suspended")
        shown.press("r")
        await shown.shows("Echo default/hello is applied again")

        shown.press("\x1b[Bb")
        await shown.shows("blame echoes.example.com/hello Deployment/hello", "kind: Deployment", "q back")
        shown.press("q")
        await shown.shows("q quit")
        shown.press("d")
        await shown.shows("diff echoes.example.com/hello", "q back")
        shown.press("q")
        await shown.shows("q quit")

        shown.press("l")
        await shown.shows("Log, newest first", "default/hello: Ready=True", "q back")
        shown.press("q")
        shown.press("e")
        await shown.shows("Errors and Events, newest first", "Created Echo/hello")
        shown.press("q")
        await shown.shows("q quit")

        shown.press("\x1b[B")
        shown.press("q")
        assert await shown.ended() == 0
        assert "Echo default/hello  Ready" in shown.text
    assert not list((tmp_path / "state").rglob("*.pid"))


async def test_ctrl_c_ends_the_screen_in_order(tmp_path: Path, templates: Path) -> None:
    (tmp_path / "echo.yaml").write_text(ECHO)
    arguments = ("dev", f"--templates={templates}", f"--examples={tmp_path / 'echo.yaml'}", "--listen=")
    async with terminal(*arguments, SSA_OPERATOR_STATE_DIR=str(tmp_path / "state")) as shown:
        await shown.shows("Echo default/hello", "q quit")
        shown.press("\x03")
        assert await shown.ended() == 0
        assert "Traceback" not in shown.raw.decode()
