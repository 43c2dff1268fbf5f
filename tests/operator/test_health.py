"""/healthz and /readyz of an operator in each state that they tell apart."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.auth import credentials
from ssa_operator.operator import operator as operator_module
from ssa_operator.operator.http import Server
from ssa_operator.operator.operator import Operator
from tests.devcluster.waiting import until
from tests.operator.harness import ECHOES, PATIENCE, Desk, MakeOptions, Operate, echo
from tests.operator.limited_accounts import allowed_everywhere, limited
from tests.operator.test_burst import held

pytestmark = pytest.mark.cluster

RULES_WITHOUT_ECHOES = [
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["get", "list", "watch"],
    }
]

UNREACHABLE = """\
apiVersion: v1
kind: Config
current-context: gone
contexts: [{name: gone, context: {cluster: gone, user: gone}}]
clusters: [{name: gone, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: gone, user: {}}]
"""


@contextlib.asynccontextmanager
async def probing(operator: Operator) -> AsyncIterator[Probe]:
    async with Server(operator, "127.0.0.1", 0) as server, aiohttp.ClientSession() as http:
        yield Probe(http, f"http://127.0.0.1:{server.port}")


class Probe:
    """Asks as the kubelet does."""

    def __init__(self, http: aiohttp.ClientSession, url: str) -> None:
        self._http = http
        self._url = url

    async def get(self, path: str) -> tuple[int, str]:
        async with self._http.get(self._url + path) as answer:
            return answer.status, await answer.text()

    async def until(self, path: str, status: int, words: str) -> str:
        async with asyncio.timeout(PATIENCE):
            while True:
                found, text = await self.get(path)
                if found == status and words in text:
                    return text
                await asyncio.sleep(0.05)


async def test_an_operator_that_works_is_healthy_and_ready(desk: Desk, operate: Operate) -> None:
    async with operate() as running, probing(running.operator) as probe:
        await desk.apply_until_ready(echo("web"))
        assert (await probe.get("/healthz"), (await probe.get("/readyz"))[0]) == ((200, "ok\n"), 200)
        status, page = await probe.get("/")
        links = re.findall(r'href="[.](.*?)"', page)
        assert (status, links) == (200, ["/healthz", "/readyz", "/metrics", "/objects"])
        assert [await probe.get(link) for link in links if (await probe.get(link))[0] != 200] == []


async def test_a_worker_that_is_stuck_in_a_reconcile_is_unhealthy_with_the_parents_name(
    desk: Desk, operate: Operate, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with operate() as running, probing(running.operator) as probe:
        async with held(running.operator):
            await desk.apply(echo("web"))
            await until(lambda: bool(running.operator.queue.processing()))
            assert (await probe.get("/healthz"))[0] == 200
            monkeypatch.setattr(operator_module, "STUCK_AFTER", 0.0)
            text = await probe.until("/healthz", 503, f"{ECHOES} {desk.namespace}/web")
            assert text.startswith("a worker has reconciled ")
            monkeypatch.undo()
        await desk.ready(ECHOES, "web")
        assert (await probe.get("/healthz"))[0] == 200


async def test_a_watch_whose_task_ended_is_unhealthy(desk: Desk, operate: Operate) -> None:
    async with operate() as running, probing(running.operator) as probe:
        await desk.apply_until_ready(echo("web"))
        running.operator.folders[ECHOES].tasks[0].cancel()
        text = await probe.until("/healthz", 503, "ended")
    assert text == f"the task 'watch {ECHOES}' ended\n"


async def test_the_task_that_writes_events_is_unhealthy_when_it_ended(desk: Desk, operate: Operate) -> None:
    async with operate() as running, probing(running.operator) as probe:
        await desk.apply_until_ready(echo("web"))
        next(task for task in asyncio.all_tasks() if task.get_name() == "write events").cancel()
        await probe.until("/healthz", 503, "the task 'write events' ended")


async def test_an_operator_that_has_not_reached_the_api_server_is_healthy_and_not_ready(
    options: MakeOptions, tmp_path: Path
) -> None:
    """Nothing listens on the discard port. A restart would not help."""
    path = tmp_path / "kubeconfig"
    path.write_text(UNREACHABLE)
    async with Client(await credentials.load(str(path), None)) as client:
        await _probe_while_unready(Operator(client, RESTMapper(client), options()), "not synced: starting")


async def test_a_folder_whose_parents_may_not_be_listed_is_not_ready_and_the_reason_is_named(
    desk: Desk, options: MakeOptions, tmp_path: Path
) -> None:
    user = f"limited-{desk.namespace}"
    await desk.apply(*allowed_everywhere(user, RULES_WITHOUT_ECHOES))
    path = limited(desk.kubeconfig, tmp_path, user)
    async with Client(await credentials.load(str(path), None)) as client:
        await _probe_while_unready(Operator(client, RESTMapper(client), options()), f"not synced: {ECHOES} (")


async def _probe_while_unready(operator: Operator, words: str) -> None:
    stop = asyncio.Event()
    running = asyncio.create_task(operator.run(stop))
    try:
        async with probing(operator) as probe:
            await probe.until("/readyz", 503, words)
            assert await probe.get("/healthz") == (200, "ok\n")
    finally:
        stop.set()
        await running


async def test_a_folder_without_a_crd_does_not_change_readiness(desk: Desk, operate: Operate, templates: Path) -> None:
    (templates / "absent.example.com").mkdir()
    (templates / "absent.example.com" / "map.yaml.j2").write_text("")
    async with operate() as running, probing(running.operator) as probe:
        await probe.until("/readyz", 200, "ok")
        assert list(running.operator.missing) == ["absent.example.com"]
