"""Fixtures of the end-to-end tests: a desk at the cluster, the Echo CRD, and a copy of the Echo templates to change."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ssa_operator.controller import crd_installation as crds
from ssa_operator.controller.informers.crds import RESOURCE
from ssa_operator.controller.options import Options
from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from tests.controller.harness import ECHOES, ROOT, Desk, MakeOptions, Operate, administrator, operating


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(await administrator(cluster)) as client:
        yield client


_installed: dict[Path, dict[str, str]] = {}
"""By a control plane's kubeconfig: the resourceVersion that each of the project's CRDs has since it was installed."""


async def install_crds(cluster: Cluster, client: Client) -> None:
    """Installs the project's CRDs, unless they are as they were. The API server compiles each CRD that is applied."""
    installed = _installed.get(cluster.kubeconfig)
    if not installed or installed != await _versions(client, installed):
        documents = crds.load(ROOT / "crds")
        await crds.install(client, documents)
        applied = [document.body["metadata"]["name"] for document in documents]
        _installed[cluster.kubeconfig] = await _versions(client, applied)


async def _versions(client: Client, names: Iterable[str]) -> dict[str, str]:
    found = {name: await client.find(RESOURCE, name) for name in names}
    return {name: live.resource_version for name, live in found.items() if live is not None}


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
def templates(tmp_path: Path) -> Path:
    """A copy of the project's templates of an Echo."""
    shutil.copytree(ROOT / "templates" / ECHOES, tmp_path / "templates" / ECHOES)
    return tmp_path / "templates"


@pytest.fixture
def options(templates: Path, namespace: str) -> MakeOptions:
    """The options of an operator that watches the test's namespace only, without resyncs unless a test wants them."""

    def make(**changes: Any) -> Options:
        changes["templates"] = (changes.get("templates", templates),)
        quiet = Options(namespaces=(namespace,), tick_rate=0.0, listen=None)
        return replace(quiet, **changes)

    return make


@pytest.fixture
def operate(client: Client, options: MakeOptions) -> Operate:
    """An operator with the administrator's permissions."""
    return lambda **changes: operating(client, options(**changes))
