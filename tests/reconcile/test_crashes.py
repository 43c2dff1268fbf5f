"""After a crash between any two requests, the next operator comes to the same result as without a crash.

One scenario of a parent (created, changed, deleted) runs once without a crash, to count the writes. Then it runs again
for every write, with a process that dies just before the write is sent, or just after the one before it: the cluster is
the same, because a dead process reads no answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.api.transport import Response
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.operator import operator as operators
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.operator_options import Options
from ssa_operator.reconcile.parent_records.rules import GENERATED_VALUES_ANNOTATION
from tests.operator.harness import ECHOES, ROLE, ROLES, Desk, MakeOptions, administrator, echo, holds, only, uid

pytestmark = pytest.mark.cluster

MAPS = "configmaps"

TWO_ROLES = f"""\
{ROLE}
{{% if spec.replicas == 1 %}}
---
{ROLE.replace("{{ name }}", "{{ name }}-first")}
{{% endif %}}
"""


def of_map(name: str, rest: str = "", annotations: str = "{}") -> str:
    """A template of a ConfigMap called after the parent and `name`."""
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n"
    return f"{head}  name: {{{{ name }}}}-{name}\n  annotations: {annotations}\n{rest}\n"


@pytest.fixture
def scenario_templates(templates: Path) -> Path:
    only(
        templates,
        role=TWO_ROLES,
        base=of_map("base", "data: {n: '{{ spec.replicas }}'}"),
        reader=of_map("reader", "data: {uid: \"{{ child('ConfigMap', name + '-base').metadata.uid }}\"}"),
        named=of_map("named-{{ spec.replicas }}"),
        once=of_map("once", annotations="{ssa-operator.dev/apply: Once}"),
        frozen=of_map("frozen", FROZEN, "{ssa-operator.dev/recreate: Background}"),
        first=f"{{% if spec.replicas == 1 %}}\n{of_map('first')}{{% endif %}}\n",
        bye=of_map("bye", annotations="{ssa-operator.dev/on: finalize}"),
    )
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    return templates


FROZEN = "immutable: true\ndata: {n: '{{ spec.replicas }}'}"


def wanted(namespace: str, name: str, version: int) -> dict[str, set[str]]:
    """The children of a version."""
    maps = {f"{name}-{part}" for part in ("base", "reader", "once", "frozen", f"named-{version}")}
    roles = {f"{namespace}-{name}"}
    if version == 1:
        maps.add(f"{name}-first")
        roles.add(f"{namespace}-{name}-first")
    return {MAPS: maps, ROLES: roles}


@dataclass
class Crash:
    """The crash of a process at its `at`-th write (0: never), before it is sent or `after` it was carried out."""

    at: int = 0
    after: bool = False
    writes: int = 0
    on_added: asyncio.Event = field(default_factory=asyncio.Event)


class CrashingClient(Client):
    """A client whose process dies at a write: from then on it sends no request."""

    crash: Crash

    async def send(self, request: Request) -> Response:
        if self.crash.on_added.is_set():
            await asyncio.Event().wait()
        if not request.writes or "/events" in request.path:
            return await super().send(request)
        self.crash.writes += 1
        if self.crash.writes != self.crash.at:
            return await super().send(request)
        if self.crash.after:
            await super().send(request)
        self.crash.on_added.set()
        await asyncio.Event().wait()
        raise AssertionError("a dead process goes on")


@contextlib.asynccontextmanager
async def crashing_operators(cluster: Cluster, options: Options, crash: Crash) -> AsyncIterator[None]:
    """Runs operators one after the other: when one crashes, the next starts."""

    async def reign() -> None:
        while True:
            async with CrashingClient(await administrator(cluster)) as client:
                client.crash = crash
                work = asyncio.create_task(Operator(client, RESTMapper(client), options).run(asyncio.Event()))
                end = asyncio.create_task(crash.on_added.wait())
                try:
                    await asyncio.wait([work, end], return_when=asyncio.FIRST_COMPLETED)
                    if not crash.on_added.is_set():
                        work.result()
                finally:
                    work.cancel()
                    end.cancel()
                    await asyncio.gather(work, end, return_exceptions=True)
            crash.on_added.clear()

    reigning = asyncio.create_task(reign())
    try:
        yield
    finally:
        reigning.cancel()
        await asyncio.gather(reigning, return_exceptions=True)


class Observer:
    """Records which objects of one parent are created and deleted."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.on_added: set[str] = set()
        self.on_deleted: list[str] = []

    def __call__(self, old: LiveObject | None, new: LiveObject | None) -> None:
        if new is not None and self.name in new.identity.name:
            self.on_added.add(new.identity.name)
        if old is not None and self.name in old.identity.name and (new is None or new.uid != old.uid):
            self.on_deleted.append(old.identity.name)


async def run_scenario(desk: Desk, name: str) -> None:
    """The scenario of one parent. Fails if an object is missing or left over, or was deleted too early."""
    witness = Observer(name)
    for resource in (MAPS, ROLES):
        (await desk.view(resource)).cache.listen(witness)
    for version in (1, 2):
        await desk.apply(echo(name, version))
        children = wanted(desk.namespace, name, version)
        for resource, names in children.items():
            for each in names:
                await desk.read(resource, each)
            view = await desk.view(resource)
            for each in {live.identity.name for live in view.cache if name in live.identity.name} - names:
                await desk.gone(resource, each)
        base = await desk.until(MAPS, f"{name}-base", holds(n=str(version)))
        await desk.until(MAPS, f"{name}-reader", holds(uid=uid(base)))
        await desk.until(MAPS, f"{name}-frozen", holds(n=str(version)))
        await desk.ready(ECHOES, name)
    replaced = [f"{name}-named-1", f"{name}-first", f"{name}-frozen", f"{desk.namespace}-{name}-first"]
    assert sorted(witness.on_deleted) == sorted(replaced)
    await desk.delete("echo", name, wait=False)
    await desk.gone(ECHOES, name)
    await desk.gone(ROLES, f"{desk.namespace}-{name}")
    assert f"{name}-bye" in witness.on_added


async def writes_of(desk: Desk, cluster: Cluster, options: Options) -> int:
    crash = Crash()
    async with crashing_operators(cluster, options, crash):
        await run_scenario(desk, "web-x")
    return crash.writes


STRIDE = 5
"""Every fifth write is in each test run; `make test-slow` plays the others."""


@pytest.mark.parametrize(
    ("after", "some"),
    [
        pytest.param(False, True, id="before some"),
        pytest.param(False, False, id="before the others", marks=pytest.mark.exhaustive),
    ],
)
async def test_after_a_crash_between_any_two_writes_the_result_is_the_same(
    desk: Desk,
    cluster: Cluster,
    options: MakeOptions,
    scenario_templates: Path,
    after: bool,
    some: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operators, "DRAIN_DEADLINE", 0.0)
    made = options(templates=scenario_templates)
    count = await writes_of(desk, cluster, made)
    assert count > 10
    for at in range(1, count + 1):
        if (at % STRIDE == 1) is not some:
            continue
        crash = Crash(at, after)
        async with crashing_operators(cluster, made, crash):
            await run_scenario(desk, f"web-{at}x")
        if crash.writes < at:
            break  # what follows at once may be one write of a status or two: this scenario had fewer
    assert at > count // 2


KEPT = """\
apiVersion: v1
kind: Secret
metadata:
  name: {{ name }}-login
  annotations: {ssa-operator.dev/recreate: Background}
type: example.com/v{{ spec.replicas }}
stringData:
  password: {{ generated(20) }}
"""


def of_type(version: int) -> Callable[[dict[str, Any]], bool]:
    return lambda body: bool(body["type"] == f"example.com/v{version}")


async def recreate_secret(desk: Desk, name: str) -> None:
    """Let the operator recreate a Secret. Fails if its generated value changes, or a copy of it is left over."""
    await desk.apply_until_ready(echo(name, 1))
    old = await desk.until("secrets", f"{name}-login", of_type(1))
    await desk.apply_until_ready(echo(name, 2))
    new = await desk.until("secrets", f"{name}-login", of_type(2))
    assert uid(new) != uid(old)
    assert new["data"] == old["data"]
    view = await desk.view("secrets")
    for copy in [live.identity.name for live in view.cache if live.parent_uid == new_parent(new)]:
        if copy != f"{name}-login":
            await desk.gone("secrets", copy)
    await desk.until(
        ECHOES, name, lambda body: GENERATED_VALUES_ANNOTATION not in body["metadata"].get("annotations", {})
    )
    await desk.delete("echo", name, wait=False)
    await desk.gone(ECHOES, name)


def new_parent(body: dict[str, Any]) -> str:
    return str(body["metadata"]["labels"][PARENT_UID_LABEL])


@pytest.mark.parametrize(
    ("after", "some"),
    [
        pytest.param(True, True, id="after some"),
        pytest.param(True, False, id="after the others", marks=pytest.mark.exhaustive),
    ],
)
async def test_after_a_crash_at_any_write_of_a_recreation_the_object_has_its_generated_value(
    desk: Desk,
    cluster: Cluster,
    options: MakeOptions,
    templates: Path,
    after: bool,
    some: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operators, "DRAIN_DEADLINE", 0.0)
    made = options(templates=only(templates, login=KEPT))
    for at in itertools.count(1):
        if (at % STRIDE == 0) is not some:
            continue
        crash = Crash(at, after)
        async with crashing_operators(cluster, made, crash):
            await recreate_secret(desk, f"web-{at}x")
        if crash.writes < at:
            break
    assert at > 6
