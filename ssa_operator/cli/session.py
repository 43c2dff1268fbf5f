"""A command's way into a cluster: the client it talks through, and the operator that runs until it is told to stop.

Promises:
- Whatever ends a command, its connections are closed; SIGINT and SIGTERM end an operator in order, a second one at
  once.
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
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth import credentials

if TYPE_CHECKING:
    from ssa_operator.controller.http import Server

log = logging.getLogger("ssa_operator")

YOUNG = 10_000
"""Objects after which Python looks for cycles among the new ones. Nearly all that a pass makes goes by reference counts
alone: with 700, as Python has it, up to a tenth of a cold start's CPU goes into looking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Which cluster: a kubeconfig file and a context in it, None for the defaults."""

    kubeconfig: str | None = None
    context: str | None = None


@asynccontextmanager
async def connected(target: Target) -> AsyncIterator[Client]:
    """A client of the cluster.

    Raises CommandError where there are no credentials.
    """
    try:
        found = await credentials.load(target.kubeconfig, target.context)
    except credentials.CredentialsError as error:
        raise CommandError(str(error)) from error
    async with Client(found) as client:
        yield client


async def operate(options: Options, target: Target, crds: Sequence[Path]) -> None:
    """Run an operator until SIGINT or SIGTERM; the CRDs in these folders are installed first."""
    async with connected(target) as client:
        if crds:
            await install(client, crds)
        operator = Operator(client, RESTMapper(client), options)
        await serve(operator, stop_on_signal())


async def serve(operator: Operator, stop: asyncio.Event) -> None:
    """Run an operator and its HTTP server until `stop` is set. Raises CommandError where it can't listen."""
    # What is imported stays: it need not be looked through again.
    gc.freeze()
    gc.set_threshold(YOUNG)
    try:
        async with asyncio.TaskGroup() as group:
            answering = group.create_task(_answer(operator), name="answer")
            await operator.run(stop)
            answering.cancel()
    except* CommandError as errors:
        raise errors.exceptions[0] from None


async def _answer(operator: Operator) -> None:
    """Be the operator's HTTP server, if it is to have one."""
    if operator.options.listen is None:
        return
    host, port = operator.options.listen
    # Importing a server takes as long as a first pass, which need not wait for it.
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
    """Apply the CRDs of folders and wait until they are served. Raises CommandError."""
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

    def tell() -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, tell)
    return stop
