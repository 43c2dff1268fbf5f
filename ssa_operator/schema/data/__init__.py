"""The schemas of Kubernetes' kinds. See the README beside this file."""

from __future__ import annotations

import gzip
from functools import cache
from importlib import resources

import msgspec

from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas


@cache
def built_in_schemas() -> KubernetesSchemas:
    """The schemas of the newest version of Kubernetes that the package knows."""
    content = (resources.files(__name__) / f"kubernetes-{KUBERNETES_VERSION}.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(content), type=KubernetesSchemas)
