"""A thousand parents of ten tenants: a set that breaks every parent reaches the canaries, one in each namespace."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.reconcile.parent_records.rules import read_parent_records
from ssa_operator.rendering.folder.installation import Installation
from tests.devcluster.waiting import until
from tests.operator.harness import Desk, Operate, definition
from tests.operator.rollouts.test_rollouts import Story, child

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NAMESPACES, PARENTS = 10, 1000
SETTINGS = "rollout: {canary: {count: 10}, settle: 100ms}\n"


async def test_a_set_that_breaks_a_thousand_parents_stops_at_its_ten_canaries(
    desk: Desk, operate: Operate, group: str, namespace: str, tmp_path: Path
) -> None:
    story = Story(desk, f"things.{group}", tmp_path / "rolled")
    await desk.define(definition("things", group, "Thing"))
    tenants = [f"{namespace}-{number}" for number in range(NAMESPACES)]
    for tenant in tenants:
        await desk.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant}})

    def thing(number: int) -> dict[str, Any]:
        metadata = {"name": f"p{number}", "namespace": tenants[number % NAMESPACES]}
        return {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": metadata, "spec": {}}

    for start in range(0, PARENTS, 50):
        await asyncio.gather(*(desk.apply(thing(number)) for number in range(start, start + 50)))
    story.write(child("one"), SETTINGS)
    options = {"templates": story.templates, "installation": Installation(namespace=namespace)}
    async with operate(namespaces=(namespace, *tenants), **options) as running:
        resource = await desk.mapper.resource_by_name(story.folder)

        async def revisions() -> Counter[tuple[str, str]]:
            """How many parents run each revision in each namespace."""
            lives, _ = await desk.client.list(resource)
            found = [live for live in lives if live.metadata.namespace in tenants]
            return Counter((live.metadata.namespace, read_parent_records(live).revision.revision) for live in found)

        await story.until_stored('"successes":[')
        first = running.operator.folders[story.folder].folder.revision
        each = PARENTS // NAMESPACES
        await until(lambda: running.operator.folders[story.folder].ready_count == PARENTS, 300)
        assert await revisions() == {(tenant, first): each for tenant in tenants}
        story.write('{{ fail("broken") }}\n' + child("two"), SETTINGS)
        rollouts = running.operator.rollouts
        assert rollouts is not None
        await until(lambda: bool((found := rollouts.find(story.folder)) and found.state and found.state.stopped), 900)
        await story.until_stored('"stopped":"10 parents that were Ready are not Ready')
        # What others do goes on with the set before, and brings no other parent the new one.
        lives, _ = await desk.client.list(resource, tenants[0])
        kept = next(live for live in lives if read_parent_records(live).revision.revision == first)
        async with desk.elsewhere(tenants[0]) as other:
            await other.delete("configmaps", kept.metadata.name)
            await other.until("configmaps", kept.metadata.name, lambda body: body["data"]["text"] == "one")
        found = await revisions()
        assert {key: count for key, count in found.items() if key[1] == first} == {
            (tenant, first): each - 1 for tenant in tenants
        }
        assert found.total() == PARENTS
    for tenant in tenants:
        await desk.delete("namespace", tenant, wait=False)
