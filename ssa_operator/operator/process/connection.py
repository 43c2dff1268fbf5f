"""Connects a command to a cluster, and runs its work.

Promises:
- A command closes its connections, even after an error.
- An error of the API server or of the credentials is one line for the user.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from msgspec import Struct

from ssa_operator.kube.api.client import Client, DryRunClient
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.flow_control import WriteFence
from ssa_operator.kube.auth import credentials
from ssa_operator.operator.process.streams import CommandError

T = TypeVar("T")


class Target(Struct, frozen=True, kw_only=True):
    """A kubeconfig file and a context in it, None for the defaults."""

    kubeconfig: str | None = None
    context: str | None = None


@asynccontextmanager
async def connect(target: Target, fence: WriteFence | None = None) -> AsyncIterator[Client]:
    """A client of the cluster, whose writes pass a fence if one is given. Raises CommandError without usable
    credentials.
    """
    async with Client(await _credentials(target), fence=fence) as client:
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


def run(work: Coroutine[Any, Any, T], *, code: int | None = None) -> T:
    """The result of a command's work. Raises CommandError for errors of the API server and of credentials, and for
    those of the work: with `code` as the exit code if it is given, and otherwise with that of the error.
    """
    # The imported modules stay in memory, so the garbage collector need not search them.
    gc.freeze()
    try:
        return asyncio.run(work)
    except (*_ERRORS, BaseExceptionGroup) as error:
        first = _first(error)
        if not isinstance(first, _ERRORS):
            raise
        own = first.code if isinstance(first, CommandError) else 1
        raise CommandError(str(first), code=own if code is None else code) from error


_ERRORS = (ApiError, credentials.CredentialsError, CommandError)


def _first(error: BaseException) -> BaseException:
    """The first error of tasks that ran in parallel."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
