"""Children whose manifest says when they are ready."""

from __future__ import annotations

import pytest

from tests.operator.harness import ECHOES, Desk, Operate, config_map, echo, entries, is_ready, not_ready_because, only

pytestmark = pytest.mark.cluster

TASK = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-task
  annotations:
    ssa-operator.dev/ready-when: "data.phase == 'Running'"
"""

READER = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-reader
data:
  phase: {{ child("ConfigMap", name ~ "-task").data.phase }}
"""

AFTER = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-after
  annotations:
    ssa-operator.dev/after: "ConfigMap/{{ name }}-task"
"""

STATUS = """\
readyReplicas: {{ 1 if ready(child("ConfigMap", name ~ "-task")) else 0 }}
"""


async def test_a_parent_and_dependants_wait_until_the_expression_holds(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        only(running.templates, task=TASK, reader=READER, after=AFTER, _status=STATUS)
        await desk.apply(echo("web"))
        why = "ready-when data.phase == 'Running' is false: data.phase is missing"
        words = ("ConfigMap", "web-task to be ready", why)
        waiting = await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", *words))
        assert entries(waiting)["ConfigMap/web-task"]["state"] == "InProgress"
        assert entries(waiting)["ConfigMap/web-task"]["message"] == why
        assert await desk.find("configmaps", "web-reader") is None
        assert await desk.find("configmaps", "web-after") is None
        task = await desk.read("configmaps", "web-task")
        assert "annotations" not in task["metadata"]

        await desk.patch("configmap", "web-task", data={"phase": "Pending"})
        pending = "ready-when data.phase == 'Running' is false"
        await desk.until(ECHOES, "web", lambda body: entries(body)["ConfigMap/web-task"].get("message") == pending)
        await desk.patch("configmap", "web-task", data={"phase": "Running"})
        await desk.ready(ECHOES, "web")
        assert (await desk.read("configmaps", "web-reader"))["data"] == {"phase": "Running"}
        await desk.read("configmaps", "web-after")

        await desk.patch("configmap", "web-task", data={"phase": "Failed"})
        await desk.until(ECHOES, "web", lambda body: not is_ready(body))


async def test_an_invalid_expression_names_its_line_and_stops_no_other_child(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        other, _ = AFTER.split("  annotations")
        only(running.templates, task=TASK.replace("== 'Running'", "= 'Running'"), other=other)
        await desk.apply(echo("web"))
        words = ("task.yaml.j2:6", "ssa-operator.dev/ready-when is no valid expression")
        await desk.until(ECHOES, "web", not_ready_because("RenderFailed", *words))
        await desk.read("configmaps", "web-after")
        assert await desk.find("configmaps", "web-task") is None
        running.write(f"{ECHOES}/task.yaml.j2", TASK.replace("data.phase == 'Running'", "metadata.uid is defined"))
        await desk.ready(ECHOES, "web")


async def test_a_field_that_no_controller_writes_yet_keeps_a_child_in_progress(desk: Desk, operate: Operate) -> None:
    """`!=` of a missing field does not hold. Another value than the wanted one does."""
    async with operate() as running:
        only(running.templates, task=TASK.replace("==", "!="))
        await desk.apply(echo("web"))
        words = ("web-task", "data.phase is missing")
        await desk.until(ECHOES, "web", not_ready_because("Progressing", *words))
        await desk.patch("configmap", "web-task", data={"phase": "Done"})
        await desk.ready(ECHOES, "web")


async def test_the_expression_holds_for_a_child_whose_document_waits(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        reads = "data:\n  host: {{ lookup('v1', 'ConfigMap', 'settings').data.host }}\n"
        only(running.templates, task=TASK + reads, _status=STATUS)
        await desk.create(config_map("settings", host="a"))
        await desk.apply(echo("web"))
        await desk.read("configmaps", "web-task")
        await desk.patch("configmap", "web-task", data={"phase": "Running"})
        await desk.ready(ECHOES, "web")

        await desk.delete("configmap", "settings")
        await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", "settings"))
        await desk.patch("configmap", "web-task", data={"phase": "Pending"})
        await desk.until(ECHOES, "web", lambda body: body["status"]["readyReplicas"] == 0)
        await desk.patch(ECHOES, "web", metadata={"annotations": {"ssa-operator.dev/suspend": "true"}})
        why = "ready-when data.phase == 'Running' is false"
        await desk.until(ECHOES, "web", not_ready_because("Progressing", "web-task", why))
