"""Settings of the installation and files of a template folder in a running operator."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ssa_operator.rendering.folder.installation import Installation
from tests.operator.harness import ECHOES, Desk, Operate, echo, holds, map_template, only, ready_saying, uid

pytestmark = pytest.mark.cluster


async def test_a_change_of_settings_or_files_reconciles_the_parents(
    desk: Desk, operate: Operate, templates: Path, tmp_path: Path
) -> None:
    files = templates / ECHOES / "files"
    files.mkdir()
    (files / "motd").write_text("hello")
    (templates / ECHOES / "_values.yaml").write_text("image: a:1\n")
    (templates / ECHOES / "settings.yaml.j2").write_text(
        map_template("settings", image="values.image", text="read_file('motd')", operator="operator.namespace")
    )
    override = tmp_path / "override.yaml"
    override.write_text("")
    async with operate(installation=Installation(values=(override,), namespace="ops")) as running:
        await desk.apply_until_ready(echo("web", 0))
        await desk.until("configmaps", "web-settings", holds(image="a:1", text="hello", operator="ops"))
        running.write(f"{ECHOES}/_values.yaml", "image: a:2\n")
        await desk.until("configmaps", "web-settings", holds(image="a:2", text="hello", operator="ops"))
        override.write_text(f"{ECHOES}: {{image: b:1}}\n")
        await desk.until("configmaps", "web-settings", holds(image="b:1", text="hello", operator="ops"))
        running.write(f"{ECHOES}/files/motd", "good bye")
        await desk.until("configmaps", "web-settings", holds(image="b:1", text="good bye", operator="ops"))
        override.write_text(f"{ECHOES}: {{image: [}}\n")
        await desk.until(ECHOES, "web", ready_saying(f"{override}:1: "))
        assert holds(image="b:1", text="good bye", operator="ops")(await desk.read("configmaps", "web-settings"))
        override.write_text(f"{ECHOES}: {{image: b:2}}\n")
        await desk.until("configmaps", "web-settings", holds(image="b:2", text="good bye", operator="ops"))
        await desk.ready(ECHOES, "web")


async def test_the_operators_namespace_is_that_of_its_credentials(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    (templates / ECHOES / "a.yaml.j2").write_text(map_template("a", operator="operator.namespace"))
    async with operate(installation=Installation()):
        await desk.apply_until_ready(echo("web", 0))
        await desk.until("configmaps", "web-a", holds(operator=desk.client.credentials.namespace))


async def test_a_load_for_another_reason_takes_no_half_of_a_slow_copy(
    desk: Desk, operate: Operate, templates: Path, tmp_path: Path
) -> None:
    only(templates, a=map_template("a", word="'a'"), b=map_template("b", word="'b'"))
    override = tmp_path / "override.yaml"
    override.write_text(f"{ECHOES}: {{}}\n")
    second = tmp_path / "second" / "gadgets.second.example.com"
    second.mkdir(parents=True)
    async with operate(templates=(templates, second.parent), installation=Installation(values=(override,))) as running:
        await desk.apply_until_ready(echo("web", 0))
        before = await desk.read("configmaps", "web-b")
        for reason in (override, second / "map.yaml"):
            running.remove(f"{ECHOES}/b.yaml.j2")
            reason.write_text(f"{ECHOES}: {{word: c}}\n")
            await asyncio.sleep(1)  # the pace of the copy
            running.write(f"{ECHOES}/b.yaml.j2", map_template("b", word=f"'{reason.name}'"))
            await desk.until("configmaps", "web-b", holds(word=reason.name))
            assert uid(await desk.read("configmaps", "web-b")) == uid(before)
