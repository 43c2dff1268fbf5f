"""Connects a command to a cluster, and runs an operator until a signal stops it.

Promises:
- A command closes its connections, also after an error.
- SIGINT and SIGTERM stop the operator in order. A second signal ends the process at once.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ssa_operator.cli.command_error import CommandError
from ssa_operator.controller import crd_installation
from ssa_operator.controller.operator import Operator
from ssa_operator.controller.options import Options
from ssa_operator.kube.api.client import Client, DryRunClient
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth import credentials

if TYPE_CHECKING:
    from ssa_operator.controller.http import Server

log = logging.getLogger("ssa_operator")

GC_THRESHOLD = 10_000
"""New objects after which Python's garbage collector searches for cycles. Reference counts free nearly all objects of a
reconcile. With Python's default of 700, the search takes up to a tenth of a cold start's CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A kubeconfig file and a context in it, None for the defaults."""

    kubeconfig: str | None = None
    context: str | None = None


@asynccontextmanager
async def connect(target: Target) -> AsyncIterator[Client]:
    """A client of the cluster. Raises CommandError without usable credentials."""
    async with Client(await _credentials(target)) as client:
        yield client


@asynccontextmanager
async def connect_for_preview(target: Target) -> AsyncIterator[DryRunClient]:
    """A client that reads, and whose writes are dry runs. Raises CommandError without usable credentials."""
    async with DryRunClient(await _credentials(target)) as client:
        yield client


async def _credentials(target: Target) -> credentials.Credentials:
    try:
        return await credentials.load(target.kubeconfig, target.context)
    except credentials.CredentialsError as error:
        raise CommandError(str(error)) from error


async def run_operator(options: Options, target: Target, crds: Sequence[Path]) -> None:
    """Install the CRDs of these folders, and run an operator until SIGINT or SIGTERM."""
    async with connect(target) as client:
        if crds:
            await install(client, crds)
        operator = Operator(client, RESTMapper(client), options)
        await serve(operator, stop_on_signal())


async def serve(operator: Operator, stop: asyncio.Event) -> None:
    """Run an operator and its HTTP server until `stop` is set. Raises CommandError if the server can't listen."""
    relax_gc()
    try:
        async with asyncio.TaskGroup() as group:
            server = group.create_task(_serve_http(operator), name="http")
            await operator.run(stop)
            server.cancel()
    except* CommandError as errors:
        raise errors.exceptions[0] from None


def relax_gc() -> None:
    """Have Python's garbage collector search less often."""
    # It need not search the imported modules, because they stay.
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)


async def _serve_http(operator: Operator) -> None:
    """Run the operator's HTTP server, unless `--listen` is empty."""
    if operator.options.listen is None:
        return
    host, port = operator.options.listen
    # Importing the server takes as long as a first reconcile, so a thread imports it in parallel.
    http = await asyncio.to_thread(importlib.import_module, "ssa_operator.controller.http")
    async with AsyncExitStack() as stack:
        try:
            server: Server = await stack.enter_async_context(http.Server(operator, host, port))
        except OSError as error:
            raise CommandError(
                f"can't listen on {host or '*'}:{port}: {error.strerror}; choose another with --listen"
            ) from error
        log.info("listening on http://%s:%d", host or "*", server.port)
        await asyncio.Event().wait()


async def install(client: Client, folders: Sequence[Path]) -> None:
    """Apply the CRDs of folders and wait until the API server serves them. Raises CommandError."""
    try:
        documents = crd_installation.load(*folders)
        await crd_installation.install(client, documents)
    except (crd_installation.DefinitionError, ApiError) as error:
        raise CommandError(str(error)) from error
    for remark in crd_installation.remarks(documents):
        log.warning("%s", remark)


def stop_on_signal() -> asyncio.Event:
    """An event that SIGINT and SIGTERM set; the second signal ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    return stop
