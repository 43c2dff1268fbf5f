"""A deletion destroys nothing that its parent lives in, and waits for nothing whose end waits for the parent."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.operator.harness import (
    ECHOES,
    Desk,
    Operate,
    config_map,
    definition,
    echo,
    entries,
    map_template,
    only,
)

pytestmark = pytest.mark.cluster

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
WIDE = "clusterScope: true\nadopt: Always\n"
CLEANUP = "ssa-operator.dev/cleanup"

HOME = """\
apiVersion: v1
kind: Namespace
metadata:
  name: {{ namespace }}
  labels: {rendered-by: {{ name }}}
"""


@contextlib.asynccontextmanager
async def spaces(desk: Desk, count: int) -> AsyncIterator[list[Desk]]:
    """Namespaces that are deleted at the end."""
    names = [f"{desk.namespace}-{number}" for number in range(count)]
    await desk.apply(*map(space, names))
    async with contextlib.AsyncExitStack() as stack:
        for name in names:
            stack.push_async_callback(_delete_space, desk, name)
        yield [await stack.enter_async_context(desk.elsewhere(name)) for name in names]


def space(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def _delete_space(desk: Desk, name: str) -> None:
    if await desk.find("namespaces", name):
        await desk.delete("namespace", name, wait=False)


def is_going(body: dict[str, Any]) -> bool:
    return "deletionTimestamp" in body["metadata"]


async def test_the_namespace_of_a_parent_outlives_the_parent_that_renders_it(
    desk: Desk, operate: Operate, templates: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", "ssa_operator")
    folder = only(templates, home=HOME) / ECHOES
    (folder / "_settings.yaml").write_text(WIDE)
    async with spaces(desk, 1) as (home,), operate(namespaces=(home.namespace,)):
        await home.apply(config_map("precious", a="b"))
        parent = await home.apply_until_ready(echo("web"))
        kept = entries(parent)[f"Namespace/{home.namespace}"]["message"]
        assert f"the parent never deletes it, because Echo {home.namespace}/web lives in it" in kept
        await home.until_event("ChildKept", "lives in it", about="web")
        for replicas in (2, 3):
            await home.apply_until_ready(echo("web", replicas))
        assert caplog.text.count("never deletes it") == 1
        assert CLEANUP not in parent["metadata"].get("finalizers", [])
        await home.delete("echo", "web", wait=False)
        await home.gone(ECHOES, "web")
        assert not is_going(await home.read("namespaces", home.namespace))
        assert await home.find("configmaps", "precious")


async def test_a_parent_that_renders_itself_becomes_ready_and_can_be_deleted(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    itself = "apiVersion: example.com/v1\nkind: Echo\nmetadata: {name: '{{ name }}', labels: {rendered: 'yes'}}\n"
    only(templates, itself=itself, map=map_template("map", a="spec.replicas"))
    async with operate():
        parent = await desk.apply_until_ready(echo("web"))
        assert parent["metadata"]["labels"]["rendered"] == "yes"
        assert entries(parent)["Echo/web"]["state"] == "Current"
        await desk.delete("echo", "web", wait=False)
        await desk.gone(ECHOES, "web")


async def test_the_crd_of_a_parent_outlives_the_parent_that_renders_it(
    desk: Desk, operate: Operate, templates: Path, group: str
) -> None:
    crd = definition("homes", group, "Home")
    await desk.define(crd)
    folder = templates / f"homes.{group}"
    folder.mkdir()
    (folder / "crd.yaml.j2").write_text(json.dumps(crd))
    (folder / "_settings.yaml").write_text(WIDE)
    resource = f"homes.{group}"
    async with operate():
        await desk.apply_until_ready({"apiVersion": f"{group}/v1", "kind": "Home", "metadata": {"name": "one"}})
        await desk.apply({"apiVersion": f"{group}/v1", "kind": "Home", "metadata": {"name": "two"}})
        await desk.delete(resource, "one", wait=False)
        await desk.gone(resource, "one")
        assert not is_going(await desk.read(CRDS, resource))


OTHER = """\
apiVersion: v1
kind: Namespace
metadata:
  name: {{ spec.other }}
"""


@pytest.mark.exhaustive
async def test_two_parents_that_each_render_the_namespace_of_the_other_are_deleted(
    desk: Desk, operate: Operate, templates: Path, group: str
) -> None:
    await desk.define(definition("links", group, "Link"))
    folder = templates / f"links.{group}"
    folder.mkdir()
    (folder / "other.yaml.j2").write_text(OTHER)
    (folder / "_settings.yaml").write_text(WIDE)
    resource = f"links.{group}"

    def link(name: str, other: str) -> dict[str, Any]:
        return {
            "apiVersion": f"{group}/v1",
            "kind": "Link",
            "metadata": {"name": name},
            "spec": {"other": other},
        }

    async with spaces(desk, 2) as (one, two), operate(namespaces=(one.namespace, two.namespace)):
        await one.apply_until_ready(link("first", two.namespace))
        await two.apply_until_ready(link("second", one.namespace))
        await one.delete(resource, "first", wait=False)
        await one.gone(resource, "first")
        await desk.gone("namespaces", one.namespace)
        await desk.gone("namespaces", two.namespace)


@pytest.mark.exhaustive
async def test_a_namespace_that_an_earlier_version_recorded_outlives_its_template_and_its_parent(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    folder = only(templates, home=HOME, map=map_template("a")) / ECHOES
    (folder / "_settings.yaml").write_text(WIDE)
    async with spaces(desk, 1) as (home,), operate(namespaces=(home.namespace,)) as running:
        await home.apply_until_ready(echo("web"))
        record = json.dumps([{"kind": "Namespace", "name": home.namespace}])
        metadata = {"finalizers": [CLEANUP], "annotations": {"ssa-operator.dev/inventory": record}}
        await home.patch("echo", "web", metadata=metadata)
        await home.until(ECHOES, "web", lambda body: CLEANUP not in body["metadata"].get("finalizers", []))
        running.remove(f"{ECHOES}/home.yaml.j2")
        await home.patch("echo", "web", metadata=metadata)
        stays = "is no longer rendered, and stays"

        def is_kept(body: dict[str, Any]) -> bool:
            entry = entries(body).get(f"Namespace/{home.namespace}", {})
            return stays in entry.get("message", "") and CLEANUP not in body["metadata"].get("finalizers", [])

        await home.until(ECHOES, "web", is_kept)
        await home.patch("echo", "web", metadata=metadata)
        await home.delete("echo", "web", wait=False)
        await home.gone(ECHOES, "web")
        assert not is_going(await home.read("namespaces", home.namespace))


@pytest.mark.exhaustive
async def test_the_crd_of_a_cluster_scoped_parent_loses_the_owner_that_would_delete_it(
    desk: Desk, operate: Operate, templates: Path, group: str
) -> None:
    resource = f"lands.{group}"
    crd = definition("lands", group, "Land", scope="Cluster")
    await desk.define(crd)
    folder = templates / resource
    folder.mkdir()
    (folder / "crd.yaml.j2").write_text(json.dumps(crd))
    (folder / "_settings.yaml").write_text(WIDE)
    async with operate():
        parent = await desk.apply_until_ready(
            {"apiVersion": f"{group}/v1", "kind": "Land", "metadata": {"name": "one"}}
        )
        assert "ownerReferences" not in (await desk.read(CRDS, resource))["metadata"]
        owner = {"apiVersion": f"{group}/v1", "kind": "Land", "name": "one", "uid": parent["metadata"]["uid"]}
        # A user restored a backup of an earlier version's.
        await desk.patch("crd", resource, metadata={"ownerReferences": [{**owner, "controller": True}]})
        await desk.patch(resource, "one", metadata={"annotations": {"ssa-operator.dev/reconcile-at": "now"}})
        await desk.until(CRDS, resource, lambda body: "ownerReferences" not in body["metadata"])
