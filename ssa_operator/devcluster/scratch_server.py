"""An API server for one command: etcd and kube-apiserver in a temporary folder.

Promises:
- `begin` returns before the server serves, so that the command works meanwhile.
- The processes end and the folder goes with `stop`, and with the process of the command, kill -9 included.
- Nothing is downloaded or built, and no other command finds the server.
- It needs no objects that only the controllers create: the ServiceAccount of a Pod, for example.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ssa_operator.devcluster import cluster_files, components
from ssa_operator.devcluster.cluster import await_api_server, free_ports
from ssa_operator.devcluster.components import ComponentOptions, Layout
from ssa_operator.devcluster.processes import ProcessError, ProcessGroup

NAMESPACE = "kube-public"
"""A namespace that each API server creates, and in which no user has objects."""

_NAME = "check"
_OPTIONS = ComponentOptions(
    audit=False,
    admission_plugins=(),
    feature_gates=(),
    stable_only=False,
    controllers="",
    disabled_plugins=("ServiceAccount", "RuntimeClass"),
)
_ATTEMPTS = 3
"""Another process may take a port before the server listens on it."""


@dataclass(slots=True)
class ScratchServer:
    """The processes of a server, which may be starting."""

    programs: Path
    layout: Layout
    url: str
    group: ProcessGroup

    async def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, as soon as the server serves. Raises ProcessError or ClusterError."""
        for attempt in range(_ATTEMPTS):
            try:
                await await_api_server(self.layout, self.url, self.group, f"/api/v1/namespaces/{NAMESPACE}")
            except ProcessError as error:
                if "address already in use" not in str(error) or attempt == _ATTEMPTS - 1:
                    raise
                await self.stop()
                other = await begin(self.programs)
                self.layout, self.url, self.group = other.layout, other.url, other.group
            else:
                break
        return self.layout.kubeconfig

    async def stop(self) -> None:
        """Ends the processes and removes the folder."""
        await self.group.end()
        await asyncio.to_thread(shutil.rmtree, self.layout.directory, ignore_errors=True)


async def begin(programs: Path) -> ScratchServer:
    """Starts a server without waiting for it. The folder `programs` has etcd and kube-apiserver.

    Raises ProcessError.
    """
    layout = Layout(directory=Path(tempfile.mkdtemp(prefix="ssa-operator-check-")))
    group = ProcessGroup(layout.directory)
    try:
        await group.remove_directory()
        ports = free_ports()
        url = f"https://127.0.0.1:{ports.apiserver}"
        layout.certificates.mkdir()
        await asyncio.to_thread(cluster_files.write_credentials, _NAME, layout, url, dt.datetime.now(dt.UTC))
        for command in components.storage(programs, layout, ports, _OPTIONS):
            await group.start(command)
    except BaseException:
        await group.end()
        shutil.rmtree(layout.directory, ignore_errors=True)
        raise
    return ScratchServer(programs, layout, url, group)
