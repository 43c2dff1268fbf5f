"""The operator's records on a parent that another client replaces (`kubectl replace`, Argo CD with `Replace=true`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.api.client import Client
from tests.devcluster.waiting import until
from tests.operator.harness import (
    ECHOES,
    PATIENCE,
    ROLES,
    Desk,
    MakeOptions,
    Operate,
    echo,
    is_ready,
    map_template,
    only,
    operating,
    uid,
)
from tests.operator.lagging_client import LaggingClient
from tests.operator.test_burst import held
from tests.reconcile.apply_once.test_once import MADE_ONCE, ONCE, record
from tests.reconcile.finalization.test_deletion import CLEANUP, finalizers, inventory

pytestmark = pytest.mark.cluster

MAPS = "configmaps"

ROLE = """\
{% if spec.replicas < 2 %}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ namespace }}-{{ name }}
rules: []
{% endif %}
"""

TWO_MAPS = map_template("plain", x="spec.replicas")


@pytest.fixture
def recorded(templates: Path) -> Path:
    """Templates with a child that is made once, and a cluster-scoped one that a parent with two replicas lacks."""
    only(templates, once=MADE_ONCE, role=ROLE, plain=TWO_MAPS)
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    return templates


async def replace(desk: Desk, replicas: int) -> None:
    """Write the parent as a manifest has it that knows nothing of the operator."""
    await desk.kubectl("replace", "--filename=-", stdin=json.dumps(echo("web", replicas)))


def message(body: dict[str, Any]) -> str:
    ready = next(each for each in body["status"]["conditions"] if each["type"] == "Ready")
    return str(ready["message"])


async def test_records_are_put_back_and_what_a_replace_dropped_is_deleted(
    desk: Desk, operate: Operate, recorded: Path
) -> None:
    role = f"{desk.namespace}-web"
    async with operate(templates=recorded):
        parent = await desk.apply_until_ready(echo("web", 1))
        before = record(parent)
        assert before
        assert inventory(parent) == [f"ClusterRole /{role}"]
        await desk.delete("configmap", "web-once")
        await replace(desk, 2)
        await desk.gone(ROLES, role)
        parent = await desk.until(ECHOES, "web", lambda body: is_ready(body) and ONCE in str(body["metadata"]))
        assert record(parent) == before
        assert await desk.find(MAPS, "web-once") is None
        assert "another client removed the operator's records" in message(parent)
        await desk.until_event("RecordsLost", "ssa-operator.dev/once", "ssa-operator.dev/inventory", about="web")


async def test_a_finalizer_that_a_replace_removed_is_there_again_before_the_parent_goes(
    desk: Desk, operate: Operate, recorded: Path
) -> None:
    async with operate(templates=recorded):
        await desk.apply_until_ready(echo("web", 1))
        await replace(desk, 1)
        parent = await desk.until(ECHOES, "web", lambda body: CLEANUP in finalizers(body))
        assert inventory(parent) == [f"ClusterRole /{desk.namespace}-web"]
        await desk.delete("echo", "web")
        await desk.gone(ROLES, f"{desk.namespace}-web")


@pytest.mark.exhaustive
async def test_what_may_have_been_applied_once_is_not_applied_again_after_a_restart_but_named(
    desk: Desk, operate: Operate, recorded: Path
) -> None:
    role = f"{desk.namespace}-web"
    async with operate(templates=recorded):
        await desk.apply_until_ready(echo("web", 1))
        await desk.delete("configmap", "web-once")
    await replace(desk, 2)
    async with operate(templates=recorded):
        parent = await desk.until(ECHOES, "web", lambda body: is_ready(body) and ONCE in str(body["metadata"]))
        assert await desk.find(MAPS, "web-once") is None
        for words in ("removed the operator's records", "counts as applied", f"ClusterRole {role}"):
            assert words in message(parent)
        await desk.until_event("RecordsLost", "counts as applied", about="web")
    async with operate(templates=recorded):
        await desk.ready(ECHOES, "web")
        assert await desk.find(MAPS, "web-once") is None
        # A user has the last word.
        await desk.patch("echo", "web", metadata={"annotations": {ONCE: None}})
        await desk.read(MAPS, "web-once")
    await desk.delete("clusterrole", role)


async def test_records_that_the_watch_of_parents_has_not_shown_yet_are_not_lost(
    desk: Desk, client: Client, lagging: LaggingClient, options: MakeOptions, recorded: Path
) -> None:
    """Another process, such as the last leader or `ssa-operator apply`, recorded and created children meanwhile."""
    async with operating(lagging, options(templates=recorded)) as behind:
        async with held(behind.operator):
            await desk.apply(echo("web", 1))
            folders = behind.operator.folders
            await until(lambda: any(live.identity.name == "web" for live in folders.get(ECHOES, ())), PATIENCE)
            lagging.lag.begin()
            async with operating(client, options(templates=recorded)):
                await desk.ready(ECHOES, "web")
        await behind.reported(lambda report: report.complete)
        assert [report.records_notice for report in behind.reports] == [None] * len(behind.reports)
        lagging.lag.end()
        parent = await desk.ready(ECHOES, "web")
        assert "removed the operator's records" not in message(parent)
        await desk.delete("echo", "web")
        await desk.gone(ROLES, f"{desk.namespace}-web")


async def test_a_single_record_that_a_user_removes_is_not_put_back(
    desk: Desk, operate: Operate, recorded: Path
) -> None:
    async with operate(templates=recorded):
        await desk.apply_until_ready(echo("web", 1))
        first = uid(await desk.read(MAPS, "web-once"))
        await desk.delete("configmap", "web-once")
        await desk.patch("echo", "web", metadata={"annotations": {ONCE: None}})
        assert uid(await desk.read(MAPS, "web-once")) != first
        await desk.delete("echo", "web")
