"""Starts, finds and stops a local cluster by name.

Promises:
- `start` returns a cluster whose API server is ready, whose namespace `default` has its service account and whose nodes
  are Ready. It returns a running cluster as it is, and replaces one that is stopped or does not answer.
- `start` begins with etcd and kube-apiserver. Once they serve, it calls `on_api_server`, and other processes find the
  cluster by its name. The other components follow when their programs are there; the first two run on.
- An attached cluster ends with the process that started it, a detached one with `stop`. Until it is ready, both end
  with the process that starts them.
- `stop` ends every process and removes every file. Every cluster starts empty.
- Two processes that start or stop the same cluster wait for each other.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import os
import re
import shutil
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

import platformdirs
from msgspec import Struct
from msgspec.structs import asdict, replace

from ssa_operator.devcluster import api, binaries, cluster_files, components, processes
from ssa_operator.devcluster import cluster_files as credentials
from ssa_operator.devcluster.cluster_files import ClusterRecord
from ssa_operator.devcluster.components import CONTROLLERS, PROGRAMS, STORAGE, ComponentOptions, Layout, Ports
from ssa_operator.devcluster.processes import (
    ProcessCommand,
    ProcessError,
    ProcessGroup,
    Progress,
    ProgressCallback,
    hold_lock,
    ignore_progress,
)

STATE_DIRECTORY_VARIABLE = "SSA_OPERATOR_STATE_DIR"
"""Folder of the state of local control planes. Default: ssa-operator in XDG_STATE_HOME."""

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_DEFAULT_NAMESPACE = "/api/v1/namespaces/default"
_POLL_SECONDS = 0.02
_READY_SECONDS = 120.0
_HEALTH_SECONDS = 10.0
_PORT_ATTEMPTS = 5


class ClusterError(Exception):
    """A local cluster could not be started, stopped or found."""


class _PortTakenError(Exception):
    """Another process took a port before the component listened on it."""


class ClusterSpec(Struct, frozen=True, kw_only=True):
    """The specification of a cluster. Raises ClusterError for an invalid name."""

    name: str = "default"

    audit: bool = False
    """Whether the API server writes an audit log."""

    detached: bool = False
    """Whether it survives the process that starts it."""

    admission_plugins: tuple[str, ...] = ()
    """Enabled in addition to Kubernetes' defaults."""

    feature_gates: tuple[str, ...] = ()
    """The API server's feature gates that are enabled in addition to Kubernetes' defaults."""

    stable_only: bool = False
    """Whether all alpha and beta features and APIs are disabled, except those of `feature_gates`."""

    controllers: str = "*,-node-ipam-controller,-node-lifecycle-controller"
    """The controller manager's --controllers. node-lifecycle would evict all pods after a laptop's sleep."""

    nodes: int = 2

    def __post_init__(self) -> None:
        check_name(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster."""

    name: str

    directory: Path

    kubeconfig: Path

    url: str

    audit_log: Path | None

    pids: Mapping[str, int]
    """The process id of each component."""

    group: ProcessGroup | None = field(default=None, repr=False, compare=False)
    """The processes of an attached cluster. None in every process but its starter."""

    async def stop(self) -> None:
        """Ends every process of the cluster and removes its files."""
        async with _lock(self.name, ignore_progress, root=self.directory.parent):
            if self.group is not None:
                await self.group.end()
            await _remove(self.directory)

    async def stop_component(self, name: str) -> None:
        """Kills one component. Raises ClusterError for a cluster that this process has not started."""
        await self.own_group().stop(name)

    async def start_component(self, name: str) -> Cluster:
        """Starts a stopped component without waiting for it. Returns the cluster with the new pid."""
        command = _require_record(self.directory).command(name, self.directory)
        pid = await self.own_group().start(command)
        return dataclasses.replace(self, pids={**self.pids, name: pid})

    async def wait_until_ready(self) -> None:
        """Waits until /readyz is ok. Raises ProcessError if a component ends before."""
        async with self.connect() as server:
            await _await_condition(server.is_ready, self.own_group(), f"{self.url} to be ready")

    def connect(self) -> AbstractAsyncContextManager[api.AdminClient]:
        """The administrator's client."""
        return api.connect(self.url, Layout(directory=self.directory))

    def own_group(self) -> ProcessGroup:
        """The processes. Raises ClusterError for a cluster that this process has not started."""
        if self.group is None:
            raise ClusterError(f"cluster {self.name}: only the process that has started it (attached) can do that")
        return self.group


class ClusterStatus(Struct, frozen=True, kw_only=True):
    """The state of a cluster."""

    name: str

    state: Literal["running", "unhealthy", "stopped"]
    """`unhealthy`: its processes are alive, but the API server does not answer."""

    message: str
    """The reason of the state."""

    directory: Path

    cluster: Cluster | None = None


def check_name(name: str) -> None:
    """Raises ClusterError if `name` can't be the name of a folder and of a context."""
    if not _NAME.fullmatch(name):
        raise ClusterError(
            f"cluster name {name!r}: use at most 40 lower-case letters, digits and '-', no '-' at either end"
        )


def state_directory() -> Path:
    """The folder of the clusters' folders: below SSA_OPERATOR_STATE_DIR, else in the user's state folder."""
    configured = os.environ.get(STATE_DIRECTORY_VARIABLE)
    root = Path(configured) if configured else platformdirs.user_state_path("ssa-operator")
    return root.absolute() / "clusters"


async def start(
    spec: ClusterSpec,
    report: ProgressCallback = ignore_progress,
    on_api_server: Callable[[Cluster], None] = lambda _: None,
) -> Cluster:
    """The running cluster of that name. Starts it unless it runs already.

    It calls `on_api_server` with the cluster as soon as objects can be created in its namespace `default`, before the
    other components start. Their programs may have to be compiled first, which takes minutes.

    Raises ClusterError, ProcessError with the end of the log of the component that failed, or BinariesError.
    """
    async with _lock(spec.name, report):
        directory = state_directory() / spec.name
        found = await _inspect(spec.name)
        if found.state == "running" and found.cluster is not None:
            _check_same(spec, directory)
            on_api_server(found.cluster)
            return found.cluster
        if directory.exists():
            report(Progress(message=f"Removing the remains of cluster {spec.name}: {found.message}"))
            await _remove(directory)
        locations = binaries.from_environment()
        programs = await binaries.acquire(locations, report, STORAGE)
        report(Progress(message=f"Starting cluster {spec.name}"))
        cluster = await _start_api_server(spec, Layout(directory=directory), programs, report)
        group = cluster.own_group()
        try:
            on_api_server(cluster)
            programs = await binaries.acquire(locations, report, CONTROLLERS)
            cluster = await _start_controllers(spec, cluster, programs)
            if spec.detached:
                await group.detach()
                return dataclasses.replace(cluster, group=None)
        except BaseException:
            await group.end()
            raise
        return cluster


async def stop(name: str, report: ProgressCallback = ignore_progress) -> bool:
    """Ends every process of the cluster and removes its files. Returns False if there is no such cluster."""
    check_name(name)
    async with _lock(name, report):
        directory = state_directory() / name
        if not directory.exists():
            return False
        report(Progress(message=f"Stopping cluster {name}"))
        await _remove(directory)
        return True


async def status(name: str) -> ClusterStatus:
    """The state of the cluster of that name."""
    check_name(name)
    return await _inspect(name)


async def _inspect(name: str) -> ClusterStatus:
    directory = state_directory() / name
    stopped = ClusterStatus(name=name, state="stopped", message="its processes are gone", directory=directory)
    if not directory.exists():
        return replace(stopped, message="there is no such cluster")
    if not processes.is_alive(directory):
        return replace(stopped, message=processes.describe_failure(directory) or stopped.message)
    recorded = cluster_files.read_record(directory)
    if recorded is None:
        return replace(stopped, state="unhealthy", message="it is starting, or its start was interrupted")
    cluster = _from_record(directory, recorded)
    async with cluster.connect() as server:
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                while not await server.is_ready():
                    if not processes.is_alive(directory):
                        return replace(stopped, message=processes.describe_failure(directory) or stopped.message)
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            message = f"{cluster.url}/readyz has not been ok for {_HEALTH_SECONDS:.0f} s"
            return replace(stopped, state="unhealthy", message=message, cluster=cluster)
    missing = [program for program in PROGRAMS if program not in cluster.pids]
    message = f"the API server is ready; {', '.join(missing)} will follow" if missing else "ready"
    return replace(stopped, state="running", message=message, cluster=cluster)


async def _start_api_server(spec: ClusterSpec, layout: Layout, programs: Path, report: ProgressCallback) -> Cluster:
    """Starts etcd and kube-apiserver on free ports."""
    for _ in range(_PORT_ATTEMPTS):
        try:
            return await _start_storage(spec, layout, programs)
        except _PortTakenError as error:
            report(Progress(message=f"{error}; choosing other ports"))
    raise ClusterError(
        f"cluster {spec.name}: {_PORT_ATTEMPTS} times in a row another process took a port that was free"
    )


async def _start_storage(spec: ClusterSpec, layout: Layout, programs: Path) -> Cluster:
    """Starts etcd and kube-apiserver, and waits until objects can be created in the namespace `default`."""
    ports = free_ports()
    url = f"https://127.0.0.1:{ports.apiserver}"
    layout.certificates.mkdir(parents=True)
    layout.directory.chmod(0o700)
    await asyncio.to_thread(credentials.write_credentials, spec.name, layout, url, dt.datetime.now(dt.UTC))
    group = ProcessGroup(layout.directory)
    try:
        recorded = ClusterRecord(specification=asdict(spec), url=url, pids={}, commands={})
        for command in components.storage(programs, layout, ports, _options(spec)):
            recorded = await _start_component(group, recorded, command)
        await await_api_server(layout, url, group, _DEFAULT_NAMESPACE)
        cluster_files.write_record(layout.directory, recorded)
    except BaseException as error:
        await group.end()
        if isinstance(error, ProcessError) and "address already in use" in str(error):
            await _remove(layout.directory)
            raise _PortTakenError(str(error).splitlines()[0]) from error
        raise
    return dataclasses.replace(_from_record(layout.directory, recorded), group=group)


async def await_api_server(layout: Layout, url: str, group: ProcessGroup, namespace: str) -> None:
    """Waits until objects can be created in a namespace that the API server itself creates."""
    async with api.connect(url, layout) as server:
        await _await_condition(server.is_ready, group, f"{url} to be ready")
        await _await_condition(partial(_exists, server, namespace), group, f"{namespace} to exist")


async def _start_controllers(spec: ClusterSpec, cluster: Cluster, programs: Path) -> Cluster:
    """Starts the other components, and waits until the first objects exist."""
    group, layout = cluster.own_group(), Layout(directory=cluster.directory)
    recorded = _require_record(cluster.directory)
    async with cluster.connect() as server:
        for command in components.clients(programs, layout, _free_numbers(1)[0], _options(spec)):
            recorded = await _start_component(group, recorded, command)
        for path, body in api.initial(spec.nodes):
            name = f"{body['kind']} {body['metadata']['name']}"
            await _await_condition(partial(server.create, path, body), group, f"{name} to be accepted")
        await _await_condition(
            partial(_is_complete, server, spec.nodes), group, f"the namespace default and {spec.nodes} Ready nodes"
        )
    cluster_files.write_record(cluster.directory, recorded)
    return dataclasses.replace(cluster, pids=recorded.pids)


async def _start_component(group: ProcessGroup, recorded: ClusterRecord, command: ProcessCommand) -> ClusterRecord:
    """Starts one component. Returns the record with it."""
    pid = await group.start(command)
    return replace(
        recorded,
        pids={**recorded.pids, command.name: pid},
        commands={**recorded.commands, command.name: command.argv},
    )


def _options(spec: ClusterSpec) -> ComponentOptions:
    return ComponentOptions(
        audit=spec.audit,
        admission_plugins=spec.admission_plugins,
        feature_gates=spec.feature_gates,
        stable_only=spec.stable_only,
        controllers=spec.controllers,
    )


async def _exists(server: api.AdminClient, path: str) -> bool:
    return await server.get(path) is not None


async def _is_complete(server: api.AdminClient, nodes: int) -> bool:
    # The controller manager creates this service account after the API server has created the namespace.
    account = await _exists(server, f"{_DEFAULT_NAMESPACE}/serviceaccounts/default")
    listed = await server.get("/api/v1/nodes")
    return account and listed is not None and api.count_ready(listed) >= nodes


async def _await_condition(condition: Callable[[], Awaitable[bool]], group: ProcessGroup, description: str) -> None:
    try:
        async with asyncio.timeout(_READY_SECONDS):
            while not await condition():
                group.check()
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        message = f"waited {_READY_SECONDS:.0f} s for {description}; see the logs in {group.directory}"
        raise ClusterError(message) from None


def free_ports() -> Ports:
    """Ports that are free now. If another process takes one before its component does, the start is repeated."""
    etcd, etcd_peer, apiserver = _free_numbers(3)
    return Ports(etcd=etcd, etcd_peer=etcd_peer, apiserver=apiserver)


def _free_numbers(count: int) -> list[int]:
    """The numbers of different ports that are free now."""
    with ExitStack() as sockets:
        numbers = []
        for _ in range(count):
            listener = sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            listener.bind(("127.0.0.1", 0))
            numbers.append(listener.getsockname()[1])
    return numbers


async def _remove(directory: Path) -> None:
    await processes.kill(directory)
    await asyncio.to_thread(shutil.rmtree, directory)


def _lock(name: str, report: ProgressCallback, root: Path | None = None) -> AbstractAsyncContextManager[None]:
    path = (root or state_directory()) / f"{name}.lock"
    return hold_lock(path, f"starting or stopping the cluster {name}", report)


def _from_record(directory: Path, recorded: ClusterRecord) -> Cluster:
    layout = Layout(directory=directory)
    return Cluster(
        name=directory.name,
        directory=directory,
        kubeconfig=layout.kubeconfig,
        url=recorded.url,
        audit_log=layout.audit_log if recorded.specification["audit"] else None,
        pids=recorded.pids,
    )


def _require_record(directory: Path) -> ClusterRecord:
    recorded = cluster_files.read_record(directory)
    if recorded is None:
        raise ClusterError(f"{directory}: the cluster does not exist any more")
    return recorded


def _check_same(spec: ClusterSpec, directory: Path) -> None:
    """Raises ClusterError unless the running cluster has everything that `spec` specifies. It may have more."""
    running_as = _require_record(directory).specification
    satisfied = {
        "audit": running_as["audit"] or not spec.audit,
        "admission_plugins": set(spec.admission_plugins) <= set(running_as["admission_plugins"]),
        "feature_gates": set(spec.feature_gates) <= set(running_as.get("feature_gates", ())),
        "stable_only": spec.stable_only == running_as.get("stable_only", False),
        "controllers": spec.controllers == running_as["controllers"],
        "nodes": spec.nodes == running_as["nodes"],
    }
    different = [name for name, same in satisfied.items() if not same]
    if different:
        raise ClusterError(
            f"the cluster {spec.name} runs already, with another value of {', '.join(different)}; "
            f"stop it first: ssa-operator cluster stop --name {spec.name}"
        )
