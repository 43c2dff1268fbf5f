"""What the end-to-end tests work with: an operator of their own in a namespace of their own, and the cluster as a user
sees it.

Everything is awaited by watching: `until` returns when the API server has said so, and fails with the last state when
it hasn't in time.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ssa_operator.controller.operator import Operator
from ssa_operator.controller.options import Options
from ssa_operator.core.live import Live
from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.cache import Cache
from ssa_operator.kube.client import Client
from ssa_operator.kube.discovery import RESTMapper
from ssa_operator.kube.reflector import Reflector

PATIENCE = 90.0
"""Seconds after which a test gives up on what it waits for. Nothing here takes more than a few, but for the garbage
collector: it learns of a new CRD within 30 s only.
"""

ROOT = Path(__file__).parent.parent.parent


@dataclass(slots=True)
class View:
    """A watch of one resource in one namespace."""

    cache: Cache
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    reflector: Reflector | None = None
    task: asyncio.Task[None] | None = None

    async def until(self, name: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The body of the object once it exists and is as wanted."""

        def judge(live: Live | None) -> bool:
            return live is not None and wanted(live.body)

        found = await self._until(name, judge)
        assert found is not None
        return found.body

    async def gone(self, name: str) -> None:
        """Return once there is no such object."""
        await self._until(name, lambda live: live is None)

    async def _until(self, name: str, wanted: Callable[[Live | None], bool]) -> Live | None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not wanted(self.find(name)):
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            found = self.find(name)
            shown = json.dumps(_readable(found.body), indent=1) if found else "missing"
            raise AssertionError(f"{name} did not become as wanted; it is {shown}") from None
        return self.find(name)

    def find(self, name: str) -> Live | None:
        return next((live for live in self.cache if live.identity.name == name), None)


def _readable(body: dict[str, Any]) -> dict[str, Any]:
    return {**body, "metadata": {key: value for key, value in body["metadata"].items() if key != "managedFields"}}


class Desk:
    """The cluster in one namespace, for reading and writing as a user does."""

    def __init__(self, client: Client, kubeconfig: Path, namespace: str) -> None:
        self.client = client
        self.mapper = RESTMapper(client)
        self.kubeconfig = kubeconfig
        self.namespace = namespace
        self._views: dict[str, View] = {}

    async def view(self, resource_name: str) -> View:
        """A watch of a resource (`deployments.apps`), opened once."""
        if resource_name not in self._views:
            resource = await self.mapper.resource_by_name(resource_name)
            view = View(Cache())
            view.cache.listen(lambda _old, _new: view.changed.set())
            namespace = self.namespace if resource.namespaced else ""
            view.reflector = Reflector(self.client, resource, view.cache, namespace=namespace)
            view.task = asyncio.create_task(view.reflector.run())
            self._views[resource_name] = view
            async with asyncio.timeout(PATIENCE):
                await view.reflector.settled()
        return self._views[resource_name]

    async def until(self, resource_name: str, name: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The body of an object once it exists and is as wanted."""
        return await (await self.view(resource_name)).until(name, wanted)

    async def gone(self, resource_name: str, name: str) -> None:
        """Return once there is no such object."""
        await (await self.view(resource_name)).gone(name)

    async def ready(self, resource_name: str, name: str) -> dict[str, Any]:
        """The body of a parent once the operator calls its newest generation ready."""
        return await self.until(resource_name, name, is_ready)

    async def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """What kubectl prints on standard output. Raises AssertionError with what it printed on standard error."""
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).parent / "kubectl"),
            f"--kubeconfig={self.kubeconfig}",
            f"--namespace={self.namespace}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate(stdin.encode())
        assert process.returncode == 0, err.decode()
        return out.decode()

    async def apply(self, *bodies: dict[str, Any]) -> None:
        """`kubectl apply` of some objects."""
        await self.kubectl("apply", "-f", "-", stdin=as_list(bodies))

    async def apply_in(self, namespace: str, *bodies: dict[str, Any]) -> None:
        """`kubectl apply` of some objects in another namespace."""
        inside = [{**body, "metadata": {**body["metadata"], "namespace": namespace}} for body in bodies]
        await self.kubectl("apply", f"--namespace={namespace}", "-f", "-", stdin=as_list(inside))

    async def close(self) -> None:
        tasks = [view.task for view in self._views.values() if view.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(slots=True)
class Running:
    """An operator that a test started, and the folder of templates that it follows."""

    operator: Operator
    templates: Path

    def write(self, name: str, text: str) -> None:
        """Save a template as an editor does: under another name first."""
        path = self.templates / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_text(text)
        draft.rename(path)

    def remove(self, name: str) -> None:
        (self.templates / name).unlink()


@contextlib.asynccontextmanager
async def operating(client: Client, options: Options) -> AsyncIterator[Running]:
    """An operator in this process; it is stopped in order at the end, and what it raised is raised here."""
    stop = asyncio.Event()
    operator = Operator(client, RESTMapper(client), options)
    task = asyncio.create_task(operator.run(stop))
    try:
        yield Running(operator, options.templates[0])
    finally:
        stop.set()
        await task


def is_ready(body: dict[str, Any]) -> bool:
    condition = ready_condition(body)
    return condition.get("status") == "True" and condition.get("observedGeneration") == body["metadata"]["generation"]


def ready_condition(body: dict[str, Any]) -> dict[str, Any]:
    conditions = body.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "Ready"), {})


def not_ready_because(reason: str, *words: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a parent's Ready is False for a reason, with these words in its message."""

    def judge(body: dict[str, Any]) -> bool:
        condition = ready_condition(body)
        return condition.get("reason") == reason and all(word in condition.get("message", "") for word in words)

    return judge


def as_list(bodies: Sequence[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})


def requests_for(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """The verbs of the operator's own requests for one object, in order."""
    assert cluster.audit_log is not None
    found = []
    for line in cluster.audit_log.read_text().splitlines():
        event = json.loads(line)
        where = event.get("objectRef", {})
        ours = event["userAgent"].startswith("ssa-operator/")
        if ours and (where.get("namespace"), where.get("name")) == (namespace, name):
            found.append(event["verb"])
    return found


def echo(name: str, replicas: int = 1) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Echo", "metadata": {"name": name}, "spec": {"replicas": replicas}}


def definition(plural: str, group: str, kind: str, **spec: Any) -> dict[str, Any]:
    """A CRD that takes anything in spec and status."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    names = {"kind": kind, "plural": plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]} | spec,
    }
