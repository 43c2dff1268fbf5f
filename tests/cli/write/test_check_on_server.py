"""`ssa-operator check` asks a real API server what it refuses: one that runs, or one of its own."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.tools.checks.api_server import APIServer
from tests.cli.process import run, started
from tests.cli.write.test_check import project
from tests.conftest import Kubectl
from tests.devcluster.waiting import until
from tests.operator.harness import PATIENCE

WEB = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  minReadySeconds: 10
  progressDeadlineSeconds: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeSelector: {disk: ssd}
      containers:
        - {name: web, image: "nginx:1.27"}
"""
SECRET = """apiVersion: v1
kind: Secret
metadata: {name: login}
type: kubernetes.io/basic-auth
data: {user: aHVudGVyMg==}
"""
RULE = {"rule": "self.low <= self.high", "message": "low must not be above high"}
RANGE = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "ranges.check.example.com"},
    "spec": {
        "group": "check.example.com",
        "scope": "Namespaced",
        "names": {"kind": "Range", "listKind": "RangeList", "plural": "ranges", "singular": "range"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}},
                                "x-kubernetes-validations": [RULE],
                            }
                        },
                    }
                },
            }
        ],
    },
}
CHILD = """apiVersion: check.example.com/v1
kind: Range
metadata: {name: own, namespace: elsewhere}
spec:
  low: 3
  high: 2
"""


async def check(folder: Path, *arguments: str, **environment: str) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, findings and standard error."""
    options = (f"--templates={folder / 'templates'}", "--output=json")
    code, out, err = await run("check", *options, "--api-server=auto", *arguments, **environment)
    return code, json.loads(out), err


def alone(folder: Path) -> dict[str, str]:
    """An environment in which no local cluster runs. The own server's files are in the folder `scratch`."""
    (folder / "scratch").mkdir()
    return {"SSA_OPERATOR_STATE_DIR": str(folder / "state"), "TMPDIR": str(folder / "scratch")}


@pytest.mark.cluster
async def test_a_refusal_of_the_running_cluster_is_a_finding_and_nothing_changes(
    tmp_path: Path, cluster: Cluster, kubectl: Kubectl
) -> None:
    before = kubectl("get", "all,secrets,crds", "--all-namespaces", "-o", "name")
    code, findings, err = await check(project(tmp_path, web=WEB, secret=SECRET))
    template = tmp_path / "templates" / "echoes.example.com" / "web.yaml.j2"
    assert code == 1
    assert err == "ssa-operator: check found 3 errors and 0 warnings\n"
    assert findings[2] == {
        "code": "invalid-value",
        "severity": "error",
        "message": "Deployment web: spec.progressDeadlineSeconds is 5: must be greater than minReadySeconds",
        "file": str(template),
        "line": 6,
    }
    assert [(each["code"], each["line"]) for each in findings[:2]] == [("missing-field", 5)] * 2
    assert "aHVudGVyMg" not in json.dumps(findings)
    assert kubectl("get", "all,secrets,crds", "--all-namespaces", "-o", "name") == before
    assert cluster.name == "tests"


@pytest.mark.cluster
async def test_an_own_server_has_the_crds_of_the_project_and_leaves_nothing_behind(
    tmp_path: Path, cluster: Cluster
) -> None:
    folder = project(tmp_path, web=WEB, child=CHILD)
    (folder / "crds" / "ranges.yaml").write_text(yaml.safe_dump(RANGE))
    (folder / "templates" / "echoes.example.com" / "_settings.yaml").write_text("clusterScope: true\n")
    environment = alone(tmp_path)
    code, findings, err = await check(folder, **environment)
    assert code == 1
    assert [(each["line"], each["message"]) for each in findings if each["severity"] == "error"] == [
        (4, 'Range own: spec is {"high":2,"low":3}: low must not be above high'),
        (6, "Deployment web: spec.progressDeadlineSeconds is 5: must be greater than minReadySeconds"),
    ]
    assert err == "ssa-operator: check found 2 errors and 2 warnings\n"
    assert not list((tmp_path / "scratch").iterdir())
    # The running cluster doesn't have the CRD, so its own server is asked, too.
    _, elsewhere, _ = await check(folder, TMPDIR=environment["TMPDIR"])
    assert elsewhere == findings
    assert not list((tmp_path / "scratch").iterdir())
    assert cluster.name == "tests"


@pytest.mark.cluster
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.usefixtures("cluster")
async def test_a_check_that_is_ended_leaves_no_server_and_no_file(tmp_path: Path, number: signal.Signals) -> None:
    folder, environment = project(tmp_path, web=WEB), alone(tmp_path)
    scratch = tmp_path / "scratch"
    async with started("check", f"--templates={folder / 'templates'}", **environment) as command:
        await until(lambda: bool(list(scratch.glob("*/kube-apiserver.log"))), PATIENCE)
        lock = next(scratch.glob("*/alive.lock"))
        group = int(lock.read_text())
        command.process.send_signal(number)
        await command.ended()
    await until(lambda: not list(scratch.iterdir()))
    await until(lambda: not (Path("/proc") / str(group)).exists())


async def test_without_the_programs_the_last_line_says_what_is_not_checked(tmp_path: Path) -> None:
    folder = project(tmp_path, web=WEB.replace("Seconds: 5", "Seconds: 50"))
    environment = {**alone(tmp_path), "SSA_OPERATOR_CACHE_DIR": str(tmp_path), "KUBEBUILDER_ASSETS": ""}
    note = "The API server's own rules were not checked: there is none here; `ssa-operator cluster start` gets one\n"
    assert await check(folder, **environment) == (0, [], note)
    assert await check(folder, "--api-server=never", **environment) == (0, [], "")
    (folder / "templates" / "echoes.example.com" / "web.yaml.j2").write_text("kind: [")
    code, _, err = await check(folder, **environment)
    assert code == 1
    assert err.splitlines()[-1] + "\n" == note


def test_the_rules_of_another_version_are_not_those_of_the_programs() -> None:
    server = APIServer("1.35")
    server.begin()
    assert server.refusals([], []) == []
    assert "the local API server has those of 1.36, not of 1.35" in server.note
