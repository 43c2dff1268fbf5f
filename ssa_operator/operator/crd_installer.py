"""Installs the CRDs of an operator's folders, and retries those that were refused.

Promises:
- A CRD that can't be read, or that the API server refuses, stops no other CRD and no other folder. Its own folder runs
  with the CRD that the cluster has, or waits for one.
- The log, `/readyz`, a metric and the status of the folder's parents name each refusal.
- A refused CRD is applied again with growing pauses, from the current file, and at once when it changes in the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ssa_operator.kube.api.backoff import BACKOFF_BASE, backoff
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.objects.json_encoding import encode
from ssa_operator.objects.messages import bounded
from ssa_operator.objects.render_result import Document
from ssa_operator.operator import crd_installation
from ssa_operator.operator.crd_installation import DefinitionError

log = logging.getLogger("ssa_operator")

REASON_LIMIT = 1000
"""Characters of a refusal."""


class CRDInstaller:
    """Applies the CRDs of folders. `refused` has the reasons of those that are not applied, by name."""

    def __init__(self, client: Client, folders: Sequence[Path]) -> None:
        self.refused: Mapping[str, str] = {}
        self.on_change: Callable[[Mapping[str, str]], None] = lambda _refused: None
        """Called with the reasons whenever they change."""
        self.applied: Mapping[str, str] = {}
        """Those that are applied: the digest of each by name."""
        self._installing = asyncio.Lock()
        self._client = client
        self._folders = tuple(folders)
        self._changed = asyncio.Event()

    async def install(self, *, changed: bool = False) -> None:
        """Apply each CRD that is not applied yet, with `changed` also those that changed since. Raises DefinitionError
        for a missing folder, and ApiError if the API server can't be reached.
        """
        async with self._installing:
            await self._install(changed=changed)

    async def _install(self, *, changed: bool) -> None:
        documents, refused = crd_installation.read(*self._folders)
        digests = {document.body["metadata"]["name"]: _digest(document) for document in documents}
        pending = [
            document
            for document, (name, digest) in zip(documents, digests.items(), strict=True)
            if name not in refused and self.applied.get(name) != digest and (changed or name not in self.applied)
        ]
        refused = {**refused, **await crd_installation.refusals(self._client, pending)}
        applied = [document for document in pending if document.body["metadata"]["name"] not in refused]
        for remark in crd_installation.remarks(applied):
            log.warning("%s", remark)
        names = [document.body["metadata"]["name"] for document in applied]
        for name in names if changed else ():
            log.info("the CRD %s is applied as it is in its file now", name)
        self.applied = {**self.applied, **{name: digests[name] for name in names}}
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


def _digest(document: Document) -> str:
    return hashlib.sha256(encode(document.body)).hexdigest()
