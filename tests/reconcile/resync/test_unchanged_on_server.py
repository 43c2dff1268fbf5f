"""The cost of an event: requests are counted in the API server's audit log.

A child's own event costs no request, unless a manager changed rendered fields: the operator reverts these with one
apply.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.reconcile.settings import ApplyMode
from tests.devcluster.audit import is_by_operator
from tests.devcluster.waiting import until
from tests.operator.harness import ECHOES, Desk, Operate, echo, holds, only, uid, version

pytestmark = pytest.mark.cluster

OpenRequestCounter = Callable[[], Awaitable["RequestCounter"]]

DEPLOYMENTS = "deployments.apps"
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\ndata:\n  n: '{{ spec.replicas }}'\n"


@pytest.fixture
def settings_alone(templates: Path) -> Path:
    """Templates of one ConfigMap, which no controller ever touches."""
    return only(templates, settings=SETTINGS)


class RequestCounter:
    """The operator's requests in one namespace, by verb and resource."""

    def __init__(self, cluster: Cluster, desk: Desk) -> None:
        assert cluster.audit_log is not None
        self._log = cluster.audit_log
        self._desk = desk
        self._start = 0

    async def opened(self) -> RequestCounter:
        """The ledger, from now on: what was answered before has its entry."""
        await self._written_up()
        self._start = self._log.stat().st_size
        return self

    async def _written_up(self) -> None:
        """Wait until the log has a request that was sent after all others: each has its entry when it is over."""
        name = f"last-{uuid.uuid4().hex}"
        await self._desk.kubectl("get", "configmap", name, "--ignore-not-found")
        await until(lambda: name in self._log.read_text())

    async def writes(self) -> Counter[str]:
        await self._written_up()
        with self._log.open() as log:
            log.seek(self._start)
            events = [json.loads(line) for line in log]
        return Counter(
            f"{event['verb']} {event['objectRef']['resource']}" + self._subresource(event)
            for event in events
            if is_by_operator(event)
            and event.get("objectRef", {}).get("namespace") == self._desk.namespace
            and event["verb"] not in {"get", "list", "watch"}
            and event["objectRef"]["resource"] != "events"
        )

    @staticmethod
    def _subresource(event: dict[str, Any]) -> str:
        subresource = event["objectRef"].get("subresource")
        return f"/{subresource}" if subresource else ""


@pytest.fixture
def ledger(cluster: Cluster, desk: Desk) -> OpenRequestCounter:
    return lambda: RequestCounter(cluster, desk).opened()


def kubectl(*arguments: str) -> Callable[[Desk], Awaitable[str]]:
    return lambda desk: desk.kubectl(*arguments)


def applied_as_another(**fields: Any) -> Callable[[Desk], Awaitable[str]]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web"}, **fields}
    return lambda desk: desk.kubectl(
        "apply", "--server-side", "--force-conflicts", "--field-manager=rival", "-f", "-", stdin=json.dumps(body)
    )


FOREIGN = {
    "another annotation": (kubectl("annotate", "configmap", "web", "note=x"), 0),
    "another label": (kubectl("label", "configmap", "web", "note=x"), 0),
    "another field, by Apply": (applied_as_another(data={"other": "x"}), 0),
    "our field with our value, by Apply": (applied_as_another(data={"n": "1"}), 0),
    "our field, by Update": (kubectl("patch", "configmap", "web", "-p", '{"data": {"n": "7"}}'), 1),
    "our field, by Apply": (applied_as_another(data={"n": "7"}), 1),
    "our field, removed": (kubectl("patch", "configmap", "web", "--type=merge", "-p", '{"data": {"n": null}}'), 1),
    "our label, removed": (kubectl("label", "configmap", "web", "app.kubernetes.io/managed-by-"), 1),
    "managedFields, cleared": (
        kubectl("patch", "configmap", "web", "--type=merge", "-p", '{"metadata": {"managedFields": [{}]}}'),
        1,
    ),
    "the object, deleted": (kubectl("delete", "configmap", "web"), 1),
}


@pytest.mark.more_cases
@pytest.mark.parametrize(("act", "applies"), FOREIGN.values(), ids=FOREIGN)
async def test_a_foreign_change_costs_an_apply_only_if_it_changes_a_rendered_field(
    desk: Desk,
    operate: Operate,
    ledger: OpenRequestCounter,
    settings_alone: Path,
    act: Callable[[Desk], Awaitable[str]],
    applies: int,
) -> None:
    async with operate(templates=settings_alone) as running:
        await desk.apply_until_ready(echo("web"))
        before = await desk.until("configmaps", "web", holds(n="1"))
        running.forget()
        counted = await ledger()
        await act(desk)
        await running.reconciled(1)
        found = await desk.until("configmaps", "web", lambda body: body.get("data", {}).get("n") == "1")
        assert found["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "ssa-operator"
    writes = await counted.writes()
    # The status names the uid of each child.
    assert writes.pop("patch echoes/status", 0) == (uid(found) != uid(before))
    assert writes == Counter({"patch configmaps": applies} if applies else {})


@pytest.mark.exhaustive
async def test_replicas_that_are_scaled_by_hand_cost_one_apply(
    desk: Desk, operate: Operate, ledger: OpenRequestCounter
) -> None:
    async with operate():
        await desk.apply_until_ready(echo("web"))
        counted = await ledger()
        await desk.kubectl("scale", "deployment", "web", "--replicas=3")
        await desk.until(DEPLOYMENTS, "web", lambda body: body["metadata"]["generation"] == 3)
        await desk.ready(ECHOES, "web")
    assert (await counted.writes())["patch deployments"] == 1


async def test_a_child_is_applied_once_however_often_its_status_changes(
    desk: Desk, operate: Operate, ledger: OpenRequestCounter
) -> None:
    counted = await ledger()
    async with operate():
        await desk.apply_until_ready(echo("web", 2))
    assert (await counted.writes())["patch deployments"] == 1


async def patched(desk: Desk, ledger: OpenRequestCounter) -> RequestCounter:
    """The ledger of a user's change of an Echo that was ready, until it is ready again."""
    await desk.apply_until_ready(echo("web"))
    counted = await ledger()
    await desk.patch("echo", "web", spec={"replicas": 2})
    await desk.until("configmaps", "web", holds(n="2"))
    await desk.ready(ECHOES, "web")
    return counted


@pytest.mark.exhaustive
async def test_a_change_of_a_parent_costs_one_apply_and_one_status(
    desk: Desk, operate: Operate, ledger: OpenRequestCounter, settings_alone: Path
) -> None:
    async with operate(templates=settings_alone):
        counted = await patched(desk, ledger)
    assert await counted.writes() == Counter({"patch configmaps": 1, "patch echoes/status": 1})


async def test_after_a_restart_everything_is_applied_once_and_nothing_is_written(
    desk: Desk, operate: Operate, ledger: OpenRequestCounter
) -> None:
    async with operate():
        await desk.apply_until_ready(echo("web"))
    before = await desk.read(DEPLOYMENTS, "web")
    counted = await ledger()
    async with operate() as running:
        await running.reconciled(1)
    assert await counted.writes() == Counter({"patch deployments": 1})
    after = await desk.read(DEPLOYMENTS, "web")
    assert version(after) == version(before)


async def test_with_apply_changed_only_what_a_patch_changes_is_applied(
    desk: Desk, operate: Operate, ledger: OpenRequestCounter, settings_alone: Path
) -> None:
    (settings_alone / ECHOES / "fixed.yaml").write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: fixed}\n")
    async with operate(templates=settings_alone, apply=ApplyMode.CHANGED):
        counted = await patched(desk, ledger)
    assert await counted.writes() == Counter({"patch configmaps": 1, "patch echoes/status": 1})


@pytest.mark.exhaustive
async def test_with_apply_changed_a_user_can_still_have_everything_applied(
    desk: Desk, operate: Operate, ledger: OpenRequestCounter, settings_alone: Path
) -> None:
    async with operate(templates=settings_alone, apply=ApplyMode.CHANGED) as running:
        await desk.apply_until_ready(echo("web"))
        running.forget()
        counted = await ledger()
        await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/reconcile-at=now")
        await running.reconciled(1)
    assert await counted.writes() == Counter({"patch configmaps": 1})
