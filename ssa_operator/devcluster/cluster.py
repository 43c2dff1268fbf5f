"""A local cluster by name: started, found again, asked after, and stopped.

Promises:
- `start` returns a cluster whose API server is ready, whose namespace `default` has its service account and whose nodes
  are Ready. One that runs already is returned as it is; what is left of a dead, half-dead or silent one is replaced.
- An attached cluster ends with the process that started it, a detached one with `stop`. Until it is ready, both end
  with their starter.
- `stop` keeps nothing: no process and no file. Every cluster starts empty.
- Two processes that start or stop the same name take turns.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import re
import shutil
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

import platformdirs

from ssa_operator.devcluster import api, binaries, cluster_record, components, credentials, objects, processes
from ssa_operator.devcluster.cluster_record import Record
from ssa_operator.devcluster.components import Commands, Layout, Ports
from ssa_operator.devcluster.file_lock import turn
from ssa_operator.devcluster.processes import ProcessError, ProcessGroup
from ssa_operator.devcluster.progress import Progress, Report, silent

STATE_DIRECTORY_VARIABLE = "SSA_OPERATOR_STATE_DIR"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_POLL_SECONDS = 0.02
_READY_SECONDS = 120.0
_HEALTH_SECONDS = 10.0
_PORT_ATTEMPTS = 5


class ClusterError(Exception):
    """A local cluster could not be started, stopped or found."""


class _PortTakenError(Exception):
    """A port was taken between the moment it was chosen and the moment a component listened on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """What a cluster shall be.

    `admission_plugins` are switched on in addition to Kubernetes' defaults. `controllers` is the controller manager's
    --controllers: without node-lifecycle, which would evict the pods of nodes that were silent while a laptop slept.
    Raises ClusterError if the name cannot be a folder's and a context's.
    """

    name: str = "default"
    audit: bool = False
    detached: bool = False
    admission_plugins: tuple[str, ...] = ()
    controllers: str = "*,-node-ipam-controller,-node-lifecycle-controller"
    nodes: int = 2

    def __post_init__(self) -> None:
        check_name(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster: where it is and how to speak to it.

    `pids` has each component's process id by name. `group` is there in the process that started the cluster, attached.
    """

    name: str
    directory: Path
    kubeconfig: Path
    url: str
    audit_log: Path | None
    pids: Mapping[str, int]
    group: ProcessGroup | None = field(default=None, repr=False, compare=False)

    async def stop(self) -> None:
        """Ends every process of the cluster and removes its files."""
        async with _turn(self.name, silent, root=self.directory.parent):
            if self.group is not None:
                await self.group.end()
            await _remove(self.directory)

    async def restart_storage(self) -> Cluster:
        """Kills etcd and kube-apiserver and starts them again, with their ports and data; returns when they are ready.

        Raises ClusterError for a cluster that this process has not started.
        """
        for name in ("kube-apiserver", "etcd"):
            await self.stop_component(name)
        cluster = self
        for name in ("etcd", "kube-apiserver"):
            cluster = await cluster.start_component(name)
        await cluster.wait_until_ready()
        return cluster

    async def stop_component(self, name: str) -> None:
        """Kills one component; the others stay. Raises ClusterError for a cluster that this process has not started."""
        await self._owned().stop(name)

    async def start_component(self, name: str) -> Cluster:
        """Starts a stopped component as it was, without waiting for it; returns the cluster with the new pid."""
        command = _require_record(self.directory).command(name, self.directory)
        pid = await self._owned().start(command)
        return replace(self, pids={**self.pids, name: pid})

    async def wait_until_ready(self) -> None:
        """Returns when /readyz is ok; raises ProcessError when a component ends before."""
        async with self.connect() as server:
            await _await_condition(server.is_ready, self._owned(), f"{self.url} to be ready")

    def connect(self) -> AbstractAsyncContextManager[api.Api]:
        """An administrator's connection for a few plain requests."""
        return api.connect(self.url, Layout(directory=self.directory))

    def _owned(self) -> ProcessGroup:
        if self.group is None:
            raise ClusterError(f"cluster {self.name}: only the process that has started it, attached, can do that")
        return self.group


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is known of a cluster; `unhealthy` is one with living processes that does not answer. `message` says why."""

    name: str
    state: Literal["running", "unhealthy", "stopped"]
    message: str
    directory: Path
    cluster: Cluster | None = None


def check_name(name: str) -> None:
    """Raises ClusterError if `name` cannot be the name of a cluster."""
    if not _NAME.fullmatch(name):
        raise ClusterError(
            f"cluster name {name!r}: use at most 40 lower-case letters, digits and '-', no '-' at either end"
        )


def state_directory() -> Path:
    """The folder with one folder a cluster: below SSA_OPERATOR_STATE_DIR, else in the user's state folder."""
    configured = os.environ.get(STATE_DIRECTORY_VARIABLE)
    root = Path(configured) if configured else platformdirs.user_state_path("ssa-operator")
    return root.absolute() / "clusters"


async def start(spec: ClusterSpec, report: Report = silent) -> Cluster:
    """The running cluster of that name, started if need be.

    Raises ClusterError, ProcessError with the end of the log of the component that failed, or BinariesError.
    """
    async with _turn(spec.name, report):
        directory = state_directory() / spec.name
        found = await _inspect(spec.name)
        if found.state == "running" and found.cluster is not None:
            _check_same(spec, directory)
            return found.cluster
        if directory.exists():
            report(Progress(message=f"Removing what is left of cluster {spec.name}: {found.message}"))
            await _remove(directory)
        programs = await binaries.acquire(binaries.from_environment(), report)
        for _ in range(_PORT_ATTEMPTS):
            report(Progress(message=f"Starting cluster {spec.name}"))
            try:
                return await _start_new(spec, Layout(directory=directory), programs)
            except _PortTakenError as error:
                report(Progress(message=f"{error}; choosing other ports"))
        raise ClusterError(f"cluster {spec.name}: {_PORT_ATTEMPTS} times in a row a free port was taken before its use")


async def stop(name: str, report: Report = silent) -> bool:
    """Ends every process of the cluster and removes its files; False when there was nothing."""
    check_name(name)
    async with _turn(name, report):
        directory = state_directory() / name
        if not directory.exists():
            return False
        report(Progress(message=f"Stopping cluster {name}"))
        await _remove(directory)
        return True


async def status(name: str) -> Status:
    """What is known of the cluster of that name; changes nothing."""
    check_name(name)
    return await _inspect(name)


async def _inspect(name: str) -> Status:
    directory = state_directory() / name
    stopped = Status(name=name, state="stopped", message="its processes are gone", directory=directory)
    if not directory.exists():
        return replace(stopped, message="there is no such cluster")
    if not processes.is_alive(directory):
        return replace(stopped, message=processes.describe_failure(directory) or stopped.message)
    recorded = cluster_record.read(directory)
    if recorded is None:
        return replace(stopped, state="unhealthy", message="its start is under way or was interrupted")
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
    return replace(stopped, state="running", message="ready", cluster=cluster)


async def _start_new(spec: ClusterSpec, layout: Layout, programs: Path) -> Cluster:
    ports = _free_ports()
    url = f"https://127.0.0.1:{ports.apiserver}"
    layout.certificates.mkdir(parents=True)
    layout.directory.chmod(0o700)
    await asyncio.to_thread(credentials.write, spec.name, layout, url, dt.datetime.now(dt.UTC))
    options = components.Options(
        audit=spec.audit, admission_plugins=spec.admission_plugins, controllers=spec.controllers
    )
    commands = components.compose(programs, layout, ports, options)
    group = ProcessGroup(layout.directory)
    try:
        pids = await _bring_up(group, commands, url, spec.nodes)
        recorded = Record(
            specification=asdict(spec),
            url=url,
            pids=pids,
            commands={command.name: command.argv for command in (*commands.storage, *commands.clients)},
        )
        cluster_record.write(layout.directory, recorded)
        cluster = _from_record(layout.directory, recorded)
        if spec.detached:
            await group.detach()
            return cluster
    except BaseException as error:
        await group.end()
        if isinstance(error, ProcessError) and "address already in use" in str(error):
            await _remove(layout.directory)
            raise _PortTakenError(str(error).splitlines()[0]) from error
        raise
    return replace(cluster, group=group)


async def _bring_up(group: ProcessGroup, commands: Commands, url: str, nodes: int) -> dict[str, int]:
    """Starts the components and waits until they serve; returns their process ids."""
    pids = {command.name: await group.start(command) for command in commands.storage}
    async with api.connect(url, Layout(directory=group.directory)) as server:
        await _await_condition(server.is_ready, group, f"{url} to be ready")
        for command in commands.clients:
            pids[command.name] = await group.start(command)
        for path, body in objects.initial(nodes):
            name = f"{body['kind']} {body['metadata']['name']}"
            await _await_condition(partial(server.create, path, body), group, f"{name} to be accepted")
        await _await_condition(
            partial(_is_complete, server, nodes), group, f"the namespace default and {nodes} Ready nodes"
        )
    return pids


async def _is_complete(server: api.Api, nodes: int) -> bool:
    # The controller manager makes this service account after the API server has made the namespace: both are up.
    account = await server.get("/api/v1/namespaces/default/serviceaccounts/default")
    listed = await server.get("/api/v1/nodes")
    return account is not None and listed is not None and objects.count_ready(listed) >= nodes


async def _await_condition(condition: Callable[[], Awaitable[bool]], group: ProcessGroup, description: str) -> None:
    try:
        async with asyncio.timeout(_READY_SECONDS):
            while not await condition():
                group.check()
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        message = f"waited {_READY_SECONDS:.0f} s for {description}; see the logs in {group.directory}"
        raise ClusterError(message) from None


def _free_ports() -> Ports:
    """Ports that are free now; whoever takes one before its component does costs a new attempt."""
    with ExitStack() as sockets:
        numbers = []
        for _ in range(4):
            listener = sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            listener.bind(("127.0.0.1", 0))
            numbers.append(listener.getsockname()[1])
    return Ports(etcd=numbers[0], etcd_peer=numbers[1], apiserver=numbers[2], kwok=numbers[3])


async def _remove(directory: Path) -> None:
    await processes.kill(directory)
    await asyncio.to_thread(shutil.rmtree, directory)


def _turn(name: str, report: Report, root: Path | None = None) -> AbstractAsyncContextManager[None]:
    lock = (root or state_directory()) / f"{name}.lock"
    return turn(lock, f"starting or stopping the cluster {name}", report)


def _from_record(directory: Path, recorded: Record) -> Cluster:
    layout = Layout(directory=directory)
    return Cluster(
        name=directory.name,
        directory=directory,
        kubeconfig=layout.kubeconfig,
        url=recorded.url,
        audit_log=layout.audit_log if recorded.specification["audit"] else None,
        pids=recorded.pids,
    )


def _require_record(directory: Path) -> Record:
    recorded = cluster_record.read(directory)
    if recorded is None:
        raise ClusterError(f"{directory}: the cluster is gone")
    return recorded


def _check_same(spec: ClusterSpec, directory: Path) -> None:
    """Raises ClusterError unless the running cluster is what `spec` asks for; it may have more."""
    running_as = _require_record(directory).specification
    satisfied = {
        "audit": running_as["audit"] or not spec.audit,
        "admission_plugins": set(spec.admission_plugins) <= set(running_as["admission_plugins"]),
        "controllers": spec.controllers == running_as["controllers"],
        "nodes": spec.nodes == running_as["nodes"],
    }
    different = [name for name, same in satisfied.items() if not same]
    if different:
        raise ClusterError(
            f"the cluster {spec.name} runs already, with another value of {', '.join(different)}; "
            f"stop it first: ssa-operator cluster stop --name {spec.name}"
        )
