"""The YAML of docs/gitops.md has the fields and values that Argo CD and Flux know."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.controller.harness import ROOT
from tests.docs.blocks.pages import blocks, yaml_values

READ = blocks("docs/gitops.md")
"""The blocks of pages that these tests read."""
ARGO_CD, FLUX = map(yaml_values, READ)

# https://fluxcd.io/flux/components/kustomize/api/v1/#kustomize.toolkit.fluxcd.io/v1.KustomizationSpec
SPEC = {
    *("commonMetadata", "components", "decryption", "deletionPolicy", "dependsOn", "driftIgnoreRules", "force"),
    *("healthCheckExprs", "healthChecks", "ignoreMissingComponents", "images", "interval", "kubeConfig", "namePrefix"),
    *("nameSuffix", "patches", "path", "postBuild", "prune", "retryInterval", "serviceAccountName", "sourceRef"),
    *("suspend", "targetNamespace", "timeout", "wait"),
}
REQUIRED = {"interval", "prune", "sourceRef"}
DELETION_POLICIES = {"MirrorPrune", "Delete", "WaitForTermination", "Orphan"}
DURATION = re.compile(r"([0-9]+(\.[0-9]+)?(ms|s|m|h))+")

# https://argo-cd.readthedocs.io/en/stable/operator-manual/health/
HEALTH = {"Healthy", "Progressing", "Degraded", "Suspended"}


def test_the_kustomizations_of_flux_have_fields_and_values_that_flux_knows() -> None:
    names = {body["metadata"]["name"] for body in FLUX}
    assert names == {"ssa-operator", "parents"}
    for body in FLUX:
        spec: dict[str, Any] = body["spec"]
        assert (body["apiVersion"], body["kind"]) == ("kustomize.toolkit.fluxcd.io/v1", "Kustomization")
        assert spec.keys() >= REQUIRED
        assert spec.keys() <= SPEC
        assert spec.get("deletionPolicy", "Delete") in DELETION_POLICIES
        assert all(DURATION.fullmatch(spec[name]) for name in ("interval", "timeout") if name in spec)
        assert {each["name"] for each in spec.get("dependsOn", ())} <= names - {body["metadata"]["name"]}


def test_the_health_check_of_argo_cd_is_for_the_kind_and_reads_the_conditions_that_exist() -> None:
    ((key, script),) = ARGO_CD[0]["data"].items()
    crd = yaml.safe_load((ROOT / "crds" / "echoes.example.com.yaml").read_text())["spec"]
    assert key == f"resource.customizations.health.{crd['group']}_{crd['names']['kind']}"
    reference = (ROOT / "docs" / "reference" / "status.md").read_text()
    conditions = set(re.findall(r"^\| `(\w+)` \|", reference.partition("## Reasons")[0], re.MULTILINE))
    read = set(re.findall(r"found\.(\w+)", script))
    assert read == {"Ready", "Stalled", "Suspended"}
    assert read <= conditions
    assert set(re.findall(r'(?:health|status) = "(\w+)"', script)) == HEALTH
