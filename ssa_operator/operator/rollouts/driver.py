"""Runs the rollouts of all folders that have the setting `rollout`.

Promises:
- Nothing of a folder without the setting `rollout` is read, watched or written.
- Every process reads the states. One writes them: the leader, and with shards that of shard 0.
- Each folder has its own task, so that the plan of one holds up no other.
"""

from __future__ import annotations

import asyncio
import contextlib

from ssa_operator.kube.watch.reflector import Reflector
from ssa_operator.operator.metrics import Metrics
from ssa_operator.operator.rollouts.folder_rollout import FolderRollout, Process
from ssa_operator.operator.rollouts.requests import RolloutUnavailableError
from ssa_operator.reconcile.parent_state import Parents
from ssa_operator.rendering.folder.loaded_folders import Folder

SYNC_DEADLINE = 10.0
"""Seconds for which a folder, and all that change after it, wait for the state of rollouts."""


class Rollouts:
    """The rollouts of a running operator, by the names of their folders."""

    def __init__(self, process: Process, metrics: Metrics) -> None:
        self.reflectors: tuple[Reflector, ...] = ()
        self.tasks: list[asyncio.Task[None]] = []
        """The watch of the states, once a folder needs it."""
        self._process = process
        self._metrics = metrics
        self._folders: dict[str, FolderRollout] = {}
        self._started = asyncio.Event()
        process.cache.listen(lambda *_: self._wake(), own_writes=True)

    def find(self, name: str) -> FolderRollout | None:
        """The rollout of a folder, None without the setting."""
        return self._folders.get(name)

    async def prepare(self, folder: Folder) -> None:
        """Take a loaded set before its parents are reconciled. Raises ApiError, CredentialsError and
        RolloutUnavailableError.
        """
        name = folder.name
        if folder.settings.rollout is None:
            if (gone := self._folders.pop(name, None)) is not None:
                if gone.task is not None:
                    gone.task.cancel()
                self._metrics.forget_rollout(name)
            return
        await self._watch()
        known = self._folders.get(name)
        if known is None:
            known = FolderRollout(process=self._process, newest=folder, first=folder)
            await known.take_stored()
            self._folders[name] = known
        known.newest = folder
        if folder.revision:  # else it doesn't load, and the stored revisions stay in use
            known.compiled[folder.revision] = folder
        known.changed.set()
        self._started.set()

    def follow(self, parents: Parents) -> None:
        """Pick the revisions of a folder's parents, and look at them when one of them changes."""
        name = parents.folder.name
        if name in self._folders and parents.choose_folder is None:
            parents.listen_to_states(lambda *_: self._on_parent(name))
            parents.listen(lambda *_: self._on_parent(name))
        parents.choose_folder = self._folders[name].choose if name in self._folders else None

    async def run(self, prepared: asyncio.Task[None]) -> None:
        """Follow the states, and decide once `prepared` has ended, until cancelled."""
        self._process.prepared = prepared
        prepared.add_done_callback(lambda _: self._wake())
        try:
            while True:
                for name, known in self._folders.items():
                    if known.task is None:
                        known.task = asyncio.create_task(known.run(), name=f"roll out {name}")
                await self._started.wait()
                self._started.clear()
        finally:
            tasks = [known.task for known in self._folders.values() if known.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _wake(self) -> None:
        for known in self._folders.values():
            known.changed.set()

    def _on_parent(self, name: str) -> None:
        known = self._folders.get(name)
        if known is not None and (known.state is None or known.state.revision):
            known.changed.set()

    async def close(self) -> None:
        """Stop the watch."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def measure(self) -> None:
        """Set the gauges."""
        for name, known in self._folders.items():
            state, parents = known.state, known.parents
            self._metrics.rollout_in_progress.labels(name).set(bool(state and state.revision))
            self._metrics.rollout_stopped.labels(name).set(bool(state and state.stopped))
            if state is not None and parents is not None:
                self._metrics.rollout_parents.labels(name).set(known.reached if state.revision else len(parents))

    async def _watch(self) -> None:
        if not self.reflectors:
            self.reflectors = (Reflector(self._process.client, self._process.store.states, self._process.cache),)
            self.tasks = [asyncio.create_task(each.run(), name="watch rollouts") for each in self.reflectors]
        for each in self.reflectors:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SYNC_DEADLINE):
                    await each.synced_or_unavailable()
            if not each.synced.is_set():
                why = each.problem or f"no answer within {SYNC_DEADLINE:g} s"
                raise RolloutUnavailableError(f"the state of its rollouts can't be read: {why}")
