"""A TempNamespace's namespace goes at its moment, or as soon as an operator runs after it. Nothing ticks here."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.operator import crd_installation as crds
from ssa_operator.operator.operator_options import Options
from tests.examples.example_catalog import GALLERY
from tests.operator.harness import Desk, operating

pytestmark = pytest.mark.cluster

PARENTS = "tempnamespaces.example.roperator.com"
TEMPLATES = GALLERY / "temp-namespace" / "templates"


@pytest.fixture
async def name(client: Client) -> str:
    """A name of its own, with the CRD installed."""
    await crds.install(client, crds.load_crds(GALLERY / "temp-namespace" / "crds"))
    return f"temp-{uuid.uuid4().hex[:10]}"


def temp_namespace(name: str, duration: str) -> dict[str, Any]:
    return {
        "apiVersion": "example.roperator.com/v1alpha1",
        "kind": "TempNamespace",
        "metadata": {"name": name},
        "spec": {"deleteAfter": duration},
    }


def is_deleted(body: dict[str, Any]) -> bool:
    return "deletedAt" in body.get("status", {})


def moments(body: dict[str, Any]) -> list[datetime]:
    """When it was created, was to go, and went."""
    return [datetime.fromisoformat(body["status"][field]) for field in ("createdAt", "expiresAt", "deletedAt")]


@pytest.mark.slow
async def test_the_namespace_goes_at_its_moment_and_the_status_says_when(
    client: Client, desk: Desk, options: Callable[..., Options], name: str
) -> None:
    async with operating(client, options(templates=TEMPLATES)):
        await desk.apply(temp_namespace(name, "5s"))
        namespace = await desk.until("namespaces", name, lambda body: "deletionTimestamp" not in body["metadata"])
        await desk.gone("namespaces", name)
        gone = await desk.until(PARENTS, name, is_deleted)
        created, expires, deleted = moments(gone)
        assert created == datetime.fromisoformat(namespace["metadata"]["creationTimestamp"])
        assert created <= expires <= deleted
        assert gone["status"]["reason"] == "Expired"
        assert "finalizers" not in gone["metadata"]
        await desk.kubectl("patch", "tempnamespace", name, "--type=merge", "-p", '{"spec":{"deleteAfter":"1h"}}')
        await desk.until("namespaces", name, lambda body: body["metadata"]["uid"] != namespace["metadata"]["uid"])
        again = await desk.until(PARENTS, name, lambda body: body["status"].get("reason") == "Active")
        assert "deletedAt" not in again["status"]
        await desk.delete("tempnamespace", name)
    await desk.gone("namespaces", name)


@pytest.mark.slow
async def test_an_operator_that_was_down_at_the_moment_deletes_it_when_it_is_back(
    client: Client, desk: Desk, options: Callable[..., Options], name: str
) -> None:
    async with operating(client, options(templates=TEMPLATES)):
        await desk.apply(temp_namespace(name, "1h"))
        made = await desk.ready(PARENTS, name)
        age = time.time() - datetime.fromisoformat(made["metadata"]["creationTimestamp"]).timestamp()
        await desk.apply(temp_namespace(name, f"{int(age) + 5}s"))
        # The next operator finds a generation that is known: nothing but time has ended the namespace.
        seen = await desk.until(PARENTS, name, lambda body: body["status"]["observedGeneration"] == 2)
    await asyncio.sleep(max(0.0, datetime.fromisoformat(seen["status"]["expiresAt"]).timestamp() - time.time()))
    async with operating(client, options(templates=TEMPLATES)):
        gone = await desk.until(PARENTS, name, is_deleted)
    created, expires, deleted = moments(gone)
    assert created < expires <= deleted
    await desk.gone("namespaces", name)


async def test_a_namespace_that_was_there_is_left_alone(
    client: Client, desk: Desk, options: Callable[..., Options], name: str
) -> None:
    await desk.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    async with operating(client, options(templates=TEMPLATES)):
        await desk.apply(temp_namespace(name, "1s"))
        await desk.until(PARENTS, name, lambda body: body.get("status", {}).get("reason") == "Expired")
    found = await desk.until("namespaces", name, lambda _: True)
    assert "deletionTimestamp" not in found["metadata"]
    assert "ssa-operator.dev/parent-uid" not in found["metadata"]["labels"]
    await desk.delete("namespace", name, wait=False)


@pytest.mark.parametrize("name", ["a.b", "x" * 64])
async def test_a_name_that_no_namespace_can_have_is_refused(desk: Desk, client: Client, name: str) -> None:
    await crds.install(client, crds.load_crds(GALLERY / "temp-namespace" / "crds"))
    with pytest.raises(AssertionError, match="at most 63 lower case letters, digits and dashes"):
        await desk.apply(temp_namespace(name, "1s"))
