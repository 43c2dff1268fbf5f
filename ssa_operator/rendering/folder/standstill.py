"""Decides when changed files may be loaded: not while a folder is half of a copy.

Everything that one load reads is followed together: several templates folders and files of values.

Promises:
- If nothing vanished and one file changed, the files are loaded at once.
- Several changes, and new files, are loaded once all files have stood still for SETTLED seconds, and after LIMIT
  seconds at the latest.
- While a formerly loaded file is missing or empty, nothing is loaded until no file has appeared or vanished for
  VANISHED seconds. If a folder is replaced bit by bit (`cp -r`, `rsync --delete`, `git checkout`), it is loaded once it
  is complete, whichever other file changes meanwhile.
- A deleted file counts as deleted after VANISHED seconds, even while another one keeps changing.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.rendering.folder.folder_snapshot import FolderState

SETTLED = 0.5
"""Seconds."""

LIMIT = 5.0
"""Seconds from the first change on."""

VANISHED = 2.0
"""Seconds; copies over a slow network have shorter pauses between two files."""


class Standstill(Struct, frozen=True, kw_only=True):
    """Files that are followed. Times are seconds on any one clock."""

    known: FolderState
    """The state that was loaded last; a missing folder has no files."""
    found: FolderState
    """The present state."""
    begun: float
    """When the state began to differ from the known one."""
    since: float
    """Since when the state has been the present one."""
    names_since: float
    """Since when the present files have existed, whatever their content."""

    @classmethod
    def of(cls, known: FolderState, now: float) -> Standstill:
        """Files that are unchanged since they were loaded."""
        return cls(known=known, found=known, begun=now, since=now, names_since=now)

    def seen(self, found: FolderState, now: float) -> Standstill:
        """The files after their state was read."""
        if found == self.found:
            return self
        return replace(
            self,
            found=found,
            begun=now if self.found == self.known else self.begun,
            since=now,
            names_since=self.names_since if _names(found) == _names(self.found) else now,
        )

    @property
    def due(self) -> float | None:
        """When the present state may be loaded if it doesn't change, None if it is loaded already."""
        if self.found == self.known:
            return None
        if _names(self.known) - _names(self.found):
            return self.names_since + VANISHED
        if _is_one_edit(self.known, self.found):
            return self.since
        return min(self.since + SETTLED, self.begun + LIMIT)


def _names(state: FolderState) -> frozenset[str]:
    """The files and folders with content: a file that is copied is empty at first."""
    return frozenset(name for name, status in state.items() if status and (len(status) < 3 or status[2] > 0))


def _is_one_edit(before: FolderState, after: FolderState) -> bool:
    """Whether the content of one file changed, and nothing else."""
    return before.keys() == after.keys() and sum(before[name] != after[name] for name in before) == 1
