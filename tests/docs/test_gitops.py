"""Argo CD makes a health of the conditions by the script of docs/operation.md, in its interpreter of Lua."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tests.docs.blocks.pages import blocks
from tests.operator.harness import ROOT

READ = tuple(block for block in blocks("docs/operation.md") if "resource.customizations" in block.text)
"""The blocks of pages that these tests read."""
((KEY, SCRIPT),) = READ[0].value["data"].items()

MODULE = Path(__file__).parent / "gitops"
"""The Go module with the interpreter of Lua that Argo CD has."""

# https://argo-cd.readthedocs.io/en/stable/operator-manual/health/
HEALTH = {"Healthy", "Progressing", "Degraded", "Suspended"}


def test_the_health_check_of_argo_cd_is_for_a_kind_that_exists_and_has_each_health() -> None:
    crd = yaml.safe_load((ROOT / "crds" / "echoes.example.com.yaml").read_text())["spec"]
    assert f"resource.customizations.health.{crd['group']}_{crd['names']['kind']}" == KEY
    assert set(re.findall(r'(?:health|status) = "(\w+)"', SCRIPT)) == HEALTH


def lua(value: object) -> str:
    """A value as Lua writes it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"[{json.dumps(name)}] = {lua(item)}" for name, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "{" + ", ".join(map(lua, value)) + "}"
    return json.dumps(value)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go")
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
    conditions: dict[str, str], observed: int, health: str, tmp_path: Path
) -> None:
    listed = [
        {"type": name, "status": status, "message": f"the message of {name}"} for name, status in conditions.items()
    ]
    parent = {"metadata": {"generation": 2}, "status": {"observedGeneration": observed, "conditions": listed}}
    path = tmp_path / "health.lua"
    shown = 'print(found.status .. ": " .. found.message)'
    path.write_text(f"obj = {lua(parent)}\nlocal function health()\n{SCRIPT}\nend\nlocal found = health()\n{shown}\n")
    command = ("go", "tool", "glua", path)
    environment = {**os.environ, "GOWORK": "off", "GOFLAGS": ""}
    printed = subprocess.run(command, cwd=MODULE, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == health
