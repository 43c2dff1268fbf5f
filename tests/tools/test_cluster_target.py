"""The cluster that a command uses if the user names none."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.operator.process.connection import Target
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.tools.command_target import cluster_target
from tests.cli.process import run


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without a kubeconfig."""
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_without_a_kubeconfig_and_a_local_cluster_there_is_no_target(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SSA_OPERATOR_STATE_DIR", str(home / "state"))
    assert cluster_target(None, None) == Target()
    (home / "state" / "clusters" / "stopped").mkdir(parents=True)
    assert cluster_target(None, None) == Target()
    assert capsys.readouterr().err == ""


@pytest.mark.cluster
def test_a_local_cluster_of_another_name_is_not_taken_but_named_with_its_command(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = '`export KUBECONFIG="$(ssa-operator cluster kubeconfig --name tests)"` uses tests'
    for name, start in (("", "start` starts default"), ("other", "start --name other` starts other")):
        monkeypatch.setenv("SSA_OPERATOR_NAME", name)
        with pytest.raises(CommandError) as error:
            cluster_target(None, None)
        begin = f"there is no kubeconfig, and no local cluster {name or 'default'} runs; "
        assert str(error.value) == f"{begin}{command}, `ssa-operator cluster {start}"
    assert capsys.readouterr().err == ""
    assert cluster_target(str(cluster.kubeconfig), None) == Target(kubeconfig=str(cluster.kubeconfig))


@pytest.mark.cluster
def test_without_a_kubeconfig_a_command_uses_the_named_local_cluster_and_says_so(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SSA_OPERATOR_NAME", "tests")
    assert cluster_target(None, None) == Target(kubeconfig=str(cluster.kubeconfig))
    assert capsys.readouterr().err == (
        f"There is no kubeconfig, so this is the local cluster tests; as export KUBECONFIG={cluster.kubeconfig}\n"
    )


@pytest.mark.cluster
def test_a_kubeconfig_of_the_user_comes_before_the_local_cluster(
    cluster: Cluster, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cluster.kubeconfig.exists()
    assert cluster_target("mine", None) == Target(kubeconfig="mine")
    assert cluster_target(None, "production") == Target(context="production")
    monkeypatch.setenv("KUBECONFIG", "missing")
    assert cluster_target(None, None) == Target()
    monkeypatch.delenv("KUBECONFIG")
    (home / ".kube").mkdir()
    (home / ".kube" / "config").write_text("{}")
    assert cluster_target(None, None) == Target()
    assert capsys.readouterr().err == ""


@pytest.mark.cluster
async def test_a_command_reads_the_local_cluster(cluster: Cluster, home: Path) -> None:
    code, _, err = await run(
        "crds", "wait", "echoes.example.com", HOME=str(home), KUBECONFIG="", SSA_OPERATOR_NAME="tests"
    )
    assert code == 0, err
    assert f"export KUBECONFIG={cluster.kubeconfig}" in err


@pytest.mark.parametrize("exists", [False, True])
async def test_tree_of_an_object_names_the_first_step_in_an_empty_folder(home: Path, exists: bool) -> None:
    state = {"HOME": str(home), "KUBECONFIG": "", "SSA_OPERATOR_STATE_DIR": str(home / "state")}
    templates = home / "templates"
    if exists:
        templates.mkdir()
    code, _, err = await run("tree", "site/a", f"--templates={templates}", **state)
    assert code == 1
    assert err.count("\n") == 2
    assert f"note: {'' if exists else 'there is no folder '}{templates}" in err
    assert "`ssa-operator new KIND --group example.com`" in err
