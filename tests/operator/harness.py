"""The harness of the end-to-end tests: an operator of the test's own in a namespace of the test's own, and the cluster
as a user sees it.

Promises:
- Tests wait by watching: `until` returns when the watch shows the wanted state, and fails with the last state if it
  doesn't in time.
- A state that a call reads is never older than the call, however far a watch is behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.informers.parents import Parent
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import ApplyOptions, Request, Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth import credentials
from ssa_operator.kube.auth.credentials import Credentials
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.http import _view
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.operator_options import Options
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.reconciler import Reconciled
from ssa_operator.reconcile.status.report import Report
from ssa_operator.tools.command_target import matching_resources
from tests.devcluster.audit import own_requests
from tests.secret_contents import OUTPUTS

PATIENCE = 90.0
"""Seconds after which a test fails while it waits. A test waits for a few seconds, except for the garbage collector:
it discovers a new CRD within 30 s only.
"""

ROOT = Path(__file__).parent.parent.parent

ECHOES = "echoes.example.com"
"""The parents of most tests: their resource, and the folder of their templates."""

DEPLOYMENT = (ROOT / "templates" / ECHOES / "deployment.yaml.j2").read_text()
"""The template of an Echo's Deployment."""

ROLES = "clusterroles.rbac.authorization.k8s.io"

ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ namespace }}-{{ name }}
rules: []
"""
"""A template of a cluster-scoped child, which a parent in a namespace can't own."""

KUBECTL = ApplyOptions(manager="kubectl")
"""What a user applies."""

BACKGROUND = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
"""The options that kubectl deletes with."""

MakeOptions = Callable[..., Options]


async def administrator(cluster: Cluster) -> Credentials:
    """The credentials of the cluster's administrator."""
    return await credentials.load(str(cluster.kubeconfig), None)


class Operate(Protocol):
    """Runs an operator of the test's own, with these options: `async with operate(resync_rate=1.0) as running`."""

    def __call__(self, **changes: Any) -> AbstractAsyncContextManager[Running]: ...


@dataclass(slots=True)
class View:
    """A watch of one resource in one namespace."""

    cache: Cache
    reflector: Reflector
    changes: int = 0
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.cache.listen(lambda _old, _new: self._count_change())

    def _count_change(self) -> None:
        self.changes += 1
        self._changed.set()

    async def until(self, name: str, wanted: Callable[[dict[str, Any]], object], since: int = 0) -> dict[str, Any]:
        """The body of the object once it exists, in the version `since` or a later one, and is as wanted."""

        def judge(live: LiveObject | None) -> bool:
            return live is not None and int(live.resource_version) >= since and bool(wanted(live.body))

        found = await self._until(name, judge)
        assert found is not None
        return found.body

    async def gone(self, name: str) -> None:
        """Return once the watch shows no such object."""
        await self._until(name, lambda live: live is None)

    async def _until(self, name: str, wanted: Callable[[LiveObject | None], bool]) -> LiveObject | None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not wanted(self.find(name)):
                    await self.change(self.changes)
        except TimeoutError:
            found = self.find(name)
            shown = json.dumps(_readable(found.body), indent=1) if found else "missing"
            raise AssertionError(f"{name} did not become as wanted; it is {shown}") from None
        return self.find(name)

    async def change(self, since: int) -> None:
        """Return once there were more `changes` than `since`."""
        while self.changes == since:
            self._changed.clear()
            await self._changed.wait()

    def find(self, name: str) -> LiveObject | None:
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
        self._watching: list[asyncio.Task[None]] = []

    async def view(self, resource_name: str) -> View:
        """A watch of a resource (`deployments.apps`), opened once."""
        if resource_name not in self._views:
            resource = await self.mapper.resource_by_name(resource_name)
            cache = Cache()
            namespace = self.namespace if resource.namespaced else ""
            reflector = Reflector(self.client, Scope(resource, namespace), cache)
            self._views[resource_name] = View(cache, reflector)
            self._watching.append(asyncio.create_task(reflector.run()))
            async with asyncio.timeout(PATIENCE):
                await reflector.synced_or_unavailable()
        return self._views[resource_name]

    async def _list(self, resource_name: str) -> tuple[list[LiveObject], str]:
        """All objects of a resource as the API server has them now, and the version of that list."""
        reflector = (await self.view(resource_name)).reflector
        try:
            return await self.client.list_scope(reflector.scope)
        except ApiError as error:
            if not error.not_found:
                raise
            return [], "0"  # its CRD is gone

    async def until(self, resource_name: str, name: str, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The body of an object once it exists and is as wanted, not older than this call."""
        view = await self.view(resource_name)
        found, listed = await self._list(resource_name)
        # What isn't listed is no more, whatever the watch still shows.
        since = next((live.resource_version for live in found if live.identity.name == name), listed)
        return await view.until(name, wanted, int(since))

    async def read(self, resource_name: str, name: str) -> dict[str, Any]:
        """The body of an object once it exists, not older than this call."""
        return await self.until(resource_name, name, lambda _: True)

    async def find(self, resource_name: str, name: str) -> dict[str, Any] | None:
        """The body of an object as the API server has it now, None without one."""
        found, _ = await self._list(resource_name)
        return next((live.body for live in found if live.identity.name == name), None)

    async def gone(self, resource_name: str, name: str) -> None:
        """Return once there is no such object."""
        view = await self.view(resource_name)
        while True:
            await view.gone(name)
            changes = view.changes
            if await self.find(resource_name, name) is None:
                return
            # It came, which the watch has yet to tell.
            await view.change(changes)

    async def ready(self, resource_name: str, name: str) -> dict[str, Any]:
        """The body of a parent once the operator calls its newest generation ready."""
        return await self.until(resource_name, name, is_ready)

    async def until_event(self, reason: str, *words: str, about: str = "") -> dict[str, Any]:
        """The Event with that reason and these words in its note, on an object of that name, once it exists."""
        view = await self.view("events.events.k8s.io")

        def found() -> list[dict[str, Any]]:
            bodies = [live.body for live in view.cache]
            return [
                body
                for body in bodies
                if body["reason"] == reason
                and body["regarding"]["name"].startswith(about)
                and all(word in body["note"] for word in words)
            ]

        async with asyncio.timeout(PATIENCE):
            while not found():
                await view.change(view.changes)
        return found()[0]

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
        """What `kubectl apply --server-side --force-conflicts` does, without the time that a process of kubectl takes.
        Raises AssertionError with the refusal.
        """
        for body in bodies:
            group, version = split_api_version(body["apiVersion"])
            resource = await self.mapper.resource(GroupKind(group, body["kind"]), version)
            metadata = body["metadata"]
            namespace = metadata.get("namespace", self.namespace) if resource.namespaced else ""
            try:
                await self.client.apply(resource, namespace, metadata["name"], encode(body), KUBECTL)
            except ApiError as error:
                raise AssertionError(str(error)) from error

    async def explained(self, field: str) -> str:
        """What `kubectl explain` prints of a field of a new CRD. The API server publishes its schema a moment after the
        CRD is Established, and no watch tells when.
        """
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(AssertionError):
                    return await self.kubectl("explain", field)

    async def kubectl_apply(self, *bodies: dict[str, Any]) -> None:
        """`kubectl apply` of some objects, which records them in an annotation."""
        await self.kubectl("apply", "-f", "-", stdin=as_list(bodies))

    async def apply_until_accepted(self, body: dict[str, Any]) -> None:
        """Apply an object whose CRD changed just now: the API server adopts the schema a moment later."""
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(AssertionError):
                    return await self.apply(body)

    async def apply_until_ready(self, parent: dict[str, Any]) -> dict[str, Any]:
        """Apply a parent; its body once it is ready."""
        await self.apply(parent)
        group, _ = split_api_version(parent["apiVersion"])
        resource = await self.mapper.resource(GroupKind(group, parent["kind"]))
        return await self.ready(resource.name, parent["metadata"]["name"])

    async def define(self, *crds: dict[str, Any]) -> None:
        """Apply some CRDs, until the API server serves them."""
        await self.apply(*crds)
        for crd in crds:
            await self._discover(GroupKind(crd["spec"]["group"], crd["spec"]["names"]["kind"]))

    async def _discover(self, kind: GroupKind) -> None:
        """Wait until discovery, which has no watch, knows a kind: that is a moment after its CRD is Established."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self.mapper.invalidate()
                with contextlib.suppress(UnknownKind):
                    await self.mapper.resource(kind)
                    return
                await asyncio.sleep(0.05)

    async def create(self, *bodies: dict[str, Any]) -> None:
        """`kubectl create` of some objects, which leaves no annotation in them."""
        await self.kubectl("create", "-f", "-", stdin=as_list(bodies))

    async def patch(self, kind: str, name: str, **fields: Any) -> None:
        """What `kubectl patch --type=merge` does with some fields; None removes one. KIND is a word that kubectl
        knows. Raises AssertionError with the refusal.
        """
        resource = await self._resource(kind)
        request = calls.merge_patch(resource, self._namespace_of(resource), name, encode(fields))
        await self._send(replace(request, query=(("fieldManager", "kubectl-patch"),)))

    async def update_as(
        self, manager: str, resource: Resource, name: str, patch: dict[str, Any], subresource: str = ""
    ) -> None:
        """Another manager's change of some fields by Update; None removes one."""
        request = calls.merge_patch(resource, self.namespace, name, encode(patch))
        path = resource.path(self.namespace, name, subresource)
        await self._send(replace(request, path=path, query=(("fieldManager", manager),)))

    async def scale(self, kind: str, name: str, replicas: int) -> None:
        """What `kubectl scale` does, and what a HorizontalPodAutoscaler does."""
        resource = await self._resource(kind)
        await self.update_as("autoscaler", resource, name, {"spec": {"replicas": replicas}}, "scale")

    async def delete(self, kind: str, name: str, *, wait: bool = True) -> None:
        """What `kubectl delete` does: returns once the object is gone, or at once. Raises AssertionError with the
        refusal.
        """
        resource = await self._resource(kind)
        namespace = self._namespace_of(resource)
        path = resource.path(namespace, name)
        found = await self.client.find(resource, name, namespace)
        view = await self.view(resource.name) if wait else None
        await self._send(
            Request(
                method="DELETE",
                path=path,
                query=(("fieldManager", KUBECTL.manager),),  # of no effect but in the audit log
                subject=f"delete of {path}",
                body=encode(BACKGROUND),
            )
        )
        while view is not None and found is not None:
            changes = view.changes
            left = await self.client.find(resource, name, namespace)
            if left is None or left.uid != found.uid:
                return
            await view.change(changes)

    async def _resource(self, kind: str) -> Resource:
        """The resource that a user's word for a kind means."""
        for _ in range(2):
            found = matching_resources(kind, await self.mapper.resources())
            if found:
                return found[0][0]
            self.mapper.invalidate()
        raise AssertionError(f"the cluster serves no {kind}")

    def _namespace_of(self, resource: Resource) -> str:
        return self.namespace if resource.namespaced else ""

    async def _send(self, request: Request) -> None:
        try:
            await self.client.send(request)
        except ApiError as error:
            raise AssertionError(str(error)) from error

    async def hold(self, kind: str, name: str) -> None:
        """Keep an object in deletion, as its controller may, by the finalizer a.b/hold."""
        await self.patch(kind, name, metadata={"finalizers": ["a.b/hold"]})

    async def release(self, kind: str, name: str) -> None:
        """Remove all finalizers from an object."""
        await self.patch(kind, name, metadata={"finalizers": None})

    @contextlib.asynccontextmanager
    async def elsewhere(self, namespace: str) -> AsyncIterator[Desk]:
        """The same in another namespace."""
        desk = Desk(self.client, self.kubeconfig, namespace)
        try:
            yield desk
        finally:
            await desk.close()

    async def close(self) -> None:
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)


class CountingClient(Client):
    """A client that counts what it meets. The clients that it makes for single parents count with it."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.met: Counter[str] = Counter()


@dataclass(slots=True)
class Running:
    """An operator that a test started, its folder of templates, and its reconciles.

    `reconciles` are those that began, each with the parent's name and the causes. `reports` are those of the
    reconciles that ended.
    """

    operator: Operator
    templates: Path
    reconciles: list[tuple[str, Cause]] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    def write(self, name: str, text: str) -> None:
        """Save a template as an editor does: under another name first."""
        path = self.templates / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_text(text)
        draft.rename(path)

    def remove(self, name: str) -> None:
        (self.templates / name).unlink()

    def record_reconciles(self) -> None:
        """Begin to record `reconciles` and `reports`."""
        reconciler = self.operator._reconciler
        reconcile = reconciler.reconcile

        async def recorded(parent: Parent, state: ParentState, causes: Cause) -> Reconciled:
            self.reconciles.append((parent.live.identity.name, causes))
            reports = self.reports  # a reconcile that began before `forget` is not counted
            done = await reconcile(parent, state, causes)
            if done.report is not None:
                reports.append(done.report)
                self._ended.set()
            return done

        reconciler.reconcile = recorded  # type: ignore[method-assign]

    def forget(self) -> None:
        """Count reconciles from now on."""
        self.reconciles, self.reports = [], []

    async def reported(self, wanted: Callable[[Report], bool]) -> None:
        """Return once the newest report is as wanted."""
        async with asyncio.timeout(PATIENCE):
            while not (self.reports and wanted(self.reports[-1])):
                self._ended.clear()
                await self._ended.wait()

    async def reconciled(self, count: int) -> None:
        """Return once so many reconciles have begun and ended since the last `forget`."""
        async with asyncio.timeout(PATIENCE):
            while len(self.reports) < count:
                self._ended.clear()
                await self._ended.wait()


@contextlib.asynccontextmanager
async def operating(client: Client, options: Options) -> AsyncIterator[Running]:
    """An operator in this process; it is stopped in order at the end, and what it raised is raised here."""
    stop = asyncio.Event()
    running = Running(Operator(client, RESTMapper(client), options), options.templates[0])
    running.record_reconciles()
    task = asyncio.create_task(running.operator.run(stop))
    try:
        yield running
    finally:
        OUTPUTS.add("/objects and /metrics", shown(running))
        stop.set()
        await task


def shown(running: Running) -> str:
    """The text of a running operator at /objects and /metrics."""
    operator = running.operator
    objects = [
        msgspec.json.encode(_view(parents, live)).decode() for parents in operator.folders.values() for live in parents
    ]
    operator.measure()
    return "\n".join((*objects, operator.metrics.text().decode()))


def only(templates: Path, **texts: str) -> Path:
    """The templates, those of an Echo being these alone: `name.yaml.j2` each."""
    shutil.rmtree(templates / ECHOES)
    (templates / ECHOES).mkdir()
    for name, text in texts.items():
        (templates / ECHOES / f"{name}.yaml.j2").write_text(text)
    return templates


def is_ready(body: dict[str, Any]) -> bool:
    condition = ready_condition(body)
    return condition.get("status") == "True" and condition.get("observedGeneration") == body["metadata"]["generation"]


def ready_condition(body: dict[str, Any]) -> dict[str, Any]:
    conditions = body.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "Ready"), {})


def entries(parent: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The entry of each child in the status, by `Kind/name`."""
    return {f"{each['kind']}/{each['name']}": each for each in parent.get("status", {}).get("resources", [])}


def not_ready_because(reason: str, *words: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a parent's Ready is False for a reason, with these words in its message."""

    def judge(body: dict[str, Any]) -> bool:
        condition = ready_condition(body)
        return condition.get("reason") == reason and all(word in condition.get("message", "") for word in words)

    return judge


def ready_saying(*words: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a parent is ready, with these words in the message of Ready."""
    return lambda body: is_ready(body) and all(word in ready_condition(body).get("message", "") for word in words)


def as_list(bodies: Sequence[dict[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})


def requests_for(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """The verbs of the operator's own requests for one object, in order."""
    return [event["verb"] for event in own_requests(cluster, namespace) if event["objectRef"].get("name") == name]


def echo(name: str, replicas: int = 1) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Echo", "metadata": {"name": name}, "spec": {"replicas": replicas}}


def plain_template(kind: str) -> str:
    """A template of a core object of this kind, called after the parent, with nothing in it."""
    return f"apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {{{{ name }}}}\n"


def map_template(name: str, **data: str) -> str:
    """A template of a ConfigMap called after the parent and `name`; the data are expressions."""
    lines = "".join(f'  {key}: "{{{{ {expression} }}}}"\n' for key, expression in data.items())
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ name }}}}-{name}\ndata:\n{lines}"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def holds(**data: str) -> Callable[[dict[str, Any]], bool]:
    """Whether a ConfigMap has these data and no others."""
    return lambda body: body.get("data") == data


def uid(body: dict[str, Any]) -> str:
    return str(body["metadata"]["uid"])


def version(body: dict[str, Any]) -> int:
    """Which of two objects was written first."""
    return int(body["metadata"]["resourceVersion"])


def other_than(old: dict[str, Any]) -> Callable[[dict[str, Any]], bool]:
    """Whether an object is another one under the same name."""
    return lambda body: uid(body) != uid(old)


def with_versions(crd: dict[str, Any], stored: str, **served: bool) -> dict[str, Any]:
    """A CRD that has these versions, each served or not, with the schema of its first one."""
    version = crd["spec"]["versions"][0]
    crd["spec"]["versions"] = [
        {**version, "name": name, "served": is_served, "storage": name == stored} for name, is_served in served.items()
    ]
    return crd


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
