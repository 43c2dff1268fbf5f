"""Manifests that are made once in a parent's life: a Job that its TTL removes does not run again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ssa_operator.controller.options import Options
from ssa_operator.kube.client import Client
from tests.controller.desk import Desk, echo, is_ready, operating

pytestmark = pytest.mark.cluster

MakeOptions = Callable[..., Options]

ONCE = "ssa-operator.dev/once"
JOB = "echoes.example.com/job.yaml.j2"

MIGRATE = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ name }}-migrate
  annotations:
    ssa-operator.dev/apply: Once
spec:
  ttlSecondsAfterFinished: 0
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: migrate
          image: migrate:1
"""

STANDING = MIGRATE.replace("  ttlSecondsAfterFinished: 0\n", "  suspend: true\n")

DEPENDANT = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
data:
  after: {{ child('Job', name ~ '-migrate').metadata.name }}
"""


def record(body: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = json.loads(body["metadata"].get("annotations", {}).get(ONCE, "{}"))
    return found


def migrated(body: dict[str, Any]) -> bool:
    """Whether the parent is ready, and says that its Job was ready before it went."""
    return is_ready(body) and all(word.endswith(" ready") for word in record(body).values()) and bool(record(body))


def state(body: dict[str, Any]) -> tuple[str, str]:
    (entry,) = [each for each in body["status"]["resources"] if each["kind"] == "Job"]
    return entry["state"], entry.get("message", "")


async def runs(desk: Desk) -> int:
    """How many pods of Jobs there have been: a pod outlives nothing here, its events do."""
    events = json.loads(await desk.kubectl("get", "events.v1.events.k8s.io", "-o", "json"))["items"]
    return sum(1 for each in events if each["regarding"]["kind"] == "Job" and each["reason"] == "SuccessfulCreate")


async def test_a_job_that_its_ttl_removed_does_not_run_again_until_its_manifest_changes_also_after_a_restart(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(JOB, MIGRATE)
        await desk.apply(echo("web"))
        await desk.until("jobs.batch", "web-migrate", lambda _: True)
        await desk.gone("jobs.batch", "web-migrate")
        parent = await desk.until("echoes.example.com", "web", lambda body: migrated(body) and state(body)[1] != "")
        assert state(parent)[0] == "Current"
        assert "was made once, became ready and went" in state(parent)[1]
        assert list(record(parent)) == [f"Job.batch/{desk.namespace}/web-migrate"]
        await desk.apply(echo("web", 2))
        await desk.ready("echoes.example.com", "web")
    async with operating(client, options()) as running:
        await desk.apply(echo("web", 3))
        await desk.ready("echoes.example.com", "web")
        assert await runs(desk) == 1

        running.write(JOB, MIGRATE.replace("migrate:1", "migrate:2"))
        before = record(parent)
        await desk.until("echoes.example.com", "web", lambda body: record(body) != before and is_ready(body))
        await desk.gone("jobs.batch", "web-migrate")
        await desk.apply(echo("web", 1))
        await desk.ready("echoes.example.com", "web")
        assert await runs(desk) == 2


async def test_what_depends_on_a_job_that_is_gone_does_not_wait_for_it(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(JOB, MIGRATE)
        await desk.apply(echo("web"))
        await desk.until("jobs.batch", "web-migrate", lambda _: True)
        await desk.gone("jobs.batch", "web-migrate")
        await desk.ready("echoes.example.com", "web")
        running.write("echoes.example.com/dependant.yaml.j2", DEPENDANT)
        running.write("echoes.example.com/_status.yaml.j2", "migrated: {{ ready(child('Job', name ~ '-migrate')) }}\n")
        await desk.until("configmaps", "web", lambda body: body["data"] == {"after": "web-migrate"})
        await desk.ready("echoes.example.com", "web")


async def test_a_job_that_somebody_deletes_is_not_made_again(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with operating(client, options()) as running:
        running.write(JOB, STANDING)
        await desk.apply(echo("web"))
        parent = await desk.until("echoes.example.com", "web", lambda body: bool(record(body)))
        await desk.until("jobs.batch", "web-migrate", lambda _: True)
        await desk.kubectl("delete", "job", "web-migrate")
        done = await desk.ready("echoes.example.com", "web")
        assert state(done)[0] == "Current"
        assert record(done) == record(parent)
        await desk.apply(echo("web", 2))
        await desk.ready("echoes.example.com", "web")
    await desk.gone("jobs.batch", "web-migrate")


async def test_what_somebody_else_made_is_never_said_to_have_gone_while_it_is_there(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    theirs = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web-once"}, "data": {"a": "theirs"}}
    await desk.apply(theirs)
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}-once\n"
    text += "  annotations: {ssa-operator.dev/apply: Once}\ndata: {a: ours}\n"
    async with operating(client, options()) as running:
        running.write("echoes.example.com/once.yaml.j2", text)
        for replicas in (1, 2):
            await desk.apply(echo("web", replicas))
            parent = await desk.ready("echoes.example.com", "web")
            (entry,) = [each for each in parent["status"]["resources"] if each["name"] == "web-once"]
            assert (entry["state"], bool(entry.get("uid"))) == ("Current", True)
            assert "went" not in entry.get("message", "")
        found = await desk.until("configmaps", "web-once", lambda _: True)
        assert found["data"] == {"a": "theirs"}
        await desk.kubectl("delete", "configmap", "web-once")
        await desk.apply(echo("web", 3))
        words = "existed before it would have been made once, became ready and went"
        await desk.until("echoes.example.com", "web", lambda body: words in str(body.get("status")))


async def test_a_job_that_is_there_is_left_alone_whatever_the_template_says(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(JOB, STANDING)
        await desk.apply(echo("web"))
        first = await desk.until("jobs.batch", "web-migrate", lambda _: True)
        running.write(JOB, STANDING.replace("migrate:1", "migrate:2"))
        await desk.until("echoes.example.com", "web", lambda body: "job.yaml" not in str(body.get("status")))
        running.write("echoes.example.com/more.yaml.j2", DEPENDANT.replace("child('Job', name ~ '-migrate')", "object"))
        await desk.until("configmaps", "web", lambda _: True)
        same = await desk.until("jobs.batch", "web-migrate", lambda _: True)
        assert same["spec"]["template"] == first["spec"]["template"]
        await desk.kubectl("delete", "job", "web-migrate")
        await desk.until(
            "jobs.batch",
            "web-migrate",
            lambda body: body["spec"]["template"]["spec"]["containers"][0]["image"] == "migrate:2",
        )


async def test_what_a_process_made_and_died_before_recording_is_found_by_the_next_one(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(JOB, STANDING)
        await desk.apply(echo("web"))
        parent = await desk.until("echoes.example.com", "web", lambda body: bool(record(body)))
    await desk.kubectl("annotate", "echo", "web", f"{ONCE}-")
    async with operating(client, options()):
        again = await desk.until("echoes.example.com", "web", lambda body: bool(record(body)))
        assert record(again) == record(parent)
        await desk.kubectl("delete", "job", "web-migrate")
        await desk.ready("echoes.example.com", "web")
    await desk.gone("jobs.batch", "web-migrate")


async def test_a_parent_that_is_made_again_begins_anew_also_with_the_old_annotations(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(JOB, STANDING)
        await desk.apply(echo("web"))
        first = await desk.until("echoes.example.com", "web", lambda body: bool(record(body)))
        old = await desk.until("jobs.batch", "web-migrate", lambda _: True)
        await desk.kubectl("delete", "echo", "web")
        body = echo("web")
        await desk.apply({**body, "metadata": {"name": "web", "annotations": first["metadata"]["annotations"]}})
        uid = old["metadata"]["uid"]
        await desk.until("jobs.batch", "web-migrate", lambda body: body["metadata"]["uid"] != uid)
        second = await desk.until("echoes.example.com", "web", lambda body: record(body) not in ({}, record(first)))
    assert list(record(second)) == list(record(first))


async def test_what_the_operator_keeps_of_it_survives_kubectl_apply_of_the_parent(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(JOB, MIGRATE)
        await desk.apply(echo("web"))
        parent = await desk.until("echoes.example.com", "web", migrated)
        await desk.apply({**echo("web", 2), "metadata": {"name": "web", "annotations": {"mine": "too"}}})
        after = await desk.until(
            "echoes.example.com", "web", lambda body: is_ready(body) and body["metadata"]["generation"] == 2
        )
    assert record(after) == record(parent)
