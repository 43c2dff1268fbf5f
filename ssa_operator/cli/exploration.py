"""`ssa-operator test --explore` and `--replay`: plays sequences of spec changes on a cluster.

Promises:
- The same seed gives the same changes for the same templates and CRDs.
- A failure is repeated before it is reported, and its sequence is made as short as possible and kept in a file.
- Kept sequences are played first. The local control plane is stopped if it was started here.
- SIGINT and SIGTERM end the command once it has deleted its parents and namespaces.
"""

from __future__ import annotations

import json
import logging
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import typer

from ssa_operator.cli import connection, session
from ssa_operator.cli.case_runs import Project
from ssa_operator.cli.case_suites import Suite, load_suite, suite_cases
from ssa_operator.cli.command_error import CommandError
from ssa_operator.cli.explored_sequences import PATTERN, ExploredSequence, read_sequence
from ssa_operator.cli.golden_cases import CASES, INVALID, read_case
from ssa_operator.cli.parent_files import read_objects
from ssa_operator.cli.template_folders import CRDKind, read_version
from ssa_operator.controller.exploration import Explorer, Failure, Phase, Played, Rule, Subject, from_changes
from ssa_operator.controller.file_parents import opened
from ssa_operator.controller.options import Options
from ssa_operator.controller.shared_informers import ParentError
from ssa_operator.controller.shortest_sequence import shortest_sequence
from ssa_operator.core.objects.crd_sample import sample_object
from ssa_operator.core.objects.crd_schema import object_schema
from ssa_operator.core.objects.manifest import group_kind
from ssa_operator.core.objects.messages import counted
from ssa_operator.core.objects.render_result import Document
from ssa_operator.core.objects.source_location import SourceLocation
from ssa_operator.core.objects.spec_changes import SpecChange, draw_change
from ssa_operator.core.redaction.child_comparison import ABSENT, ChildDifference
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.rendering.folder.sources import Folder
from ssa_operator.rendering.possible_manifests import template_contents

FAILURES_LIMIT = 3
"""Failures of one template folder after which no more sequences of it are played."""

SHOWN_DIFFERENCES = 10

_KEPT_METADATA = ("name", "labels", "annotations")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorationOptions:
    """What to explore, and where."""

    suites: Sequence[Suite]
    examples: Sequence[Path] | None
    """Files and folders of parents and of what their templates look up. None: the folders beside the templates."""
    target: connection.Target | None
    """None for the local control plane."""
    name: str
    """The name of the local control plane."""
    seed: int
    sequences: int
    """Sequences of each template folder; without a limit if `seconds` is set and this is 0."""
    steps: int
    seconds: float
    """How long new sequences are begun for each template folder, 0 for no limit."""
    replay: Sequence[Path]
    """The only sequences to play."""
    attempts: int = 30
    """Sequences that are played to shorten one."""
    quiet: bool
    """Whether no progress is printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFailure:
    """A failure, its shortest sequence, and its file."""

    failure: Failure
    changes: Sequence[SpecChange]
    path: Path

    def data(self) -> dict[str, Any]:
        """The data for `--output json`."""
        return {
            "rule": self.failure.rule.value,
            "step": self.failure.step,
            "message": self.failure.message,
            "steps": [change.data() for change in self.changes],
            "differences": [each.data() for each in self.failure.differences],
            "path": str(self.path),
        }

    def lines(self) -> list[str]:
        """The lines for a reader."""
        lines = [f"  {self.failure.rule}: {self.failure.message}"]
        lines += [f"    {at}. {change}" for at, change in enumerate(self.changes, 1)]
        for each in self.failure.differences[:SHOWN_DIFFERENCES]:
            at = "" if each.location is None else f" ({each.location})"
            lines.append(f"    {_difference(each)}{at}")
        if (more := len(self.failure.differences) - SHOWN_DIFFERENCES) > 0:
            lines.append(f"    and {more} more")
        return [*lines, f"    kept in {self.path}"]


def _difference(each: ChildDifference) -> str:
    if each.field:
        return f"{each.child} {each.field} is {_cut(each.found)}, and should be {_cut(each.expected)}"
    return f"{each.child} is missing" if each.found == ABSENT else f"{each.child} exists, and should not"


def _cut(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:97]}..."


@dataclass(slots=True, kw_only=True)
class ExploredFolder:
    """What became of the sequences of one template folder."""

    folder: str
    sequences: int = 0
    phases: Counter[Phase] = field(default_factory=Counter)
    failures: list[FoundFailure] = field(default_factory=list)
    unrepeated: list[str] = field(default_factory=list)
    """Failures that did not appear again."""
    skipped: str = ""
    """Why it was not explored."""

    def data(self) -> dict[str, Any]:
        """The data for `--output json`."""
        return {
            "folder": self.folder,
            "sequences": self.sequences,
            "changes": {phase.value: self.phases[phase] for phase in Phase},
            "failures": [each.data() for each in self.failures],
            "unrepeated": self.unrepeated,
            **({"skipped": self.skipped} if self.skipped else {}),
        }

    def lines(self) -> list[str]:
        """The lines for a reader."""
        if self.skipped and not self.sequences:
            return [f"{self.folder}: skipped: {self.skipped}"]
        counts = ", ".join(f"{self.phases[phase]} {phase}" for phase in Phase if self.phases[phase])
        failed = counted(len(self.failures), "failure")
        changes = counted(self.phases.total(), "change") + (f" ({counts})" if counts else "")
        lines = [f"{self.folder}: {counted(self.sequences, 'sequence')}, {changes}: {failed}"]
        lines += [line for each in self.failures for line in each.lines()]
        lines += [f"  no new sequences: {self.skipped}"] if self.skipped else []
        return lines + [f"  seen once, and not when it was played again: {each}" for each in self.unrepeated]


async def explore(options: ExplorationOptions) -> list[ExploredFolder]:
    """Play the sequences. Raises CommandError, ApiError."""
    if not (options.replay or options.sequences or options.seconds):
        raise CommandError("--sequences 0 plays without an end; write --minutes, too", code=INVALID)
    _check_replayed(options)
    logging.getLogger("ssa_operator").setLevel(logging.CRITICAL)
    if callable(interrupt := signal.getsignal(signal.SIGINT)):
        # A CI job that is cancelled leaves no namespaces behind, either.
        signal.signal(signal.SIGTERM, interrupt)
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
    for path in options.replay:
        folder = read_sequence(path)[0].folder
        if folder not in known:
            raise CommandError(f"{path}: there are no templates/{folder}; name them with --templates", code=INVALID)


@asynccontextmanager
async def _connected(options: ExplorationOptions) -> AsyncIterator[Client]:
    """A client of the cluster, which has the CRDs if it is the local control plane."""
    async with AsyncExitStack() as stack:
        target = options.target
        if target is None:
            try:
                from ssa_operator.cli.dev_cluster import local_cluster
            except ModuleNotFoundError as error:
                raise CommandError(
                    f"{error.name} is missing; install it with pip install 'ssa-operator[dev]'", code=INVALID
                ) from error
            cluster = await stack.enter_async_context(local_cluster(options.name))
            target = connection.Target(kubeconfig=str(cluster.kubeconfig))
        client = await stack.enter_async_context(connection.connect(target))
        if options.target is None:
            folders = dict.fromkeys(folder for suite in options.suites for folder in suite.crds if folder.exists())
            await session.install(client, list(folders))
        yield client


async def _explore_suite(client: Client, suite: Suite, options: ExplorationOptions, token: str) -> list[ExploredFolder]:
    project = load_suite(suite)
    if problems := [str(each) for each in project.sources.problems]:
        raise CommandError("\n".join(problems), code=INVALID)
    mapper = RESTMapper(client)
    controller_options = Options(templates=suite.templates, installation=suite.installation, tick_rate=0.0)
    async with opened(client, mapper, controller_options) as parents:
        if parents.problems:
            raise CommandError("\n".join(parents.problems), code=INVALID)
        explorer = Explorer(client, mapper, parents, token)
        try:
            folders = project.sources.folders.values()
            runs = [_FolderRun(explorer, suite, project, each, options) for each in folders if _is_named(suite, each)]
            results = [await run.run() for run in runs]
        finally:
            await explorer.close()
            for name in explorer.remains:
                typer.echo(f"{name} is still being deleted", err=True)
        return results


def _is_named(suite: Suite, folder: Folder) -> bool:
    return suite.folder in ("", folder.name)


class _FolderRun:
    """Explores one template folder."""

    def __init__(
        self, explorer: Explorer, suite: Suite, project: Project, folder: Folder, options: ExplorationOptions
    ) -> None:
        self._explorer = explorer
        self._suite = suite
        self._project = project
        self._folder = folder
        self._options = options
        self._found = ExploredFolder(folder=folder.name)
        self._known: set[str] = set()
        self._cases = folder.root.parent / CASES / folder.name

    async def run(self) -> ExploredFolder:
        kind = next((each for each in self._project.kinds.values() if each.folder == self._folder.name), None)
        if kind is None:
            self._found.skipped = "there is no CRD that declares its spec"
            return self._found
        examples = self._examples()
        for path in self._kept():
            sequence, document = read_sequence(path)
            subject = self._subject(kind, document, examples)
            await self._replay(subject, sequence.changes, path)
        if not self._options.replay:
            await self._explore(kind, examples)
        return self._found

    def _kept(self) -> list[Path]:
        if not self._options.replay:
            return sorted(self._cases.glob(PATTERN))
        return [path for path in self._options.replay if read_sequence(path)[0].folder == self._folder.name]

    def _examples(self) -> list[Document]:
        given = self._options.examples
        if given is None:
            given = [path for root in self._suite.templates if (path := root.parent / "examples").is_dir()]
        return read_objects(given)

    def _subject(self, kind: CRDKind, parent: Document, examples: Sequence[Document]) -> Subject:
        """The parent, with the examples that its templates look up beside it."""
        looked_up = {each.group_kind for each in template_contents(self._folder).lookups}
        metadata = {key: parent.body["metadata"][key] for key in _KEPT_METADATA if key in parent.body["metadata"]}
        body = {key: value for key, value in parent.body.items() if key != "status"} | {"metadata": metadata}
        return Subject(
            folder=self._folder.name,
            parent=replace(parent, body=body),
            beside=tuple(each for each in examples if group_kind(each) in looked_up),
            namespaced=kind.namespaced,
        )

    def _starts(self, kind: CRDKind, examples: Sequence[Document]) -> list[Document]:
        """The parents that sequences begin with: those of the examples, else of the golden cases, else a sample."""
        own = kind.definition["spec"]["names"]["kind"], kind.definition["spec"]["group"]
        found = [each for each in examples if (group_kind(each).kind, group_kind(each).group) == own]
        if not found:
            suite = replace(self._suite, folder=self._folder.name)
            found = [read_case(path).parent for path in suite_cases(suite, self._project)]
        if found:
            return found
        body = sample_object(kind.definition, read_version(self._folder, kind.definition))
        location = SourceLocation(f"the sample of {self._folder.name}", 1)
        return [Document(body=body, location=location, location_of=lambda _: location)]

    async def _explore(self, kind: CRDKind, examples: Sequence[Document]) -> None:
        options, began = self._options, time.monotonic()
        starts = self._starts(kind, examples)
        number = 0
        while len(self._found.failures) < FAILURES_LIMIT:
            over = options.seconds and time.monotonic() - began > options.seconds
            if over or (number >= options.sequences and (options.sequences or not options.seconds)):
                return
            start = starts[number % len(starts)]
            number += 1
            subject = self._subject(kind, start, examples)
            version = str(subject.parent.body["apiVersion"]).rpartition("/")[2]
            schema = object_schema(kind.definition, version) or {}
            # Not the hash of the text: Python's differs between processes.
            chance = random.Random(f"{options.seed}/{self._folder.name}/{number}")  # noqa: S311 - no secret

            def draw(body: Mapping[str, Any], chance: random.Random = chance, schema: Any = schema) -> Any:
                late = options.seconds and time.monotonic() - began > options.seconds
                return None if late else draw_change(body, schema, chance)

            played = await self._play(subject, draw, options.steps, f"{self._folder.name} {number}")
            if played.invalid and not played.changes:
                reason = f"{start.location}: no sequence can begin with this parent: {played.invalid}"
                starts = [each for each in starts if each is not start]
                if not starts:
                    self._found.skipped = reason
                    return
                typer.echo(f"{self._folder.name}: {reason}", err=True)
                number -= 1
                continue
            if played.failure is not None:
                await self._report(subject, played, self._cases / f"explored-{options.seed}-{number}.yaml")

    async def _play(self, subject: Subject, draw: Callable[[Any], Any], steps: int, name: str) -> Played:
        played = await self._explorer.play(subject, draw, steps)
        if played.invalid and not played.changes:
            return played
        self._found.sequences += 1
        self._found.phases.update(played.phases)
        if not self._options.quiet:
            result = str(played.failure.rule) if played.failure else "ok"
            typer.echo(f"{name}: {counted(len(played.changes), 'change')}: {result}", err=True)
        return played

    async def _replay(self, subject: Subject, changes: Sequence[SpecChange], path: Path) -> None:
        played = await self._play(subject, from_changes(changes), len(changes), str(path))
        if played.invalid:
            raise CommandError(f"{path}: can't be played: {played.invalid}", code=INVALID)
        if played.failure is not None:
            self._found.failures.append(FoundFailure(failure=played.failure, changes=played.changes, path=path))

    async def _report(self, subject: Subject, played: Played, path: Path) -> None:
        """Repeat a failure, shorten its sequence, and keep it."""
        failure = played.failure
        assert failure is not None
        if _signature(failure) in self._known:
            return

        async def play(changes: Sequence[SpecChange]) -> Played:
            return await self._explorer.play(subject, from_changes(changes), len(changes))

        again = await play(played.changes)
        if again.failure is None or again.failure.rule is not failure.rule:
            if failure.rule is not Rule.CRASH:
                self._found.unrepeated.append(f"{failure.rule}: {failure.message}")
                return
            again = played
        shortest = await shortest_sequence(again, failure.rule, play, self._options.attempts)
        assert shortest.failure is not None
        signature = _signature(shortest.failure)
        if signature in self._known:
            return
        self._known |= {signature, _signature(failure)}
        kept = ExploredSequence(
            folder=self._folder.name,
            parent=subject.parent.body,
            changes=shortest.changes,
            rule=shortest.failure.rule.value,
            message=shortest.failure.message,
        )
        kept.write(path)
        self._found.failures.append(FoundFailure(failure=shortest.failure, changes=shortest.changes, path=path))


def _signature(failure: Failure) -> str:
    """Equal for failures that probably have one cause."""
    fields = sorted({(each.child, each.field) for each in failure.differences})
    return json.dumps([failure.rule, fields or failure.message])


def exploration_data(results: Sequence[ExploredFolder]) -> dict[str, Any]:
    """The results for `--output json`."""
    return {
        "folders": [each.data() for each in results],
        "summary": {
            "sequences": sum(each.sequences for each in results),
            "changes": sum(each.phases.total() for each in results),
            "failures": sum(len(each.failures) for each in results),
        },
    }
