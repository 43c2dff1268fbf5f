"""Explores one template folder: plays its kept sequences, draws new ones, and repeats, shortens and keeps failing ones.

Promises:
- The same seed gives the same changes for the same templates and schema.
- A failure is repeated before it is reported, and its sequence is made as short as possible and kept in a file.
- Kept sequences are played first.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.messages import counted
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.objects.template_contents import TemplateContents
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.tools.cases.golden_cases import CASES, INVALID, CaseProject, Suite, read_case, suite_cases
from ssa_operator.tools.offline.documents import read_objects
from ssa_operator.tools.offline.project import examples_of
from tests.exploration.explored_kinds import ExploredKind, with_read_metadata, with_room_for_metadata
from tests.exploration.explored_sequences import (
    PATTERN,
    ExploredSequence,
    read_sequence,
    shortest_sequence,
)
from tests.exploration.explorer import Explorer, from_changes
from tests.exploration.results import (
    ABSENT,
    ChildDifference,
    ExplorationRule,
    ExploredObject,
    Failure,
    Phase,
    Played,
)
from tests.exploration.spec_changes import SpecChange, draw_change

SHOWN_DIFFERENCES = 10


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
    """The results of the sequences of one template folder."""

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


def summary(results: Sequence[ExploredFolder]) -> dict[str, int]:
    """The sums over all folders."""
    return {
        "sequences": sum(each.sequences for each in results),
        "changes": sum(each.phases.total() for each in results),
        "failures": sum(len(each.failures) for each in results),
        "skipped": sum(bool(each.skipped) for each in results),
    }


def exploration_data(results: Sequence[ExploredFolder]) -> dict[str, Any]:
    """The results for `--output json`."""
    return {"folders": [each.data() for each in results], "summary": summary(results)}


def exploration_lines(results: Sequence[ExploredFolder]) -> list[str]:
    """The results for a reader."""
    lines = [line for each in results for line in each.lines()]
    if len(results) > 1:
        sums = summary(results)
        counts = f"{counted(sums['sequences'], 'sequence')}, {counted(sums['changes'], 'change')}"
        skipped = f", {sums['skipped']} skipped" if sums["skipped"] else ""
        lines.append(f"{len(results)} template folders: {counts}: {counted(sums['failures'], 'failure')}{skipped}")
    return lines


FAILURES_LIMIT = 3
"""Failures of one template folder after which no more sequences of it are played."""

_KEPT_METADATA = ("name", "labels", "annotations")


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceOptions:
    """Which sequences to play."""

    examples: Sequence[Path] | None
    """Files and folders of parents and of what their templates look up. None: the folders beside the templates."""
    seed: int
    sequences: int
    """Sequences of each template folder; without a limit if `seconds` is set and this is 0."""
    steps: int
    seconds: float
    """Seconds for which new sequences are begun for each template folder, 0 for no limit."""
    replay: Sequence[Path]
    """The only sequences to play."""
    attempts: int = 30
    """Sequences that are played to shorten one."""
    quiet: bool
    """Whether no progress is printed."""


class FolderExploration:
    """Explores one template folder."""

    def __init__(
        self, explorer: Explorer, suite: Suite, project: CaseProject, folder: Folder, options: SequenceOptions
    ) -> None:
        self._explorer = explorer
        self._suite = suite
        self._project = project
        self._folder = folder
        self._contents = template_contents(folder)
        self._options = options
        self._found = ExploredFolder(folder=folder.name)
        self._known: set[str] = set()
        self._cases = folder.root.parent / CASES / folder.name

    async def run(self, kind: ExploredKind | str) -> ExploredFolder:
        """Explore the parents of a kind; a text is why there is none. Raises ApiError, ParentError, CommandError."""
        kept = self._kept()
        if self._options.replay and not kept:
            return self._found
        if isinstance(kind, str):
            self._found.skipped = kind
            return self._found
        examples = self._examples()
        for path in kept:
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
            given = examples_of(None, self._suite.templates)
        return read_objects(given)

    def _subject(self, kind: ExploredKind, parent: Document, examples: Sequence[Document]) -> ExploredObject:
        """The parent, with the examples that its templates look up beside it."""
        metadata = {key: parent.body["metadata"][key] for key in _KEPT_METADATA if key in parent.body["metadata"]}
        body = {key: value for key, value in parent.body.items() if key != "status"} | {"metadata": metadata}
        looked_up = looked_up_objects(self._contents, parent, examples)
        shared = [each for each in looked_up if self._is_shared(each)]
        return ExploredObject(
            folder=self._folder.name,
            parent=replace(parent, body=with_room_for_metadata(body, self._contents)),
            beside=tuple(each for each in looked_up if each not in shared),
            shared=tuple(shared),
            namespaced=kind.namespaced,
        )

    def _is_shared(self, document: Document) -> bool:
        """Whether the templates look an object up in a namespace that they name, or in all, where each parent
        would see the objects beside all others.
        """
        own = document.body["metadata"].get("namespace")
        namespaces = {each.namespace for each in self._contents.lookups if each.group_kind == group_kind(document)}
        return own is not None and (own in namespaces or namespaces == {""})

    def _starts(self, kind: ExploredKind, examples: Sequence[Document]) -> list[Document]:
        """The parents that sequences begin with: those of the examples, else of the golden cases, else a sample."""
        if found := [each for each in examples if group_kind(each) == kind.group_kind]:
            return found
        suite = replace(self._suite, folder=self._folder.name)
        if found := [read_case(path).parent for path in suite_cases(suite, self._project)]:
            return found
        body = kind.sample()
        location = SourceLocation(f"the sample of {self._folder.name}", 1)
        return [] if body is None else [Document(body=body, location=location, location_of=lambda _: location)]

    async def _explore(self, kind: ExploredKind, examples: Sequence[Document]) -> None:
        options, began = self._options, time.monotonic()
        starts = self._starts(kind, examples)
        if not starts:
            self._found.skipped = f"there is no example of a {kind.group_kind}; name one with --examples"
            return
        number = 0
        while len(self._found.failures) < FAILURES_LIMIT:
            over = options.seconds and time.monotonic() - began > options.seconds
            if over or (number >= options.sequences and (options.sequences or not options.seconds)):
                return
            start = starts[number % len(starts)]
            number += 1
            subject = self._subject(kind, start, examples)
            body = subject.parent.body
            schema = with_read_metadata(kind.schema(body["apiVersion"]), self._contents, body)
            # Not the hash of the text: Python's differs between processes.
            chance = random.Random(f"{options.seed}/{self._folder.name}/{number}")

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
                streams.error(f"{self._folder.name}: {reason}")
                number -= 1
                continue
            if played.failure is not None:
                await self._report(subject, played, self._cases / f"explored-{options.seed}-{number}.yaml")

    async def _play(self, subject: ExploredObject, draw: Callable[[Any], Any], steps: int, name: str) -> Played:
        played = await self._explorer.play(subject, draw, steps)
        if played.invalid and not played.changes:
            return played
        self._found.sequences += 1
        self._found.phases.update(played.phases)
        if not self._options.quiet:
            result = str(played.failure.rule) if played.failure else "ok"
            streams.error(f"{name}: {counted(len(played.changes), 'change')}: {result}")
        return played

    async def _replay(self, subject: ExploredObject, changes: Sequence[SpecChange], path: Path) -> None:
        played = await self._play(subject, from_changes(changes), len(changes), str(path))
        if played.invalid:
            raise CommandError(f"{path}: can't be played: {played.invalid}", code=INVALID)
        if played.failure is not None:
            self._found.failures.append(FoundFailure(failure=played.failure, changes=played.changes, path=path))

    async def _report(self, subject: ExploredObject, played: Played, path: Path) -> None:
        """Repeat a failure, shorten its sequence, and keep it."""
        failure = played.failure
        assert failure is not None
        if _signature(failure) in self._known:
            return

        async def play(changes: Sequence[SpecChange]) -> Played:
            return await self._explorer.play(subject, from_changes(changes), len(changes))

        again = await play(played.changes)
        if again.failure is None or again.failure.rule is not failure.rule:
            if failure.rule is not ExplorationRule.CRASH:
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
    """A text that is equal for failures that probably have one cause."""
    fields = sorted({(each.child, each.field) for each in failure.differences})
    return json.dumps([failure.rule, fields or failure.message])


def looked_up_objects(contents: TemplateContents, parent: Document, examples: Sequence[Document]) -> list[Document]:
    """The examples of the kinds that the templates look up, without the parent: one namespace has both."""
    kinds = {lookup.group_kind for lookup in contents.lookups}
    return [each for each in examples if group_kind(each) in kinds and _name(each) != _name(parent)]


def _name(document: Document) -> tuple[GroupKind, str]:
    return group_kind(document), document.body["metadata"]["name"]
