"""`ssa-operator crds`: CRDs are applied, waited for, or refused with their place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from tests.cli.process import run
from tests.operator.harness import ROOT, Desk, definition


async def test_a_crd_in_two_folders_is_refused_with_both_locations(tmp_path: Path) -> None:
    copy = tmp_path / "echo.yaml"
    copy.write_text((ROOT / "crds/echoes.example.com.yaml").read_text())
    code, _, err = await run("crds", "apply", "--crds=crds", f"--crds={tmp_path}")
    assert code == 1
    assert f"{copy}:1: echoes.example.com is defined at crds/echoes.example.com.yaml:1 already" in err


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_crds_are_applied_and_waited_for(cluster: Cluster, desk: Desk, tmp_path: Path) -> None:
    name = f"c{desk.namespace.removeprefix('test-')}"
    crd = definition("things", f"{name}.example.com", "Thing")
    (tmp_path / "thing.yaml").write_text(json.dumps(crd))
    kubeconfig = f"--kubeconfig={cluster.kubeconfig}"
    code, _, err = await run("crds", "wait", f"--crds={tmp_path}", "--timeout=0.2", kubeconfig)
    assert code == 1
    assert f"CRD {crd['metadata']['name']} does not exist" in err
    for command in ("apply", "wait"):
        code, out, _ = await run("crds", command, f"--crds={tmp_path}", kubeconfig)
        assert (code, out) == (0, f"{crd['metadata']['name']} established\n")


@pytest.mark.cluster
async def test_a_crd_that_is_refused_names_its_file(cluster: Cluster, tmp_path: Path) -> None:
    crd = definition("things", "example.com", "Thing", scope="Everywhere")
    (tmp_path / "thing.yaml").write_text(json.dumps(crd))
    code, _, err = await run("crds", "apply", f"--crds={tmp_path}", f"--kubeconfig={cluster.kubeconfig}")
    assert code == 1
    assert f"{tmp_path}/thing.yaml:1" in err
    assert "Everywhere" in err
