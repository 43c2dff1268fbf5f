"""For how many live parents each line of a folder's templates is rendered.

Promises:
- The counts are those of the caches: the folder is rendered as a reconcile renders it, and nothing is watched, written
  or remembered.
- Reconciles are as fast as before: a second, marked copy of the templates is compiled when a page asks first, parents
  are rendered one after another with a pause after each, and pages that ask meanwhile get the same answer.
- The work is bounded: at most MAX_PARENTS parents, and SECONDS seconds. The answer has the number of parents that it
  counts.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.informers.parents import Parent
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.cluster_view import ClusterView
from ssa_operator.operator.operator import Operator
from ssa_operator.reconcile.current_reconcile import Reconcile
from ssa_operator.reconcile.parent_state import Parents, ParentState
from ssa_operator.reconcile.render_moment import RenderMoment
from ssa_operator.reconcile.render_turns import RenderTurns
from ssa_operator.reconcile.watched_children import own_children
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.rendering.jinja.coverage import TemplateCoverage
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.render import render, render_status

MAX_PARENTS = 200

SECONDS = 2.0

FRESH = 5.0
"""Seconds for which an answer stays."""


class LineCounts(Struct, frozen=True, kw_only=True):
    """For how many parents each line of a folder is rendered."""

    digest: str
    """Identifies the templates."""
    parents: int
    """All parents that are not being deleted."""
    counted: int
    """Those that the counts are of."""
    files: Mapping[str, Mapping[str, int]]
    """The number of parents by line, by file: each line that writes text or a value, or has a tag."""


class _Known(Struct, frozen=True, kw_only=True):
    until: float
    counts: LineCounts


class LineCounter:
    """Counts the lines of the folders of a running operator."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._turns = RenderTurns()
        """Not those of the operator, so that a reconcile waits for no count."""
        self._marked: dict[str, tuple[str, Templates, TemplateCoverage]] = {}
        self._known: dict[str, _Known] = {}
        self._lane = asyncio.Lock()

    async def count(self, folder: Folder, parents: Parents) -> LineCounts:
        """The counts of a folder, as they are or were a moment ago."""
        async with self._lane:
            known = self._known.get(folder.name)
            if known is None or known.counts.digest != folder.digest[:12] or known.until < time.monotonic():
                counts = await self._count(folder, parents)
                known = self._known[folder.name] = _Known(until=time.monotonic() + FRESH, counts=counts)
            return known.counts

    async def _count(self, folder: Folder, parents: Parents) -> LineCounts:
        templates, coverage = await self._compiled(folder)
        marked = replace(folder, templates=templates, problems=())
        lives = [live for live in parents if not live.deleting]
        deadline, counted = time.monotonic() + SECONDS, 0
        lines: dict[str, Counter[int]] = {each.file: Counter(dict.fromkeys(each.lines, 0)) for each in coverage.files()}
        for live in lives[:MAX_PARENTS]:
            templates.import_again()
            coverage.take_lines()
            await self._render(replace(parents.parent(live), folder=marked))
            for file, reached in coverage.take_lines().items():
                lines[file].update(reached)
            counted += 1
            await asyncio.sleep(0)
            if time.monotonic() > deadline:
                break
        shared = templates.shared_files
        own = {file: found for file, found in lines.items() if file in shared or file.startswith(f"{folder.name}/")}
        return LineCounts(
            digest=folder.digest[:12],
            parents=len(lives),
            counted=counted,
            files={file: {str(line): found[line] for line in sorted(found)} for file, found in own.items()},
        )

    async def _compiled(self, folder: Folder) -> tuple[Templates, TemplateCoverage]:
        known = self._marked.get(folder.name)
        if known is None or known[0] != folder.digest:
            assert folder.templates is not None, "the folder has never been loaded"
            coverage, templates = TemplateCoverage(folder.name), folder.templates
            compiled = await self._turns.in_thread(lambda: templates.with_coverage(coverage))
            known = self._marked[folder.name] = (folder.digest, compiled, coverage)
        return known[1:]

    async def _render(self, parent: Parent) -> None:
        renderer, cluster = self._operator.renderer, self._operator.shared.cluster
        reconcile = Reconcile.begin(cluster, parent, ParentState(), Cause.PARENT)
        moment = RenderMoment(lambda: renderer.view(reconcile, own_children(reconcile)))

        def rendered(seen: ClusterView) -> None:
            render(parent.folder, parent.live.body, seen)
            render_status(parent.folder, parent.live.body, seen)

        await self._turns.run(parent.live.uid, moment, rendered)
