"""The operator removes its records from a parent even if other managers change the parent meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ssa_operator.informers.parents import Parent
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.parent_records.requests import save_parent_records
from ssa_operator.reconcile.parent_records.rules import INVENTORY_ANNOTATION, ParentRecords, read_parent_records
from ssa_operator.reconcile.parent_state import ParentState
from tests.operator.harness import Desk, echo

pytestmark = pytest.mark.cluster

ECHO = Resource(group="example.com", version="v1", kind="Echo", plural="echoes", namespaced=True)
NOTHING = ParentRecords()
ROLE = Identity("rbac.authorization.k8s.io", "ClusterRole", "", "r")


class InterferingClient(Client):
    """A client before whose every merge patch another manager changes the parent, `times` times."""

    desk: Desk
    times: int = 0

    async def merge_patch(self, *arguments: Any, **more: Any) -> LiveObject:
        if self.times:
            self.times -= 1
            await self.desk.patch("echo", "web", metadata={"annotations": {"n": str(self.times)}})
        return await super().merge_patch(*arguments, **more)


async def parent(desk: Desk) -> LiveObject:
    body = echo("web")
    body["metadata"]["finalizers"] = ["a.b/hold", FINALIZER]
    await desk.create(body)
    return await desk.client.get(ECHO, "web", desk.namespace)


async def release(client: Client, live: LiveObject, records: ParentRecords = NOTHING) -> LiveObject:
    parent = Parent(
        live=live,
        folder=cast(Any, None),
        resource=ECHO,
        writes_status=True,
        status_schema=None,
        shows_conditions=True,
        unreported="",
        cache=Cache(),
    )
    reconcile = Reconcile(
        cluster=cast(Any, SimpleNamespace(operator_client=client)),
        client=client,
        uid=live.uid,
        parent=parent,
        records=read_parent_records(live),
        state=ParentState(),
        causes=Cause.PARENT,
    )
    await save_parent_records(reconcile, records)
    return reconcile.parent.live


async def test_the_finalizer_is_removed_also_if_another_manager_changes_the_parent_meanwhile(desk: Desk) -> None:
    read_before = await parent(desk)
    await desk.patch("echo", "web", metadata={"finalizers": ["a.b/more", "a.b/hold", FINALIZER]})
    found = await release(desk.client, read_before)
    assert found.metadata.finalizers == ("a.b/more", "a.b/hold")
    assert (await desk.client.get(ECHO, "web", desk.namespace)).metadata.finalizers == ("a.b/more", "a.b/hold")


async def test_records_that_another_manager_wrote_meanwhile_are_not_removed_unread(desk: Desk) -> None:
    read_before = await parent(desk)
    written = (
        await release(desk.client, read_before, ParentRecords(inventory={ROLE: 1}, has_finalizer=True))
    ).resource_version
    with pytest.raises(ApiError) as found:
        await release(desk.client, read_before)
    assert found.value.conflict
    assert not found.value.terminal
    now = await desk.client.get(ECHO, "web", desk.namespace)
    assert now.resource_version == written
    assert read_parent_records(now) == ParentRecords(inventory={ROLE: 1}, has_finalizer=True)


async def test_a_parent_that_is_gone_or_was_recreated_is_not_changed(desk: Desk) -> None:
    first = await parent(desk)
    await desk.release("echo", "web")
    await desk.delete("echo", "web")
    await release(desk.client, first)
    second = await parent(desk)
    await release(desk.client, first)
    assert (await desk.client.get(ECHO, "web", desk.namespace)).resource_version == second.resource_version


@pytest.mark.parametrize(("times", "ends"), [(2, True), (9, False)])
async def test_a_parent_that_changes_all_the_time_is_retried_a_few_times_and_then_by_the_next_reconcile(
    desk: Desk, times: int, ends: bool
) -> None:
    live = await parent(desk)
    async with InterferingClient(desk.client.credentials) as client:
        client.desk, client.times = desk, times
        if ends:
            assert FINALIZER not in (await release(client, live)).metadata.finalizers
        else:
            with pytest.raises(ApiError) as found:
                await release(client, live)
            assert (found.value.code, found.value.terminal) == (409, False)


async def test_the_inventory_is_removed_in_the_write_that_adds_another_record(desk: Desk) -> None:
    live = await release(desk.client, await parent(desk), ParentRecords(inventory={ROLE: 1}, has_finalizer=True))
    await desk.kubectl("annotate", "echo", "web", f"{INVENTORY_ANNOTATION}-")
    live = await desk.client.get(ECHO, "web", desk.namespace)
    await desk.patch(
        "echo", "web", metadata={"annotations": {INVENTORY_ANNOTATION: '[{"kind":"Namespace","name":"x"}]'}}
    )
    live = await desk.client.get(ECHO, "web", desk.namespace)
    found = await release(desk.client, live, ParentRecords(once_records={"a": "b"}))
    assert read_parent_records(found) == ParentRecords(once_records={"a": "b"})
    assert found.metadata.finalizers == ("a.b/hold",)
