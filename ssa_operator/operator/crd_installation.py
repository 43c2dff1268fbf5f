"""Installing CRDs: the operator applies them and waits until the API server serves them.

Promises:
- An error names the CRD's file and line, or has the API server's message.
- Each CRD is applied separately: if the API server refuses one, the others are still applied.
- The operator waits until every applied CRD is Established, with a deadline.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ssa_operator.informers.crds import RESOURCE
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, NotLeader, Unreachable
from ssa_operator.objects.json_encoding import encode
from ssa_operator.objects.readiness.rules import Readiness, ReadinessState, readiness
from ssa_operator.objects.render_result import Document
from ssa_operator.rendering.folder.crd_files import DefinitionError, load, read
from ssa_operator.schema.crd_schema import unreported

__all__ = ["DefinitionError", "established", "install", "load", "read", "refusals", "remarks"]

POLL_INTERVAL = 0.1
"""Seconds between two reads of a CRD that isn't Established yet. That takes a few tenths of a second."""


def remarks(documents: Iterable[Document]) -> list[str]:
    """Sentences on what the operator can't report in the status of objects, because their CRD doesn't declare it."""
    sentences = (
        (document, unreported(document.body, version["name"]))
        for document in documents
        for version in document.body["spec"].get("versions", ())
        if version.get("served")
    )
    return [f"{document.location}: {sentence}" for document, sentence in sentences if sentence]


async def install(client: Client, documents: Sequence[Document], deadline: float = 30.0) -> None:
    """Apply CRDs and wait until all are served. `deadline` in seconds. Raises DefinitionError with every refusal."""
    refused = await refusals(client, documents, deadline)
    if refused:
        raise DefinitionError("\n".join(refused.values()))


async def refusals(client: Client, documents: Sequence[Document], deadline: float = 30.0) -> dict[str, str]:
    """Apply each CRD separately, and wait until the accepted ones are served. Returns why the others were refused, by
    name. Raises Unreachable.
    """
    refused: dict[str, str] = {}
    for document in documents:
        name = document.body["metadata"]["name"]
        try:
            await client.apply(RESOURCE, "", name, encode(document.body))
        except (Unreachable, NotLeader):
            raise
        except ApiError as error:
            refused[name] = f"{document.location}: {error}"

    async def wait(document: Document) -> None:
        name = document.body["metadata"]["name"]
        try:
            await established(client, [name], deadline)
        except DefinitionError as error:
            refused[name] = f"{document.location}: {error}"

    await asyncio.gather(*(wait(each) for each in documents if each.body["metadata"]["name"] not in refused))
    return refused


async def established(client: Client, names: Collection[str], deadline: float = 30.0) -> None:
    """Wait until all of these CRDs are served. Raises DefinitionError if one isn't after `deadline` seconds, or never
    will be.
    """
    for name in names:
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name):
            raise DefinitionError(f"{name!r} can't be the name of a CRD; write <plural>.<group>")
    waiting = dict.fromkeys(names, "does not exist")
    try:
        async with asyncio.timeout(deadline):
            while waiting:
                for name in list(waiting):
                    state = await _readiness(client, name)
                    waiting[name] = state.message
                    if state.state is ReadinessState.FAILED:
                        raise DefinitionError(f"CRD {name}: {state.message}")
                    if state.state is ReadinessState.CURRENT:
                        del waiting[name]
                if waiting:
                    await asyncio.sleep(POLL_INTERVAL)
    except TimeoutError:
        reasons = "; ".join(f"CRD {name} {reason}" for name, reason in waiting.items())
        raise DefinitionError(f"not established after {deadline:g} s: {reasons}") from None


async def _readiness(client: Client, name: str) -> Readiness:
    try:
        live = await client.get(RESOURCE, name)
    except ApiError as error:
        if error.not_found:
            return Readiness(ReadinessState.NOT_FOUND, "does not exist")
        raise DefinitionError(f"CRD {name}: {error}") from error
    body: dict[str, Any] = live.body
    return readiness(body, 0)
