"""Echo by a `_schema.yaml` alone, without a file in `crds/`, from its CRD to its Deployment."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ssa_operator.operator.process.option_values import crd_folders
from ssa_operator.operator.process.streams import CommandError
from tests.cli.process import run, started
from tests.operator.harness import ECHOES, ROOT, Desk

SCHEMA = """\
kind: Echo
version: v1
shortNames: [ek]
spec:
  replicas: integer | default=1 minimum=0 maximum=3 description="Number of pods."
  zone: string | immutable description="Where the pods run."
  hosts: "[]string | uniqueItems=true maxItems=5"
  labels: "map[string]string"
  tls:
    enabled: boolean | default=false
status:
  readyReplicas: integer
validation:
  - rule: self.replicas < 3 || !self.tls.enabled
    message: TLS is for two pods at most
columns:
  - {name: Desired, path: .spec.replicas}
scale: {replicas: .spec.replicas, statusReplicas: .status.readyReplicas}
versions:
  v1alpha1: {deprecated: write example.com/v1}
"""


@pytest.mark.cluster
async def test_a_short_schema_is_enough_for_a_resource(desk: Desk, group: str, tmp_path: Path) -> None:
    templates, folder = tmp_path / "templates", tmp_path / "templates" / f"echoes.{group}"
    shutil.copytree(ROOT / "templates" / ECHOES, folder)
    shutil.copytree(ROOT / "templates" / "_shared", templates / "_shared")
    (folder / "_schema.yaml").write_text(SCHEMA)
    (tmp_path / "crds").mkdir()
    arguments = (f"--templates={templates}", f"--crds={tmp_path / 'crds'}")
    echo = {"apiVersion": f"{group}/v1", "kind": "Echo", "metadata": {"name": "hello"}}

    code, out, _ = await run("crds", "generate", arguments[0])
    again = await run("crds", "generate", arguments[0])
    assert (code, out) == again[:2]
    assert "&id" not in out

    kubeconfig = f"--kubeconfig={desk.kubeconfig}"
    options = ("--install-crds", "--listen=127.0.0.1:0", f"--namespace={desk.namespace}", kubeconfig)
    async with started("run", *arguments, *options) as command:
        await command.says("listening on ")
        await desk.kubectl("apply", "--filename=-", "--dry-run=server", stdin=out)  # the API server needs nothing else
        await desk.apply_until_accepted({**echo, "spec": {"zone": "a", "hosts": ["x"], "labels": {"a": "b"}}})
        created = await desk.ready(f"echoes.{group}", "hello")
        assert created["spec"]["replicas"] == 1
        assert created["spec"]["tls"] == {"enabled": False}
        assert created["status"]["readyReplicas"] == 1

        for spec, words in (
            ({"replicas": 4}, "less than or equal to 3"),
            ({"replicas": 3, "tls": {"enabled": True}}, "TLS is for two pods at most"),
            ({"zone": "b"}, "is immutable"),
            ({"zone": None}, "zone is immutable; it can't be removed"),
            ({"hosts": ["x", "x"]}, "Duplicate value"),
        ):
            with pytest.raises(AssertionError, match=words):
                await desk.patch(f"echoes.{group}", "hello", spec=spec)

        await desk.scale(f"echoes.{group}", "hello", 2)
        await desk.until("deployments.apps", "hello", lambda body: body["spec"]["replicas"] == 2)
        head = (await desk.kubectl("get", f"echoes.{group}")).split("\n")[0].split()
        assert head == ["NAME", "DESIRED", "READY", "REASON", "AGE"]
        assert "Number of pods." in await desk.explained(f"echoes.{group}.spec")
        assert "Ready" in await desk.kubectl("get", f"echoes.v1alpha1.{group}", "hello")


def test_the_default_folder_of_crds_need_not_exist_beside_a_short_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    templates = [Path("templates")]
    with pytest.raises(CommandError, match="no folder crds"):
        crd_folders([Path("crds")], templates)
    folder = tmp_path / "templates" / ECHOES
    folder.mkdir(parents=True)
    (folder / "_schema.yaml").write_text(SCHEMA)
    assert crd_folders([Path("crds")], templates) == []
    with pytest.raises(CommandError, match="no folder others"):
        crd_folders([Path("others")], templates)
