"""The proxy's faults as a client sees them, and its calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, Unreachable
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.auth import credentials
from ssa_operator.objects.json_codec import encode
from tests.faults.proxy import (
    Call,
    EndWatch,
    Fault,
    FaultProxy,
    Refuse,
    ResetAfter,
    ResetBefore,
    Silence,
    Truncate,
    WatchError,
    read_call,
    refusal,
    status_body,
)
from tests.kube.fakes import CONFIG_MAPS, StillClock


@pytest.mark.parametrize(
    ("method", "path", "query", "call"),
    [
        ("GET", "/apis", {}, Call(verb="discover")),
        ("GET", "/version", {}, Call(verb="discover")),
        ("GET", "/api/v1/namespaces/a", {}, Call(verb="get", resource="namespaces", name="a")),
        ("GET", "/api/v1/namespaces", {}, Call(verb="list", resource="namespaces")),
        ("GET", "/api/v1/namespaces/a/pods", {}, Call(verb="list", resource="pods", namespace="a")),
        ("GET", "/apis/apps/v1/deployments", {"watch": "true"}, Call(verb="watch", resource="deployments")),
        (
            "PATCH",
            "/apis/apps/v1/namespaces/a/deployments/b/status",
            {},
            Call(verb="apply", resource="deployments", subresource="status", namespace="a", name="b"),
        ),
        ("DELETE", "/api/v1/namespaces/a/pods/b", {}, Call(verb="delete", resource="pods", namespace="a", name="b")),
    ],
)
def test_a_call_is_read_as_rbac_reads_it(method: str, path: str, query: dict[str, str], call: Call) -> None:
    found = read_call(method, path, query, "application/apply-patch+yaml")
    assert (found.verb, found.resource, found.subresource, found.namespace, found.name) == (
        call.verb,
        call.resource,
        call.subresource,
        call.namespace,
        call.name,
    )


def test_a_fault_meets_the_calls_from_the_first_on_as_often_as_it_says() -> None:
    third = Fault(effect=ResetBefore(), first=3, times=2)
    assert [number for number in range(1, 9) if third.meets(number)] == [3, 4]
    assert all(Fault(effect=ResetBefore()).meets(number) for number in range(1, 9))


@pytest.fixture
async def proxy(cluster: Cluster) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(cluster) as proxy:
        yield proxy


@pytest.fixture
async def behind(proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[Client]:
    """A client of the proxy. It does not wait between two attempts."""
    clock = StillClock()
    async with Client(
        await credentials.load(str(proxy.write_kubeconfig(tmp_path / "config")), clock=clock), clock
    ) as made:
        yield made


def config_map(name: str) -> bytes:
    return encode({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})


@pytest.mark.cluster
class TestFaults:
    async def test_without_a_fault_calls_pass(self, proxy: FaultProxy, behind: Client, namespace: str) -> None:
        applied = await behind.apply(CONFIG_MAPS, namespace, "a", config_map("a"))
        assert applied.created
        assert "a" in {live.identity.name for live in (await behind.list(CONFIG_MAPS, namespace))[0]}
        assert [call.verb for call in proxy.calls] == ["apply", "list"]
        assert not proxy.met

    async def test_connections_are_refused_until_the_fault_ends(
        self, proxy: FaultProxy, behind: Client, namespace: str
    ) -> None:
        await behind.list(CONFIG_MAPS, namespace)
        await proxy.begin(Fault(effect=Refuse()))
        with pytest.raises(Unreachable, match=r"no connection|broke"):
            await behind.list(CONFIG_MAPS, namespace)
        await proxy.end()
        await behind.list(CONFIG_MAPS, namespace)

    @pytest.mark.parametrize(("effect", "created"), [(ResetBefore(), True), (ResetAfter(), False)])
    async def test_a_reset_comes_before_or_after_the_api_server_has_the_request(
        self, proxy: FaultProxy, behind: Client, namespace: str, effect: ResetBefore | ResetAfter, created: bool
    ) -> None:
        await proxy.begin(Fault(effect=effect, verbs=frozenset({"apply"}), times=1))
        applied = await behind.apply(CONFIG_MAPS, namespace, "a", config_map("a"))
        assert applied.created is created, "the second attempt finds what the first one left"
        assert len(proxy.met) == 1

    async def test_a_silent_connection_stays_silent_and_a_new_one_answers(
        self, proxy: FaultProxy, behind: Client, namespace: str
    ) -> None:
        await behind.list(CONFIG_MAPS, namespace)
        await proxy.begin(Fault(effect=Silence()))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await behind.list(CONFIG_MAPS, namespace)
        await proxy.end()
        await behind.list(CONFIG_MAPS, namespace)

    async def test_an_answer_takes_the_place_of_the_api_server_s(
        self, proxy: FaultProxy, behind: Client, namespace: str
    ) -> None:
        await proxy.begin(
            Fault(effect=refusal(403, "Forbidden", "exceeded quota"), resources=frozenset({"configmaps"}))
        )
        with pytest.raises(ApiError, match="exceeded quota"):
            await behind.list(CONFIG_MAPS, namespace)

    async def test_a_truncated_answer_is_no_list(self, proxy: FaultProxy, behind: Client, namespace: str) -> None:
        await proxy.begin(Fault(effect=Truncate()))
        with pytest.raises(Unreachable, match="the answer is not a list"):
            await behind.list(CONFIG_MAPS, namespace)

    async def test_a_fault_interrupts_open_watches(self, proxy: FaultProxy, behind: Client, namespace: str) -> None:
        _, version = await behind.list(CONFIG_MAPS, namespace)
        request = calls.watch(Scope(CONFIG_MAPS, namespace), resource_version=version, seconds=300)
        async with behind.stream(request) as pieces:
            await behind.apply(CONFIG_MAPS, namespace, "a", config_map("a"))
            await _until(pieces, b'"name":"a"')
            await proxy.begin(Fault(effect=WatchError(status_body(410, "Expired", "too old"))))
            # The controller manager may create the namespace's kube-root-ca.crt meanwhile.
            await _until(pieces, b'"ERROR"')
            assert await anext(pieces, b"") == b""
        await proxy.begin(Fault(effect=EndWatch()))
        async with behind.stream(request) as pieces:
            assert await anext(pieces, b"") == b""
        await proxy.end()
        async with behind.stream(request) as pieces:
            assert b'"ADDED"' in await anext(pieces)


async def _until(pieces: AsyncIterator[bytes], words: bytes) -> None:
    """Read pieces up to these words."""
    read = b""
    while words not in read:
        piece = await anext(pieces, b"")
        assert piece, f"the stream ended after {read!r}"
        read += piece
