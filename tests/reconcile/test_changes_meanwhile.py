"""What another client changes while a reconcile is under way is not overwritten."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.request import ApplyOptions, Request
from ssa_operator.kube.api.transport import Response
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from tests.devcluster.waiting import until
from tests.operator.harness import (
    ECHOES,
    PATIENCE,
    CountingClient,
    Desk,
    MakeOptions,
    administrator,
    echo,
    map_template,
    only,
    operating,
    uid,
)
from tests.reconcile.prune.test_stale_views import PASSWORD, has_replicas, password

pytestmark = pytest.mark.cluster

MINE = {"stringData": {"password": "of the user"}}


class InterruptedClient(CountingClient):
    """A client that runs `interruption` once, before it sends the first request that `is_awaited`."""

    is_awaited: Callable[[Request], bool]
    interruption: Callable[[], Awaitable[None]] | None = None

    async def send(self, request: Request) -> Response:
        if self.interruption is not None and not self.was_interrupted() and self.is_awaited(request):
            self.met["awaited request"] += 1
            await self.interruption()
        return await super().send(request)

    def was_interrupted(self) -> bool:
        return self.met["awaited request"] > 0


@pytest.fixture
async def interrupted(cluster: Cluster) -> AsyncIterator[InterruptedClient]:
    """A client without an interruption yet."""
    async with InterruptedClient(await administrator(cluster)) as client:
        yield client


PRESENT = map_template("first-{{ spec.replicas }}", x="1").replace(
    "metadata:", "metadata:\n  annotations: {ssa-operator.dev/apply: IfNotPresent}"
)


async def test_a_generated_value_that_changes_between_render_and_plan_is_not_overwritten(
    desk: Desk, interrupted: InterruptedClient, options: MakeOptions, templates: Path
) -> None:
    """The plan knows the object as it is by now, and the render has the value that it had before."""
    only(templates, secret=PASSWORD, present=PRESENT)
    async with operating(interrupted, options(templates=templates)) as running:
        await desk.apply_until_ready(echo("web", 1))
        identity = LiveObject(encode(await desk.read("secrets", "web"))).identity

        async def change() -> None:
            await desk.patch("secret", "web", **MINE)
            version = (await desk.read("secrets", "web"))["metadata"]["resourceVersion"]
            children = running.operator.controllers.children
            await until(lambda: children[identity].resource_version == version, PATIENCE)

        # The planner asks whether the object exists, after the templates are rendered.
        interrupted.is_awaited = lambda request: request.path.endswith("/configmaps/web-first-2")
        interrupted.interruption = change
        await desk.apply(echo("web", 2))
        new = await desk.until("secrets", "web", has_replicas(2))
        assert interrupted.was_interrupted()
        assert password(new) == "of the user"
        await desk.ready(ECHOES, "web")


@pytest.mark.parametrize("manager", ["user", "kubectl-create"])
async def test_a_generated_value_that_changes_while_its_object_is_adopted_is_not_overwritten(
    desk: Desk, client: Client, interrupted: InterruptedClient, options: MakeOptions, templates: Path, manager: str
) -> None:
    only(templates, secret=PASSWORD)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}, "stringData": {"password": "first"}}
    if manager == "user":
        resource = await desk.mapper.resource_by_name("secrets")
        await client.apply(resource, desk.namespace, "web", encode(secret), ApplyOptions(manager=manager))
    else:
        await desk.kubectl("create", "secret", "generic", "web", "--from-literal=password=first")
    old = await desk.read("secrets", "web")

    async def change() -> None:
        await desk.patch("secret", "web", **MINE)

    is_apply = ("fieldManager", "ssa-operator")
    interrupted.is_awaited = lambda request: request.path.endswith("/secrets/web") and is_apply in request.query
    interrupted.interruption = change
    async with operating(interrupted, options(templates=templates)):
        await desk.apply_until_ready(echo("web", 1))
        new = await desk.until("secrets", "web", has_replicas(1))
        assert interrupted.was_interrupted()
        assert (uid(new), password(new)) == (uid(old), "of the user")
