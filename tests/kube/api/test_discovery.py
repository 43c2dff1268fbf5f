"""Servers that are old or half broken, whose groups come and go; a real discovery is in test_real_cluster.py."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from ssa_operator.kube.api.discovery import PAUSE, RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.openapi import read_openapi, read_version
from ssa_operator.objects.identity import GroupKind
from tests.kube.fakes import StillClock, refuse, scripted

WIDGET = GroupKind("example.com", "Widget")


def aggregated(group: str, *versions: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": group}, "versions": list(versions)}


def version(name: str, plural: str, kind: str, **more: Any) -> dict[str, Any]:
    resource = {
        "resource": plural,
        "responseKind": {"group": "", "version": "", "kind": kind},
        "scope": "Namespaced",
        "verbs": ["get", "list"],
        "shortNames": ["w"],
        "subresources": [{"subresource": "status"}],
    }
    return {"version": name, "resources": [resource], **more}


class Server:
    """Serves discovery documents: `groups` aggregated, or the same `document` for each path."""

    def __init__(self) -> None:
        self.groups: list[dict[str, Any]] | None = None
        self.document: dict[str, Any] | None = None
        self.asked: list[str] = []
        self.failing = False
        self.cut = False
        self.reached = asyncio.Event()
        self.answers = asyncio.Event()
        self.answers.set()

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request.path)
        self.reached.set()
        await self.answers.wait()
        if self.failing:
            return refuse(403, "Forbidden", "no discovery for you")
        if self.cut:
            return web.json_response(text='{"kind": "APIGroupDiscoveryList", "items": [{"meta')
        if self.groups is not None:
            assert "as=APIGroupDiscoveryList" in request.headers["Accept"]
            core = [aggregated("", version("v1", "configmaps", "ConfigMap"))]
            items = core if request.path == "/api" else self.groups
            return web.json_response({"kind": "APIGroupDiscoveryList", "items": items})
        if self.document is not None:
            return web.json_response(self.document)
        return web.Response(status=503, text="service unavailable")


@pytest.fixture
def server() -> Server:
    return Server()


async def test_discovery_is_two_requests_and_the_preferred_version_comes_first(server: Server) -> None:
    server.groups = [aggregated("example.com", version("v2", "widgets", "Widget"), version("v1", "widgets", "Widget"))]
    async with scripted(server) as client:
        mapper = RESTMapper(client)
        preferred = await mapper.resource(WIDGET)
        older = await mapper.resource(WIDGET, "v1")
        named = await mapper.resource_by_name("widgets.example.com")
        assert [each.name for each in await mapper.resources()] == ["configmaps", "widgets.example.com"]
    assert (preferred.version, older.version, named) == ("v2", "v1", preferred)
    assert (preferred.subresources, preferred.short_names, preferred.namespaced) == (
        frozenset({"status"}),
        ("w",),
        True,
    )
    assert sorted(server.asked) == ["/api", "/apis"]


async def test_an_unknown_kind_causes_a_new_discovery_at_most_every_two_seconds(server: Server) -> None:
    clock = StillClock()
    server.groups = []
    async with scripted(server, clock=clock) as client:
        mapper = RESTMapper(client, clock)
        for _ in range(5):
            with pytest.raises(UnknownKind, match=r"no Widget in example\.com; install its CRD"):
                await mapper.resource(WIDGET)
        assert len(server.asked) == 2
        server.groups = [aggregated("example.com", version("v1", "widgets", "Widget"))]
        clock.time += PAUSE
        assert (await mapper.resource(WIDGET)).plural == "widgets"


async def test_after_a_crd_changed_the_next_call_discovers_at_once(server: Server) -> None:
    clock = StillClock()
    server.groups = []
    async with scripted(server, clock=clock) as client:
        mapper = RESTMapper(client, clock)
        with pytest.raises(UnknownKind, match=r"no resource widgets\.example\.com"):
            await mapper.resource_by_name("widgets.example.com")
        server.groups = [aggregated("example.com", version("v1", "widgets", "Widget"))]
        mapper.invalidate()
        assert (await mapper.resource_by_name("widgets.example.com")).kind == "Widget"
        server.groups = []
        mapper.invalidate()
        with pytest.raises(UnknownKind):
            await mapper.resource(WIDGET)


async def test_a_crd_for_whose_kind_nobody_asked_causes_one_discovery_in_two_seconds(server: Server) -> None:
    clock, gadget = StillClock(), GroupKind("example.com", "Gadget")
    server.groups = [aggregated("example.com", version("v1", "widgets", "Widget"))]
    async with scripted(server, clock=clock) as client:
        mapper = RESTMapper(client, clock)
        await mapper.resource(WIDGET)
        for _ in range(3):
            mapper.crd_changed(gadget, deleted=False)
            await mapper.resource(WIDGET)
        assert len(server.asked) == 2
        clock.time += PAUSE
        await mapper.resource(WIDGET)
        assert len(server.asked) == 4
        clock.time += PAUSE
        await mapper.resource(WIDGET)
        assert len(server.asked) == 4

        mapper.crd_changed(gadget, deleted=False)
        server.groups = [aggregated("example.com", version("v1", "gadgets", "Gadget"))]
        assert (await mapper.resource(gadget)).plural == "gadgets"
        server.groups = [aggregated("example.com", version("v2", "gadgets", "Gadget"))]
        mapper.crd_changed(gadget, deleted=False)
        assert (await mapper.resource(gadget)).version == "v2"


async def test_a_group_that_has_not_changed_is_not_read_again(server: Server) -> None:
    same = aggregated("example.org", version("v1", "gadgets", "Gadget"))
    server.groups = [aggregated("example.com", version("v1", "widgets", "Widget")), same]
    async with scripted(server) as client:
        mapper = RESTMapper(client)
        gadget, widget = await mapper.resource_by_name("gadgets.example.org"), await mapper.resource(WIDGET)
        server.groups = [aggregated("example.com", version("v2", "widgets", "Widget")), same]
        mapper.invalidate()
        assert await mapper.resource_by_name("gadgets.example.org") is gadget
        assert (await mapper.resource(WIDGET)).version == "v2" != widget.version


async def test_the_error_of_an_unserved_version_names_the_served_ones(server: Server) -> None:
    server.groups = [aggregated("example.com", version("v1", "widgets", "Widget"))]
    async with scripted(server) as client:
        with pytest.raises(UnknownKind, match=r"serves Widget\.example\.com in v1, not in v3; correct the apiVersion"):
            await RESTMapper(client).resource(WIDGET, "v3")


async def test_a_broken_aggregated_api_makes_only_its_own_kinds_unknown(server: Server) -> None:
    clock = StillClock()
    good = aggregated("example.com", version("v1", "widgets", "Widget"))
    metrics = version("v1beta1", "pods", "PodMetrics")
    server.groups = [good, aggregated("metrics.k8s.io", metrics)]
    pod_metrics = GroupKind("metrics.k8s.io", "PodMetrics")
    async with scripted(server, clock=clock) as client:
        mapper = RESTMapper(client, clock)
        await mapper.resource(pod_metrics)
        server.groups = [good, aggregated("metrics.k8s.io", {"version": "v1beta1", "freshness": "Stale"})]
        mapper.invalidate()
        assert (await mapper.resource(WIDGET)).plural == "widgets"
        assert (await mapper.resource(pod_metrics)).plural == "pods"  # what was known stays known
        with pytest.raises(UnknownKind, match=r"discovery of its group fails: metrics\.k8s\.io/v1beta1 is stale"):
            await mapper.resource(GroupKind("metrics.k8s.io", "NodeMetrics"))


async def test_a_document_that_has_not_changed_is_not_read_again(server: Server) -> None:
    server.groups = [aggregated("example.com", version("v1", "widgets", "Widget"))]
    answers: list[int] = []

    async def with_etag(request: web.BaseRequest) -> web.StreamResponse:
        answer = await server(request)
        assert isinstance(answer, web.Response)
        etag = f'"{hash(answer.body)}"'
        if request.headers.get("If-None-Match") == etag:
            answer = web.Response(status=304)
        answer.headers["ETag"] = etag
        answers.append(answer.status)
        return answer

    async with scripted(with_etag) as client:
        mapper = RESTMapper(client)
        found = [await mapper.resource(WIDGET)]
        mapper.invalidate()
        found.append(await mapper.resource(WIDGET))
        assert found[0] is found[1]
        server.groups = [aggregated("example.com", version("v2", "widgets", "Widget"))]
        mapper.invalidate()
        assert (await mapper.resource(WIDGET)).version == "v2"
        mapper.invalidate()
        assert (await mapper.resource(WIDGET)).version == "v2"
    assert sorted(answers) == [200, 200, 200, 304, 304, 304, 304, 304]


async def test_a_failing_group_stays_failing_while_discovery_is_repeated(server: Server) -> None:
    server.groups = [aggregated("metrics.k8s.io", {"version": "v1beta1", "freshness": "Stale"})]
    async with scripted(server) as client:
        mapper = RESTMapper(client)
        await mapper.discover()
        server.answers.clear()
        server.reached.clear()
        mapper.invalidate()
        again = asyncio.create_task(mapper.discover())
        await server.reached.wait()
        assert mapper.failure("metrics.k8s.io") == "metrics.k8s.io/v1beta1 is stale"
        server.answers.set()
        await again


async def test_a_kind_that_is_no_longer_served_is_withdrawn_until_it_is_served_again(server: Server) -> None:
    v1, v2 = version("v1", "widgets", "Widget"), version("v2", "widgets", "Widget")
    async with scripted(server) as client:
        mapper = RESTMapper(client)

        async def discovered(*versions: dict[str, Any]) -> set[str]:
            server.groups = [aggregated("example.com", *versions)] if versions else []
            mapper.invalidate()
            await mapper.discover()
            return {each for each in ("v1", "v2", "v3") if mapper.is_withdrawn(WIDGET, each)}

        assert await discovered(v1, v2) == set()
        assert await discovered(v2) == {"v1"}
        assert mapper.versions(WIDGET) == ("v2",)
        assert await discovered() == {"v1", "v2"}
        assert await discovered(v1) == {"v2"}
        # A group whose API server doesn't answer takes nothing back.
        assert await discovered({"version": "v1", "freshness": "Stale"}) == {"v2"}
        assert mapper.versions(WIDGET) == ("v1",)
        assert mapper.failure("example.com") == "example.com/v1 is stale"


async def test_a_kind_whose_crd_was_deleted_is_not_withdrawn(server: Server) -> None:
    widget = version("v1", "widgets", "Widget")
    async with scripted(server) as client:
        mapper = RESTMapper(client)

        async def discovered(*versions: dict[str, Any]) -> bool:
            server.groups = [aggregated("example.com", *versions)] if versions else []
            mapper.invalidate()
            await mapper.discover()
            return mapper.is_withdrawn(WIDGET, "v1")

        # Discovery learns of the deletion after the CRD's event, or before it.
        await discovered(widget)
        mapper.crd_changed(WIDGET, deleted=True)
        assert not await discovered(widget)
        assert not await discovered()
        await discovered(widget)
        assert await discovered()
        mapper.crd_changed(WIDGET, deleted=True)
        assert not mapper.is_withdrawn(WIDGET, "v1")
        # Another CRD, or an aggregated API, serves the kind later.
        await discovered(widget)
        mapper.crd_changed(WIDGET, deleted=True)
        mapper.crd_changed(WIDGET, deleted=False)
        assert await discovered()


async def test_a_server_without_aggregated_discovery_is_an_error_that_says_what_is_needed(server: Server) -> None:
    server.document = {"kind": "APIGroupList", "groups": []}
    async with scripted(server) as client:
        with pytest.raises(ApiError, match=r"not aggregated discovery, which Kubernetes has since 1\.30"):
            await RESTMapper(client).resource(WIDGET)


async def test_a_refused_discovery_is_an_error_and_is_retried(server: Server) -> None:
    server.failing = True
    server.groups = [aggregated("example.com", version("v1", "widgets", "Widget"))]
    async with scripted(server) as client:
        mapper = RESTMapper(client)
        with pytest.raises(ApiError, match="no discovery for you"):
            await mapper.resource(WIDGET)
        server.failing = False
        assert (await mapper.resource(WIDGET)).plural == "widgets"


@pytest.mark.parametrize("known", [False, True], ids=["the first answer", "a later answer"])
async def test_a_kind_is_not_unknown_during_a_discovery(server: Server, known: bool) -> None:
    """At the start many parents ask at once, for kinds that any cluster has."""
    clock = StillClock()
    server.groups = []
    async with scripted(server, clock=clock) as client:
        mapper = RESTMapper(client, clock)
        if known:
            await mapper.discover()
            clock.time += PAUSE
            server.reached.clear()
        server.groups = [aggregated("example.com", version("v1", "widgets", "Widget"))]
        server.answers.clear()
        async with asyncio.TaskGroup() as group:
            first = group.create_task(mapper.resource(WIDGET))
            await server.reached.wait()
            second = group.create_task(mapper.resource(WIDGET))
            third = group.create_task(mapper.resource_by_name("widgets.example.com"))
            await asyncio.sleep(0)
            server.answers.set()
        assert first.result() == second.result() == third.result()


async def test_a_cancelled_discovery_does_not_fail_the_others(server: Server) -> None:
    server.groups = [aggregated("example.com", version("v1", "widgets", "Widget"))]
    server.answers.clear()
    async with scripted(server) as client:
        mapper = RESTMapper(client)
        asking = asyncio.create_task(mapper.resource(WIDGET))
        await server.reached.wait()
        asking.cancel()
        await asyncio.wait([asking])
        server.answers.set()
        assert (await mapper.resource(WIDGET)).plural == "widgets"


async def test_a_crd_that_changes_during_a_discovery_causes_another_one(server: Server) -> None:
    clock = StillClock()
    server.groups = []
    server.answers.clear()
    async with scripted(server, clock=clock) as client:
        mapper = RESTMapper(client, clock)
        asking = asyncio.create_task(mapper.discover())
        await server.reached.wait()
        mapper.invalidate()
        server.answers.set()
        await asking
        server.groups = [aggregated("example.com", version("v1", "widgets", "Widget"))]
        assert (await mapper.resource(WIDGET)).plural == "widgets"


async def test_a_discovery_that_is_cut_is_an_error_and_changes_nothing(server: Server) -> None:
    server.groups = [aggregated("example.com", version("v1", "widgets", "Widget"))]
    async with scripted(server) as client:
        mapper = RESTMapper(client, StillClock())
        await mapper.resource(WIDGET)
        server.cut = True
        mapper.invalidate()
        with pytest.raises(ApiError, match=r"GET /apis? failed .*: the answer can't be read"):
            await mapper.resource(WIDGET)
        assert mapper.peek(WIDGET).plural == "widgets"
        server.cut, server.asked = False, []
        assert (await mapper.resource(WIDGET)).plural == "widgets"
        assert sorted(server.asked) == ["/api", "/apis"]


async def test_a_cut_version_is_an_error(server: Server) -> None:
    server.cut = True
    async with scripted(server) as client:
        with pytest.raises(ApiError, match=r"GET /version failed .*: the answer can't be read"):
            await read_version(client)


ANSWERS = {
    "/version": '{"major": "1", "minor": "36", "gitVersion": "v1.36.3"}',
    "/openapi/v3": """{"paths": {
      "apis/gone.example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/gone.example.com/v1"},
      "apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1"}
    }}""",
    "/openapi/v3/apis/apps/v1": '{"components": {}}',
}


async def test_a_group_whose_last_crd_is_deleted_meanwhile_is_left_out() -> None:
    async def script(request: web.BaseRequest) -> web.Response:
        text = ANSWERS.get(request.path)
        return web.Response(text="404 page not found\n", status=404) if text is None else web.Response(text=text)

    async with scripted(script) as client:
        assert await read_openapi(client) == ("1.36", [{"components": {}}])


async def test_a_group_whose_document_is_empty_for_a_moment_is_left_out() -> None:
    """A real API server answers so while the first or the last CRD of a group comes or goes."""

    async def script(request: web.BaseRequest) -> web.Response:
        return web.Response(text=ANSWERS.get(request.path, ""))

    async with scripted(script) as client:
        assert await read_openapi(client) == ("1.36", [{"components": {}}])
