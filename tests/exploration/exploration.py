"""Plays sequences of changes on a cluster.

Promises:
- The local control plane is stopped if it was started here.
- SIGINT and SIGTERM end the command once it has deleted its parents and namespaces.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.process import connection, session, streams
from ssa_operator.operator.process.streams import CommandError, OutputFormat
from ssa_operator.operator.shared_informers import ParentError
from ssa_operator.tools import printing
from ssa_operator.tools.cases.golden_cases import INVALID, Suite, load_suite
from ssa_operator.tools.offline.file_parents import opened
from tests.exploration.explored_kinds import explored_kind
from tests.exploration.explored_parents import ExploredParents
from tests.exploration.explored_sequences import read_sequence
from tests.exploration.explorer import Explorer
from tests.exploration.folder_exploration import (
    ExploredFolder,
    FolderExploration,
    SequenceOptions,
    exploration_data,
    exploration_lines,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationOptions:
    """What to explore, and where."""

    suites: Sequence[Suite]
    target: connection.Target | None
    """None for the local control plane."""
    name: str
    """The name of the local control plane."""
    sequences: SequenceOptions


def explore(options: ExplorationOptions) -> None:
    """Play the sequences and print the results. Raises CommandError with the exit code."""
    try:
        results = connection.run(_explore(options), code=INVALID)
    except asyncio.CancelledError as error:
        raise KeyboardInterrupt from error
    if options.sequences.quiet:
        printing.data(exploration_data(results), OutputFormat.JSON)
    else:
        for line in exploration_lines(results):
            streams.line(line)
    if any(each.failures for each in results):
        raise CommandError("not all sequences of changes end as new parents do")
    if not any(each.sequences for each in results):
        raise CommandError("no sequence was played", code=INVALID)
    if skipped := [each.folder for each in results if each.skipped]:
        raise CommandError(f"not all template folders were explored: {', '.join(skipped)}", code=INVALID)


async def _explore(options: ExplorationOptions) -> list[ExploredFolder]:
    """Play the sequences. Raises CommandError, ApiError, and CancelledError after SIGTERM."""
    sequences = options.sequences
    if not (sequences.replay or sequences.sequences or sequences.seconds):
        raise CommandError("--sequences 0 plays without an end; write --minutes, too", code=INVALID)
    _check_replayed(options)
    logging.getLogger("ssa_operator").setLevel(logging.CRITICAL)
    task = asyncio.current_task()
    assert task is not None
    # A CI job that is cancelled leaves no namespaces behind.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    token = f"{random.SystemRandom().randrange(16**6):06x}"
    results: list[ExploredFolder] = []
    try:
        async with _connected(options) as client:
            for number, suite in enumerate(options.suites):
                results += await _explore_suite(client, suite, options, f"{token}{number:x}")
    except (ParentError, UnknownKind) as error:
        raise CommandError(str(error), code=INVALID) from error
    return results


def _check_replayed(options: ExplorationOptions) -> None:
    """Raises CommandError if a sequence can't be read, or no template folder is for it."""
    known = {path.name for suite in options.suites for root in suite.templates for path in root.iterdir()}
    for path in options.sequences.replay:
        folder = read_sequence(path)[0].folder
        if folder not in known:
            raise CommandError(f"{path}: there are no templates/{folder}; name them with --templates", code=INVALID)


@asynccontextmanager
async def _connected(options: ExplorationOptions) -> AsyncIterator[Client]:
    """A client of the cluster. On the local control plane, the CRDs are installed."""
    async with AsyncExitStack() as stack:
        target = options.target
        if target is None:
            try:
                from ssa_operator.tools.dev.dev_cluster import local_cluster
            except ModuleNotFoundError as error:
                raise CommandError(
                    f"{error.name} is missing; install it with pip install 'ssa-operator[dev]'", code=INVALID
                ) from error
            local = await stack.enter_async_context(local_cluster(options.name))
            target = connection.Target(kubeconfig=str(local.cluster.kubeconfig))
        client = await stack.enter_async_context(connection.connect(target))
        if options.target is None:
            folders = dict.fromkeys(folder for suite in options.suites for folder in suite.crds if folder.exists())
            await session.install(client, list(folders), keep_data=False)
        yield client


async def _explore_suite(client: Client, suite: Suite, options: ExplorationOptions, token: str) -> list[ExploredFolder]:
    project = load_suite(suite)
    if problems := [str(each) for each in project.sources.problems]:
        raise CommandError("\n".join(problems), code=INVALID)
    mapper = RESTMapper(client)
    controller_options = Options(templates=suite.templates, installation=suite.installation, resync_rate=0.0)
    async with opened(client, mapper, controller_options) as parents:
        if parents.problems:
            raise CommandError("\n".join(parents.problems), code=INVALID)
        explored = ExploredParents(client, mapper, parents, token)
        explorer = Explorer(explored)
        results = []
        try:
            for folder in project.sources.folders.values():
                if suite.folder in ("", folder.name):
                    kind = await explored_kind(client, mapper, folder, project.kinds)
                    exploration = FolderExploration(explorer, suite, project, folder, options.sequences)
                    results.append(await exploration.run(kind))
        finally:
            await explored.close()
            for name in explored.remains:
                streams.error(f"{name} is still being deleted")
        return results
