"""The template folders in use: they are loaded at the start, and again whenever their files change.

Promises:
- The operator loads changed templates without a restart.
- A folder that doesn't load keeps its last good templates.
- A problem of a folder is logged once, when it appears or changes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ssa_operator.kube.clock import SYSTEM
from ssa_operator.rendering.folder.folder_snapshot import FilesState, files_state
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import Folder, Sources, load_all, no_folder_message

log = logging.getLogger("ssa_operator")


class TemplateSources:
    """The loaded template folders. `on_change` is called with the name of each folder that appears, changes or goes."""

    def __init__(self, paths: Sequence[Path], installation: Installation, on_change: Callable[[str], None]) -> None:
        self._paths = paths
        self._installation = installation
        self._on_change = on_change
        self._loaded: Sources | None = None
        self._files: FilesState = {}
        self.loaded_at: dict[str, float] = {}
        """When the templates in use of each folder were loaded, in seconds since 1970."""

    @property
    def loaded(self) -> Sources:
        """The templates in use, and the problems of those that are not."""
        assert self._loaded is not None, "load was not called"
        return self._loaded

    @property
    def folders(self) -> Mapping[str, Folder]:
        """The folders in use, by name; none before `load`."""
        return self._loaded.folders if self._loaded is not None else {}

    def load(self, *, log_problems: bool = True) -> None:
        """Load the folders, and log their problems."""
        self._files = files_state(self._paths, self._installation.values)
        self._use(self._load(), log_problems=log_problems)

    def use(self, sources: Sources) -> None:
        """Take folders that are loaded already."""
        self._use(sources, log_problems=False)

    async def follow(self) -> None:
        """Load the folders again whenever files of theirs or of `--values` change, until cancelled."""
        # Imported here, because an operator that starts has more urgent work.
        from ssa_operator.rendering.folder.hot_reload import changes  # noqa: PLC0415

        async for burst in changes(self._paths, self._installation.values, known=self._files):
            # In a thread: large templates take seconds to compile.
            loaded = await asyncio.to_thread(self._load)
            if burst is None or burst.stands_still():
                self._use(loaded, log_problems=True)

    def _load(self) -> Sources:
        return load_all(self._paths, self._loaded, self._installation)

    def _use(self, loaded: Sources, *, log_problems: bool) -> None:
        before, self._loaded = self.folders, loaded
        for problem in loaded.problems if log_problems else ():
            log.error("%s", problem)
        if log_problems and (advice := no_folder_message(self._paths, loaded)):
            log.warning("%s", advice)
        for name, folder in loaded.folders.items():
            known = before.get(name)
            if folder.digest and (known is None or known.digest != folder.digest):
                self.loaded_at[name] = SYSTEM.now()
            if known is None or known.digest != folder.digest or known.problems != folder.problems:
                for problem in folder.problems if log_problems else ():
                    log.error("%s%s", problem, "; the last good templates stay in use" if folder.templates else "")
                self._on_change(name)
        for name in before.keys() - loaded.folders.keys():
            self._on_change(name)
