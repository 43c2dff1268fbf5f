"""Manifests that are applied once for a parent: a Job that its TTL deletes does not run again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.operator.harness import (
    ECHOES,
    Desk,
    Operate,
    config_map,
    echo,
    entries,
    holds,
    is_ready,
    map_template,
    other_than,
    uid,
)

pytestmark = pytest.mark.cluster

ONCE = "ssa-operator.dev/once"
JOB = f"{ECHOES}/job.yaml.j2"

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


MADE_ONCE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-once
  annotations:
    ssa-operator.dev/apply: Once
data:
  a: ours
"""


def record(body: dict[str, Any]) -> dict[str, str]:
    """The parent's record of what was applied once."""
    found: dict[str, str] = json.loads(body["metadata"].get("annotations", {}).get(ONCE, "{}"))
    return found


def migrated(body: dict[str, Any]) -> bool:
    """Whether the parent is ready, and says that its Job was ready before it was gone."""
    return is_ready(body) and all(word.endswith(" ready") for word in record(body).values()) and bool(record(body))


def job(parent: dict[str, Any]) -> dict[str, Any]:
    """The entry of the Job in the parent's status."""
    return entries(parent).get("Job/web-migrate", {})


def is_gone(parent: dict[str, Any]) -> bool:
    """Whether the parent says that its Job was there and is no more."""
    return "and is gone" in job(parent).get("message", "")


async def parent_with_its_job(desk: Desk) -> dict[str, Any]:
    """A new Echo whose Job exists and is recorded."""
    await desk.apply(echo("web"))
    await desk.read("jobs.batch", "web-migrate")
    return await desk.until(ECHOES, "web", record)


async def runs(desk: Desk) -> int:
    """How many pods of Jobs there have been: a pod outlives nothing here, its events do."""
    events = json.loads(await desk.kubectl("get", "events.v1.events.k8s.io", "-o", "json"))["items"]
    return sum(1 for each in events if each["regarding"]["kind"] == "Job" and each["reason"] == "SuccessfulCreate")


@pytest.mark.exhaustive
async def test_a_job_that_its_ttl_removed_does_not_run_again_until_its_manifest_changes_also_after_a_restart(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        running.write(JOB, MIGRATE)
        await desk.apply(echo("web"))
        # The record says that it became ready before the next status does.
        became_ready = "was applied once, became ready and is gone"
        parent = await desk.until(
            ECHOES, "web", lambda body: migrated(body) and became_ready in job(body).get("message", "")
        )
        assert job(parent)["state"] == "Current"
        assert list(record(parent)) == [f"Job.batch/{desk.namespace}/web-migrate"]
        await desk.apply_until_ready(echo("web", 2))
    async with operate() as running:
        await desk.apply_until_ready(echo("web", 3))
        assert await runs(desk) == 1

        running.write(JOB, MIGRATE.replace("migrate:1", "migrate:2"))
        await desk.until(
            ECHOES, "web", lambda body: record(body) != record(parent) and migrated(body) and is_gone(body)
        )
        await desk.apply_until_ready(echo("web", 1))
        assert await runs(desk) == 2


async def test_a_manifest_that_depends_on_a_deleted_job_does_not_wait_for_it(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(JOB, MIGRATE)
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", is_gone)
        running.write(f"{ECHOES}/dependant.yaml.j2", DEPENDANT)
        running.write(f"{ECHOES}/_status.yaml.j2", "migrated: {{ ready(child('Job', name ~ '-migrate')) }}\n")
        await desk.until("configmaps", "web", holds(after="web-migrate"))
        await desk.ready(ECHOES, "web")


async def test_a_job_that_a_user_deletes_is_not_recreated(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(JOB, STANDING)
        parent = await parent_with_its_job(desk)
        await desk.delete("job", "web-migrate")
        done = await desk.until(ECHOES, "web", lambda body: is_gone(body) and is_ready(body))
        assert job(done)["state"] == "Current"
        assert record(done) == record(parent)
        await desk.apply_until_ready(echo("web", 2))
    await desk.gone("jobs.batch", "web-migrate")


@pytest.mark.exhaustive
async def test_an_existing_object_of_another_manager_is_never_reported_as_deleted(desk: Desk, operate: Operate) -> None:
    await desk.apply(config_map("web-once", a="theirs"))
    theirs = await desk.read("configmaps", "web-once")
    async with operate() as running:
        running.write(f"{ECHOES}/once.yaml.j2", MADE_ONCE)
        for replicas in (1, 2):
            parent = await desk.apply_until_ready(echo("web", replicas))
            entry = entries(parent)["ConfigMap/web-once"]
            assert (entry["state"], entry["uid"]) == ("Current", uid(theirs))
            assert "gone" not in entry.get("message", "")
        assert holds(a="theirs")(await desk.read("configmaps", "web-once"))
        await desk.delete("configmap", "web-once")
        await desk.apply(echo("web", 3))
        words = "existed before it would have been applied once, became ready and is gone"
        await desk.until(ECHOES, "web", lambda body: words in str(body.get("status")))


@pytest.mark.exhaustive
async def test_an_existing_once_job_is_not_changed_whatever_the_template_renders(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(JOB, STANDING)
        await desk.apply(echo("web"))
        first = await desk.read("jobs.batch", "web-migrate")
        running.write(JOB, STANDING.replace("migrate:1", "migrate:2"))
        # The template of this ConfigMap was loaded together with the other file.
        running.write(f"{ECHOES}/more.yaml.j2", map_template("more", a="1"))
        await desk.read("configmaps", "web-more")
        same = await desk.read("jobs.batch", "web-migrate")
        assert same["spec"]["template"] == first["spec"]["template"]
        await desk.delete("job", "web-migrate")
        second = await desk.until("jobs.batch", "web-migrate", other_than(first))
        assert second["spec"]["template"]["spec"]["containers"][0]["image"] == "migrate:2"


@pytest.mark.exhaustive
async def test_a_once_job_that_a_crash_left_unrecorded_is_recorded_by_the_next_process(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        running.write(JOB, STANDING)
        parent = await parent_with_its_job(desk)
    await desk.kubectl("annotate", "echo", "web", f"{ONCE}-")
    async with operate():
        again = await desk.until(ECHOES, "web", record)
        assert record(again) == record(parent)
        await desk.delete("job", "web-migrate")
        await desk.until(ECHOES, "web", is_gone)
    await desk.gone("jobs.batch", "web-migrate")


async def test_a_recreated_parent_applies_once_manifests_again_also_with_the_old_annotations(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        running.write(JOB, STANDING)
        first = await parent_with_its_job(desk)
        old = await desk.read("jobs.batch", "web-migrate")
        await desk.delete("echo", "web")
        annotations = first["metadata"]["annotations"]
        await desk.apply({**echo("web"), "metadata": {"name": "web", "annotations": annotations}})
        await desk.until("jobs.batch", "web-migrate", other_than(old))
        second = await desk.until(ECHOES, "web", lambda body: record(body) not in ({}, record(first)))
    assert list(record(second)) == list(record(first))


@pytest.mark.exhaustive
async def test_the_record_of_a_once_manifest_survives_kubectl_apply_of_the_parent(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(JOB, MIGRATE)
        await desk.apply(echo("web"))
        parent = await desk.until(ECHOES, "web", migrated)
        changed = {**echo("web", 2), "metadata": {"name": "web", "annotations": {"mine": "too"}}}
        after = await desk.apply_until_ready(changed)
    assert record(after) == record(parent)
