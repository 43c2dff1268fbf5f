"""Argo CD and Flux accept the YAML of docs/gitops.md: by Flux' own CRD, and by the Lua interpreter of Argo CD."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssa_operator.rendering.folder.object_files import objects
from ssa_operator.tools.schema_rules import check_schemas
from tests.docs.blocks.pages import blocks, yaml_values
from tests.docs.blocks.schemas import schemas
from tests.operator.harness import ROOT

READ = blocks("docs/gitops.md")
"""The blocks of pages that these tests read."""
ARGO_CD, FLUX = map(yaml_values, READ)

MODULE = Path(__file__).parent / "gitops"
"""The Go module with the interpreter of Lua that Argo CD has."""

FLUX_MODULE = "github.com/fluxcd/kustomize-controller@v1.9.6"
FLUX_SUM = "h1:XB+G3A0mky0j5uVHZWv4oSlS2RvZBoNIUhstIvY0JKE="
FLUX_CRD = "config/crd/bases/kustomize.toolkit.fluxcd.io_kustomizations.yaml"

needs_go = [pytest.mark.slow, pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")]

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


def go(*arguments: str | Path) -> str:
    """What a command of Go printed, in the module."""
    environment = {**os.environ, "GOWORK": "off", "GOFLAGS": ""}
    return subprocess.run(
        ("go", *arguments), cwd=MODULE, env=environment, capture_output=True, text=True, check=True
    ).stdout


def lua(value: object) -> str:
    """A value as Lua writes it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"[{json.dumps(name)}] = {lua(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "{" + ", ".join(map(lua, value)) + "}"
    return json.dumps(value)


class TestWithTheirModules:
    """What the Go modules of Flux and Argo CD make of the page."""

    pytestmark = needs_go

    def test_flux_accepts_the_kustomizations(self) -> None:
        module = json.loads(go("mod", "download", "-json", FLUX_MODULE))
        assert module["Sum"] == FLUX_SUM
        definition = yaml.safe_load((Path(module["Dir"]) / FLUX_CRD).read_text())
        known = schemas().with_crds([definition])
        text = READ[1].text
        assert known.schema(FLUX[0]["apiVersion"], FLUX[0]["kind"]) is not None
        assert [finding.text for finding in check_schemas(objects(text, "page"), known)] == []
        wrong = objects(text.replace("deletionPolicy: WaitForTermination", "deletionPolicy: Wait"), "page")
        assert "spec.deletionPolicy" in " ".join(finding.text for finding in check_schemas(wrong, known))

    @pytest.mark.parametrize(
        ("conditions", "observed", "health"),
        [
            ({}, 2, "Progressing: waits for the operator"),
            ({"Ready": "True"}, 1, "Progressing: waits for the operator"),
            ({"Ready": "True"}, 2, "Healthy: the message of Ready"),
            ({"Ready": "False", "Reconciling": "True"}, 2, "Progressing: the message of Ready"),
            ({"Ready": "False", "Stalled": "True"}, 2, "Degraded: the message of Ready"),
            ({"Ready": "True", "Suspended": "True"}, 1, "Suspended: the message of Suspended"),
        ],
    )
    def test_argo_cd_makes_a_health_of_the_conditions(
        self, conditions: dict[str, str], observed: int, health: str, tmp_path: Path
    ) -> None:
        ((_, script),) = ARGO_CD[0]["data"].items()
        listed = [
            {"type": name, "status": status, "message": f"the message of {name}"} for name, status in conditions.items()
        ]
        status = {"observedGeneration": observed, "conditions": listed}
        parent = {"metadata": {"generation": 2}, "status": status}
        path = tmp_path / "health.lua"
        shown = 'print(found.status .. ": " .. found.message)'
        path.write_text(
            f"obj = {lua(parent)}\nlocal function health()\n{script}\nend\nlocal found = health()\n{shown}\n"
        )
        assert go("tool", "glua", path).strip() == health
