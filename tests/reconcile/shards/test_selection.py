"""`--selector`: parents that lose the label are finalized by the operator that gave them the finalizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.operator.harness import ECHOES, ROLE, ROLES, Desk, Operate, echo, map_template, only

pytestmark = pytest.mark.cluster

SELECTOR = "ssa-operator.dev/selector"


@pytest.fixture
def wide(templates: Path) -> Path:
    """Templates of an Echo with a child that the garbage collector can't delete with it."""
    only(templates, role=ROLE, map=map_template("a", v="1"))
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    return templates


def labelled(name: str, team: str) -> dict[str, Any]:
    body = echo(name)
    return {**body, "metadata": {**body["metadata"], "labels": {"team": team}}}


async def relabelled(desk: Desk, name: str, team: str | None) -> None:
    await desk.patch("echo", name, metadata={"labels": {"team": team}})


async def test_a_parent_that_loses_the_label_is_finalized_when_it_is_deleted(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    role = f"{desk.namespace}-web"
    async with operate(selector="team=a"):
        await desk.apply_until_ready(labelled("web", "a"))
        await desk.apply_until_ready(labelled("last", "a"))
        await relabelled(desk, "web", None)
        # The operator has seen that: it does not reconcile the parent any more, and its children stay.
        await desk.patch("echo", "web", spec={"replicas": 5})
        await desk.apply_until_ready({**labelled("last", "a"), "spec": {"replicas": 3}})
        assert await desk.find(ROLES, role) is not None
        assert (await desk.read(ECHOES, "web"))["status"]["observedGeneration"] == 1
        await desk.delete("echo", "web", wait=False)
        await desk.gone(ECHOES, "web")
        await desk.gone(ROLES, role)


async def test_a_parent_that_loses_the_label_while_it_is_deleted_is_finalized(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    async with operate(selector="team in (a, c)"):
        await desk.apply_until_ready(labelled("web", "a"))
    await desk.delete("echo", "web", wait=False)
    await relabelled(desk, "web", "z")
    async with operate(selector="team in (a, c)"):
        await desk.gone(ECHOES, "web")
        await desk.gone(ROLES, f"{desk.namespace}-web")


async def test_only_the_operator_that_gave_the_finalizer_finalizes_a_parent_that_no_selector_selects(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    role = f"{desk.namespace}-web"
    async with operate(selector="team=a"):
        await desk.apply_until_ready(labelled("web", "a"))
    assert (await desk.read(ECHOES, "web"))["metadata"]["annotations"][SELECTOR] == "team=a"
    await relabelled(desk, "web", None)
    await desk.delete("echo", "web", wait=False)
    async with operate(selector="team=b"):
        await desk.apply_until_ready(labelled("other", "b"))
        assert await desk.find(ROLES, role) is not None
        assert (await desk.read(ECHOES, "web"))["metadata"]["finalizers"] == ["ssa-operator.dev/cleanup"]
    async with operate(selector="team=a"):
        await desk.gone(ECHOES, "web")
        await desk.gone(ROLES, role)


async def test_a_parent_that_gets_the_label_of_another_operator_is_that_operators(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    async with operate(selector="team=a"):
        await desk.apply_until_ready(labelled("web", "a"))
        async with operate(selector="team=b"):
            await relabelled(desk, "web", "b")
            await desk.until(ECHOES, "web", lambda body: body["metadata"]["annotations"][SELECTOR] == "team=b")
            await desk.delete("echo", "web", wait=False)
            await desk.gone(ECHOES, "web")
            await desk.gone(ROLES, f"{desk.namespace}-web")
