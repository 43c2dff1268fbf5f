"""Fixtures of the end-to-end tests: a desk at the cluster, the Echo CRD, and a copy of the Echo templates to change."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.operator import operator as operator_module
from ssa_operator.operator.operator_options import Options
from ssa_operator.rendering.folder.installation import Installation
from tests.installed_crds import install_crds
from tests.operator.harness import ECHOES, ROOT, Desk, MakeOptions, Operate, administrator, operating
from tests.operator.lagging_client import Lag, LaggingClient
from tests.operator.wall_clock import SteppingClock


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(await administrator(cluster)) as client:
        yield client


@pytest.fixture
async def lagging(cluster: Cluster) -> AsyncIterator[LaggingClient]:
    """A client whose view of the parents can lag. It is not behind yet."""
    async with LaggingClient(await administrator(cluster)) as client:
        client.lag = Lag(frozenset({"echoes"}))
        client.lag.end()
        yield client
        client.lag.end()


@pytest.fixture
async def desk(cluster: Cluster, client: Client, namespace: str) -> AsyncIterator[Desk]:
    """The cluster in a namespace of the test's own, with the Echo CRD installed."""
    await install_crds(cluster, client)
    desk = Desk(client, cluster.kubeconfig, namespace)
    try:
        yield desk
    finally:
        await desk.close()


@pytest.fixture
async def group(desk: Desk) -> AsyncIterator[str]:
    """The group of a test's own CRDs, which are deleted at its end."""
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    yield group
    for name in (await desk.kubectl("get", "crd", "--output=name")).split():
        if name.endswith(f".{group}"):
            await desk.kubectl("delete", name, "--ignore-not-found", "--wait=false")


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """A copy of the project's templates of an Echo."""
    shutil.copytree(ROOT / "templates" / ECHOES, tmp_path / "templates" / ECHOES)
    return tmp_path / "templates"


@pytest.fixture
def options(templates: Path, namespace: str) -> MakeOptions:
    """The options of an operator that watches the test's namespace only, without resyncs unless a test wants them."""

    def make(**changes: Any) -> Options:
        found = changes.get("templates", templates)
        changes["templates"] = found if isinstance(found, tuple) else (found,)
        installed = Installation(namespace=namespace)
        quiet = Options(namespaces=(namespace,), resync_rate=0.0, listen=None, installation=installed)
        return replace(quiet, **changes)

    return make


@pytest.fixture
def operate(client: Client, options: MakeOptions) -> Operate:
    """An operator with the administrator's permissions."""
    return lambda **changes: operating(client, options(**changes))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppingClock:
    """The clock of the operators that start from now on."""
    clock = SteppingClock()
    monkeypatch.setattr(operator_module, "SYSTEM", clock)
    return clock
