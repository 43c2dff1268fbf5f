"""What is applied after what, on the real control plane: order without a value, circles, and causes that are led to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.controller.options import Options
from ssa_operator.kube.client import Client
from tests.controller.desk import Desk, echo, not_ready_because, operating, ready_condition

pytestmark = pytest.mark.cluster

MakeOptions = Callable[..., Options]

FOLDER = "echoes.example.com"

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ name }}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: work}]
"""

NOWHERE = "      nodeSelector: {nowhere: here}\n"


def config_map(name: str, data: str = "", **annotations: str) -> str:
    lines = "".join(f'    ssa-operator.dev/{key}: "{value}"\n' for key, value in annotations.items())
    more = f"  annotations:\n{lines}" if lines else ""
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n{more}data:\n  {data or 'a: b'}\n"


def version(body: dict[str, Any]) -> int:
    return int(body["metadata"]["resourceVersion"])


def message_of(body: dict[str, Any], kind: str, name: str) -> str:
    entries = body["status"]["resources"]
    return next((entry.get("message", "") for entry in entries if (entry["kind"], entry["name"]) == (kind, name)), "")


async def test_a_manifest_after_a_job_is_made_when_the_job_is_complete(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(f"{FOLDER}/job.yaml.j2", JOB)
        running.write(f"{FOLDER}/a.yaml.j2", config_map("{{ name }}", after="Job/{{ name }}, Deployment/{{ name }}"))
        await desk.apply(echo("web", 2))
        await desk.ready("echoes.example.com", "web")
        made = await desk.until("configmaps", "web", lambda _: True)
        job = await desk.until("jobs.batch", "web", lambda _: True)
        deployment = await desk.until("deployments.apps", "web", lambda _: True)
    assert any(each["type"] == "Complete" for each in job["status"]["conditions"])
    assert deployment["status"]["readyReplicas"] == 2
    assert version(job) < version(made)
    assert version(deployment) < version(made)
    assert "annotations" not in made["metadata"]


async def test_a_change_of_both_goes_through_one_after_the_other(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        data = "replicas: '{{ spec.replicas }}'"
        running.write(f"{FOLDER}/a.yaml.j2", config_map("{{ name }}", data, after="Deployment/{{ name }}"))
        text = (running.templates / FOLDER / "deployment.yaml.j2").read_text()
        stuck = "      {% if spec.replicas == 2 %}\n" + NOWHERE + "      {% endif %}\n      automount"
        running.write(f"{FOLDER}/deployment.yaml.j2", text.replace("      automount", stuck))
        await desk.apply(echo("web", 1))
        await desk.ready("echoes.example.com", "web")
        before = await desk.until("configmaps", "web", lambda body: body["data"] == {"replicas": "1"})

        await desk.apply(echo("web", 2))
        words = ("ConfigMap", "waiting for Deployment/web to be ready (")
        await desk.until("echoes.example.com", "web", not_ready_because("WaitingForDependency", *words))
        now = (await desk.view("configmaps")).find("web")
        assert now is not None
        assert version(now.body) == version(before)

        await desk.apply(echo("web", 3))
        await desk.ready("echoes.example.com", "web")
        after = await desk.until("configmaps", "web", lambda body: body["data"] == {"replicas": "3"})
        deployment = await desk.until("deployments.apps", "web", lambda body: body["status"]["readyReplicas"] == 3)
        assert version(deployment) < version(after)


async def test_what_is_applied_and_unchanged_stays_as_it_is_while_its_dependency_is_unready(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(f"{FOLDER}/a.yaml.j2", config_map("{{ name }}", after="Deployment/{{ name }}"))
        await desk.apply(echo("web", 1))
        await desk.ready("echoes.example.com", "web")
        text = (running.templates / FOLDER / "deployment.yaml.j2").read_text()
        running.write(f"{FOLDER}/deployment.yaml.j2", text.replace("      automount", NOWHERE + "      automount"))
        body = await desk.until("echoes.example.com", "web", not_ready_because("Progressing", "Deployment "))
        assert [entry["state"] for entry in body["status"]["resources"]] == ["Current", "InProgress"]


@pytest.mark.parametrize("exist", [False, True])
async def test_a_circle_is_named_with_its_path_and_everything_else_is_applied(
    client: Client, desk: Desk, options: MakeOptions, exist: bool
) -> None:
    async with operating(client, options()) as running:
        if exist:
            for name in "ab":
                running.write(f"{FOLDER}/{name}.yaml.j2", config_map(name))
            running.write(f"{FOLDER}/old.yaml.j2", config_map("old"))
            await desk.apply(echo("web", 1))
            await desk.ready("echoes.example.com", "web")
            running.remove(f"{FOLDER}/old.yaml.j2")
            await desk.gone("configmaps", "old")
        running.write(f"{FOLDER}/b.yaml.j2", config_map("b", "x: '{{ child('ConfigMap', 'a').data.x }}'"))
        running.write(f"{FOLDER}/c.yaml.j2", config_map("c", after="ConfigMap/b"))
        running.write(f"{FOLDER}/a.yaml.j2", config_map("a", "x: '{{ child('ConfigMap', 'b').metadata.uid }}'"))
        running.write(f"{FOLDER}/free.yaml.j2", config_map("free"))
        await desk.apply(echo("web", 2))
        path = "ConfigMap/a -> ConfigMap/b -> ConfigMap/a"
        body = await desk.until(
            "echoes.example.com",
            "web",
            lambda body: (
                not_ready_because("DependencyCycle", path)(body) and bool(message_of(body, "ConfigMap", "free") == "")
            ),
        )
        assert message_of(body, "ConfigMap", "c").startswith("waiting for ConfigMap/b to be ready (ConfigMap ")
        assert path in message_of(body, "ConfigMap", "c")
        await desk.until("configmaps", "free", lambda _: True)
        await desk.until("deployments.apps", "web", lambda body: body["spec"]["replicas"] == 2)
        assert (await desk.view("configmaps")).find("c") is None
        assert ((await desk.view("configmaps")).find("a") is None) is not exist

        running.write(f"{FOLDER}/a.yaml.j2", config_map("a", "x: y"))
        await desk.ready("echoes.example.com", "web")
        await desk.until("configmaps", "c", lambda _: True)


async def test_a_chain_of_manifests_that_no_event_tells_of_is_made_to_its_end(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(f"{FOLDER}/c0.yaml.j2", config_map("c0", "x: '{{ spec.replicas }}'"))
        for number in range(1, 30):
            data = f"x: '{{{{ child('ConfigMap', 'c{number - 1}').data.x }}}}'"
            running.write(f"{FOLDER}/c{number}.yaml.j2", config_map(f"c{number}", data))
        await desk.apply(echo("web", 1))
        await desk.ready("echoes.example.com", "web")
        await desk.apply(echo("web", 2))
        await desk.until("configmaps", "c29", lambda body: body["data"] == {"x": "2"})
        await desk.ready("echoes.example.com", "web")


async def test_manifests_that_change_each_other_without_end_do_not_keep_the_operator_busy(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        for name, other in ("ab", "ba"):
            data = f"x: '{{{{ child('ConfigMap', '{other}').metadata.resourceVersion | default(0) }}}}'"
            running.write(f"{FOLDER}/{name}.yaml.j2", config_map(name, data))
        await desk.apply(echo("web", 1))
        # The status is written once the passes don't follow each other at once any more.
        await desk.until("echoes.example.com", "web", lambda body: bool(ready_condition(body)))


async def test_the_readiness_of_a_child_that_says_so_counts_for_nobody(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        text = (running.templates / FOLDER / "deployment.yaml.j2").read_text()
        text = text.replace("      automount", NOWHERE + "      automount")
        text = text.replace("\nspec:", '\n  annotations: {ssa-operator.dev/wait: "false"}\nspec:', 1)
        running.write(f"{FOLDER}/deployment.yaml.j2", text)
        running.write(f"{FOLDER}/a.yaml.j2", config_map("a", "x: '{{ child('Deployment', name).metadata.uid }}'"))
        running.write(f"{FOLDER}/b.yaml.j2", config_map("b", after="Deployment/{{ name }}"))
        await desk.apply(echo("web", 1))
        body = await desk.ready("echoes.example.com", "web")
        deployment = await desk.until("deployments.apps", "web", lambda _: True)
        made = await desk.until("configmaps", "a", lambda _: True)
        await desk.until("configmaps", "b", lambda _: True)
    assert made["data"] == {"x": deployment["metadata"]["uid"]}
    assert {entry["kind"]: entry["state"] for entry in body["status"]["resources"]}["Deployment"] == "InProgress"


async def test_what_waits_for_a_failed_job_says_how_the_job_failed(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        stuck = JOB.replace("backoffLimit: 0", "backoffLimit: 0\n  activeDeadlineSeconds: 1")
        running.write(f"{FOLDER}/job.yaml.j2", stuck.replace("      restartPolicy", NOWHERE + "      restartPolicy"))
        running.write(f"{FOLDER}/a.yaml.j2", config_map("a", after="Job/{{ name }}"))
        await desk.apply(echo("web", 1))
        body = await desk.until(
            "echoes.example.com", "web", not_ready_because("WaitingForDependency", "DeadlineExceeded")
        )
    assert message_of(body, "ConfigMap", "a").startswith(
        "waiting for Job/web to be ready (it failed: DeadlineExceeded: "
    )
    assert "Job" in ready_condition(body)["message"].split(":")[0]
    assert any(each["type"] == "Stalled" for each in body["status"]["conditions"])


async def test_what_reads_a_child_that_the_api_server_refuses_says_so_and_the_condition_leads_to_it(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        service = (
            "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  ports: [{port: {{ spec.replicas }}00000}]\n"
        )
        running.write(
            f"{FOLDER}/service.yaml.j2", service.replace("{{ spec.replicas }}00000", "{{ spec.replicas * 100000 }}")
        )
        running.write(f"{FOLDER}/a.yaml.j2", config_map("a", "x: '{{ child('Service', 's').spec.clusterIP }}'"))
        running.write(f"{FOLDER}/b.yaml.j2", config_map("b", after="ConfigMap/a"))
        await desk.apply(echo("web", 1))
        body = await desk.until(
            "echoes.example.com", "web", not_ready_because("ApplyFailed", "service.yaml.j2:5", "ports")
        )
        assert "waiting for Service/s to be ready (apply of Service" in message_of(body, "ConfigMap", "a")
        assert message_of(body, "ConfigMap", "b").startswith("waiting for ConfigMap/a to be ready (it is waiting for")
        await desk.until("deployments.apps", "web", lambda _: True)
        running.write(f"{FOLDER}/service.yaml.j2", service.replace("{{ spec.replicas }}00000", "80"))
        await desk.ready("echoes.example.com", "web")


async def test_what_reads_a_child_whose_template_fails_names_that_template(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(f"{FOLDER}/a.yaml.j2", config_map("a", "x: '{{ spec.replicas }}'"))
        running.write(
            f"{FOLDER}/b.yaml.j2", config_map("b", "x: '{{ child('ConfigMap', 'a').data.x }}{{ spec.replicas }}'")
        )
        await desk.apply(echo("web", 1))
        await desk.ready("echoes.example.com", "web")
        running.write(f"{FOLDER}/a.yaml.j2", config_map("a", "x: '{{ spec.nope }}'"))
        body = await desk.until(
            "echoes.example.com", "web", not_ready_because("RenderFailed", "a.yaml.j2:6", "spec.nope")
        )
        await desk.apply(echo("web", 2))
        body = await desk.until(
            "echoes.example.com", "web", lambda body: "waiting" in message_of(body, "ConfigMap", "b")
        )
        assert "waiting for ConfigMap/a to be ready (a template that failed may render it" in message_of(
            body, "ConfigMap", "b"
        )
        kept = await desk.until("configmaps", "b", lambda _: True)
        assert kept["data"] == {"x": "11"}


@pytest.mark.slow
async def test_a_workload_that_does_not_become_ready_says_what_its_pods_say(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        text = (running.templates / FOLDER / "deployment.yaml.j2").read_text()
        running.write(f"{FOLDER}/deployment.yaml.j2", text.replace("      automount", NOWHERE + "      automount"))
        running.write(f"{FOLDER}/a.yaml.j2", config_map("a", after="Deployment/{{ name }}"))
        await desk.apply(echo("web", 1))
        words = ("ConfigMap", "0 of 1 replicas available; pod web-", "Unschedulable: ")
        await desk.until("echoes.example.com", "web", not_ready_because("WaitingForDependency", *words))


async def test_a_deployment_that_makes_no_progress_is_stalled_with_its_own_words(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        text = (running.templates / FOLDER / "deployment.yaml.j2").read_text()
        text = text.replace("      automount", NOWHERE + "      automount")
        text = text.replace("  replicas:", "  progressDeadlineSeconds: 1\n  replicas:", 1)
        running.write(f"{FOLDER}/deployment.yaml.j2", text)
        await desk.apply(echo("web", 1))
        body = await desk.until(
            "echoes.example.com", "web", not_ready_because("Progressing", "ProgressDeadlineExceeded: ")
        )
    assert any(each["type"] == "Stalled" for each in body["status"]["conditions"])


CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ name }}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: {{ namespace }}
  resources: {requests: {storage: 1Gi}}
"""
USER = """\
apiVersion: v1
kind: Pod
metadata:
  name: {{ name }}
spec:
  containers: [{name: main, image: none}]
  volumes:
    - name: data
      persistentVolumeClaim:
        claimName: {{ child('PersistentVolumeClaim', name).metadata.name }}
"""


async def test_a_claim_that_waits_for_its_first_consumer_does_not_hold_it_back(
    client: Client, desk: Desk, options: MakeOptions, templates: Path
) -> None:
    storage = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": desk.namespace},
        "provisioner": "kwok.x-k8s.io/volume",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    await desk.apply(storage)
    for file in (templates / "echoes.example.com").iterdir():
        file.unlink()
    (templates / "echoes.example.com" / "claim.yaml.j2").write_text(CLAIM)
    (templates / "echoes.example.com" / "user.yaml.j2").write_text(USER)
    async with operating(client, options(templates=templates)):
        await desk.apply(echo("web"))
        await desk.until("persistentvolumeclaims", "web", lambda body: body["status"].get("phase") == "Bound")
        await desk.ready("echoes.example.com", "web")
    await desk.kubectl("delete", "storageclass", desk.namespace)
