"""A namespace that the operator may not read stops nothing in the others: neither their parents nor their children."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from ssa_operator.informers import informer
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.watch.reflector import ReflectorState
from ssa_operator.objects.identity import GroupKind
from ssa_operator.operator.http import Server
from tests.operator.harness import (
    ECHOES,
    PATIENCE,
    Desk,
    MakeOptions,
    Operate,
    Running,
    echo,
    holds,
    map_template,
    not_ready_because,
    only,
    operating,
)
from tests.operator.limited_accounts import BASICS, acting_as, allowed

pytestmark = pytest.mark.cluster

MAPS = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
EVENTS = [{"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}]

MAP = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
  namespace: {{ metadata.annotations.place | default(namespace) }}
data:
  replicas: "{{ spec.replicas }}"
"""


@pytest.fixture
def user(namespace: str) -> str:
    return f"{namespace}-operator"


@pytest.fixture
async def limited(desk: Desk, tmp_path: Path, user: str) -> AsyncIterator[Client]:
    """A client that may read and write Echos and ConfigMaps in the test's namespace, and nothing else."""
    await desk.apply(*allowed(user, [*BASICS, *MAPS, *EVENTS], "operator"))
    async with acting_as(user, desk, tmp_path) as client:
        yield client


@pytest.fixture
async def other(desk: Desk) -> AsyncIterator[Desk]:
    """A namespace that does not exist yet, or no longer."""
    name = f"{desk.namespace}-other"
    async with desk.elsewhere(name) as there:
        yield there
    await desk.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")


async def readyz(running: Running) -> tuple[int, str]:
    async with (
        Server(running.operator, "127.0.0.1", 0) as server,
        aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as http,
        http.get("/readyz") as answer,
    ):
        return answer.status, await answer.text()


async def until_forbidden(running: Running, namespace: str) -> None:
    """Return once the API server has refused the Echos of a namespace."""
    (parents,) = running.operator.folders.values()
    (reflector,) = (each for each in parents.reflectors if each.scope.namespace == namespace)
    changed = asyncio.Event()
    reflector.listen(lambda _: changed.set())
    async with asyncio.timeout(PATIENCE):
        while reflector.state is not ReflectorState.FORBIDDEN:
            changed.clear()
            await changed.wait()


async def end_watches(running: Running, namespace: str) -> None:
    """End the operator's watches of a namespace, which it opens again."""
    controllers = running.operator.controllers
    for parents in controllers.folders.values():
        for at, reflector in enumerate(parents.reflectors):
            if reflector.scope.namespace == namespace:
                parents.tasks[at].cancel()
                await asyncio.gather(parents.tasks[at], return_exceptions=True)
                parents.tasks[at] = asyncio.create_task(reflector.run())
    for scope, watch in controllers.children.informers.items():
        if scope.namespace == namespace:
            await watch.stop()
            watch.task = asyncio.create_task(watch.reflector.run())


@pytest.mark.exhaustive
async def test_a_namespace_that_does_not_exist_yet_stops_no_other_and_is_served_once_it_does(
    desk: Desk, other: Desk, limited: Client, options: MakeOptions, templates: Path, user: str
) -> None:
    only(templates, map=MAP)
    async with operating(limited, options(namespaces=(desk.namespace, other.namespace))) as running:
        await desk.apply_until_ready(echo("web"))
        await until_forbidden(running, other.namespace)
        status, text = await readyz(running)
        assert (status, text.splitlines()[0]) == (200, "ok")
        assert f"not served: {ECHOES} in {other.namespace} " in text
        assert f"allow the operator to list and watch {ECHOES} in {other.namespace}" in text
        await desk.apply(echo("web", replicas=2))
        await desk.until("configmaps", "web", holds(replicas="2"))
        await desk.kubectl("create", "namespace", other.namespace)
        await other.apply(*allowed(user, [*BASICS, *MAPS, *EVENTS], "operator"))
        await other.apply_until_ready(echo("web", replicas=3))
        await other.until("configmaps", "web", holds(replicas="3"))
        status, text = await readyz(running)
        assert status == 200
        assert "not served" not in text


async def test_a_namespace_whose_watches_end_stops_no_other(
    desk: Desk, other: Desk, limited: Client, options: MakeOptions, templates: Path, user: str
) -> None:
    only(templates, map=MAP)
    await desk.kubectl("create", "namespace", other.namespace)
    role = allowed(user, [*BASICS, *MAPS, *EVENTS], "operator")
    await other.apply(*role)
    async with operating(limited, options(namespaces=(desk.namespace, other.namespace))) as running:
        await desk.apply_until_ready(echo("web"))
        await other.apply_until_ready(echo("web"))
        await other.delete("rolebinding", "operator")
        # The API server ends each watch after some minutes.
        await end_watches(running, other.namespace)
        await until_forbidden(running, other.namespace)
        assert running.operator.ready
        await desk.apply(echo("web", replicas=2))
        await desk.ready(ECHOES, "web")
        await desk.until("configmaps", "web", holds(replicas="2"))
        await other.apply(*role, echo("web", replicas=4))
        await other.until("configmaps", "web", holds(replicas="4"))


async def test_children_that_may_not_be_read_in_one_namespace_stall_its_parents_alone(
    desk: Desk, other: Desk, limited: Client, options: MakeOptions, templates: Path, user: str
) -> None:
    only(templates, map=MAP)
    await desk.kubectl("create", "namespace", other.namespace)
    await other.apply(*allowed(user, [*BASICS, *EVENTS], "operator"))
    async with operating(limited, options(namespaces=(other.namespace, desk.namespace))):
        await other.apply(echo("web"))
        words = (f"allow the operator to list and watch configmaps in {other.namespace}",)
        await other.until(ECHOES, "web", not_ready_because("ApplyFailed", *words))
        await desk.apply_until_ready(echo("web"))
        await other.apply(*allowed(user, MAPS, "maps"))
        await other.ready(ECHOES, "web")


async def test_a_parent_that_names_a_forbidden_namespace_stalls_alone_and_its_watch_ends_with_it(
    desk: Desk, other: Desk, limited: Client, options: MakeOptions, templates: Path
) -> None:
    only(templates, map=MAP)
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    far = echo("far")
    far["metadata"]["annotations"] = {"place": other.namespace}
    async with operating(limited, options()) as running:
        await desk.apply(far)
        words = (f"allow the operator to list and watch configmaps in {other.namespace}",)
        await desk.until(ECHOES, "far", not_ready_because("ApplyFailed", *words))
        await desk.apply_until_ready(echo("web"))
        await desk.apply(echo("web", replicas=2))
        await desk.until("configmaps", "web", holds(replicas="2"))
        watches = maps_watched(running)
        assert watches.keys() == {desk.namespace, other.namespace}
        await desk.delete("echo", "far")
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([watches[other.namespace]])
        assert maps_watched(running).keys() == {desk.namespace}


@pytest.mark.exhaustive
async def test_a_child_that_was_left_in_a_forbidden_namespace_is_named_until_it_can_be_deleted(
    desk: Desk, other: Desk, limited: Client, options: MakeOptions, templates: Path, user: str
) -> None:
    only(templates, map=MAP)
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    await desk.kubectl("create", "namespace", other.namespace)
    await other.apply(*allowed(user, MAPS, "maps"))
    far = echo("far")
    far["metadata"]["annotations"] = {"place": other.namespace}
    async with operating(limited, options()):
        await desk.apply_until_ready(far)
        await other.read("configmaps", "far")
    await other.delete("rolebinding", "maps")
    async with operating(limited, options()):
        far["metadata"]["annotations"] = {"place": desk.namespace}
        await desk.apply(far)
        await desk.read("configmaps", "far")
        words = ("can't be deleted", f"allow the operator to list and watch configmaps in {other.namespace}")
        await desk.until(ECHOES, "far", not_ready_because("ApplyFailed", *words))
        await desk.apply_until_ready(echo("web"))
        await other.apply(*allowed(user, MAPS, "maps"))
        await other.gone("configmaps", "far")
        await desk.ready(ECHOES, "far")


@pytest.mark.exhaustive
async def test_a_child_of_a_kind_that_can_not_be_read_at_the_start_is_pruned_once_it_can(
    desk: Desk, limited: Client, options: MakeOptions, templates: Path, user: str
) -> None:
    secret = map_template("word", v="'x'").replace("ConfigMap", "Secret").replace("\ndata:", "\nstringData:")
    only(templates, map=MAP, word=secret)
    secrets = allowed(user, [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"]}], "secrets")
    await desk.apply(*secrets)
    async with operating(limited, options()):
        await desk.apply_until_ready(echo("web"))
    await desk.delete("rolebinding", "secrets")
    (templates / ECHOES / "word.yaml.j2").unlink()
    async with operating(limited, options()):
        for replicas in (2, 3):
            await desk.apply(echo("web", replicas=replicas))
            await desk.until("configmaps", "web", holds(replicas=str(replicas)))
        await desk.read("secrets", "web-word")
        await desk.apply(*secrets)
        await desk.gone("secrets", "web-word")


@pytest.mark.exhaustive
async def test_a_watch_that_no_parent_needs_any_more_stops(
    desk: Desk, other: Desk, operate: Operate, templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer, "GRACE_PERIOD", 0.0)
    only(templates, map=MAP, word=map_template("word", v="'x'"))
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    await desk.kubectl("create", "namespace", other.namespace)
    far = echo("far")
    far["metadata"]["annotations"] = {"place": other.namespace}
    async with operate() as running:
        await desk.apply_until_ready(far)
        await desk.apply_until_ready(echo("web"))
        watch = maps_watched(running)[other.namespace]
        far["metadata"]["annotations"] = {"place": desk.namespace}
        await desk.apply(far)
        await other.gone("configmaps", "far")
        async with asyncio.timeout(PATIENCE):
            await asyncio.wait([watch])
        await desk.until("configmaps", "far", holds(replicas="1"))
        assert maps_watched(running).keys() == {desk.namespace}
        assert not running.operator.health_problems()
        far["metadata"]["annotations"] = {"place": other.namespace}
        await desk.apply(far)
        await other.until("configmaps", "far", holds(replicas="1"))


def maps_watched(running: Running) -> dict[str, asyncio.Task[None]]:
    """The watches of children that are ConfigMaps, by namespace."""
    informers, kind = running.operator.controllers.children.informers, GroupKind("", "ConfigMap")
    return {scope.namespace: each.task for scope, each in informers.items() if scope.kind == kind}
