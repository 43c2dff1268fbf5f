"""Templates that ask which kinds the cluster serves."""

from __future__ import annotations

import asyncio
import json
import uuid

import pytest
from msgspec.structs import replace

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.api.transport import Response
from ssa_operator.kube.auth.credentials import Credentials
from ssa_operator.objects.built_in_kinds import BUILT_IN_KINDS, CLUSTER_SCOPED, KUBERNETES_VERSION, ApiKind
from ssa_operator.objects.identity import join_api_version
from ssa_operator.operator import folder_controllers
from tests.devcluster.waiting import until
from tests.operator.harness import (
    ECHOES,
    Desk,
    MakeOptions,
    Operate,
    administrator,
    definition,
    echo,
    entries,
    holds,
    is_ready,
    map_template,
    only,
    operating,
)

pytestmark = pytest.mark.cluster

TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
data:
  there: "{{ api_available('GROUP/v1', 'In') }}"
  other: "{{ api_available('GROUP/v2', 'In') }}"
  version: "{{ kubernetes_version }}"
"""


@pytest.mark.usefixtures("current_kubernetes")
async def test_a_parent_is_reconciled_when_a_kind_comes_and_goes(desk: Desk, operate: Operate) -> None:
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    async with operate() as running:
        only(running.templates, a=TEMPLATE.replace("GROUP", group))
        await desk.apply_until_ready(echo("web", 1))
        same = {"other": "false", "version": KUBERNETES_VERSION}
        await desk.until("configmaps", "web", holds(there="false", **same))
        await desk.define(definition("ins", group, "In"))
        await desk.until("configmaps", "web", holds(there="true", **same))
        await desk.delete("crd", f"ins.{group}")
        await desk.until("configmaps", "web", holds(there="false", **same))


class UpgradedClient(Client):
    """A client of an API server that is upgraded."""

    minor = ""

    async def send(self, request: Request) -> Response:
        response = await super().send(request)
        if request.path == "/version" and self.minor:
            body = json.loads(response.body) | {"minor": self.minor}
            return replace(response, body=json.dumps(body).encode())
        return response


class SlowVersionClient(Client):
    """A client of an API server that tells its version when it is `released`."""

    def __init__(self, credentials: Credentials) -> None:
        super().__init__(credentials)
        self.asked = 0
        self.released = asyncio.Event()

    async def send(self, request: Request) -> Response:
        if request.path == "/version":
            self.asked += 1
            await self.released.wait()
        return await super().send(request)


async def test_parents_that_start_together_read_the_version_of_the_api_server_once(
    desk: Desk, cluster: Cluster, options: MakeOptions
) -> None:
    names = [f"web-{number}" for number in range(4)]
    for name in names:
        await desk.apply(echo(name))
    async with (
        SlowVersionClient(await administrator(cluster)) as client,
        operating(client, options(workers=len(names))) as running,
    ):
        await until(lambda: len(running.operator.queue.processing()) == len(names))
        client.released.set()
        for name in names:
            await desk.ready(ECHOES, name)
    assert client.asked == 1


@pytest.mark.usefixtures("current_kubernetes")
async def test_a_parent_is_reconciled_when_the_api_server_has_another_version(
    desk: Desk, cluster: Cluster, options: MakeOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_controllers, "REDISCOVERY", 0.1)
    async with UpgradedClient(await administrator(cluster)) as client, operating(client, options()) as running:
        only(running.templates, a=map_template("map", version="kubernetes_version"))
        await desk.apply_until_ready(echo("web", 1))
        await desk.until("configmaps", "web-map", holds(version=KUBERNETES_VERSION))
        client.minor = "99+"
        await desk.until("configmaps", "web-map", holds(version="1.99"))


CHILD = """\
{% if api_available("GROUP/v1", "In") %}
apiVersion: GROUP/v1
kind: In
metadata:
  name: {{ name }}
spec: {x: "1"}
{% endif %}
"""


async def test_a_child_of_a_kind_that_not_every_cluster_has(desk: Desk, operate: Operate) -> None:
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    async with operate() as running:
        only(running.templates, a=CHILD.replace("GROUP", group))
        await desk.apply_until_ready(echo("web", 1))
        await desk.define(definition("ins", group, "In"))
        await desk.read(f"ins.{group}", "web")
        await desk.until(ECHOES, "web", lambda body: is_ready(body) and "In/web" in entries(body))
        await desk.delete("crd", f"ins.{group}")
        await desk.until(ECHOES, "web", lambda body: is_ready(body) and not entries(body))


@pytest.mark.usefixtures("current_kubernetes")
async def test_the_table_of_built_in_kinds_is_what_the_api_server_serves(desk: Desk) -> None:
    await desk.mapper.discover()
    served = {
        ApiKind(join_api_version(kind.group, version), kind.kind): resource.namespaced
        for kind, versions in desk.mapper._by_kind.items()
        for version, resource in versions.items()
        if not kind.group.endswith((".com", ".org"))  # of other tests
    }
    assert served.keys() == BUILT_IN_KINDS
    assert {kind for kind, namespaced in served.items() if not namespaced} == CLUSTER_SCOPED
