"""What an event costs: requests are counted in the API server's audit log.

A child's own event costs no request unless somebody changed our fields; whoever did, and however, they are put back
with one apply.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.controller.memory import Memory, Subject
from ssa_operator.controller.options import ApplyMode, Options
from ssa_operator.controller.reconciler import Reconciler
from ssa_operator.core.report import Report
from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.client import Client
from tests.controller.desk import PATIENCE, Desk, echo, operating
from tests.devcluster.waiting import until

pytestmark = pytest.mark.cluster

MakeOptions = Callable[..., Options]
OpenLedger = Callable[[], Awaitable["Ledger"]]

ECHOES = "echoes.example.com"
DEPLOYMENTS = "deployments.apps"
SETTINGS = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\ndata:\n  n: '{{ spec.replicas }}'\n"


@pytest.fixture
def settings_alone(templates: Path) -> Path:
    """Templates of one ConfigMap, which no controller ever touches."""
    for file in (templates / ECHOES).iterdir():
        file.unlink()
    (templates / ECHOES / "settings.yaml.j2").write_text(SETTINGS)
    return templates


class Passes:
    """Every pass that an operator in this process makes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._reports: asyncio.Queue[Report] = asyncio.Queue()
        reconcile = Reconciler.reconcile

        async def watched(self_: Reconciler, subject: Subject, memory: Memory, causes: Any) -> Report:
            report = await reconcile(self_, subject, memory, causes)
            self._reports.put_nowait(report)
            return report

        monkeypatch.setattr(Reconciler, "reconcile", watched)

    def forget(self) -> None:
        while not self._reports.empty():
            self._reports.get_nowait()

    async def next(self) -> Report:
        async with asyncio.timeout(PATIENCE):
            return await self._reports.get()


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    return Passes(monkeypatch)


class Ledger:
    """What the operator asked of the API server in one namespace, by verb and resource."""

    def __init__(self, cluster: Cluster, desk: Desk) -> None:
        assert cluster.audit_log is not None
        self._log = cluster.audit_log
        self._desk = desk
        self._start = 0

    async def opened(self) -> Ledger:
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
            if event["userAgent"].startswith("ssa-operator")
            and event.get("objectRef", {}).get("namespace") == self._desk.namespace
            and event["verb"] not in {"get", "list", "watch"}
            and event["objectRef"]["resource"] != "events"
        )

    @staticmethod
    def _subresource(event: dict[str, Any]) -> str:
        subresource = event["objectRef"].get("subresource")
        return f"/{subresource}" if subresource else ""


@pytest.fixture
def ledger(cluster: Cluster, desk: Desk) -> OpenLedger:
    return lambda: Ledger(cluster, desk).opened()


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


@pytest.mark.parametrize(("act", "applies"), FOREIGN.values(), ids=FOREIGN)
async def test_a_foreign_change_costs_an_apply_only_where_it_takes_something_of_ours(
    client: Client,
    desk: Desk,
    options: MakeOptions,
    passes: Passes,
    ledger: OpenLedger,
    settings_alone: Path,
    act: Callable[[Desk], Awaitable[str]],
    applies: int,
) -> None:
    async with operating(client, options(templates=settings_alone)):
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
        before = await desk.until("configmaps", "web", lambda body: body["data"] == {"n": "1"})
        passes.forget()
        counted = await ledger()
        await act(desk)
        await passes.next()
        found = await desk.until("configmaps", "web", lambda body: body.get("data", {}).get("n") == "1")
        assert found["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "ssa-operator"
    writes = await counted.writes()
    # The status names the uid of each child.
    assert writes.pop("patch echoes/status", 0) == (found["metadata"]["uid"] != before["metadata"]["uid"])
    assert writes == Counter({"patch configmaps": applies} if applies else {})


async def test_replicas_that_are_scaled_by_hand_cost_one_apply(
    client: Client, desk: Desk, options: MakeOptions, ledger: OpenLedger
) -> None:
    async with operating(client, options()):
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
        counted = await ledger()
        await desk.kubectl("scale", "deployment", "web", "--replicas=3")
        await desk.until(DEPLOYMENTS, "web", lambda body: body["metadata"]["generation"] == 3)
        await desk.ready(ECHOES, "web")
    assert (await counted.writes())["patch deployments"] == 1


async def test_a_child_is_applied_once_however_often_its_status_changes(
    client: Client, desk: Desk, options: MakeOptions, ledger: OpenLedger
) -> None:
    counted = await ledger()
    async with operating(client, options()):
        await desk.apply(echo("web", 2))
        await desk.ready(ECHOES, "web")
    assert (await counted.writes())["patch deployments"] == 1


async def test_a_change_of_a_parent_costs_one_apply_and_one_status(
    client: Client, desk: Desk, options: MakeOptions, ledger: OpenLedger, settings_alone: Path
) -> None:
    async with operating(client, options(templates=settings_alone)):
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
        counted = await ledger()
        await desk.kubectl("patch", "echo", "web", "--type=merge", "-p", '{"spec": {"replicas": 2}}')
        await desk.until("configmaps", "web", lambda body: body["data"] == {"n": "2"})
        await desk.ready(ECHOES, "web")
    assert await counted.writes() == Counter({"patch configmaps": 1, "patch echoes/status": 1})


async def test_after_a_restart_everything_is_applied_once_and_nothing_is_written(
    client: Client, desk: Desk, options: MakeOptions, passes: Passes, ledger: OpenLedger
) -> None:
    async with operating(client, options()):
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
    before = await desk.until(DEPLOYMENTS, "web", lambda _: True)
    counted = await ledger()
    passes.forget()
    async with operating(client, options()):
        await passes.next()
    assert await counted.writes() == Counter({"patch deployments": 1})
    after = await desk.until(DEPLOYMENTS, "web", lambda _: True)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_with_apply_changed_only_what_a_patch_changes_is_applied(
    client: Client, desk: Desk, options: MakeOptions, ledger: OpenLedger, settings_alone: Path
) -> None:
    (settings_alone / ECHOES / "fixed.yaml").write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: fixed}\n")
    async with operating(client, options(templates=settings_alone, apply=ApplyMode.CHANGED)):
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
        counted = await ledger()
        await desk.kubectl("patch", "echo", "web", "--type=merge", "-p", '{"spec": {"replicas": 2}}')
        await desk.until("configmaps", "web", lambda body: body["data"] == {"n": "2"})
        await desk.ready(ECHOES, "web")
        assert await counted.writes() == Counter({"patch configmaps": 1, "patch echoes/status": 1})


async def test_with_apply_changed_a_user_can_still_have_everything_applied(
    client: Client, desk: Desk, options: MakeOptions, passes: Passes, ledger: OpenLedger, settings_alone: Path
) -> None:
    async with operating(client, options(templates=settings_alone, apply=ApplyMode.CHANGED)):
        await desk.apply(echo("web"))
        await desk.ready(ECHOES, "web")
        passes.forget()
        counted = await ledger()
        await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/reconcile-at=now")
        await passes.next()
    assert await counted.writes() == Counter({"patch configmaps": 1})
