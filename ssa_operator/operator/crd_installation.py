"""Installs the CRDs of an operator's folders, waits until they are served, and retries refused ones.

Promises:
- An error names the CRD's file and line, or has the API server's message.
- Each CRD is applied separately: if the API server refuses one, the others are still applied.
- The operator waits until every applied CRD is Established, with a deadline.
- A CRD by which stored objects would be refused or lose fields is not applied, unless the caller allows it.
- A CRD that can't be read, or that the API server refuses, stops no other CRD and no other folder. Its own folder runs
  with the CRD that the cluster has, or waits for one.
- The log, `/readyz`, a metric and the status of the folder's parents name each refusal.
- A refused CRD is applied again with growing pauses, from the current file, and at once when it changes in the cluster.
  The stored objects for which it is refused are read again, and all others only when one of these changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import random
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ssa_operator.informers.crds import RESOURCE
from ssa_operator.kube.api.backoff import BACKOFF_BASE, backoff
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, NotLeader, Unreachable
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.field_refusal import location_in
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import bounded
from ssa_operator.objects.readiness import Readiness, ReadinessState, readiness
from ssa_operator.objects.render_result import Document
from ssa_operator.operator.crd_files import (
    CONVERSION,
    DefinitionError,
    load_crds,
    read_crds,
    read_version,
    schema_files,
)
from ssa_operator.schema.crd_schema import needed_conversions, stored_version, unreported

if TYPE_CHECKING:
    from ssa_operator.operator.stored_objects import DataLoss

__all__ = ["DefinitionError", "established", "install", "load_crds", "read_crds", "refusals", "remarks"]

POLL_INTERVAL = 0.1
"""Seconds between two reads of a CRD that isn't Established yet. That takes a few tenths of a second."""


def remarks(documents: Iterable[Document], templates: Sequence[Path]) -> list[str]:
    """Sentences on what the operator can't report in the status of objects, because their CRD doesn't declare it: one
    for each CRD of a template folder, about the version that the operator reads.
    """
    folders = {folder.name: folder for root in templates if root.is_dir() for folder in root.iterdir()}
    sentences = (
        (document, unreported(document.body, read_version(document.body, folder)))
        for document in documents
        if (folder := folders.get(document.identity.name)) is not None
    )
    return [f"{document.location}: {sentence}" for document, sentence in sentences if sentence]


async def install(client: Client, documents: Sequence[Document], deadline: float = 30.0) -> None:
    """Apply CRDs and wait until all are served. `deadline` in seconds. Raises DefinitionError with every refusal."""
    refused = await refusals(client, documents, deadline)
    if refused:
        raise DefinitionError("\n".join(refused.values()))


async def refusals(
    client: Client,
    documents: Sequence[Document],
    deadline: float = 30.0,
    *,
    keep_data: bool = False,
    templates: Sequence[Path] = (),
    losses: dict[str, DataLoss] | None = None,
) -> dict[str, str]:
    """Apply each CRD separately, and wait until the accepted ones are served. Returns why the others were refused, by
    name. With `keep_data`, one by which stored objects would be refused or lose fields is not applied; `losses` has
    these until the next call. Raises Unreachable.
    """
    refused: dict[str, str] = {}
    for document in documents:
        name = document.identity.name
        try:
            live = await client.find(RESOURCE, name) if keep_data or _converts(document.body) else None
            known = {} if losses is None else losses
            if keep_data and (loss := await _data_loss(client, live, document, templates, known)):
                refused[name] = f"{document.location}: {loss.message}"
                continue
            body = document.body if live is None else _with_live_conversion(document.body, live.body)
            await client.apply(RESOURCE, "", name, encode(body))
        except (Unreachable, NotLeader):
            raise
        except ApiError as error:
            refused[name] = f"{location_in(document, error.fields, document.body) or document.location}: {error}"

    async def wait(document: Document) -> None:
        name = document.identity.name
        try:
            await established(client, [name], deadline)
        except DefinitionError as error:
            refused[name] = f"{document.location}: {error}"

    await asyncio.gather(*(wait(each) for each in documents if each.identity.name not in refused))
    return refused


async def _data_loss(
    client: Client, live: LiveObject | None, document: Document, templates: Sequence[Path], known: dict[str, DataLoss]
) -> DataLoss | None:
    name = document.identity.name
    before = known.pop(name, None)
    if live is None:
        return None
    # The rules of schemas take time to load, and most operators find the CRDs as they are.
    from ssa_operator.operator.conversion.folder_converters import converter_of  # noqa: PLC0415
    from ssa_operator.operator.stored_objects import data_loss  # noqa: PLC0415

    # All stored objects are read again only if one of those changed that the last refusal names.
    holds = before is not None and await before.holds(client, live, document.body)
    found = before if holds else await data_loss(client, live, document.body, converter_of(templates))
    if found is not None:
        known[name] = found
    return found


def conversion_remark(document: Document, live: Mapping[str, Any]) -> str | None:
    """A sentence on what the API server refuses while no operator converts the objects of a CRD; None if nothing."""
    if not _converts(document.body):
        return None
    stored = stored_version(document.body)
    others = sorted({each for way in needed_conversions(document.body) for each in way} - {stored})
    former = [each for each in (live.get("status") or {}).get("storedVersions") or () if each in others]
    sentence = (
        f"{document.location}: while no operator with --conversion answers, the API server refuses "
        f"{document.body['metadata']['name']} in {' and '.join(others)}"
    )
    if former:
        sentence += (
            f", and in {stored} the objects that are stored in {' and '.join(former)}, so that nothing deletes their "
            "namespaces either; then run `ssa-operator crds migrate`"
        )
    return sentence


def _converts(crd: Mapping[str, Any]) -> bool:
    """Whether the templates of the CRD's folder convert its objects."""
    return bool(crd.get("spec", {}).get("conversion") == CONVERSION)


def _with_live_conversion(new: Mapping[str, Any], live: Mapping[str, Any]) -> Mapping[str, Any]:
    """The CRD with the address where an operator serves its conversions, if one has written it already."""
    conversion = live["spec"].get("conversion") or {}
    if not _converts(new) or conversion.get("strategy") != "Webhook":
        return new
    return {**new, "spec": {**new["spec"], "conversion": conversion}}


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


log = logging.getLogger("ssa_operator")

REASON_LIMIT = 1000
"""Characters of a refusal."""


class CRDInstaller:
    """Applies the CRDs of folders, and of the `_schema.yaml` in folders of templates. `refused` has the reasons of
    those that are not applied, by name. `keep_data` is whether stored objects must stay as they are. A folder that
    doesn't exist may come later.
    """

    def __init__(
        self, client: Client, folders: Sequence[Path], templates: Sequence[Path] = (), *, keep_data: bool = True
    ) -> None:
        self.refused: Mapping[str, str] = {}
        self.on_change: Callable[[Mapping[str, str]], None] = lambda _refused: None
        """Called with the reasons whenever they change."""
        self.applied: Mapping[str, str] = {}
        """Those that are applied: the digest of each by name."""
        self.refused_kinds: frozenset[GroupKind] = frozenset()
        """The kinds of the refused CRDs that can be read."""
        self._installing = asyncio.Lock()
        self._client = client
        self._keep_data = keep_data
        self._folders = tuple(folders)
        self._templates = tuple(templates)
        self._changed = asyncio.Event()
        self._losses: dict[str, DataLoss] = {}
        """The last refusals because of stored objects."""
        self._later = frozenset(folder for folder in folders if not folder.exists())
        """Folders that need not exist: they may come later."""

    async def install(self, *, changed: bool = False) -> None:
        """Apply each CRD that is not applied yet, with `changed` also those that changed since. Raises DefinitionError
        for a missing folder, and ApiError if the API server can't be reached.
        """
        async with self._installing:
            await self._install(changed=changed)

    async def _install(self, *, changed: bool) -> None:
        folders = [folder for folder in self._folders if folder not in self._later or folder.exists()]
        documents, refused = read_crds(*folders, *schema_files(self._templates))
        digests = {each.identity.name: _digest(each) for each in documents}
        pending = [
            each
            for each in documents
            if (name := each.identity.name) not in refused
            and self.applied.get(name) != digests[name]
            # One that was refused may have been applied as it was before.
            and (changed or name not in self.applied or name in self.refused)
        ]
        refused |= await refusals(
            self._client, pending, keep_data=self._keep_data, templates=self._templates, losses=self._losses
        )
        applied = [each for each in pending if each.identity.name not in refused]
        for remark in remarks(applied, self._templates):
            log.warning("%s", remark)
        for each in applied if changed else ():
            log.info("the CRD %s is applied as it is in its file now", each.identity.name)
        self.applied = {**self.applied, **{each.identity.name: digests[each.identity.name] for each in applied}}
        self.refused_kinds = frozenset(_kind(each) for each in documents if each.identity.name in refused)
        self._take({name: " ".join(bounded(reason, REASON_LIMIT).split()) for name, reason in refused.items()})

    def _take(self, refused: Mapping[str, str]) -> None:
        if refused == self.refused:
            return
        for name, reason in refused.items():
            if self.refused.get(name) != reason:
                log.error("the CRD %s is not applied, and is tried again: %s", name, reason)
        for name in self.refused.keys() - refused.keys():
            log.info("the CRD %s is %s", name, "applied" if name in self.applied else "no longer in a file")
        self.refused = refused
        self.on_change(refused)

    def crd_changed(self, name: str) -> None:
        """A CRD changed in the cluster."""
        if name in self.refused:
            self._changed.set()

    async def follow(self) -> None:
        """Apply refused CRDs again, until cancelled."""
        failures = 0
        while True:
            failures = failures + 1 if self.refused else 0
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(backoff(failures, random.random()) if failures else None):  # noqa: S311
                    await self._changed.wait()
                    failures = 0
            if failures == 0:
                await asyncio.sleep(BACKOFF_BASE)  # other changes may follow
            try:
                await self.install()
            except (ApiError, CredentialsError, DefinitionError) as error:
                log.warning("the refused CRDs can't be applied: %s", error)


def _kind(document: Document) -> GroupKind:
    spec = document.body.get("spec") or {}
    return GroupKind(str(spec.get("group", "")), str((spec.get("names") or {}).get("kind", "")))


def _digest(document: Document) -> str:
    return hashlib.sha256(encode(document.body)).hexdigest()
