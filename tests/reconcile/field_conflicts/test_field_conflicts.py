"""Field conflicts, on a real API server: which manager is named, how often the operator reverts, and its backoff.

The backoff of a conflict is an argument of the operator: an hour if a test observes the time before the first backoff,
next to nothing if it observes the end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.request import DeleteOptions
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.field_conflicts.history import ConflictPolicy
from tests.devcluster.waiting import until
from tests.operator.harness import (
    ECHOES,
    PATIENCE,
    Desk,
    Operate,
    Running,
    View,
    echo,
    entries,
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

ForeignChange = Callable[[Desk, str], Awaitable[None]]


async def by_apply(desk: Desk, word: str) -> None:
    resource = await desk.mapper.resource_by_name("configmaps")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, "data": {"word": word}}
    options = calls.ApplyOptions(manager="rival")
    await desk.client.send(calls.apply(resource, desk.namespace, "web", encode(body), options))


async def by_update(desk: Desk, word: str) -> None:
    resource = await desk.mapper.resource_by_name("configmaps")
    await desk.update_as("rival", resource, "web", {"data": {"word": word}})


async def by_removal(desk: Desk, word: str) -> None:
    resource = await desk.mapper.resource_by_name("configmaps")
    patch = encode({"data": {"word": None}})
    await desk.client.send(calls.merge_patch(resource, desk.namespace, "web", patch))


async def by_deletion(desk: Desk, word: str) -> None:
    resource = await desk.mapper.resource_by_name("configmaps")
    live = (await desk.view("configmaps")).find("web")
    assert live is not None
    await desk.client.send(calls.delete(resource, desk.namespace, "web", DeleteOptions(uid=live.uid)))


@dataclass(slots=True)
class Rival:
    """A manager that changes the ConfigMap each time that it has the rendered content. `rounds` is how often."""

    rounds: int = 0


@contextlib.asynccontextmanager
async def conflicting(desk: Desk, foreign_change: ForeignChange) -> AsyncIterator[Rival]:
    rival = Rival()
    view = await desk.view("configmaps")

    async def run() -> None:
        while True:
            found = view.find("web")
            if found is not None and found.body.get("data", {}).get("word") == "ours":
                version = found.resource_version
                # A conflict may be reported before the answer to the change arrives.
                rival.rounds += 1
                await foreign_change(desk, "theirs")
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
    """The Echo's only child is a ConfigMap, which a rival changes."""
    return only(templates, map=MAP)


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("foreign_change", "words"),
    [
        pytest.param(by_apply, ("rival (Apply)", "data.word"), id="apply"),
        pytest.param(by_update, ("rival (Update)", "data.word"), id="update"),
        pytest.param(by_removal, ("an unknown manager repeatedly removes", "data.word"), id="removal"),
        pytest.param(by_deletion, ("is repeatedly deleted",), id="deletion"),
    ],
)
async def test_a_conflicting_manager_is_named_with_its_field_and_reverted_a_bounded_number_of_times(
    desk: Desk, operate: Operate, map_templates: Path, foreign_change: ForeignChange, words: tuple[str, ...]
) -> None:
    async with (
        operate(templates=map_templates, conflict_policy=PATIENT),
        conflicting(desk, foreign_change) as rival,
    ):
        await desk.apply(echo("web"))
        await desk.until(
            ECHOES,
            "web",
            not_ready_because("Conflict", f"ConfigMap {desk.namespace}/web", "repeatedly", *words),
        )
        assert rival.rounds == PATIENT.allowed_changes + 1


@pytest.mark.exhaustive
async def test_neither_resyncs_nor_changes_of_the_parent_shorten_the_backoff_of_a_conflict(
    desk: Desk, operate: Operate, map_templates: Path
) -> None:
    resyncing = operate(templates=map_templates, conflict_policy=PATIENT, resync_rate=1000.0, interval=0.2)
    async with resyncing as running, conflicting(desk, by_apply) as rival:
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", not_ready_because("Conflict", "rival"))
        rounds = rival.rounds
        await desk.kubectl("label", "echo", "web", "look=again")
        running.forget()
        await running.reconciled(5)
        assert rival.rounds == rounds


async def test_a_child_without_a_conflict_is_reverted_at_once(
    desk: Desk, operate: Operate, map_templates: Path
) -> None:
    (map_templates / ECHOES / "other.yaml.j2").write_text(MAP.replace("{{ name }}", "other"))
    async with operate(templates=map_templates, conflict_policy=PATIENT), conflicting(desk, by_apply):
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", not_ready_because("Conflict", "rival"))
        await desk.patch("configmap", "other", data={"word": "changed"})
        await desk.until("configmaps", "other", lambda body: body["data"]["word"] == "ours")


async def test_a_conflict_is_reverted_after_each_backoff_and_at_its_end(
    desk: Desk, operate: Operate, map_templates: Path
) -> None:
    async with operate(templates=map_templates, conflict_policy=HASTY):
        view = await desk.view("configmaps")
        async with conflicting(desk, by_apply) as rival:
            await desk.apply(echo("web"))
            await desk.until(ECHOES, "web", not_ready_because("Conflict", "rival (Apply)", "data.word"))
            while rival.rounds < 8:
                await view.change(view.changes)
        await desk.until("configmaps", "web", lambda body: body["data"]["word"] == "ours")
        await desk.ready(ECHOES, "web")


async def test_reconcile_at_reverts_a_conflict_at_once(desk: Desk, operate: Operate, map_templates: Path) -> None:
    async with operate(templates=map_templates, conflict_policy=PATIENT):
        async with conflicting(desk, by_apply):
            await desk.apply(echo("web"))
            await desk.until(ECHOES, "web", not_ready_because("Conflict", "rival"))
        await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/reconcile-at=now")
        await desk.until("configmaps", "web", lambda body: body["data"]["word"] == "ours")


@pytest.mark.exhaustive
async def test_a_template_that_no_longer_renders_the_field_ends_the_conflict(
    desk: Desk, operate: Operate, map_templates: Path
) -> None:
    async with operate(templates=map_templates, conflict_policy=PATIENT) as running:
        async with conflicting(desk, by_apply):
            await desk.apply(echo("web"))
            await desk.until(ECHOES, "web", not_ready_because("Conflict", "rival"))
            running.write(f"{ECHOES}/map.yaml.j2", MAP.replace("  word: ours\n", ""))
            await desk.ready(ECHOES, "web")
        settled = await desk.read("configmaps", "web")
    assert settled["data"] == {"word": "theirs", "number": "1"}


async def test_a_few_edits_by_hand_are_reverted_without_a_conflict(
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


@pytest.mark.exhaustive
async def test_two_operators_with_different_templates_report_a_conflict_and_back_off(
    desk: Desk, operate: Operate, map_templates: Path, tmp_path: Path
) -> None:
    other = second(map_templates, tmp_path, MAP.replace("ours", "theirs"))
    versions = await written(desk, "configmaps")
    is_in_conflict = not_ready_because("Conflict", "another ssa-operator repeatedly changes data.word")
    # The operator that changed the field last writes that all is well soon after.
    conflicts: list[LiveObject] = []
    (await desk.view(ECHOES)).cache.listen(
        lambda _, new: conflicts.append(new) if new is not None and is_in_conflict(new.body) else None
    )
    async with (
        operate(templates=map_templates, conflict_policy=PATIENT),
        operate(templates=other, conflict_policy=PATIENT),
    ):
        await desk.apply(echo("web"))
        await until(lambda: bool(conflicts), PATIENCE)
        assert 0 < len(versions) <= 2 * (PATIENT.allowed_changes + 2)


async def written(desk: Desk, resource_name: str) -> list[str]:
    """The versions of the object "web" that are written from now on."""
    versions: list[str] = []

    def listen(_: LiveObject | None, new: LiveObject | None) -> None:
        if new is not None and new.identity.name == "web":
            versions.append(new.resource_version)

    (await desk.view(resource_name)).cache.listen(listen)
    return versions


async def test_a_manager_that_rewrites_a_condition_is_named_and_reverted_a_bounded_number_of_times(
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
                await desk.update_as("rival", resource, "web", {"status": {"conditions": [condition]}}, "status")
                rounds += 1
                await seen(view, version)
            else:
                await view.change(view.changes)

    async with operate(templates=map_templates, conflict_policy=PATIENT, resync_rate=1000.0, interval=0.1) as running:
        task = asyncio.create_task(rival())
        try:
            await desk.apply(echo("web"))
            async with asyncio.timeout(PATIENCE):
                while rounds < PATIENT.allowed_changes + 1:
                    running.forget()
                    await running.reconciled(1)
            running.forget()
            await running.reconciled(5)
            assert rounds == PATIENT.allowed_changes + 1
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert "rival (Update) repeatedly overwrites this status" in noticed(running)


@pytest.fixture
def two_verdicts(map_templates: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Two sets of templates that apply the same children, and report different verdicts on the parent."""
    other = second(map_templates, tmp_path, MAP)
    (other / ECHOES / "broken.yaml.j2").write_text("{{ spec.missing }}\n")
    return map_templates, other


async def test_two_operators_with_different_verdicts_report_it_in_the_status(
    desk: Desk, operate: Operate, two_verdicts: tuple[Path, Path]
) -> None:
    one, two = two_verdicts
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


@pytest.mark.exhaustive
async def test_two_operators_with_different_verdicts_write_the_status_a_bounded_number_of_times(
    desk: Desk, operate: Operate, two_verdicts: tuple[Path, Path]
) -> None:
    versions = await written(desk, ECHOES)
    async with (
        operate(templates=two_verdicts[0], conflict_policy=PATIENT, resync_rate=1000.0, interval=0.2) as one,
        operate(templates=two_verdicts[1], conflict_policy=PATIENT, resync_rate=1000.0, interval=0.2) as two,
    ):
        await desk.apply(echo("web"))
        async with asyncio.timeout(PATIENCE):
            while not (noticed(one) or noticed(two)):
                one.forget()
                await one.reconciled(1)
        for running in (one, two):
            running.forget()
            await running.reconciled(5)
    # Each may also record once what it applied.
    assert 0 < len(versions) <= 2 * (PATIENT.allowed_changes + 2) + 2


def noticed(running: Running) -> str:
    """The message of an operator on other managers that write the status of the only parent."""
    parents = running.operator.folders.get(ECHOES)
    reports = [parents.state(live).status.report for live in parents] if parents else []
    return "".join(report.notice or "" for report in reports if report is not None)


async def test_a_field_that_the_template_drops_and_another_manager_keeps_is_named_until_it_is_gone(
    desk: Desk, operate: Operate
) -> None:
    word = "{% if spec.replicas == 1 %}\n  word: ours\n{% endif %}\n"
    async with operate() as running:
        only(running.templates, map=MAP.replace("  word: ours\n", word))
        await desk.apply_until_ready(echo("web"))
        await by_apply(desk, "ours")
        await desk.apply(echo("web", 2))
        stays = "data.word is no longer in the template, and stays, because rival (Apply) owns it, too"
        await desk.until(ECHOES, "web", lambda body: stays in entries(body)["ConfigMap/web"].get("message", ""))
        await desk.until_event("FieldsLeft", stays, about="web")
        await desk.apply(echo("web", 3))
        ready = await desk.ready(ECHOES, "web")
        assert stays in ready_condition(ready)["message"]
        await desk.patch("configmap", "web", data={"word": None})
        await desk.until(ECHOES, "web", lambda body: stays not in ready_condition(body)["message"])
