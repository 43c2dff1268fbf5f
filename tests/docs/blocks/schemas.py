"""The schemas of Kubernetes' kinds and of all CRDs of the repository."""

from __future__ import annotations

import functools

from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.tools.offline.template_folders import read_crds
from ssa_operator.tools.schema_rules import bundled_schemas
from tests.packaging.checkout import ROOT

CRD_FOLDERS = [ROOT / "crds", *sorted(ROOT.glob("examples/*/crds"))]


@functools.cache
def schemas() -> KubernetesSchemas:
    """The schemas that `ssa-operator check` uses for the repository. Reading them takes a moment."""
    return bundled_schemas(KUBERNETES_VERSION).with_crds([each.body for each in read_crds(CRD_FOLDERS)])
