"""Others who change what we apply, on a real API server: who is named, how often we answer, and who has the last word.

The pauses of a fight are an argument of the operator: an hour where a test looks at what is done before the first
pause, next to nothing where it looks at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.core.objects.json_encoding import encode
from ssa_operator.core.policies.field_conflicts import ConflictPolicy
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.request import MERGE_PATCH, Deletion, Request
from tests.controller.harness import (
    ECHOES,
    PATIENCE,
    Desk,
    Operate,
    Running,
    View,
    echo,
    holds,
    not_ready_because,
    only,
    ready_condition,
)

pytestmark = pytest.mark.cluster

MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
data:
  word: ours
  number: '{{ spec.replicas }}'
"""
PATIENT = ConflictPolicy(allowed_changes=3, backoff_base=3600.0, backoff_cap=3600.0)
HASTY = ConflictPolicy(allowed_changes=2, backoff_base=0.01, backoff_cap=0.05, quiet_period=0.5)

Strike = Callable[[Desk, str], Awaitable[None]]


async def by_apply(desk: Desk, word: str) -> None:
    resource = await desk.mapper.resource_by_name("configmaps")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"word": word}}
    await desk.client.send(calls.apply(resource, desk.namespace, "web", encode(body), manager="rival"))


async def by_update(desk: Desk, word: str) -> None:
    resource = await desk.mapper.resource_by_name("configmaps")
    await desk.client.send(update(resource.path(desk.namespace, "web"), {"data": {"word": word}}))


def update(path: str, patch: dict[str, Any]) -> Request:
    """The rival's change of some fields by Update."""
    return Request(
        method="PATCH",
        path=path,
        subject="the rival's patch",
        query=(("fieldManager", "rival"),),
        body=encode(patch),
        content_type=MERGE_PATCH,
    )


async def by_removal(desk: Desk, word: str) -> None:
    resource = await desk.mapper.resource_by_name("configmaps")
    patch = encode({"data": {"word": None}})
    await desk.client.send(calls.merge_patch(resource, desk.namespace, "web", patch))


async def by_deletion(desk: Desk, word: str) -> None:
    resource = await desk.mapper.resource_by_name("configmaps")
    live = (await desk.view("configmaps")).find("web")
    assert live is not None
    await desk.client.send(calls.delete(resource, desk.namespace, "web", Deletion(live.uid)))


@dataclass(slots=True)
class Rival:
    """Somebody who answers each time that the ConfigMap says what the template says. `rounds` is how often."""

    rounds: int = 0


@contextlib.asynccontextmanager
async def fighting(desk: Desk, strike: Strike) -> AsyncIterator[Rival]:
    rival = Rival()
    view = await desk.view("configmaps")

    async def run() -> None:
        while True:
            found = view.find("web")
            if found is not None and found.body.get("data", {}).get("word") == "ours":
                version = found.resource_version
                await strike(desk, "theirs")
                rival.rounds += 1
                await seen(view, version)
            else:
                await view.change(view.changes)

    task = asyncio.create_task(run())
    try:
        yield rival
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def seen(view: View, version: str) -> None:
    """Return when the view shows another version of the ConfigMap than this one."""
    while (found := view.find("web")) is not None and found.resource_version == version:
        await view.change(view.changes)


@pytest.fixture
def map_templates(templates: Path) -> Path:
    """The Echo's only child is a ConfigMap: what is fought over."""
    return only(templates, map=MAP)


@pytest.mark.parametrize(
    ("strike", "words"),
    [
        pytest.param(by_apply, ("rival (Apply)", "data.word"), id="apply"),
        pytest.param(by_update, ("rival (Update)", "data.word"), id="update"),
        pytest.param(by_removal, ("an unknown manager repeatedly removes", "data.word"), id="removal"),
        pytest.param(by_deletion, ("is repeatedly deleted",), id="deletion"),
    ],
)
async def test_a_rival_is_named_with_its_field_and_answered_a_bounded_number_of_times(
    desk: Desk, operate: Operate, map_templates: Path, strike: Strike, words: tuple[str, ...]
) -> None:
    async with (
        operate(templates=map_templates, conflict_policy=PATIENT),
        fighting(desk, strike) as rival,
    ):
        await desk.apply(echo("web"))
        await desk.until(
            ECHOES,
            "web",
            not_ready_because("Conflict", f"ConfigMap {desk.namespace}/web", "repeatedly", *words),
        )
        assert rival.rounds == PATIENT.allowed_changes + 1


async def test_neither_ticks_nor_changes_of_the_parent_shorten_the_pause_of_a_fight(
    desk: Desk, operate: Operate, map_templates: Path
) -> None:
    ticking = operate(templates=map_templates, conflict_policy=PATIENT, tick_rate=1000.0, interval=0.2)
    async with ticking as running, fighting(desk, by_apply) as rival:
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", not_ready_because("Conflict", "rival"))
        rounds = rival.rounds
        await desk.kubectl("label", "echo", "web", "look=again")
        running.forget()
        await running.passed(5)
        assert rival.rounds == rounds


async def test_a_child_beside_the_one_that_is_fought_over_is_kept_as_ever(
    desk: Desk, operate: Operate, map_templates: Path
) -> None:
    (map_templates / ECHOES / "other.yaml.j2").write_text(MAP.replace("{{ name }}", "other"))
    async with operate(templates=map_templates, conflict_policy=PATIENT), fighting(desk, by_apply):
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", not_ready_because("Conflict", "rival"))
        await desk.patch("configmap", "other", data={"word": "changed"})
        await desk.until("configmaps", "other", lambda body: body["data"]["word"] == "ours")


async def test_a_repair_follows_each_pause_and_the_last_word_is_ours(
    desk: Desk, operate: Operate, map_templates: Path
) -> None:
    async with operate(templates=map_templates, conflict_policy=HASTY):
        view = await desk.view("configmaps")
        async with fighting(desk, by_apply) as rival:
            await desk.apply(echo("web"))
            await desk.until(ECHOES, "web", not_ready_because("Conflict", "rival (Apply)", "data.word"))
            while rival.rounds < 8:
                await view.change(view.changes)
        await desk.until("configmaps", "web", lambda body: body["data"]["word"] == "ours")
        await desk.ready(ECHOES, "web")


async def test_reconcile_at_repairs_at_once(desk: Desk, operate: Operate, map_templates: Path) -> None:
    async with operate(templates=map_templates, conflict_policy=PATIENT):
        async with fighting(desk, by_apply):
            await desk.apply(echo("web"))
            await desk.until(ECHOES, "web", not_ready_because("Conflict", "rival"))
        await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/reconcile-at=now")
        await desk.until("configmaps", "web", lambda body: body["data"]["word"] == "ours")


async def test_a_template_that_gives_the_field_up_ends_the_fight(
    desk: Desk, operate: Operate, map_templates: Path
) -> None:
    async with operate(templates=map_templates, conflict_policy=PATIENT) as running:
        async with fighting(desk, by_apply):
            await desk.apply(echo("web"))
            await desk.until(ECHOES, "web", not_ready_because("Conflict", "rival"))
            running.write(f"{ECHOES}/map.yaml.j2", MAP.replace("  word: ours\n", ""))
            await desk.ready(ECHOES, "web")
        settled = await desk.read("configmaps", "web")
    assert settled["data"] == {"word": "theirs", "number": "1"}


async def test_a_few_edits_by_hand_are_put_back_without_a_word_of_a_fight(
    desk: Desk, operate: Operate, map_templates: Path
) -> None:
    async with operate(templates=map_templates):
        await desk.apply_until_ready(echo("web"))
        for number in range(ConflictPolicy().allowed_changes):
            await by_update(desk, f"edit {number}")
            await desk.until("configmaps", "web", lambda body: body["data"]["word"] == "ours")
        parent = await desk.apply_until_ready(echo("web", 2))
        await desk.until("configmaps", "web", holds(word="ours", number="2"))
    assert "repeatedly" not in ready_condition(parent)["message"]


def second(templates: Path, tmp_path: Path, text: str) -> Path:
    """Another set of templates for the same parents."""
    folder = tmp_path / "second" / ECHOES
    folder.mkdir(parents=True)
    for path in (templates / ECHOES).iterdir():
        (folder / path.name).write_text(path.read_text())
    (folder / "map.yaml.j2").write_text(text)
    return folder.parent


async def test_two_operators_with_different_templates_say_so_and_stop_hurrying(
    desk: Desk, operate: Operate, map_templates: Path, tmp_path: Path
) -> None:
    other = second(map_templates, tmp_path, MAP.replace("ours", "theirs"))
    versions = await written(desk, "configmaps")
    async with (
        operate(templates=map_templates, conflict_policy=PATIENT),
        operate(templates=other, conflict_policy=PATIENT),
    ):
        await desk.apply(echo("web"))
        await desk.until(
            ECHOES, "web", not_ready_because("Conflict", "another ssa-operator repeatedly changes data.word")
        )
        assert 0 < len(versions) <= 2 * (PATIENT.allowed_changes + 2)


async def written(desk: Desk, resource_name: str) -> list[str]:
    """The versions that are written from now on."""
    versions: list[str] = []
    view = await desk.view(resource_name)
    view.cache.listen(lambda _, new: versions.append(new.resource_version) if new is not None else None)
    return versions


async def test_somebody_who_rewrites_our_condition_is_named_and_answered_a_bounded_number_of_times(
    desk: Desk, operate: Operate, map_templates: Path
) -> None:
    resource = await desk.mapper.resource_by_name(ECHOES)
    rounds = 0

    async def rival() -> None:
        nonlocal rounds
        view = await desk.view(ECHOES)
        while True:
            found = view.find("web")
            if found is not None and ready_condition(found.body).get("status") == "True":
                version = found.resource_version
                condition = ready_condition(found.body) | {"status": "Unknown"}
                path = resource.path(desk.namespace, "web", "status")
                await desk.client.send(update(path, {"status": {"conditions": [condition]}}))
                rounds += 1
                await seen(view, version)
            else:
                await view.change(view.changes)

    async with operate(templates=map_templates, conflict_policy=PATIENT, tick_rate=1000.0, interval=0.1) as running:
        task = asyncio.create_task(rival())
        try:
            await desk.apply(echo("web"))
            async with asyncio.timeout(PATIENCE):
                while rounds < PATIENT.allowed_changes + 1:
                    running.forget()
                    await running.passed(1)
            running.forget()
            await running.passed(5)
            assert rounds == PATIENT.allowed_changes + 1
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert "rival (Update) repeatedly overwrites this status" in noticed(running)


@pytest.fixture
def two_minds(map_templates: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Two sets of templates that apply the same children, and judge the parent differently."""
    other = second(map_templates, tmp_path, MAP)
    (other / ECHOES / "broken.yaml.j2").write_text("{{ spec.missing }}\n")
    return map_templates, other


async def test_two_operators_that_judge_a_parent_differently_say_so_in_its_status(
    desk: Desk, operate: Operate, two_minds: tuple[Path, Path]
) -> None:
    one, two = two_minds
    async with (
        operate(templates=one, conflict_policy=HASTY),
        operate(templates=two, conflict_policy=HASTY),
    ):
        await desk.apply(echo("web"))
        await desk.until(
            ECHOES, "web", not_ready_because("RenderFailed", "another ssa-operator repeatedly overwrites this status")
        )
        await desk.until(
            ECHOES, "web", not_ready_because("Ready", "another ssa-operator repeatedly overwrites this status")
        )


async def test_two_operators_that_judge_a_parent_differently_write_its_status_a_bounded_number_of_times(
    desk: Desk, operate: Operate, two_minds: tuple[Path, Path]
) -> None:
    versions = await written(desk, ECHOES)
    async with (
        operate(templates=two_minds[0], conflict_policy=PATIENT, tick_rate=1000.0, interval=0.2) as one,
        operate(templates=two_minds[1], conflict_policy=PATIENT, tick_rate=1000.0, interval=0.2) as two,
    ):
        await desk.apply(echo("web"))
        async with asyncio.timeout(PATIENCE):
            while not (noticed(one) or noticed(two)):
                one.forget()
                await one.passed(1)
        for running in (one, two):
            running.forget()
            await running.passed(5)
    assert 0 < len(versions) <= 2 * (PATIENT.allowed_changes + 2)


def noticed(running: Running) -> str:
    """What an operator says of others who write the status of the only parent."""
    parents = running.operator.folders[ECHOES]
    reports = [parents.report(live) for live in parents]
    return "".join(report.notice for report in reports if report is not None)
