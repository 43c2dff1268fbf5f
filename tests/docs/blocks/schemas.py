"""The schemas of Kubernetes' kinds and of all CRDs of the repository."""

from __future__ import annotations

from ssa_operator.cli.target_schemas import bundled_schemas
from ssa_operator.cli.template_folders import read_crds
from ssa_operator.core.objects.built_in_kinds import KUBERNETES_VERSION
from tests.packaging.checkout import ROOT

CRD_FOLDERS = [ROOT / "crds", *sorted(ROOT.glob("examples/*/crds"))]

CRDS = [definition.body for definition in read_crds(CRD_FOLDERS)]

SCHEMAS = bundled_schemas(KUBERNETES_VERSION).with_crds(CRDS)
