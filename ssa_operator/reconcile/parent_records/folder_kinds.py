"""The kinds that a folder's templates have applied, recorded once for all its parents: in the ConfigMap FOLDER_KINDS of
the operator's namespace.

A new parent's status, which is written after its first applies, shows the kinds of its children. Until then this record
leads another process to them. A key stays, even if no template renders its kind any more.

Promises:
- A kind is recorded before the first object of it is applied for a parent that has no record of its own.
- Where it can't be recorded, the parent gets the annotation.
- A record that can't be read is unknown. It is read again, also by a later process.
- A parent that was created after the process began to lead has no children of another one.
- Several processes may record at the same time, and none removes what another one has recorded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import CredentialsError
from ssa_operator.kube.clock import Clock
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.scalars import moment_of
from ssa_operator.reconcile.parent_records.formats import AppliedEntry
from ssa_operator.reconcile.parent_records.rules import FOLDER_KINDS, MANAGER

log = logging.getLogger("ssa_operator")

PAUSE = 60.0
"""Seconds for which a record that can't be read or written is not tried again."""

SKEW = 60.0
"""Seconds by which the clocks of the API server and of the process may differ."""

_CONFIG_MAP = Resource(group="", version="v1", plural="configmaps", kind="ConfigMap", namespaced=True)


class FolderKinds:
    """The record in the operator's namespace."""

    def __init__(self, client: Client, namespace: str, clock: Clock) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._began = clock.now()
        self._lock = asyncio.Lock()
        self._inherited: frozenset[str] | None = None
        """The keys that other processes recorded before; None until they were read."""
        self._recorded: set[str] = set()
        self._again_at = 0.0

    def forget(self) -> None:
        """Read the record again: another process has led meanwhile."""
        self._inherited, self._again_at, self._began = None, 0.0, self._clock.now()

    async def inherited(self, folder: str, created: str | None) -> frozenset[GroupKind] | None:
        """The kinds that other processes recorded for a folder before this one began, as far as a parent with that
        creationTimestamp may have children of them; None if they can't be read now. Raises ApiError and
        CredentialsError, except where the operator may not read them.
        """
        moment = moment_of(created)
        if moment is not None and moment.timestamp() > self._began + SKEW:
            return frozenset()
        async with self._lock:
            try:
                await self._read()
            except ApiError as error:
                if not error.forbidden:
                    raise
                self._put_off(error)
        if self._inherited is None:
            return None
        keys = [key.partition("_") for key in self._inherited]
        return AppliedEntry([kind for name, _, kind in keys if name == folder]).group_kinds

    async def record(self, folder: str, kinds: AbstractSet[GroupKind]) -> bool:
        """Record these kinds of a folder, unless they are. Returns whether they are recorded now."""
        keys = {f"{folder}_{kind}" for kind in kinds}
        if keys <= self._recorded:
            return True
        async with self._lock:
            try:
                await self._read()
                if self._inherited is not None:
                    await self._write(keys - self._recorded)
            except (ApiError, CredentialsError) as error:
                self._put_off(error)
        return keys <= self._recorded

    async def _read(self) -> None:
        if self._inherited is None and self._clock.monotonic() >= self._again_at:
            live = await self._client.find(_CONFIG_MAP, FOLDER_KINDS, self._namespace)
            self._inherited = frozenset() if live is None else frozenset(live.body.get("data") or ())
            self._recorded = set(self._inherited)

    async def _write(self, keys: Iterable[str]) -> None:
        keys = sorted(keys)
        if not keys or self._clock.monotonic() < self._again_at:
            return
        if not self._recorded:
            # The apply owns no key, so that a second one removes none.
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": FOLDER_KINDS}}
            await self._client.apply(
                _CONFIG_MAP, self._namespace, FOLDER_KINDS, encode(body), ApplyOptions(manager=MANAGER)
            )
        patch = encode({"data": dict.fromkeys(keys, "")})
        await self._client.merge_patch(_CONFIG_MAP, self._namespace, FOLDER_KINDS, patch)
        self._recorded |= {*keys}

    def _put_off(self, error: ApiError | CredentialsError) -> None:
        self._again_at = self._clock.monotonic() + PAUSE
        log.info("kinds are recorded on each parent, because they can't be recorded once: %s", error)
