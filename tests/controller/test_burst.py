"""What goes first when much is to be done at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controller.desk import ECHOES, Desk, Operate, echo, is_ready, map_template, only, version

pytestmark = pytest.mark.cluster


async def test_the_children_of_all_parents_come_before_the_first_status(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, map=map_template("map", word="name"))
    names = ("a", "b", "c")
    for name in names:
        await desk.apply(echo(name))
    async with operate(workers=1):
        parents = [await desk.until(ECHOES, name, is_ready) for name in names]
    children = [await desk.read("configmaps", f"{name}-map") for name in names]
    assert max(map(version, children)) < min(map(version, parents))
