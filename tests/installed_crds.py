"""The CRDs that a control plane of the tests has from its start on: those of the project, and `tests/shared_crds`.

The garbage collector discovers a new kind within 30 seconds, and the API server compiles each CRD that is applied. So
no test waits for a CRD of these, and they are applied again only after a test changed one.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.informers.crds import RESOURCE
from ssa_operator.kube.api.client import Client
from ssa_operator.operator import crd_installation as crds
from tests.operator.harness import ROOT

_installed: dict[Path, dict[str, str]] = {}
"""By a control plane's kubeconfig: the resourceVersion that each CRD has since it was installed."""


async def install_crds(cluster: Cluster, client: Client) -> None:
    """Installs the CRDs, unless they are as they were."""
    installed = _installed.get(cluster.kubeconfig)
    if not installed or installed != await _versions(client, installed):
        documents = crds.load_crds(ROOT / "crds", ROOT / "tests" / "shared_crds")
        await crds.install(client, documents)
        applied = [document.body["metadata"]["name"] for document in documents]
        _installed[cluster.kubeconfig] = await _versions(client, applied)


async def _versions(client: Client, names: Iterable[str]) -> dict[str, str]:
    found = {name: await client.find(RESOURCE, name) for name in names}
    return {name: live.resource_version for name, live in found.items() if live is not None}
