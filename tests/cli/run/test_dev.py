"""`ssa-operator dev` in a terminal: one screen, with keys."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster import binaries, processes
from ssa_operator.devcluster import cluster as clusters
from ssa_operator.devcluster.processes import take_lock
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.tools.dev.dev_cluster import local_cluster
from ssa_operator.tools.dev.dev_console import clipboard_sequence
from tests.cli.process import run
from tests.cli.terminal import terminal
from tests.devcluster.waiting import until
from tests.operator.harness import PATIENCE, Desk, definition, map_template
from tests.operator.test_refused_crds import save
from tests.packaging.checkout import ROOT

pytestmark = pytest.mark.cluster

ECHO = """\
apiVersion: example.com/v1
kind: Echo
metadata: {name: hello}
spec: {replicas: 1}
"""


@pytest.mark.slow
async def test_one_screen_shows_the_tree_events_and_errors_and_its_keys_work(tmp_path: Path, templates: Path) -> None:
    (tmp_path / "echo.yaml").write_text(ECHO)
    arguments = ("dev", f"--templates={templates}", f"--examples={tmp_path / 'echo.yaml'}", "--listen=")
    async with terminal(*arguments, SSA_OPERATOR_STATE_DIR=str(tmp_path / "state")) as shown:
        text = await shown.shows("Echo default/hello Ready", "ReplicaSet default/hello", "Pod default/hello", "q quit")
        assert text.startswith("ssa-operator dev: 1 parent, all ready")
        await shown.shows("Created Echo/hello: created Deployment default/hello")

        broken = templates / "echoes.example.com" / "broken.yaml.j2"
        broken.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ spec.nothing }}\n")
        await shown.shows("1 not ready", "RenderFailed", "echoes.example.com/broken.yaml.j2:4")
        broken.unlink()
        await shown.shows("all ready")

        shown.press("p")
        await shown.shows("Ready, suspended")
        shown.press("p")
        await shown.hides("suspended")
        shown.press("r")
        await shown.shows("Echo default/hello is applied again")

        shown.press("\x1b[Bb")
        await shown.shows("blame echoes.example.com/hello Deployment/hello", "kind: Deployment", "q back")
        shown.press("q")
        await shown.shows("q quit")
        shown.press("d")
        await shown.shows("diff echoes.example.com/hello", "q back")
        shown.press("q")
        await shown.shows("q quit")

        await shown.shows("export KUBECONFIG=")
        shown.press("e")
        await shown.shows("copied: export KUBECONFIG=")
        command = f"export KUBECONFIG={tmp_path / 'state' / 'clusters' / 'default' / 'kubeconfig'}"
        assert clipboard_sequence(command).encode() in shown.raw

        image = broken.with_name("image.yaml.j2")
        image.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}-more\ndta: {a: b}\n")
        await shown.shows("image.yaml.j2:5", "1 error")
        shown.press("c")
        await shown.shows("Findings of check", "q back")
        shown.press("q")
        image.unlink()
        await shown.shows("all ready")

        shown.press("l")
        await shown.shows("Log, newest first", "default/hello: Ready=True", "q back")
        shown.press("q")
        shown.press("v")
        await shown.shows("Errors and Events, newest first", "Created Echo/hello")
        shown.press("q")
        await shown.shows("q quit")

        shown.press("\x1b[B")
        shown.press("q")
        assert await shown.ended() == 0
        assert "dev ran 1 parent: 1 Ready" in shown.text
        assert "The local cluster default and all objects in it are gone" in shown.text
    assert not list((tmp_path / "state").rglob("*.pid"))


@pytest.mark.exhaustive
async def test_ctrl_c_ends_the_screen_in_order(tmp_path: Path, templates: Path) -> None:
    (tmp_path / "echo.yaml").write_text(ECHO)
    arguments = ("dev", f"--templates={templates}", f"--examples={tmp_path / 'echo.yaml'}", "--listen=")
    async with terminal(*arguments, SSA_OPERATOR_STATE_DIR=str(tmp_path / "state")) as shown:
        await shown.shows("Echo default/hello", "q quit")
        shown.press("\x03")
        assert await shown.ended() == 0
        assert "The local cluster default and all objects in it are gone" in shown.text
        assert "Traceback" not in shown.raw.decode(errors="replace")


class FirstStart:
    """A machine without programs and without downloads, whose Go copies the real programs, controllers late."""

    def __init__(self, folder: Path, real: Path) -> None:
        self.gate, self.count, self.cache = folder / "gate", folder / "count", folder / "cache"
        (folder / "go").mkdir()
        shutil.copy(ROOT / "tests" / "devcluster" / "stand_in_go.sh", folder / "go" / "go")
        nowhere = "http://127.0.0.1:1"
        self.environment: dict[str, Any] = {
            "PATH": f"{folder / 'go'}{os.pathsep}{os.environ['PATH']}",
            "GO_PROGRAMS": str(real),
            "GO_GATE": str(self.gate),
            "GO_COUNT": str(self.count),
            "HTTPS_PROXY": nowhere,
            "https_proxy": nowhere,
            "SSA_OPERATOR_CACHE_DIR": str(self.cache),
            "SSA_OPERATOR_STATE_DIR": str(folder / "state"),
        }

    def builds(self) -> list[str]:
        """The last program of each build."""
        return [line.rpartition("/")[2] for line in self.count.read_text().splitlines()]


@pytest.fixture
async def first_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FirstStart:
    real = await binaries.acquire(binaries.from_environment())
    monkeypatch.setenv("SSA_OPERATOR_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.delenv("GOCACHE", raising=False)
    return FirstStart(tmp_path, real)


WAITS = "No pods yet: Compiling kube-controller-manager, kube-scheduler and kwok"


@pytest.mark.slow
async def test_an_echo_is_reconciled_while_the_controllers_are_compiled(
    tmp_path: Path, templates: Path, first_start: FirstStart
) -> None:
    (tmp_path / "echo.yaml").write_text(ECHO)
    arguments = ("dev", f"--templates={templates}", f"--examples={tmp_path / 'echo.yaml'}", "--listen=")
    async with terminal(*arguments, **first_start.environment) as shown:
        await shown.shows(WAITS, "Echo default/hello", "Deployment default/hello")
        assert "Pod default" not in shown.text
        assert "The first start gets etcd and kube-apiserver" in shown.raw.decode(errors="replace")
        found = await clusters.status("default")
        assert found.state == "running"
        assert found.message == "the API server is ready; kube-controller-manager, kube-scheduler, kwok will follow"

        first_start.gate.touch()
        await shown.shows("Echo default/hello Ready", "Pod default/hello")
        await shown.hides("No pods yet")
        assert (await clusters.status("default")).message == "ready"
        shown.press("q")
        assert await shown.ended() == 0
    assert first_start.builds() == ["kube-apiserver", "kube-scheduler"]


@pytest.mark.exhaustive
@pytest.mark.slow
async def test_a_dev_that_is_killed_while_it_compiles_leaves_what_the_next_one_goes_on_with(
    tmp_path: Path, templates: Path, first_start: FirstStart
) -> None:
    (tmp_path / "echo.yaml").write_text(ECHO)
    arguments = ("dev", f"--templates={templates}", f"--examples={tmp_path / 'echo.yaml'}", "--listen=")
    async with terminal(*arguments, **first_start.environment) as shown:
        await shown.shows(WAITS)
        shown.process.kill()
    await until(lambda: not processes.is_alive(first_start.cache / "control-plane" / "build"))
    await until(lambda: not processes.is_alive(tmp_path / "state" / "clusters" / "default"))

    async with terminal(*arguments, **first_start.environment) as shown:
        await shown.shows(WAITS, "Deployment default/hello")
        shown.press("q")
        assert await shown.ended() == 0
    assert not processes.is_alive(first_start.cache / "control-plane" / "build")
    assert not (tmp_path / "state" / "clusters" / "default").exists()
    assert first_start.builds() == ["kube-apiserver", "kube-scheduler", "kube-scheduler"]


@pytest.mark.exhaustive
@pytest.mark.slow
async def test_a_dev_whose_controllers_can_not_be_compiled_ends_with_the_reason(
    tmp_path: Path, templates: Path, first_start: FirstStart
) -> None:
    (tmp_path / "echo.yaml").write_text(ECHO)
    arguments = ("dev", f"--templates={templates}", f"--examples={tmp_path / 'echo.yaml'}", "--listen=")
    async with terminal(*arguments, **first_start.environment, GO_FAILS="kwok") as shown:
        await shown.shows(WAITS, "Deployment default/hello")
        first_start.gate.touch()
        assert await shown.ended() == 1
        text = " ".join(shown.text.split())
        assert "no module of kwok" in text
        assert "Traceback" not in shown.raw.decode(errors="replace")
    assert not (tmp_path / "state" / "clusters" / "default").exists()


@pytest.mark.slow
async def test_dev_ends_with_0_when_every_example_is_ready_and_leaves_nothing(tmp_path: Path) -> None:
    state = {"SSA_OPERATOR_STATE_DIR": str(tmp_path / "state")}
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code, out, err = await run("dev", "--until-ready", f"--listen=127.0.0.1:{port}", **state)
    assert code == 0, err
    assert "export KUBECONFIG=" in out
    assert f"In a browser: http://127.0.0.1:{port}/ui/" in out
    assert "default/hello: Ready=True" in err
    code, out, _ = await run("cluster", "status", "--output=json", **state)
    assert (code, json.loads(out)["state"]) == (1, "stopped")


@pytest.mark.exhaustive
@pytest.mark.slow
async def test_dev_fails_with_the_reason_if_an_example_is_not_ready_in_time(tmp_path: Path, templates: Path) -> None:
    state = {"SSA_OPERATOR_STATE_DIR": str(tmp_path / "state")}
    (templates / "echoes.example.com/bad.yaml.j2").write_text(
        map_template("late", x="lookup('v1', 'ConfigMap', 'missing').data.x")
    )
    code, _, err = await run("dev", f"--templates={templates}", "--until-ready", "--timeout=5", "--listen=", **state)
    assert code == 1
    assert "not ready after 5 s" in err
    assert "waiting for ConfigMap default/missing .data.x" in err


async def test_a_second_dev_names_the_running_one_before_it_starts_anything(tmp_path: Path) -> None:
    state = {"SSA_OPERATOR_STATE_DIR": str(tmp_path / "state")}
    (tmp_path / "state" / "clusters").mkdir(parents=True)
    with take_lock(tmp_path / "state" / "clusters" / "default.dev.lock", "pid 4711, in the folder shop"):
        code, _, err = await run("dev", **state)
    assert code == 1
    assert "another ssa-operator dev runs on the local cluster default (pid 4711, in the folder shop)" in err
    assert "--name" in err
    assert not (tmp_path / "state" / "clusters" / "default").exists()


async def test_a_named_port_that_is_busy_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        address = f"127.0.0.1:{busy.getsockname()[1]}"
        code, _, err = await run("dev", f"--listen={address}", SSA_OPERATOR_STATE_DIR=str(tmp_path / "state"))
    assert (code, err.strip()) == (
        1,
        f"ssa-operator: can't listen on {address}: Address already in use; choose another with --listen",
    )
    assert not (tmp_path / "state" / "clusters" / "default").exists()


async def test_until_ready_ends_at_once_on_an_error_that_no_waiting_helps(
    desk: Desk, group: str, tmp_path: Path
) -> None:
    save(tmp_path / "crds", definition("olds", group, "Old"))
    (tmp_path / "templates" / f"olds.{group}").mkdir(parents=True)
    template = tmp_path / "templates" / f"olds.{group}" / "map.yaml.j2"
    template.write_text(map_template("old", v="spec.nothing"))
    metadata = {"name": "old", "namespace": desk.namespace}
    example = {"apiVersion": f"{group}/v1", "kind": "Old", "metadata": metadata, "spec": {}}
    (tmp_path / "old.yaml").write_text(json.dumps(example))
    folders = (f"--templates={tmp_path / 'templates'}", f"--crds={tmp_path / 'crds'}")
    arguments = ("dev", "--name=tests", *folders, f"--examples={tmp_path / 'old.yaml'}", "--listen=", "--until-ready")
    # A test would not wait for so long.
    code, _, err = await run(*arguments, f"--timeout={100 * PATIENCE}")
    assert code == 1
    assert "ssa-operator: waiting does not help:\nOld" in err
    assert "map.yaml.j2:6: spec.nothing is missing" in err
    assert "dev ran 1 parent: 1 RenderFailed" in err
    assert "The local cluster tests goes on" in err

    (tmp_path / "old.yaml").write_text("kind: [")
    code, _, err = await run(*arguments, f"--timeout={100 * PATIENCE}")
    assert code == 1
    assert "old.yaml:1" in err


@pytest.mark.exhaustive
@pytest.mark.slow
async def test_a_control_plane_that_dies_is_the_title_of_the_screen(tmp_path: Path, templates: Path) -> None:
    (tmp_path / "echo.yaml").write_text(ECHO)
    arguments = ("dev", f"--templates={templates}", f"--examples={tmp_path / 'echo.yaml'}", "--listen=")
    async with terminal(*arguments, SSA_OPERATOR_STATE_DIR=str(tmp_path / "state")) as shown:
        await shown.shows("Echo default/hello", "all ready")
        record = json.loads((tmp_path / "state" / "clusters" / "default" / "cluster.json").read_text())
        os.kill(record["pids"]["etcd"], signal.SIGKILL)
        await shown.shows("the control plane is gone", "etcd ended", "Echo default/hello")
        assert "error" not in shown.text
        shown.press("q")
        assert await shown.ended() == 1
        assert "ssa-operator: the control plane is gone: etcd ended by itself with code -9" in shown.text
        assert "dev ran 1 parent until the control plane was gone" in shown.text
        assert "watch of" not in shown.text


@pytest.mark.exhaustive
async def test_a_control_plane_that_dies_while_the_project_is_applied_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSA_OPERATOR_STATE_DIR", str(tmp_path))

    async def lose_etcd() -> None:
        async with local_cluster("default") as local:
            os.kill(local.cluster.pids["etcd"], signal.SIGKILL)
            await until(lambda: not processes.is_alive(local.cluster.directory))
            raise CommandError("apply of CustomResourceDefinition sites.example.com failed (Unreachable)")

    with pytest.raises(CommandError, match="the control plane is gone: etcd ended by itself with code -9"):
        await lose_etcd()
