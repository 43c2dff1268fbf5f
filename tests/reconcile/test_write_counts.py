"""What a parent costs: the writes of the operator, and its reconciles. What was applied is in the status, which is
written anyway, so that it costs no write. A reconcile reads the records once.
"""

from __future__ import annotations

import sys
from collections import Counter
from operator import itemgetter
from pathlib import Path
from types import FrameType

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.objects.causes import Cause
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.parent_records.rules import FOLDER_KINDS, read_parent_records
from tests.devcluster.audit import own_requests
from tests.operator.harness import ECHOES, Desk, Operate, Running, echo, map_template, only

pytestmark = pytest.mark.cluster

MAP = map_template("map", word="name")

SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: {{ name }}
  annotations:
    word: {{ child('ConfigMap', name ~ '-map').data.word }}
spec:
  ports: [{port: 80}]
"""

ACCOUNT = """\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ name }}
  annotations:
    service: {{ child('Service', name).metadata.name }}
"""


def writes(cluster: Cluster, desk: Desk, after: int = 0) -> list[str]:
    """The writes of operators in the test's namespace, in the order in which they arrived, without Events."""
    objects = [
        (each["verb"], each["objectRef"]["resource"], each["objectRef"].get("subresource"), each["objectRef"]["name"])
        for each in sorted(own_requests(cluster, desk.namespace)[after:], key=itemgetter("requestReceivedTimestamp"))
        if each["objectRef"].get("name") and each["verb"] in ("create", "update", "patch", "delete")
    ]
    return [
        f"{verb} {resource}" + (f"/{subresource}" if subresource else "")
        for verb, resource, subresource, name in objects
        if (resource, name) not in (("configmaps", FOLDER_KINDS), ("events", name))
    ]


RECORD, STATUS = "patch echoes", "patch echoes/status"


async def idle(running: Running) -> None:
    """Wait until the operator has reconciled all that its own writes may have requeued."""
    key = next(iter(running.operator.folders.values())).all_keys()[0]
    count = len(running.reports)
    running.operator.queue.add(key, Cause.CHILD)
    await running.reconciled(count + 1)
    await running.operator.queue.until_empty()


async def test_a_new_parent_costs_one_status_and_one_reconcile(
    desk: Desk, operate: Operate, templates: Path, cluster: Cluster
) -> None:
    only(templates, map=MAP, other=map_template("other", word="name"), account=ACCOUNT.partition("  annotations")[0])
    async with operate(templates=templates) as running:
        await desk.apply_until_ready(echo("web"))
        assert [name for name, _ in running.reconciles] == ["web"]
        await idle(running)
        children = ["patch configmaps", "patch configmaps", "patch serviceaccounts"]
        *applied, last = writes(cluster, desk)
        assert (sorted(applied), last) == (children, STATUS)


async def test_children_that_wait_for_others_cost_no_record_of_their_own(
    desk: Desk, operate: Operate, templates: Path, cluster: Cluster
) -> None:
    only(templates, map=MAP, service=SERVICE, account=ACCOUNT)
    async with operate(templates=templates) as running:
        await desk.apply_until_ready(echo("web"))
        await idle(running)
        children = ["patch configmaps", "patch services", "patch serviceaccounts"]
        assert writes(cluster, desk) == [*children, STATUS]


async def test_changed_templates_cost_no_record_also_if_they_no_longer_render_a_kind(
    desk: Desk, operate: Operate, templates: Path, cluster: Cluster
) -> None:
    only(templates, map=MAP, service=SERVICE)
    async with operate(templates=templates) as running:
        shown = (await desk.apply_until_ready(echo("web")))["status"]["appliedTemplates"]
        await idle(running)
        before = len(own_requests(cluster, desk.namespace))
        running.write(f"{ECHOES}/map.yaml.j2", map_template("map", word="name", more="name"))
        await desk.until("configmaps", "web-map", lambda body: "more" in body["data"])
        await desk.until(ECHOES, "web", lambda body: body["status"]["appliedTemplates"] != shown)
        await idle(running)
        assert writes(cluster, desk, before) == ["patch configmaps", "patch services", STATUS]
        before = len(own_requests(cluster, desk.namespace))
        running.remove(f"{ECHOES}/service.yaml.j2")
        await desk.gone("services", "web")
        found = await desk.until(ECHOES, "web", lambda body: "Service" not in body["status"]["appliedTemplates"])
        await idle(running)
        assert RECORD not in writes(cluster, desk, before)
        assert "annotations" not in found["metadata"]


async def test_a_reconcile_reads_the_records_of_its_parent_and_takes_its_access_to_the_cluster_once(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, map=MAP, service=SERVICE)
    calls: Counter[object] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_code] += 1

    async with operate(templates=templates) as running:
        await desk.apply_until_ready(echo("web"))
        await idle(running)
        before = len(running.reconciles)
        sys.setprofile(count)
        try:
            await idle(running)
        finally:
            sys.setprofile(None)
        reconciles = len(running.reconciles) - before
    found = [calls[each.__code__] for each in (Reconcile.begin, read_parent_records)]
    assert found == [reconciles, reconciles]
