"""`ssa-operator tree`: a parent and everything below it, down to pods."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssa_operator.devcluster.cluster import Cluster, ClusterSpec, start
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.auth import credentials
from ssa_operator.operator.operator_options import Options
from tests.cli.process import run, started
from tests.devcluster.audit import audited
from tests.operator.harness import ROOT, Desk, config_map, echo, entries, only, operating
from tests.operator.limited_accounts import allowed, limited

pytestmark = pytest.mark.cluster

WORKLOADS = """\
apiVersion: batch/v1
kind: Job
metadata: {name: once}
spec:
  backoffLimit: 0
  template:
    spec: {restartPolicy: Never, nodeSelector: {no: node}, containers: [{name: a, image: a}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: a, image: a, volumeMounts: [{name: data, mountPath: /data}]}]}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {storageClassName: none, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: waits}
data: {url: "{{ lookup('v1', 'ConfigMap', 'missing').data.url }}"}
"""


def options(desk: Desk, templates: Path) -> Options:
    return Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)


async def shown(desk: Desk, *arguments: str, kubeconfig: Path | None = None) -> str:
    """What `tree` prints on standard output."""
    code, out, err = await run(
        "tree", *arguments, f"--namespace={desk.namespace}", f"--kubeconfig={kubeconfig or desk.kubeconfig}"
    )
    assert (code, err) == (0, "")
    return out


def kinds(nodes: list[dict[str, Any]]) -> dict[str, Any]:
    """The kinds of nested objects."""
    return {each["kind"]: kinds(each["objects"]) for each in nodes}


@pytest.mark.slow
async def test_the_pods_of_a_deployment_are_nested_below_their_replica_set(desk: Desk, client: Client) -> None:
    async with operating(client, options(desk, ROOT / "templates")):
        await desk.apply_until_ready(echo("web", 2))
    for reference in (["echo/web"], ["echoes.example.com/web"], ["Echo", "web"]):
        out = await shown(desk, *reference)
        name = rf"{desk.namespace}/web"
        age = r"\d+s"
        assert re.fullmatch(
            rf"Echo {name}  Ready  {age}\n"
            rf"└── Deployment {name}  Current  {age}\n"
            rf"    └── ReplicaSet {name}-\w+  Current  {age}\n"
            rf"        ├── Pod {name}-\w+-\w+  Ready  {age}\n"
            rf"        └── Pod {name}-\w+-\w+  Ready  {age}\n",
            out,
        ), out
    data = json.loads(await shown(desk, "echo/web", "--output=json"))
    assert yaml.safe_load(await shown(desk, "echo/web", "--output=yaml")) == data
    assert kinds(data["resources"]) == {"Deployment": {"ReplicaSet": {"Pod": {}}}}
    pod = data["resources"][0]["objects"][0]["objects"][0]
    assert (pod["state"], pod["restarts"]) == ("Current", 0)
    assert data["conditions"][0]["type"] == "Ready"


@pytest.mark.slow
async def test_a_tree_tells_what_each_object_waits_for_and_since_when(
    desk: Desk, client: Client, templates: Path
) -> None:
    only(templates, all=WORKLOADS)
    async with operating(client, options(desk, templates)):
        await desk.apply(echo("web"))
        await desk.until("echoes.example.com", "web", lambda body: len(entries(body)) == 3)
        claim = await desk.read("persistentvolumeclaims", "data-db-0")
        await desk.until("pods", "db-0", lambda body: body["status"].get("conditions"))
        view = await desk.view("pods")
        while not (job_pods := [live for live in view.cache if live.identity.name.startswith("once-")]):
            await view.change(view.changes)
    data = json.loads(await shown(desk, "echo/web", "--output=json"))
    assert kinds(data["resources"]) == {
        "Job": {"Pod": {}},
        "StatefulSet": {"Pod": {}, "PersistentVolumeClaim": {}},
        "ConfigMap": {},
    }
    children = {each["kind"]: each for each in data["resources"]}
    waits = children["ConfigMap"]
    assert (waits["state"], waits["message"]) == (
        "Waiting",
        f"waiting for ConfigMap {desk.namespace}/missing .data.url (there is no such ConfigMap)",
    )
    assert waits["since"] == data["conditions"][0]["lastTransitionTime"]
    below = {each["kind"]: each for each in children["StatefulSet"]["objects"]}
    assert below["PersistentVolumeClaim"]["since"] == claim["metadata"]["creationTimestamp"]
    assert below["PersistentVolumeClaim"]["message"] == "its phase is Pending"
    job = (await desk.read("jobs.batch", "once"))["status"]
    assert children["Job"]["since"] == job["startTime"]
    (pod,) = children["Job"]["objects"]
    assert (pod["name"], pod["state"]) == (job_pods[0].identity.name, "InProgress")
    assert "Unschedulable" in pod["message"]
    text = await shown(desk, "echo/web")
    assert re.search(rf"ConfigMap {desk.namespace}/waits  Waiting  waiting for ConfigMap .* \(for \d+s\)\n", text)


@pytest.mark.slow
async def test_a_watched_tree_shows_changes_and_sends_no_further_list(
    desk: Desk, client: Client, cluster: Cluster, tmp_path: Path
) -> None:
    async with operating(client, options(desk, ROOT / "templates")):
        await desk.apply_until_ready(echo("web", 1))
    user = f"viewer-{desk.namespace}"
    resources = ["echoes", "deployments", "replicasets", "pods", "persistentvolumeclaims"]
    rules = [{"apiGroups": ["*"], "resources": resources, "verbs": ["get", "list", "watch"]}]
    await desk.apply(*allowed(user, rules, "viewer"))
    kubeconfig = limited(desk.kubeconfig, tmp_path, user)
    arguments = ("tree", "echo/web", "--watch", f"--namespace={desk.namespace}", f"--kubeconfig={kubeconfig}")

    def reads() -> int:
        mine = (event for event in audited(cluster) if event.get("impersonatedUser", {}).get("username") == user)
        return sum(event["verb"] in ("get", "list") for event in mine)

    async with started(*arguments) as command:
        await command.prints("Pod")
        before = reads()
        assert before > 0
        await desk.kubectl("scale", "deployment/web", "--replicas=3")
        view = await desk.view("pods")
        while len(list(view.cache)) < 3:
            await view.change(view.changes)
        for pod in list(view.cache):
            await command.prints(f"Pod {desk.namespace}/{pod.identity.name}  Ready")
        await desk.kubectl("scale", "deployment/web", "--replicas=1")
        await command.prints("  Deleted\n")
        assert reads() == before
        await desk.kubectl("delete", "echo", "web", "--wait=true", "--cascade=orphan")
        assert await command.ended() == 1
        assert command.lines == [f"ssa-operator: Echo {desk.namespace}/web was deleted\n"]


async def test_a_watch_ends_with_130_when_the_user_interrupts_it(desk: Desk) -> None:
    await desk.apply(config_map("a"))
    async with started(
        "tree", "cm/a", "--watch", f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}", "--output=json"
    ) as command:
        assert json.loads(await command.prints("ConfigMap"))["name"] == "a"
        command.process.send_signal(signal.SIGINT)
        assert await command.ended() == 130
        assert "Traceback" not in "".join(command.lines)


@pytest.mark.exhaustive
@pytest.mark.slow
async def test_a_watch_outlives_the_api_server_and_says_that_it_may_be_out_of_date(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSA_OPERATOR_STATE_DIR", str(tmp_path))
    cluster = await start(ClusterSpec(name="watched"))
    try:
        async with Client(await credentials.load(str(cluster.kubeconfig))) as client:
            desk = Desk(client, cluster.kubeconfig, "default")
            await desk.apply(config_map("held"))
            await desk.hold("configmap", "held")
        async with started("tree", "cm/held", "--watch", f"--kubeconfig={cluster.kubeconfig}") as command:
            await command.prints("ConfigMap default/held  Current")
            await cluster.stop_component("kube-apiserver")
            await command.prints("This may be out of date: ")
            cluster = await cluster.start_component("kube-apiserver")
            await cluster.wait_until_ready()
            await desk.kubectl("delete", "configmap", "held", "--wait=false")
            await command.prints("ConfigMap default/held  Terminating")
    finally:
        await cluster.stop()


async def test_any_object_has_a_tree(desk: Desk, client: Client) -> None:
    async with operating(client, options(desk, ROOT / "templates")):
        await desk.apply_until_ready(echo("web"))
    out = await shown(desk, "deploy/web")
    assert re.match(rf"Deployment {desk.namespace}/web  Current  \d+s\n└── ReplicaSet", out)


@pytest.mark.exhaustive
async def test_kinds_that_the_user_may_not_read_are_named(desk: Desk, client: Client, tmp_path: Path) -> None:
    async with operating(client, options(desk, ROOT / "templates")):
        await desk.apply_until_ready(echo("web"))
    user = f"viewer-{desk.namespace}"
    rules = [{"apiGroups": ["*"], "resources": ["echoes", "deployments"], "verbs": ["get", "list"]}]
    await desk.apply(*allowed(user, rules, "viewer"))
    out = await shown(desk, "echo/web", kubeconfig=limited(desk.kubeconfig, tmp_path, user))
    assert "objects of these kinds are not shown, because listing them is forbidden: replicasets.apps\n" in out


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("ecoh/web", "the cluster serves no resource ecoh; did you mean echoes.example.com"),
        ("echo/wbe", "/wbe; did you mean web?"),
        ("echo/a/b", "'echo/a/b' has two slashes"),
    ],
)
async def test_a_mistyped_reference_is_one_line_with_a_suggestion(desk: Desk, reference: str, message: str) -> None:
    await desk.apply(echo("web"))
    code, out, err = await run("tree", reference, f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}")
    assert code == (1 if "/" in reference and "a/b" not in reference else 2)
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
