"""Templates that create parents, which create parents again: the operator ends the line, and prunes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.parent_settings import MAX_DEPTH
from tests.operator.harness import ECHOES, Desk, Operate, definition, echo, not_ready_because, only
from tests.reconcile.shards.test_shards import all_of, sharded

pytestmark = pytest.mark.cluster

LEVELS = "levels.nested.example.com"

NEXT = """\
apiVersion: {version}
kind: {kind}
metadata: {{name: '{{{{ name }}}}-x'}}
spec: {{replicas: 1}}
"""
ECHO = NEXT.format(version="example.com/v1", kind="Echo")
LEVEL = NEXT.format(version="nested.example.com/v1", kind="Level")
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ name }}'}\n"


def names(count: int) -> list[str]:
    """The first names of the line."""
    return ["web" + "-x" * number for number in range(count)]


def found(*caches: Cache) -> list[str]:
    return sorted((live.identity.name for cache in caches for live in cache), key=len)


async def beyond(desk: Desk, resource: str, level: int = MAX_DEPTH) -> dict[str, Any]:
    """The parent that creates nothing, once it reports so."""
    words = ("is not created, because templates create parents", "web -> ", f"{level} parents above", "maxDepth")
    return await desk.until(resource, names(level + 1)[-1], not_ready_because("InvalidManifest", *words))


def recorded_deletions(caches: Sequence[Cache]) -> list[LiveObject]:
    deleted: list[LiveObject] = []
    for cache in caches:
        cache.listen(lambda old, new: deleted.append(old) if new is None and old is not None else None)
    return deleted


async def test_parents_that_create_parents_of_their_kind_end_at_the_bound_also_after_a_restart(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, next=ECHO, map=MAP)
    cache = (await desk.view(ECHOES)).cache
    deleted = recorded_deletions([cache])
    async with operate():
        await desk.apply(echo("web"))
        await beyond(desk, ECHOES)
    assert found(cache) == names(MAX_DEPTH + 1)
    async with operate() as running:
        await running.reconciled(MAX_DEPTH + 1)
        running.forget()
        await desk.patch("echo", names(MAX_DEPTH + 1)[-1], metadata={"labels": {"other": "yes"}})
        await running.reconciled(1)
        await beyond(desk, ECHOES)
        assert found(cache) == names(MAX_DEPTH + 1)
        assert not deleted


@pytest.mark.exhaustive
async def test_parents_of_two_kinds_that_create_each_other_end_at_the_bound_also_after_a_restart(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    await desk.define(definition("levels", "nested.example.com", "Level"))
    only(templates, next=LEVEL)
    (templates / LEVELS).mkdir()
    (templates / LEVELS / "next.yaml.j2").write_text(ECHO)
    caches = [(await desk.view(resource)).cache for resource in (ECHOES, LEVELS)]
    async with operate():
        await desk.apply(echo("web"))
        await beyond(desk, ECHOES)
    assert found(*caches) == names(MAX_DEPTH + 1)
    async with operate() as running:
        await running.reconciled(MAX_DEPTH + 1)
        await beyond(desk, ECHOES)
        assert found(*caches) == names(MAX_DEPTH + 1)


@pytest.mark.exhaustive
async def test_parents_of_several_shards_end_at_the_bound_also_after_a_restart(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    """The API server draws the uids, so that each line of parents goes through the shards in another order."""
    only(templates, next=ECHO, map=MAP)
    cache = (await desk.view(ECHOES)).cache
    async with sharded(desk, operate, *all_of(2)):
        await desk.apply(echo("web"))
        await beyond(desk, ECHOES)
    assert found(cache) == names(MAX_DEPTH + 1)
    async with sharded(desk, operate, *all_of(3)):
        await desk.patch("echo", names(MAX_DEPTH + 1)[-1], spec={"replicas": 2})
        await beyond(desk, ECHOES)
        assert found(cache) == names(MAX_DEPTH + 1)


async def test_the_setting_of_the_folder_allows_more(desk: Desk, operate: Operate, templates: Path) -> None:
    only(templates, next="{% if name | length < 3 + 2 * 10 %}\n" + ECHO + "{% endif %}")
    async with operate() as running:
        await desk.apply(echo("web"))
        await beyond(desk, ECHOES)
        running.write(f"{ECHOES}/_settings.yaml", "maxDepth: 10\n")
        for name in names(11):
            await desk.ready(ECHOES, name)
