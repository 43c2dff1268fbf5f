"""The order of reconciles when many parents wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.informers.parents import Parent
from ssa_operator.objects.causes import Cause
from ssa_operator.operator import workers
from ssa_operator.operator.operator import Operator
from ssa_operator.reconcile.parent_records.rules import FOLDER_KINDS
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.reconciler import Reconciled
from tests.devcluster.audit import own_requests
from tests.devcluster.waiting import until
from tests.operator.harness import (
    ECHOES,
    Desk,
    Operate,
    echo,
    is_ready,
    map_template,
    not_ready_because,
    only,
    version,
)

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


@pytest.fixture
async def other_namespace(desk: Desk) -> AsyncIterator[str]:
    """A second tenant's namespace."""
    name = f"{desk.namespace}-other"
    await desk.kubectl("create", "namespace", name)
    yield name
    await desk.delete("namespace", name, wait=False)


@pytest.mark.slow
async def test_a_namespaces_change_is_not_held_up_by_a_burst_of_changes_in_another_namespace(
    desk: Desk, operate: Operate, templates: Path, other_namespace: str
) -> None:
    """One worker is held while forty parents of one namespace change, and then one parent of another namespace."""
    only(templates, map=map_template("map", number="spec.replicas"))
    names = [f"p{number:02}" for number in range(40)]
    async with (
        desk.elsewhere(other_namespace) as other,
        operate(workers=1, namespaces=(desk.namespace, other_namespace)) as running,
    ):
        await desk.apply(*map(echo, names))
        await other.apply_until_ready(echo("web"))
        for name in names:
            await desk.ready(ECHOES, name)
        await running.operator.queue.until_empty()
        async with held(running.operator):
            await desk.apply(*(echo(name, 2) for name in names))
            await until(lambda: len(running.operator.queue) >= len(names) - 1)
            await other.apply(echo("web", 2))
            await until(lambda: any(item.key.namespace == other_namespace for item in running.operator.queue.waiting()))
        changed = await other.until(ECHOES, "web", lambda body: is_ready(body) and body["spec"]["replicas"] == 2)
        for name in names:
            await desk.ready(ECHOES, name)
        theirs = [version(await desk.read("configmaps", f"{name}-map")) for name in names]
        mine = version(await other.read("configmaps", "web-map"))
    before = [found for found in theirs if found < mine]
    assert len(before) <= 2, "the burst was served first"
    assert sum(found < version(changed) for found in theirs) <= 3, "the status waited for the burst"


async def test_a_bad_template_over_many_parents_costs_one_status_each_and_a_bounded_number_of_log_lines(
    desk: Desk,
    operate: Operate,
    templates: Path,
    cluster: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each parent is resynced again and again while its template stays bad."""
    monkeypatch.setattr(workers, "LOGGED_ALIKE", 5)
    only(templates, map="a: {{ spec.missing }}\n")
    names = [f"p{number:02}" for number in range(20)]
    await desk.apply(*map(echo, names))
    async with operate(interval=0.2, resync_rate=1000.0) as running:
        for name in names:
            await desk.until(ECHOES, name, not_ready_because("RenderFailed"))
        running.forget()
        await running.reconciled(5 * len(names))
    sent = [each for each in own_requests(cluster, desk.namespace) if each["objectRef"].get("name") != FOLDER_KINDS]
    assert [event["verb"] for event in sent].count("patch") == len(names)
    lines = [record.getMessage() for record in caplog.records if "RenderFailed" in record.getMessage()]
    assert len([line for line in lines if "Ready=False" in line]) == 5
    assert len([line for line in lines if "further parents" in line]) == 1


@contextlib.asynccontextmanager
async def held(operator: Operator) -> AsyncIterator[None]:
    """An operator that finishes no reconcile while the block runs."""
    reconciler, go_on = operator._reconciler, asyncio.Event()
    reconcile = reconciler.reconcile

    async def waiting(parent: Parent, state: ParentState, causes: Cause) -> Reconciled:
        await go_on.wait()
        return await reconcile(parent, state, causes)

    reconciler.reconcile = waiting  # type: ignore[method-assign]
    try:
        yield
    finally:
        go_on.set()
        reconciler.reconcile = reconcile  # type: ignore[method-assign]


@pytest.mark.slow
async def test_changed_parents_go_before_parents_that_are_only_resynced(
    desk: Desk, operate: Operate, templates: Path, cluster: Cluster
) -> None:
    only(
        templates,
        first=map_template("first", word="name"),
        second=map_template("second", number="spec.replicas"),
        third=map_template("third", word="name"),
    )
    async with operate():
        await desk.apply_until_ready(echo("web"))
        await desk.apply_until_ready(echo("web", 2))
        await until(lambda: len(applied(cluster, desk)) == 6)
    assert applied(cluster, desk)[3] == "web-second"


def applied(cluster: Cluster, desk: Desk) -> list[str]:
    """The names of the ConfigMaps that the operator applied, in the order in which the API server got them."""
    found = [
        (event["requestReceivedTimestamp"], event["objectRef"]["name"])
        for event in own_requests(cluster, desk.namespace)
        if (event["verb"], event["objectRef"]["resource"]) == ("patch", "configmaps")
        and event["objectRef"]["name"] != FOLDER_KINDS
    ]
    return [name for _, name in sorted(found)]
