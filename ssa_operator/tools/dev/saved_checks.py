"""Runs `check` on a project in `dev`, again whenever its files change.

Promises:
- `check` is a process of its own, so that the operator and the screen go on.
- `findings` are those of the last state of the files that was checked.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ssa_operator.rendering.folder.hot_reload import changes
from ssa_operator.tools.dev.scene import CheckFinding

log = logging.getLogger("ssa_operator")


class SavedChecks:
    """The findings of `check`."""

    def __init__(
        self, templates: Sequence[Path], values: Sequence[Path], crds: Sequence[Path], examples: Sequence[Path]
    ) -> None:
        self.findings: Sequence[CheckFinding] = ()
        paths = dict.fromkeys((*templates, *crds, *examples, *values))
        self._folders = [path for path in paths if not path.is_file()]
        self._files = [path for path in paths if path.is_file()]
        self._arguments = [
            *(f"--templates={path}" for path in templates),
            *(f"--values={path}" for path in values),
            *(f"--crds={path}" for path in crds if path.exists()),
            *(f"--examples={path}" for path in examples if path.exists()),
        ]

    async def follow(self) -> None:
        """Check now and after each change, until cancelled."""
        async for _ in changes(self._folders, self._files):
            await self._check()

    async def _check(self) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "ssa_operator", "check", "--output=json", *self._arguments,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        try:
            self.findings = msgspec.json.decode(out, type=list[CheckFinding])
        except msgspec.DecodeError:
            self.findings = ()
            log.warning("the project can't be checked: %s", err.decode(errors="replace").strip())
