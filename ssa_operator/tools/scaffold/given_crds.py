"""CRDs among the manifests of `new --from-manifests`.

Promises:
- A CRD is written to the folder of CRDs as it is given, without what the API server wrote into it.
- The scope of a kind is that of its CRD, or that of Kubernetes' own kind. It is unknown for all others.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ssa_operator.objects.built_in_kinds import BUILT_IN_KINDS
from ssa_operator.objects.identity import GroupKind
from ssa_operator.tools.offline.project import cluster_scoped
from ssa_operator.tools.scaffold.server_fields import shows_cluster, without_server_fields

_CRD = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")


def given_crds(manifests: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[Mapping[str, Any]]]:
    """The CRDs, and all other manifests."""
    crds, others = [], []
    for body in manifests:
        if GroupKind.of(body["apiVersion"], body["kind"]) == _CRD:
            found = without_server_fields(body) if shows_cluster(body) else copy.deepcopy(dict(body))
            found.pop("status", None)
            crds.append(found)
        else:
            others.append(body)
    return crds, others


def scopes_of(crds: Iterable[Mapping[str, Any]]) -> Mapping[GroupKind, bool]:
    """Whether the objects of a kind are namespaced, for each kind whose scope is known."""
    wide = cluster_scoped({})
    built_in = {GroupKind.of(each.api_version, each.kind) for each in BUILT_IN_KINDS}
    own = {
        GroupKind(crd["spec"]["group"], crd["spec"]["names"]["kind"]): crd["spec"].get("scope") == "Namespaced"
        for crd in crds
    }
    return {**{kind: kind not in wide for kind in built_in}, **own}
