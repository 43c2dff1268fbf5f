"""A deletion destroys nothing that its parent lives in, and waits for nothing whose end waits for the parent."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.controller.harness import (
    ECHOES,
    Desk,
    Operate,
    config_map,
    definition,
    echo,
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
    async with contextlib.AsyncExitStack() as stack:
        for name in names:
            await desk.kubectl("create", "namespace", name)
            stack.push_async_callback(desk.kubectl, "delete", "namespace", name, "--wait=false", "--ignore-not-found")
        yield [await stack.enter_async_context(desk.elsewhere(name)) for name in names]


def is_going(body: dict[str, Any]) -> bool:
    return "deletionTimestamp" in body["metadata"]


async def test_the_namespace_of_a_parent_outlives_the_parent_that_renders_it(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    folder = only(templates, home=HOME) / ECHOES
    (folder / "_settings.yaml").write_text(WIDE)
    async with spaces(desk, 1) as (home,), operate(namespaces=(home.namespace,)):
        await home.apply(config_map("precious", a="b"))
        await home.apply_until_ready(echo("web"))
        await home.delete("echo", "web", wait=False)
        await home.gone(ECHOES, "web")
        assert not is_going(await home.read("namespaces", home.namespace))
        assert await home.find("configmaps", "precious")


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
        for name in ("one", "two"):
            await desk.apply_until_ready({"apiVersion": f"{group}/v1", "kind": "Home", "metadata": {"name": name}})
            break
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
