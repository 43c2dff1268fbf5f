"""A local cluster by name: started, found again, asked after, and stopped.

Promises:
- `start` returns a cluster whose API server is ready, whose namespace `default` exists and whose nodes are Ready; one that runs already is returned as
  it is, and what is left of a dead, half-dead or silent one is replaced.
- An attached cluster ends with the process that started it, a detached one with `stop`; until it is ready, both end with their starter.
- `stop` keeps nothing: no process and no file. Every cluster starts empty.
- Two processes that start or stop the same name take turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import fcntl
import json
import os
import re
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import platformdirs

from ssa_operator.devcluster import api, certificates, components, kubeconfig, objects, processes
from ssa_operator.devcluster.binaries import acquire
from ssa_operator.devcluster.components import Layout, Ports
from ssa_operator.devcluster.processes import ProcessError, ProcessGroup
from ssa_operator.devcluster.progress import Progress, Report, silent

STATE_DIRECTORY_VARIABLE = "SSA_OPERATOR_STATE_DIR"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_POLL_SECONDS = 0.02
_READY_SECONDS = 20.0
_HEALTH_SECONDS = 10.0
_PORT_ATTEMPTS = 5


class ClusterError(Exception):
    """A local cluster could not be started, stopped or found."""


class _PortTakenError(Exception):
    """A port was taken between the moment it was chosen and the moment a component listened on it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSpec:
    """What a cluster shall be.

    `admission_plugins` are switched on in addition to Kubernetes' defaults; `controllers` is kube-controller-manager's --controllers: without
    node-lifecycle, as nodes that nobody keeps alive while a laptop sleeps would lose their pods.
    """

    name: str = "default"
    audit: bool = False
    detached: bool = False
    admission_plugins: tuple[str, ...] = ()
    controllers: str = "*,-node-ipam-controller,-node-lifecycle-controller"
    nodes: int = 2

    def __post_init__(self) -> None:
        """Raises ClusterError if the name cannot be a folder's and a context's."""
        check_name(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A running cluster: where it is and how to speak to it. `pids` has each component's process id by name."""

    name: str
    directory: Path
    kubeconfig: Path
    url: str
    audit_log: Path | None
    pids: Mapping[str, int]
    _group: ProcessGroup | None = field(default=None, repr=False, compare=False)

    async def restart_storage(self) -> Cluster:
        """Kills etcd and kube-apiserver and starts them again on the same ports and data; returns the cluster with its new pids.

        Raises ClusterError for a cluster that another process started.
        """
        await self.stop_component("kube-apiserver")
        await self.stop_component("etcd")
        cluster = await self.start_component("etcd")
        cluster = await cluster.start_component("kube-apiserver")
        async with api.connect(cluster.url, Layout(directory=cluster.directory)) as server:
            await _await_condition(server.is_ready, cluster._owned(), f"{cluster.url} to be ready")
        return cluster

    async def stop_component(self, name: str) -> None:
        """Kills one component; the others stay. Raises ClusterError for a cluster that another process started."""
        await self._owned().stop(name)

    async def start_component(self, name: str) -> Cluster:
        """Starts a stopped component as it was; returns the cluster with its new pid. Does not wait until it is ready."""
        command = _read_commands(self.directory)[name]
        pid = await self._owned().start(command)
        return replace(self, pids={**self.pids, name: pid})

    def _owned(self) -> ProcessGroup:
        if self._group is None:
            raise ClusterError(f"cluster {self.name}: only the process that started it, and not detached, can do that")
        return self._group


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is known of a cluster: `state` is `running`, `unhealthy` (processes live, but it does not answer) or `stopped`, `message` the cause."""

    name: str
    state: str
    message: str
    directory: Path
    cluster: Cluster | None


def check_name(name: str) -> None:
    """Raises ClusterError if `name` cannot be the name of a cluster."""
    if not _NAME.fullmatch(name):
        raise ClusterError(f"cluster name {name!r}: use at most 40 lower-case letters, digits and '-', with a letter or digit at both ends")


def state_directory() -> Path:
    """The folder with one folder a cluster: SSA_OPERATOR_STATE_DIR, else the user's state folder."""
    configured = os.environ.get(STATE_DIRECTORY_VARIABLE)
    root = Path(configured) if configured else platformdirs.user_state_path("ssa-operator")
    return root.absolute() / "clusters"


async def start(spec: ClusterSpec, report: Report = silent) -> Cluster:
    """The running cluster of that name, started if need be.

    Raises ClusterError, ProcessError with the end of the log of the component that failed, or BinariesError when there is nothing to start.
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
        binaries = await acquire(report)
        for _ in range(_PORT_ATTEMPTS):
            try:
                return await _start_new(spec, directory, binaries, report)
            except _PortTakenError as error:
                report(Progress(message=f"{error}; choosing other ports"))
        raise ClusterError(f"cluster {spec.name}: {_PORT_ATTEMPTS} times in a row a chosen port was taken by another process; start it again")


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


async def stop_attached(cluster: Cluster) -> None:
    """Stops a cluster and, where this process started it, forgets its supervisor."""
    await stop(cluster.name)
    if cluster._group is not None:
        cluster._group.reap()


async def status(name: str) -> Status:
    """What is known of the cluster of that name, without changing anything."""
    check_name(name)
    return await _inspect(name)


async def _inspect(name: str) -> Status:
    directory = state_directory() / name

    def found(state: str, message: str, cluster: Cluster | None = None) -> Status:
        return Status(name=name, state=state, message=message, directory=directory, cluster=cluster)

    if not directory.exists():
        return found("stopped", "there is no such cluster")
    if not processes.is_alive(directory):
        return found("stopped", processes.describe_failure(directory) or "its processes are gone")
    try:
        cluster = _read_cluster(directory)
    except FileNotFoundError:
        return found("unhealthy", "its start was interrupted or is under way")
    async with api.connect(cluster.url, Layout(directory=directory)) as server:
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                while not await server.is_ready():
                    if not processes.is_alive(directory):
                        return found("stopped", processes.describe_failure(directory) or "its processes are gone")
                    await asyncio.sleep(_POLL_SECONDS * 5)
        except TimeoutError:
            return found("unhealthy", f"{cluster.url}/readyz is not ok for {_HEALTH_SECONDS:.0f} s", cluster)
    return found("running", "ready", cluster)


async def _start_new(spec: ClusterSpec, directory: Path, binaries: Path, report: Report) -> Cluster:
    report(Progress(message=f"Starting cluster {spec.name}"))
    layout = Layout(directory=directory)
    layout.certificates.mkdir(parents=True, mode=0o700)
    directory.chmod(0o700)
    ports = _free_ports()
    url = f"https://127.0.0.1:{ports.apiserver}"
    await asyncio.to_thread(_write_credentials, spec.name, layout, url)
    options = components.Options(audit=spec.audit, admission_plugins=spec.admission_plugins, controllers=spec.controllers)
    commands = components.compose(binaries, layout, ports, options)
    group = ProcessGroup(directory)
    try:
        cluster = Cluster(
            name=spec.name,
            directory=directory,
            kubeconfig=layout.kubeconfig,
            url=url,
            audit_log=layout.audit_log if spec.audit else None,
            pids=await _bring_up(group, commands, url, layout, spec.nodes),
        )
        _write_cluster(cluster, spec, commands)
        if spec.detached:
            await group.detach()
            return cluster
    except BaseException as error:
        group.reap()
        if isinstance(error, ProcessError) and "address already in use" in str(error):
            await _remove(directory)
            raise _PortTakenError(str(error).splitlines()[0]) from error
        raise
    return replace(cluster, _group=group)


async def _bring_up(
    group: ProcessGroup, commands: components.Commands, url: str, layout: Layout, nodes: int
) -> dict[str, int]:
    pids = {command.name: await group.start(command) for command in (commands.etcd, commands.apiserver)}
    async with api.connect(url, layout) as server:
        await _await_condition(server.is_ready, group, f"{url} to be ready")
        for command in (commands.controller_manager, commands.scheduler, commands.kwok):
            pids[command.name] = await group.start(command)
        for path, body in objects.initial(nodes):

            async def created(path: str = path, body: dict[str, Any] = body) -> bool:
                return await server.create(path, body)

            await _await_condition(created, group, f"{body['kind']} {body['metadata']['name']} to be accepted")

        async def complete() -> bool:
            # The service account is made by the controller manager, after the namespace: both are up.
            account = await server.get("/api/v1/namespaces/default/serviceaccounts/default")
            listed = await server.get("/api/v1/nodes")
            return account is not None and listed is not None and objects.count_ready(listed) >= nodes

        await _await_condition(complete, group, f"namespace default and {nodes} Ready nodes")
    return pids


async def _await_condition(condition: Callable[[], Awaitable[bool]], group: ProcessGroup, description: str) -> None:
    try:
        async with asyncio.timeout(_READY_SECONDS):
            while not await condition():
                group.check()
                await asyncio.sleep(_POLL_SECONDS)
    except TimeoutError:
        raise ClusterError(f"waited {_READY_SECONDS:.0f} s for {description}; see the logs in {group.directory}") from None


def _write_credentials(name: str, layout: Layout, url: str) -> None:
    authority = certificates.Authority(f"ssa-operator-{name}", datetime.datetime.now(datetime.UTC))
    kubernetes = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
    admin = authority.client(certificates.ADMIN)
    pairs = {
        "kube-apiserver": authority.server("kube-apiserver", ("localhost", *kubernetes), ("127.0.0.1", components.SERVICE_ADDRESS)),
        "etcd": authority.server("etcd", ("localhost",), ("127.0.0.1",)),
        "etcd-client": authority.client(certificates.ETCD_CLIENT),
        "service-account": certificates.service_account_key(),
        "admin": admin,
    }
    certificates.write_private(Path(layout.certificate("ca")), authority.certificate)
    for pair_name, pair in pairs.items():
        certificates.write_private(Path(layout.certificate(pair_name)), pair.certificate)
        certificates.write_private(Path(layout.key(pair_name)), pair.key)
    users = {
        "kube-controller-manager": certificates.CONTROLLER_MANAGER,
        "kube-scheduler": certificates.SCHEDULER,
        "kwok": certificates.KWOK,
    }
    for component, user in users.items():
        content = kubeconfig.encode(component, url, authority.certificate, authority.client(user))
        certificates.write_private(layout.component_kubeconfig(component), content)
    certificates.write_private(layout.kubeconfig, kubeconfig.encode(f"ssa-operator-{name}", url, authority.certificate, admin))


def _free_ports() -> Ports:
    """Ports that are free now; whoever takes one before its component does costs a new attempt."""
    with contextlib.ExitStack() as sockets:
        numbers = []
        for _ in range(4):
            listener = sockets.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            listener.bind(("127.0.0.1", 0))
            numbers.append(listener.getsockname()[1])
    return Ports(etcd=numbers[0], etcd_peer=numbers[1], apiserver=numbers[2], kwok=numbers[3])


async def _remove(directory: Path) -> None:
    await processes.kill(directory)
    await asyncio.to_thread(shutil.rmtree, directory)


@contextlib.asynccontextmanager
async def _turn(name: str, report: Report) -> AsyncIterator[None]:
    """Only one process at a time starts or stops the cluster of that name."""
    directory = state_directory()
    directory.mkdir(parents=True, exist_ok=True)
    lock = os.open(directory / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        told = False
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    report(Progress(message=f"Waiting for another process that is starting or stopping cluster {name}"))
                    told = True
                await asyncio.sleep(_POLL_SECONDS * 5)
        yield
    finally:
        os.close(lock)


def _write_cluster(cluster: Cluster, spec: ClusterSpec, commands: components.Commands) -> None:
    content = {
        "spec": asdict(spec),
        "url": cluster.url,
        "pids": dict(cluster.pids),
        "commands": {
            command.name: command.argv
            for command in (commands.etcd, commands.apiserver, commands.controller_manager, commands.scheduler, commands.kwok)
        },
    }
    temporary = cluster.directory / "cluster.json.new"
    temporary.write_text(json.dumps(content, indent=2), encoding="utf-8")
    temporary.rename(cluster.directory / "cluster.json")


def _read_cluster(directory: Path) -> Cluster:
    content = json.loads((directory / "cluster.json").read_text(encoding="utf-8"))
    layout = Layout(directory=directory)
    return Cluster(
        name=directory.name,
        directory=directory,
        kubeconfig=layout.kubeconfig,
        url=content["url"],
        audit_log=layout.audit_log if content["spec"]["audit"] else None,
        pids=content["pids"],
    )


def _read_commands(directory: Path) -> dict[str, processes.Command]:
    content = json.loads((directory / "cluster.json").read_text(encoding="utf-8"))
    layout = Layout(directory=directory)
    return {
        name: processes.Command(name=name, argv=tuple(argv), log=layout.log(name)) for name, argv in content["commands"].items()
    }


def _check_same(spec: ClusterSpec, directory: Path) -> None:
    running = json.loads((directory / "cluster.json").read_text(encoding="utf-8"))["spec"]
    wanted = json.loads(json.dumps(asdict(spec)))
    different = sorted(key for key in wanted if key != "detached" and wanted[key] != running.get(key))
    if different:
        raise ClusterError(
            f"cluster {spec.name} runs already, with another {', '.join(different)}; stop it first (ssa-operator cluster stop --name {spec.name})"
        )
