"""`python -m tests.perturbations`: plays the stories with all perturbations, and writes their table into
docs/reliability.md.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import ssa_operator
from ssa_operator.devcluster.cluster import ClusterSpec, start
from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.operator import operator
from tests.operator.harness import ROOT
from tests.perturbations.matrix import PARALLEL, perturbations, play_story, prepared
from tests.perturbations.perturbation import Kind, Perturbation
from tests.perturbations.play import Outcome, reference
from tests.perturbations.record import Record, recorded
from tests.perturbations.stories import stories
from tests.perturbations.story import Story
from tests.perturbations.table import Row, replaced_table

PAGE = ROOT / "docs" / "reliability.md"


def show(outcome: Outcome) -> None:
    """Print a run that failed."""
    if outcome.problem:
        print(f"FAILED {outcome.story}: {outcome.perturbation}: {outcome.problem}", flush=True)


async def count(chosen: Sequence[Story], folder: Path, kinds: Sequence[Kind], parallel: int) -> None:
    """Print how many points each story has for each kind of perturbation."""
    limit = asyncio.Semaphore(parallel)
    cluster = await start(ClusterSpec(name="perturbations"))
    try:
        async with prepared(cluster, chosen) as client:

            async def one(story: Story) -> None:
                try:
                    async with limit:
                        known = await reference(story, cluster, client, folder)
                except Exception as error:  # noqa: BLE001 - the other stories go on
                    print(f"FAILED {story.name}: without a perturbation: {error!r}", flush=True)
                    return
                for kind in kinds:
                    print(f"| {story.name} | {kind.value} | {len(perturbations(story, known, kind))} |", flush=True)

            await asyncio.gather(*map(one, chosen))
    finally:
        await cluster.stop()


async def run(
    chosen: Sequence[Story], folder: Path, kinds: Sequence[Kind], parallel: int, record: Record, only: str
) -> list[Row]:
    """The rows of these stories. With `only`, those perturbations are played whose description contains it."""
    limit = asyncio.Semaphore(parallel)

    def choose(every: Sequence[Perturbation]) -> Sequence[Perturbation]:
        return [each for each in every if only in str(each)]

    cluster = await start(ClusterSpec(name="perturbations"))
    try:
        async with prepared(cluster, chosen) as client:

            async def one(story: Story) -> list[Row]:
                try:
                    rows = await play_story(story, cluster, client, folder, kinds, limit, record, show, choose)
                except Exception as error:  # noqa: BLE001 - the other stories go on
                    print(f"FAILED {story.name}: without a perturbation: {error!r}", flush=True)
                    return [Row(story=story.name, kind=kind, outcomes=()) for kind in kinds]
                for row in rows:
                    print(row, flush=True)
                return rows

            return [row for rows in await asyncio.gather(*map(one, chosen)) for row in rows]
    finally:
        await cluster.stop()


def main() -> None:
    """Play the stories. Exits with 1 if a run differs from one without a perturbation."""
    parser = argparse.ArgumentParser(prog="python -m tests.perturbations", description=__doc__)
    kinds = [kind.value for kind in Kind]
    parser.add_argument("--story", action="append", default=[], help="play only this story (repeatable)")
    parser.add_argument(
        "--kind", action="append", default=[], choices=kinds, help="play only this kind (repeatable), and write nothing"
    )
    parser.add_argument(
        "--only", default="", help="play perturbations with this text in their description, and write nothing"
    )
    parser.add_argument(
        "--outcomes", type=Path, help="keep each outcome in this file, and don't play again what it already has"
    )
    parser.add_argument("--parallel", type=int, default=PARALLEL, help="runs at the same time")
    parser.add_argument("--count", action="store_true", help="print how many points there are, and play none")
    arguments = parser.parse_args()
    # The processes that die log that their requests fail, and drain nothing.
    logging.disable(logging.CRITICAL)
    operator.DRAIN_DEADLINE = 0.0
    with tempfile.TemporaryDirectory(prefix="ssa-operator-perturbations-") as folder:
        os.environ["SSA_OPERATOR_STATE_DIR"] = f"{folder}/state"
        every = stories(Path(folder))
        names = [story.name for story in every]
        if unknown := [name for name in arguments.story if name not in names]:
            parser.error(f"there is no story {unknown[0]!r}; the stories are: {'; '.join(names)}")
        chosen = [story for story in every if story.name in (arguments.story or names)]
        played = [kind for kind in Kind if kind.value in (arguments.kind or kinds)]
        if arguments.count:
            asyncio.run(count(chosen, Path(folder), played, arguments.parallel))
            return
        with recorded(arguments.outcomes) as record:
            rows = asyncio.run(run(chosen, Path(folder), played, arguments.parallel, record, arguments.only))
    failed = [outcome for row in rows for outcome in row.failed]
    runs = sum(len(row.outcomes) for row in rows)
    print(f"{runs} runs, {len(failed)} failed")
    if not arguments.only and not arguments.kind:
        today = dt.datetime.now(dt.UTC).date().isoformat()
        head = f"ssa-operator {ssa_operator.__version__}, Kubernetes {KUBERNETES_VERSION}, {today}"
        PAGE.write_text(replaced_table(PAGE.read_text(), [row for row in rows if row.outcomes], head))
    if failed or any(not row.outcomes for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main()
