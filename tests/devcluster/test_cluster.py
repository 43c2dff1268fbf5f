"""The local control plane as its user sees it, on the real one."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest
import yaml
from msgspec.structs import replace

from ssa_operator.devcluster import binaries, cluster_files, components, processes
from ssa_operator.devcluster import cluster as clusters
from ssa_operator.devcluster.cluster import Cluster, ClusterError, ClusterSpec
from ssa_operator.devcluster.components import Layout
from ssa_operator.devcluster.processes import ProcessError, Progress
from tests.conftest import Kubectl
from tests.devcluster.audit import audited
from tests.devcluster.waiting import stop_process, until

pytestmark = pytest.mark.cluster

WORKLOADS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: none}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  replicas: 2
  serviceName: store
  selector: {matchLabels: {app: store}}
  template:
    metadata: {labels: {app: store}}
    spec: {initContainers: [{name: first, image: none}], containers: [{name: store, image: none}]}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: work}
spec:
  completions: 2
  template: {spec: {restartPolicy: OnFailure, containers: [{name: work, image: none}]}}
"""

START = """
import asyncio, sys
from ssa_operator.devcluster.cluster import ClusterSpec, start
started = asyncio.run(start(ClusterSpec(name=sys.argv[1], detached=sys.argv[2] == "detached", nodes=1)))
print(*started.pids.values(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder of the test's own."""
    monkeypatch.setenv("SSA_OPERATOR_STATE_DIR", str(tmp_path))
    return tmp_path / "clusters"


@pytest.fixture
async def own(state: Path) -> AsyncIterator[Cluster]:
    """A cluster of the test's own, which it may break."""
    started = await clusters.start(ClusterSpec(name="own", nodes=1))
    yield started
    if started.group is not None:
        await started.group.end()
    await clusters.stop("own")


@pytest.fixture
def starters() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are ended with the test."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def start_elsewhere(starters: list[subprocess.Popen[str]], mode: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Another process that has started the cluster `own`, and the process ids of the components."""
    process = subprocess.Popen(
        [sys.executable, "-c", START, "own", mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    starters.append(process)
    assert process.stdout is not None
    return process, [int(pid) for pid in process.stdout.readline().split()]


def start_by_command(starters: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    program = "from ssa_operator.cli.run.cluster import app; app()"
    command = [sys.executable, "-c", program, "start", "--name=own"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    starters.append(process)
    return process


def programs_without_an_api(folder: Path, real: Path) -> Path:
    """The programs of the control plane with an API server that never answers, so that a start never ends."""
    folder.mkdir()
    for program in real.iterdir():
        (folder / program.name).symlink_to(program)
    unresponsive = folder / "kube-apiserver"
    unresponsive.unlink()
    unresponsive.write_text("#!/bin/sh\nexec sleep 600\n")
    unresponsive.chmod(0o755)
    return folder


def exist(pids: list[int]) -> list[bool]:
    def exists(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True

    return [exists(pid) for pid in pids]


def test_a_new_cluster_has_its_default_namespace_and_two_ready_nodes(cluster: Cluster, kubectl: Kubectl) -> None:
    assert kubectl("get", "namespace", "default", "--output=name") == "namespace/default\n"
    nodes = json.loads(kubectl("get", "nodes", "--output=json"))["items"]
    conditions = [condition for node in nodes for condition in node["status"]["conditions"]]
    assert [condition["status"] for condition in conditions if condition["type"] == "Ready"] == ["True", "True"]


@pytest.mark.exhaustive
def test_deployments_stateful_sets_with_claims_and_jobs_become_ready(namespace: str, kubectl: Kubectl) -> None:
    kubectl("apply", f"--namespace={namespace}", "--filename=-", input=WORKLOADS)
    for name, condition in {
        "deployment/web": "condition=Available",
        "statefulset/store": "jsonpath={.status.readyReplicas}=2",
        "job/work": "condition=Complete",
        "pvc/data-store-0": "jsonpath={.status.phase}=Bound",
    }.items():
        kubectl("wait", name, f"--for={condition}", "--timeout=60s", f"--namespace={namespace}")


def test_the_volume_of_a_deleted_claim_is_deleted(namespace: str, kubectl: Kubectl) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    kubectl("create", f"--namespace={namespace}", "--filename=-", input=json.dumps(claim))
    kubectl("wait", "pvc/data", "--for=jsonpath={.status.phase}=Bound", "--timeout=60s", f"--namespace={namespace}")
    volume = kubectl("get", "pvc/data", "--output=jsonpath={.spec.volumeName}", f"--namespace={namespace}")
    kubectl("delete", "pvc/data", f"--namespace={namespace}", "--timeout=60s")
    kubectl("wait", f"pv/{volume}", "--for=delete", "--timeout=60s")


def test_a_deleted_pod_ends_without_its_grace_period(namespace: str, kubectl: Kubectl) -> None:
    kubectl("run", "pod", "--image=none", f"--namespace={namespace}")
    kubectl("wait", "pod/pod", "--for=condition=Ready", "--timeout=60s", f"--namespace={namespace}")
    kubectl("delete", "pod/pod", "--grace-period=3600", "--timeout=60s", f"--namespace={namespace}")


async def get(cluster: Cluster, context: ssl.SSLContext, url: str | None = None) -> int:
    async with aiohttp.ClientSession(trust_env=False) as session:
        target = url or f"{cluster.url}/api/v1/namespaces/kube-system/secrets"
        async with session.get(target, ssl=context) as response:
            return response.status


async def test_a_client_without_a_certificate_reads_no_secret(cluster: Cluster) -> None:
    context = ssl.create_default_context(cafile=Layout(directory=cluster.directory).certificate("ca"))
    assert await get(cluster, context) == 403


async def test_the_api_server_is_trusted_by_its_own_authority_only(cluster: Cluster) -> None:
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await get(cluster, ssl.create_default_context())


async def test_etcd_refuses_a_client_without_a_certificate(cluster: Cluster) -> None:
    recorded = cluster_files.read_record(cluster.directory)
    assert recorded is not None
    url = re.search(r"--listen-client-urls=(https://127\.0\.0\.1:\d+)", " ".join(recorded.commands["etcd"]))
    assert url is not None
    context = ssl.create_default_context(cafile=Layout(directory=cluster.directory).certificate("ca"))
    with pytest.raises(aiohttp.ClientError):
        await get(cluster, context, f"{url[1]}/health")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_every_component_listens_on_loopback_only(cluster: Cluster) -> None:
    sockets = {
        link.readlink().name.removeprefix("socket:[").removesuffix("]")
        for pid in cluster.pids.values()
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if link.readlink().name.startswith("socket:")
    }
    listening = [
        line.split()[1].rpartition(":")[0]
        for table in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[9] in sockets
    ]
    assert set(listening) == {"0100007F"}
    assert len(listening) == 4


def test_the_audit_log_has_the_user_and_verb_of_each_request(
    cluster: Cluster, namespace: str, kubectl: Kubectl
) -> None:
    kubectl("create", "secret", "generic", "sealed", "--from-literal=word=plaintext", f"--namespace={namespace}")
    found = [event for event in audited(cluster) if event.get("objectRef", {}).get("name") == "sealed"]
    created = next(event for event in found if event["verb"] == "create")
    assert created["user"]["username"] == "admin"


def test_the_audit_log_of_users_has_no_bodies_and_so_no_secrets() -> None:
    shipped = Path(components.__file__).with_name("audit-policy.yaml")
    assert yaml.safe_load(shipped.read_text())["rules"] == [{"level": "Metadata"}]


@pytest.mark.slow
async def test_two_parallel_starts_and_a_later_one_return_the_same_cluster(state: Path) -> None:
    spec = ClusterSpec(name="own", nodes=1)
    first, second = await asyncio.gather(clusters.start(spec), clusters.start(spec))
    assert first == second
    assert [started.group is not None for started in (first, second)].count(True) == 1
    assert (await clusters.start(spec)).pids == first.pids
    with pytest.raises(ClusterError, match=r"another value of audit.*cluster stop --name own"):
        await clusters.start(ClusterSpec(name="own", nodes=1, audit=True))
    await (first if first.group else second).stop()
    assert not (state / "own").exists()
    assert not any(exist(list(first.pids.values())))


@pytest.mark.slow
async def test_storage_can_be_restarted_without_loss(own: Cluster) -> None:
    async with own.connect() as server:
        assert await server.create("/api/v1/namespaces", {"metadata": {"name": "kept"}})
    for name in ("kube-apiserver", "etcd"):
        await own.stop_component(name)
    restarted = own
    for name in ("etcd", "kube-apiserver"):
        restarted = await restarted.start_component(name)
    await restarted.wait_until_ready()
    assert restarted.pids["etcd"] != own.pids["etcd"]
    assert restarted.pids["kwok"] == own.pids["kwok"]
    async with restarted.connect() as server:
        assert await server.get("/api/v1/namespaces/kept") is not None


@pytest.mark.slow
async def test_a_cluster_that_lost_a_component_is_reported_and_replaced(own: Cluster) -> None:
    os.kill(own.pids["kube-scheduler"], signal.SIGKILL)
    await until(lambda: not processes.is_alive(own.directory))
    found = await clusters.status("own")
    assert found.state == "stopped"
    assert "kube-scheduler ended by itself" in found.message
    steps: list[Progress] = []
    replaced = await clusters.start(ClusterSpec(name="own", nodes=1), steps.append)
    assert "Removing the remains of cluster own: kube-scheduler ended by itself" in steps[0].message
    assert (await clusters.status("own")).state == "running"
    await replaced.stop()


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
async def test_a_silent_cluster_is_unhealthy_and_replaced(own: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "_HEALTH_SECONDS", 1.0)
    await stop_process(own.pids["kube-apiserver"])
    found = await clusters.status("own")
    assert found.state == "unhealthy"
    assert "/readyz has not been ok" in found.message
    monkeypatch.undo()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSA_OPERATOR_STATE_DIR", str(own.directory.parent.parent))
        patch.setattr(clusters, "_HEALTH_SECONDS", 1.0)
        replaced = await clusters.start(ClusterSpec(name="own", nodes=1))
        await until(lambda: not any(exist([own.pids["kube-apiserver"], own.pids["etcd"]])))
        await replaced.stop()


@pytest.mark.exhaustive
async def test_kill_9_of_the_starter_leaves_no_process_of_an_attached_cluster(
    state: Path, starters: list[subprocess.Popen[str]]
) -> None:
    starter, pids = start_elsewhere(starters, "attached")
    assert exist(pids) == [True] * 5
    starter.kill()
    await until(lambda: not processes.is_alive(state / "own"))
    await until(lambda: not any(exist(pids)))
    assert (await clusters.status("own")).state == "stopped"


@pytest.mark.exhaustive
async def test_a_detached_cluster_survives_its_starter_and_is_gone_after_stop(
    state: Path, starters: list[subprocess.Popen[str]]
) -> None:
    starter, pids = start_elsewhere(starters, "detached")
    starter.kill()
    starter.wait()
    assert (await clusters.status("own")).state == "running"
    assert await clusters.stop("own")
    assert not processes.is_alive(state / "own")
    await until(lambda: not any(exist(pids)))
    assert not (state / "own").exists()
    assert not await clusters.stop("own")


@pytest.mark.more_cases
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
async def test_a_start_that_is_interrupted_leaves_no_process(
    state: Path,
    starters: list[subprocess.Popen[str]],
    ending: signal.Signals,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = await binaries.acquire(binaries.from_environment())
    monkeypatch.setenv(binaries.ASSETS_VARIABLE, str(programs_without_an_api(tmp_path / "programs", real)))
    process = start_by_command(starters)
    await until((state / "own" / "kube-apiserver.log").exists)
    assert processes.is_alive(state / "own")
    process.send_signal(ending)
    process.wait()
    await until(lambda: not processes.is_alive(state / "own"))


async def test_a_component_that_refuses_its_arguments_is_named_with_its_message(state: Path) -> None:
    with pytest.raises(ProcessError, match=r"kube-apiserver ended by itself(?s:.*)NoSuchPlugin"):
        await clusters.start(ClusterSpec(name="own", admission_plugins=("NoSuchPlugin",)))
    assert not processes.is_alive(state / "own")


@pytest.mark.exhaustive
async def test_the_start_chooses_other_ports_if_another_process_takes_one(
    state: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = int(cluster.url.rpartition(":")[2])
    choices = iter([replace(clusters.free_ports(), etcd=taken), clusters.free_ports()])
    monkeypatch.setattr(clusters, "free_ports", choices.__next__)
    steps: list[Progress] = []
    started = await clusters.start(ClusterSpec(name="own", nodes=1), steps.append)
    assert any("choosing other ports" in step.message for step in steps)
    await started.stop()


@pytest.mark.parametrize("name", ["", "A", "a b", "../x", "-a", "a-", "a" * 41])
def test_a_name_that_cannot_be_a_folder_is_refused(name: str) -> None:
    with pytest.raises(ClusterError, match=r"lower-case letters"):
        ClusterSpec(name=name)
