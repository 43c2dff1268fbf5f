"""A deletion waits for no end that waits for it, even if the parents in between belong to other operator processes. No
process reads the parents of another one.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.operator.operator_options import Options
from ssa_operator.rendering.folder.installation import Installation
from tests.examples.printed_roles import MakeAccount, account
from tests.operator.harness import (
    ROLES,
    Desk,
    MakeOptions,
    Operate,
    config_map,
    definition,
    entries,
    not_ready_because,
    operating,
    uid,
)
from tests.reconcile.finalization.test_wait_cycles import CRDS, WIDE, is_going, space, spaces
from tests.reconcile.shards.test_shards import all_of

__all__ = ["account"]

pytestmark = pytest.mark.cluster

RENDERED = """\
{% for manifest in spec.manifests | default([]) %}
---
{{ manifest | to_yaml }}
{% endfor %}
"""
"""A parent's manifests are in its spec."""

SPACE = """\
apiVersion: v1
kind: Namespace
metadata: {name: "{{ spec.manifests[0].metadata.name }}"}
"""
"""As RENDERED, of a Namespace: `rbac` prints permissions for the kinds that a template names."""


@pytest.fixture
async def links(desk: Desk, templates: Path, group: str) -> Path:
    """The folder of Links, beside one of Chains in a folder of its own."""
    await desk.define(definition("links", group, "Link"), definition("chains", group, "Chain"))
    for plural, parent in (("links", "templates"), ("chains", "others")):
        folder = templates.parent / parent / f"{plural}.{group}"
        folder.mkdir(parents=True)
        (folder / "any.yaml.j2").write_text(RENDERED)
        (folder / "_settings.yaml").write_text(WIDE)
    return templates


def parent(group: str, name: str, *manifests: dict[str, Any], kind: str = "Link") -> dict[str, Any]:
    metadata = {"name": name}
    return {"apiVersion": f"{group}/v1", "kind": kind, "metadata": metadata, "spec": {"manifests": list(manifests)}}


def role(name: str) -> dict[str, Any]:
    api_version = "rbac.authorization.k8s.io/v1"
    return {"apiVersion": api_version, "kind": "ClusterRole", "metadata": {"name": name}, "rules": []}


@contextlib.asynccontextmanager
async def operators(desk: Desk, *options: Options) -> AsyncIterator[None]:
    """An operator for each of these options."""
    async with contextlib.AsyncExitStack() as stack:
        for each in options:
            await stack.enter_async_context(operating(desk.client, each))
        yield


async def in_shard(home: Desk, index: int, group: str, *manifests: dict[str, Any], kind: str = "Link") -> str:
    """Apply parents until one is in the shard with that index of two; returns its name. The others are deleted."""
    shard = all_of(2)[index]
    for number in range(100):
        name = f"{kind.lower()}-{number}"
        await home.apply(parent(group, name, kind=kind))
        if shard.owns(uid(await home.read(f"{kind.lower()}s.{group}", name))):
            await home.apply_until_ready(parent(group, name, *manifests, kind=kind))
            return name
        await home.delete(f"{kind.lower()}s.{group}", name)
    raise AssertionError("no uid in the shard")


@pytest.mark.exhaustive
async def test_two_parents_of_two_shards_that_each_render_the_namespace_of_the_other_are_deleted(
    desk: Desk, options: MakeOptions, links: Path, group: str
) -> None:
    resource = f"links.{group}"
    async with spaces(desk, 2) as (one, two):
        names = (one.namespace, two.namespace)
        lease = Installation(namespace=desk.namespace)
        shards = [options(shard=each, namespaces=names, installation=lease) for each in all_of(2)]
        async with operators(desk, *shards):
            first = await in_shard(one, 0, group, space(two.namespace))
            await in_shard(two, 1, group, space(one.namespace))
            await one.delete(resource, first, wait=False)
            await one.gone(resource, first)
            for name in names:
                await desk.gone("namespaces", name)


@pytest.mark.exhaustive
async def test_three_parents_of_three_operators_in_a_ring_are_deleted_under_the_printed_roles(
    desk: Desk, options: MakeOptions, links: Path, group: str, account: MakeAccount
) -> None:
    resource = f"links.{group}"
    (links / resource / "any.yaml.j2").write_text(SPACE)
    async with contextlib.AsyncExitStack() as stack:
        homes = await stack.enter_async_context(spaces(desk, 3))
        for home in homes:
            arguments = (f"--templates={links}", f"--namespace={home.namespace}")
            limited = await stack.enter_async_context(account(*arguments))
            made = options(namespaces=(home.namespace,))
            await stack.enter_async_context(operating(limited.client, made))
        for home, other in zip(homes, [*homes[1:], homes[0]], strict=True):
            await home.apply_until_ready(parent(group, "one", space(other.namespace)))
        await homes[0].delete(resource, "one", wait=False)
        await homes[0].gone(resource, "one")
        for home in homes:
            await desk.gone("namespaces", home.namespace)


@pytest.mark.exhaustive
async def test_a_parent_that_renders_the_crd_of_another_operators_parent_is_deleted(
    desk: Desk, options: MakeOptions, links: Path, group: str
) -> None:
    crd = {key: value for key, value in definition("chains", group, "Chain").items() if key != "status"}
    async with spaces(desk, 2) as (one, two):
        mine = options(namespaces=(one.namespace,))
        others = options(templates=links.parent / "others", namespaces=(two.namespace,))
        async with operators(desk, mine, others):
            await two.apply_until_ready(parent(group, "far", space(one.namespace), kind="Chain"))
            await one.apply_until_ready(parent(group, "near", crd))
            await one.delete(f"links.{group}", "near", wait=False)
            await one.gone(f"links.{group}", "near")
            await desk.gone(CRDS, f"chains.{group}")
            await desk.gone("namespaces", one.namespace)
        assert not is_going(await desk.read("namespaces", two.namespace))


async def until_younger(home: Desk, older: dict[str, Any]) -> None:
    """Create objects until one is younger than another object: timestamps have seconds."""
    for number in itertools.count():
        await home.apply(config_map(f"clock-{number}"))
        found = await home.read("configmaps", f"clock-{number}")
        if found["metadata"]["creationTimestamp"] > older["metadata"]["creationTimestamp"]:
            return


async def test_the_namespace_of_another_operators_parent_outlives_the_parent_that_it_created(
    desk: Desk, options: MakeOptions, links: Path, group: str
) -> None:
    resource = f"links.{group}"
    async with spaces(desk, 2) as (one, two):
        child = parent(group, "below", space(one.namespace))
        child["metadata"]["namespace"] = two.namespace
        async with operators(desk, *(options(namespaces=(each.namespace,)) for each in (one, two))):
            await until_younger(two, await one.read("namespaces", one.namespace))
            await one.apply_until_ready(parent(group, "above", child))
            below = await two.ready(resource, "below")
            kept = entries(below)[f"Namespace/{one.namespace}"]["message"]
            assert f"the parent never deletes it, because it is older than Link {two.namespace}/below, and a" in kept
            assert "finalizers" not in below["metadata"]
            await one.apply(parent(group, "above"))
            await two.gone(resource, "below")
        assert not is_going(await desk.read("namespaces", one.namespace))


@pytest.mark.exhaustive
async def test_namespaces_that_nested_parents_adopted_are_deleted_with_them_whichever_shard_has_the_parent_above(
    desk: Desk, options: MakeOptions, links: Path, group: str
) -> None:
    """The API server draws the uids, so that some of the parents are in another shard than the one above them."""
    resource = f"links.{group}"
    async with spaces(desk, 7) as (one, two, *homes):
        names = (one.namespace, two.namespace)
        lease = Installation(namespace=desk.namespace)
        shards = [options(shard=each, namespaces=names, installation=lease) for each in all_of(2)]
        children = [parent(group, f"below-{number}", space(home.namespace)) for number, home in enumerate(homes)]
        for child in children:
            child["metadata"]["namespace"] = two.namespace
        await until_younger(two, await desk.read("namespaces", homes[-1].namespace))
        async with operators(desk, *shards):
            await one.apply_until_ready(parent(group, "above", *children))
            await one.delete(resource, "above", wait=False)
            await one.gone(resource, "above")
            for home in homes:
                await desk.gone("namespaces", home.namespace)


@pytest.mark.exhaustive
async def test_parents_that_create_parents_and_namespaces_are_deleted_and_what_the_first_one_lives_in_stays(
    desk: Desk, operate: Operate, links: Path, group: str
) -> None:
    """A cluster-scoped parent would own the namespace, and the garbage collector would delete it."""
    await desk.define(definition("lands", group, "Land", scope="Cluster"))
    shutil.copytree(links / f"links.{group}", links / f"lands.{group}")
    async with spaces(desk, 2) as (one, two), operate(namespaces=()):
        land = f"{one.namespace}-land"
        inner = parent(group, "inner", role(f"{one.namespace}-inner"))
        inner["metadata"]["namespace"] = two.namespace
        lands = parent(group, land, space(one.namespace), kind="Land")
        await one.apply_until_ready(parent(group, "outer", space(two.namespace), inner, lands))
        assert "ownerReferences" not in (await desk.read("namespaces", one.namespace))["metadata"]
        where = (f"--namespace={one.namespace}", "--cascade=foreground", "--wait=false")
        await desk.kubectl("delete", f"links.{group}", "outer", *where)
        await one.gone(f"links.{group}", "outer")
        await desk.gone("namespaces", two.namespace)
        await desk.gone(f"lands.{group}", land)
        assert await desk.find(ROLES, f"{one.namespace}-inner") is None
        assert not is_going(await desk.read("namespaces", one.namespace))


@pytest.mark.exhaustive
async def test_a_parent_waits_for_a_namespace_of_another_operators_parent_that_does_not_wait_for_it(
    desk: Desk, options: MakeOptions, operate: Operate, links: Path, group: str
) -> None:
    """The role goes after the namespace, which was created later."""
    resource = f"links.{group}"
    async with spaces(desk, 2) as (one, two):
        await two.apply(parent(group, "far", role(f"{desk.namespace}-far"), kind="Chain"))
        async with operate(templates=links.parent / "others", namespaces=(two.namespace,)):
            await two.ready(f"chains.{group}", "far")
        async with operate(namespaces=(one.namespace,)) as running:
            await one.apply_until_ready(parent(group, "near", space(two.namespace)))
            await one.delete(resource, "near", wait=False)
            await one.until(resource, "near", not_ready_because("Deleting", "ssa-operator.dev/cleanup in 1 resource"))
            running.forget()
            await one.patch("link", "near", metadata={"annotations": {"a.b/c": "d"}})
            await running.reconciled(1)
            assert await one.find(resource, "near")
            async with operate(templates=links.parent / "others", namespaces=(two.namespace,)):
                await one.gone(resource, "near")
                await desk.gone("namespaces", two.namespace)
