"""Writes the schemas of Kubernetes' kinds that come with the package, from the API server of the local control plane.

Promises:
- The same version of Kubernetes gives the same file.
"""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from docs.generate.transcripts import ROOT
from ssa_operator.devcluster.cluster import ClusterSpec, start
from ssa_operator.operator.process.connection import Target
from ssa_operator.tools.schema_rules import encoded, read_cluster_schemas

FOLDER = ROOT / "ssa_operator" / "schema" / "data"


async def write_schemas() -> Path:
    """Start a control plane without custom resources, read its schemas, and write them."""
    cluster = await start(ClusterSpec(name="schemas"))
    try:
        schemas = await read_cluster_schemas(Target(kubeconfig=str(cluster.kubeconfig)))
    finally:
        await cluster.stop()
    path = FOLDER / f"kubernetes-{schemas.version}.json.gz"
    path.write_bytes(encoded(replace(schemas, complete=False)))
    return path
