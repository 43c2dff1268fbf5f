"""The schemas of the targeted Kubernetes: those of a version that come with the package, or the current cluster's.

Promises:
- A version needs no cluster. A version that the package doesn't include is an error that names the included ones.
- A field of an object that holds a value of a wrong type is an error with file and line.
"""

from __future__ import annotations

import gzip
import re
from importlib import resources
from typing import TYPE_CHECKING

import msgspec

from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas, schemas_from_openapi
from ssa_operator.tools.schemas.schema_rules import check_schemas

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ssa_operator.objects.render_result import Document
    from ssa_operator.operator.process.connection import Target

CLUSTER = "cluster"
"""Stands for the current cluster in place of a version."""

DATA = "ssa_operator.schema.data"


def target_schemas(version: str, *, kubeconfig: str | None, context: str | None) -> KubernetesSchemas:
    """The schemas of a version, or of the current cluster. Raises CommandError."""
    if version == CLUSTER:
        from ssa_operator.operator.process import connection
        from ssa_operator.tools.connection.cluster_target import cluster_target

        return connection.run(read_cluster_schemas(cluster_target(kubeconfig, context)))
    return bundled_schemas(version.removeprefix("v"))


def bundled_schemas(version: str) -> KubernetesSchemas:
    """The schemas of a version that come with the package. Raises CommandError."""
    files = {found[1]: each for each in resources.files(DATA).iterdir() if (found := _FILE.fullmatch(each.name))}
    if version not in files:
        known = ", ".join(sorted(files))
        message = f"--kubernetes is {version}; the schemas of {known} come with ssa-operator"
        raise CommandError(f"{message}, and {CLUSTER} reads those of the current cluster", code=2)
    return msgspec.json.decode(gzip.decompress(files[version].read_bytes()), type=KubernetesSchemas)


def refuse_invalid_values(documents: Iterable[Document]) -> None:
    """Raises CommandError with every field of objects whose value no Kubernetes allows, for example a text in place of
    a mapping. Kinds without a schema pass.
    """
    findings = check_schemas(documents, bundled_schemas(KUBERNETES_VERSION))
    wrong = [f"{finding.location}: {finding.text}" for finding in findings if finding.code == "invalid-value"]
    if wrong:
        raise CommandError("\n".join(dict.fromkeys(wrong)))


_FILE = re.compile(r"kubernetes-(\d+\.\d+)\.json\.gz")


def encoded(schemas: KubernetesSchemas) -> bytes:
    """The content of a file for `bundled_schemas`; equal schemas give equal content."""
    return gzip.compress(msgspec.json.encode(schemas), 9, mtime=0)


async def read_cluster_schemas(target: Target) -> KubernetesSchemas:
    """The schemas of a cluster, custom resources included. Raises CommandError and ApiError."""
    from ssa_operator.kube.api.openapi import read_openapi
    from ssa_operator.operator.process import connection

    async with connection.connect(target) as client:
        version, documents = await read_openapi(client)
    return schemas_from_openapi(version, documents)
