"""Runs an operator until a signal stops it.

Promises:
- SIGINT and SIGTERM stop the operator in order. A second signal ends the process at once.
- While something holds the event loop, the stacks of all threads are written to standard error after HANG seconds, even
  if it is code in C.
- The operator raises its limit of open files to the hard limit, up to MAX_OPEN_FILES.
- A TLS connection has a buffer of TLS_BUFFER bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import io
import logging
import os
import resource
import signal
import sys
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.flow_control import WriteFence
from ssa_operator.kube.api.leases import LeaseAccess
from ssa_operator.kube.api.transport import Transport
from ssa_operator.operator.leadership.requests import Leadership, LeadershipLost
from ssa_operator.operator.leadership.rules import LeaseTiming
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.process.connection import Target, connect
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.operator.suspected_parents import ParentFile

if TYPE_CHECKING:
    from ssa_operator.operator.crd_installation import CRDInstaller
    from ssa_operator.operator.http import Pages, Server


log = logging.getLogger("ssa_operator")

MAX_OPEN_FILES = 65536
"""A higher limit would only slow down programs that close all possible files, such as exec plugins."""

TLS_BUFFER = 64 * 1024
"""asyncio's own 256 KiB, filled with zeros for each connection, would be a tenth of the memory of a small operator. A
record of TLS has at most 16 KiB.
"""

HANG = 10.0
"""Seconds after which the stacks are written: before the probes give up."""


MakePages = Callable[[Operator], "Pages"]
"""Makes the pages that the operator's HTTP server shows beside its own routes."""


async def run_operator(
    options: Options, target: Target, crds: Sequence[Path] | None, pages: MakePages | None = None
) -> None:
    """Run an operator until SIGINT or SIGTERM. It installs the CRDs of these folders and of its templates, unless
    `crds` is None. With leader election, it writes only while it holds the Lease.
    """
    raise_open_files()
    limit_tls_buffers()
    timing = options.leader_election
    fence = None if timing is None else WriteFence()
    async with connect(target, fence) as client, Transport(client.credentials) as transport:
        await _check_impersonation(client, options)
        installer = None if crds is None else _installer(client, crds, options.templates)

        async def prepare() -> None:
            if installer is not None:
                await _installed(installer)

        leadership = None
        if timing is not None and fence is not None:
            # A replica that leads installs the CRDs.
            leadership = Leadership(_lease(transport, client, options, timing), fence, timing)
        else:
            await prepare()
        operator = Operator(
            client,
            RESTMapper(client),
            options,
            leadership=leadership,
            prepare=prepare if leadership is not None else None,
            parent_file=ParentFile.open(),
            crds=installer,
        )
        await serve(operator, stop_on_signal(), pages)


async def _check_impersonation(client: Client, options: Options) -> None:
    """Raise CommandError if the kubeconfig impersonates a user, too: a request can impersonate one user only, and the
    permissions of the kubeconfig's would not count.
    """
    if options.impersonate and "Impersonate-User" in await client.credentials.headers():
        raise CommandError("--impersonate can't be used with a kubeconfig whose user has `as`; remove one of them")


def _lease(transport: Transport, client: Client, options: Options, timing: LeaseTiming) -> LeaseAccess:
    """The Lease of the leader of all replicas, or of those of a shard."""
    from ssa_operator.operator.permissions.operator_needs import LEASE
    from ssa_operator.operator.shards.requests import shard_lease_labels
    from ssa_operator.operator.shards.rules import lease_name

    namespace = options.installation.namespace or client.credentials.namespace
    name = LEASE if options.shard is None else lease_name(options.shard.index)
    labels = {} if options.shard is None else shard_lease_labels(options.shard)
    return LeaseAccess(transport, namespace, name, timeout=timing.request_timeout, labels=labels)


async def serve(operator: Operator, stop: asyncio.Event, pages: MakePages | None = None) -> None:
    """Run an operator and its servers until `stop` is set. Raises CommandError if a server can't listen."""
    # The imported modules stay in memory, so the garbage collector need not search them. `run` disabled it for their
    # imports.
    gc.freeze()
    gc.enable()
    try:
        async with asyncio.TaskGroup() as group:
            servers = [
                group.create_task(_serve_http(operator, pages), name="http"),
                group.create_task(_serve_admission(operator), name="admission"),
                group.create_task(_serve_conversions(operator), name="conversion"),
                group.create_task(dump_hangs(), name="dump hangs"),
            ]
            await operator.run(stop)
            for server in servers:
                server.cancel()
    except* CommandError as errors:
        raise errors.exceptions[0] from None
    except* LeadershipLost as errors:
        raise CommandError(f"{errors.exceptions[0]}; the operator exits, and starts again as a standby") from None


async def _serve_http(operator: Operator, make_pages: MakePages | None) -> None:
    """Run the operator's HTTP server, unless `--listen` is empty."""
    if operator.options.listen is None:
        return
    host, port = operator.options.listen
    await operator.started.wait()
    # Importing the server takes as long as a first reconcile.
    from ssa_operator.operator import http
    from ssa_operator.operator.serving_certificate import CertificateError

    pages = None if make_pages is None else make_pages(operator)
    async with AsyncExitStack() as stack:
        try:
            with _listening((host, port), "--listen"):
                server: Server = await stack.enter_async_context(http.Server(operator, host, port, pages))
        except CertificateError as error:
            raise CommandError(f"--tls-cert-file, --tls-key-file: {error}") from error
        scheme = "http" if operator.options.certificate is None else "https"
        log.info("listening on %s://%s:%d", scheme, host or "*", server.port)
        if operator.options.exposes_http and operator.options.certificate is None:
            log.warning(
                "other hosts send their tokens to %s:%d without encryption; set --tls-cert-file and --tls-key-file",
                host or "*",
                server.port,
            )
        if pages is not None:
            log.info("the web view is at %s://%s:%d/ui/", scheme, host or "localhost", server.port)
        await asyncio.Event().wait()


async def _serve_admission(operator: Operator) -> None:
    """Run the operator's validating webhook, if `--admission` asks for it."""
    if (address := operator.options.admission) is not None:
        await operator.started.wait()
        from ssa_operator.operator.admission.webhook import Webhook

        with _listening(address, "--admission"):
            await Webhook(operator, *address).run()


async def _until_a_folder_converts(operator: Operator) -> None:
    controllers, changed = operator.controllers, asyncio.Event()
    controllers.refresh_listeners.append(changed.set)
    while not any(each.templates and each.templates.conversions for each in controllers.templates.folders.values()):
        changed.clear()
        await changed.wait()
    controllers.refresh_listeners.remove(changed.set)


async def _serve_conversions(operator: Operator) -> None:
    """Run the operator's conversion webhook, if `--conversion` asks for it. It does not wait for the start: the
    operator's own watches may need it. On any free port (0), it waits for a folder that converts.
    """
    if (address := operator.options.conversion) is not None:
        if address[1] == 0:
            await _until_a_folder_converts(operator)
        from ssa_operator.operator.webhooks.conversion_webhook import ConversionWebhook

        with _listening(address, "--conversion"):
            await ConversionWebhook(operator, *address).run()


@contextlib.contextmanager
def _listening(address: tuple[str | None, int], option: str) -> Iterator[None]:
    """Raise the error of an address that can't be listened on as CommandError."""
    try:
        yield
    except OSError as error:
        host, port = address
        raise CommandError(
            f"can't listen on {host or '*'}:{port}: {error.strerror}; choose another with {option}"
        ) from error


async def install(
    client: Client, folders: Sequence[Path], templates: Sequence[Path] = (), *, keep_data: bool = True
) -> CRDInstaller:
    """Apply the CRDs of folders, and of the `_schema.yaml` in folders of templates, and wait until the API server
    serves those that it accepts. `keep_data` is whether stored objects must stay as they are. Raises CommandError.
    """
    installer = _installer(client, folders, templates, keep_data=keep_data)
    await _installed(installer)
    return installer


def _installer(
    client: Client, folders: Sequence[Path], templates: Sequence[Path], *, keep_data: bool = True
) -> CRDInstaller:
    from ssa_operator.operator.crd_installation import CRDInstaller

    return CRDInstaller(client, folders, templates, keep_data=keep_data)


async def _installed(installer: CRDInstaller) -> None:
    from ssa_operator.operator.crd_files import DefinitionError

    try:
        await installer.install()
    except (DefinitionError, ApiError) as error:
        raise CommandError(str(error)) from error


async def dump_hangs() -> None:
    """Have the stacks written while the event loop is held, until cancelled."""
    # A thread in C, which needs no lock of Python. Standard error may be no file.
    with contextlib.suppress(io.UnsupportedOperation, ValueError):
        try:
            while True:
                faulthandler.dump_traceback_later(HANG, file=sys.__stderr__ or sys.stderr)
                await asyncio.sleep(HANG / 2)
        finally:
            faulthandler.cancel_dump_traceback_later()


def raise_open_files() -> None:
    """Raise the soft limit of open files to the hard one: each watch, request and reader of the HTTP server has one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def limit_tls_buffers() -> None:
    """Have asyncio give a smaller buffer to each TLS connection that is opened from now on."""
    SSLProtocol.max_size = TLS_BUFFER


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
