"""Replicas of `run --leader-elect`: which one writes, by the API server's audit log, and how one ends."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.flow_control import WriteFence
from ssa_operator.kube.api.leases import LeaseAccess
from ssa_operator.kube.api.transport import Transport
from ssa_operator.operator.leadership.requests import Leadership
from ssa_operator.operator.leadership.rules import LeaseTiming
from ssa_operator.operator.operator import Operator
from ssa_operator.reconcile.parent_records.rules import FOLDER_KINDS
from tests.cli.process import Command, run, started
from tests.devcluster.audit import audited_after, end_of_log, is_by_operator
from tests.devcluster.waiting import until
from tests.faults.proxy import Fault, FaultProxy, LateAnswer
from tests.operator.harness import ECHOES, PATIENCE, Desk, MakeOptions, administrator, echo, only
from tests.operator.limited_accounts import allowed_everywhere, limited

pytestmark = pytest.mark.cluster


CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
data:
  replicas: "{{ spec.replicas }}"
"""

EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]

LEASES = "leases.coordination.k8s.io"

LEADS = "leader election: leads"
"""What a replica logs when it has acquired the Lease."""

STANDS_BY = "this replica is a standby"

TIMING = ("--lease-duration=9s", "--lease-renew-deadline=7s", "--lease-retry-period=500ms")
"""As short as a busy machine allows: within 2 s, a leader there can fail to renew its Lease."""


class Replicas:
    """Replicas of one operator in the test's namespace."""

    def __init__(self, desk: Desk, cluster: Cluster, templates: Path, folder: Path) -> None:
        self.desk = desk
        self._cluster = cluster
        self._templates = only(templates, map=CONFIG_MAP)
        self._folder = folder
        self._position = end_of_log(cluster)
        self._found: list[tuple[str, str, str, str]] = []

    @asynccontextmanager
    async def started(self, name: str, *more: str, kubeconfig: Path | None = None) -> AsyncIterator[Command]:
        """A replica with a user of its own."""
        user = f"{name}-{self.desk.namespace}"
        await self.desk.apply(*allowed_everywhere(user, EVERYTHING))
        arguments = (
            "run",
            f"--templates={self._templates}",
            f"--namespace={self.desk.namespace}",
            f"--kubeconfig={limited(kubeconfig or self.desk.kubeconfig, self._folder, user)}",
            "--leader-elect",
            *TIMING,
            # Children are applied twenty times a second, so a process that writes when it must not is seen. If more
            # often, the reconciles of a busy machine don't end in time when a leader stops: it releases no Lease.
            "--interval=200ms",
            "--resync-rate=20",
            "--listen=127.0.0.1:0",
            *more,
        )
        async with started(*arguments, POD_NAMESPACE=self.desk.namespace) as command:
            yield command

    def children(self) -> dict[str, set[str]]:
        """The names of the children that each replica has written."""
        found: dict[str, set[str]] = {}
        for _, name, resource, child in self._writes():
            if resource == "configmaps" and child != FOLDER_KINDS:
                found.setdefault(name, set()).add(child)
        return found

    def writes(self) -> list[tuple[str, str]]:
        """When the API server received each write of a replica but those of the Lease, and which replica sent it."""
        return [(at, name) for at, name, _, _ in self._writes()]

    def _writes(self) -> list[tuple[str, str, str, str]]:
        events, self._position = audited_after(self._cluster, self._position)
        for event in events:
            reference = event.get("objectRef", {})
            user = event.get("impersonatedUser", event["user"])["username"]
            if (
                event["verb"] in ("create", "update", "patch", "delete")
                and reference.get("namespace") == self.desk.namespace
                and reference.get("resource") != "leases"
                and is_by_operator(event)
                and user.endswith(self.desk.namespace)
            ):
                name = user.removesuffix(f"-{self.desk.namespace}")
                self._found.append(
                    (event["requestReceivedTimestamp"], name, reference["resource"], reference.get("name", ""))
                )
        return sorted(self._found)

    def writers(self) -> list[str]:
        """The replicas in the order in which they wrote: a name that comes twice wrote after another one had."""
        return [name for name, _ in itertools.groupby(name for _, name in self.writes())]

    async def written_by(self, name: str) -> None:
        """Return once the replica has written children."""
        await until(lambda: name in self.writers(), PATIENCE)

    async def lease(self, name: str = "ssa-operator") -> dict[str, Any]:
        found = await self.desk.read(LEASES, name)
        spec: dict[str, Any] = found["spec"]
        return spec

    async def renewed(self, before: dict[str, Any]) -> dict[str, Any]:
        """The Lease once it was renewed after a former state."""
        found = await self.desk.until(
            LEASES, "ssa-operator", lambda body: body["spec"]["renewTime"] > before["renewTime"]
        )
        spec: dict[str, Any] = found["spec"]
        return spec


@pytest.fixture
async def replicas(desk: Desk, cluster: Cluster, templates: Path, tmp_path: Path) -> Replicas:
    await desk.apply(*(echo(f"web-{number}") for number in range(20)))
    return Replicas(desk, cluster, templates, tmp_path)


@pytest.mark.slow
async def test_a_standby_is_ready_writes_nothing_and_takes_over_when_the_leader_stops_in_order(
    replicas: Replicas,
) -> None:
    async with replicas.started("a") as first:
        await first.says(LEADS)
        await replicas.desk.ready(ECHOES, "web-19")
        async with replicas.started("b") as second:
            url = (await second.says("listening on ")).split("listening on ")[1].strip()
            await second.says(STANDS_BY)
            await _answers(f"{url}/readyz", "ok")
            await _answers(f"{url}/metrics", 'ssa_operator_leader_election_master_status{name="ssa-operator"} 0.0')
            assert replicas.writers() == ["a"]
            first.process.send_signal(signal.SIGTERM)
            assert await first.ended() == 0
            assert any("released Lease" in line for line in first.lines), first.lines
            await second.says(LEADS)
            await replicas.written_by("b")
            await _answers(f"{url}/metrics", 'ssa_operator_leader_election_master_status{name="ssa-operator"} 1.0')
            lease = await replicas.lease()
            second.process.send_signal(signal.SIGTERM)
            assert await second.ended() == 0
    assert lease["leaseTransitions"] == 1
    assert replicas.writers() == ["a", "b"]
    released = await replicas.lease()
    assert released["holderIdentity"] == ""


async def _answers(url: str, words: str) -> None:
    """Return once an URL answers with these words."""
    async with aiohttp.ClientSession() as http, asyncio.timeout(PATIENCE):
        while True:
            async with http.get(url) as answer:
                if answer.status == 200 and words in await answer.text():
                    return
            await asyncio.sleep(0.1)


@pytest.mark.slow
async def test_when_the_leader_is_killed_one_of_two_standbys_takes_over(replicas: Replicas) -> None:
    async with replicas.started("a") as first:
        await first.says(LEADS)
        await replicas.written_by("a")
        async with replicas.started("b") as second, replicas.started("c") as third:
            await second.says(STANDS_BY)
            await third.says(STANDS_BY)
            first.process.kill()
            await first.ended()
            leader, standby = await _first_to_lead(second, third)
            await replicas.desk.patch("echo", "web-0", spec={"replicas": 3})
            await replicas.desk.until("configmaps", "web-0", lambda body: body["data"] == {"replicas": "3"})
            assert not any(LEADS in line for line in standby.lines)
            leader.process.kill()
            await leader.ended()
            await standby.says(LEADS)
            await replicas.written_by("b")
            await replicas.written_by("c")
    assert len(replicas.writers()) == 3, replicas.writers()


async def _first_to_lead(*commands: Command) -> tuple[Command, Command]:
    """The replica that leads first, and the other one."""
    waiting = {asyncio.create_task(command.says(LEADS)): command for command in commands}
    done, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    assert len(done) == 1
    (leader,), (standby,) = (waiting[task] for task in done), (waiting[task] for task in pending)
    return leader, standby


@pytest.mark.exhaustive
@pytest.mark.slow
async def test_a_leader_that_was_stopped_past_its_lease_writes_nothing_when_it_wakes_and_exits(
    replicas: Replicas,
) -> None:
    async with replicas.started("a") as first:
        await first.says(LEADS)
        async with replicas.started("b") as second:
            await second.says(STANDS_BY)
            await replicas.written_by("a")
            first.process.send_signal(signal.SIGSTOP)
            await second.says(LEADS)
            await replicas.written_by("b")
            first.process.send_signal(signal.SIGCONT)
            assert await first.ended() == 1
    assert "lost Lease" in first.lines[-1]
    assert "the operator exits" in first.lines[-1]
    assert replicas.writers() == ["a", "b"]
    assert not any("Traceback" in line for line in first.lines)


@pytest.mark.exhaustive
async def test_a_leader_whose_answers_come_too_late_stops_writing_before_another_one_leads(
    replicas: Replicas, cluster: Cluster, tmp_path: Path
) -> None:
    """The API server carries out each renewal, but the leader does not learn of it before its deadline."""
    # The API server sees no write of the leader so long after its deadline as the rest of the Lease's duration.
    timing = ("--lease-duration=16s", "--lease-renew-deadline=8s")
    late = Fault(effect=LateAnswer(PATIENCE), verbs=frozenset({"update"}), resources=frozenset({"leases"}))
    async with FaultProxy(cluster) as proxy:
        kubeconfig = proxy.write_kubeconfig(tmp_path / "late.kubeconfig")
        async with replicas.started("a", *timing, kubeconfig=kubeconfig) as first:
            await first.says(LEADS)
            async with replicas.started("b", *timing) as second:
                await second.says(STANDS_BY)
                await replicas.written_by("a")
                await proxy.begin(late)
                before = await replicas.lease()
                # The API server carries out a renewal.
                renewed = await replicas.renewed(before)
                assert await first.ended() == 1
                await second.says(LEADS)
                await replicas.written_by("b")
    assert "lost Lease" in first.lines[-1]
    assert "it was not renewed within 8 s" in first.lines[-1]
    assert renewed["holderIdentity"] == before["holderIdentity"]
    assert replicas.writers() == ["a", "b"]


@pytest.mark.exhaustive
async def test_each_shard_elects_a_leader_of_its_own(replicas: Replicas) -> None:
    """Two replicas of shard 0 and one of shard 1: the Lease of a shard is its heartbeat, too."""
    async with replicas.started("a", "--shard=0/2") as first, replicas.started("z", "--shard=1/2") as other:
        await first.says(LEADS)
        await other.says(LEADS)
        for number in range(20):
            await replicas.desk.ready(ECHOES, f"web-{number}")
        async with replicas.started("b", "--shard=0/2") as second:
            url = (await second.says("listening on ")).split("listening on ")[1].strip()
            await second.says(STANDS_BY)
            await _answers(f"{url}/metrics", 'ssa_operator_shard_up{shard="1"} 1.0')
            first.process.kill()
            await first.ended()
            await second.says(LEADS)
            await replicas.written_by("b")
            await _answers(f"{url}/metrics", 'ssa_operator_shard_up{shard="0"} 1.0')
            leader = (await replicas.lease("ssa-operator-shard-0"))["holderIdentity"]
            assert leader != (await replicas.lease("ssa-operator-shard-1"))["holderIdentity"]
    by_replica = replicas.children()
    assert by_replica["a"] >= by_replica["b"]
    assert not by_replica["a"] & by_replica["z"]
    assert len(by_replica["a"] | by_replica["z"]) == 20


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--lease-duration=10s",), "the renew deadline (10s) must be less than the lease duration (10s)"),
        (("--lease-renew-deadline=2s",), "must be more than 1.2 times the retry period (2s)"),
        (("--lease-retry-period=often",), "--lease-retry-period: 'often' is not a duration"),
    ],
)
async def test_settings_that_are_not_safe_are_refused_in_one_line(arguments: tuple[str, ...], words: str) -> None:
    code, _, err = await run("run", "--leader-elect", *arguments)
    assert code == 2
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize("cancelled", [False, True], ids=["prepared", "preparing"])
async def test_a_leader_releases_its_lease_unless_a_write_was_cancelled(
    desk: Desk, cluster: Cluster, options: MakeOptions, *, cancelled: bool
) -> None:
    fence, stop = WriteFence(), asyncio.Event()

    async def prepare() -> None:
        """Installs the CRDs, for example, when a signal stops the operator."""
        stop.set()
        if cancelled:
            await asyncio.Event().wait()

    async with (
        Client(await administrator(cluster), fence=fence) as client,
        Transport(client.credentials) as transport,
        asyncio.timeout(PATIENCE),
    ):
        access = LeaseAccess(transport, desk.namespace, "ssa-operator", timeout=5.0)
        leadership = Leadership(access, fence, LeaseTiming())
        operator = Operator(client, RESTMapper(client), options(), leadership=leadership, prepare=prepare)
        await operator.run(stop)
        assert not leadership.leads
        assert leadership.leader == ""
    lease = await desk.read(LEASES, "ssa-operator")
    assert lease["spec"]["holderIdentity"] == (leadership.identity if cancelled else "")
