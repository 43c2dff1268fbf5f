"""Sequences of spec changes in files, as an exploration keeps them and `--replay` plays them.

Promises:
- A file that was written gives the same parent and the same changes when it is read.
- A file holds what a user needs to repeat the sequence with kubectl: the parent, and JSON patches.
- The result breaks the same rule as the original sequence.
- Steps are left out first, then values become simpler.
- At most `attempts` sequences are played.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import Struct

from ssa_operator.objects.render_result import Document
from ssa_operator.operator.process.streams import CommandError, writing
from ssa_operator.rendering.folder.contained_files import write_bytes
from ssa_operator.rendering.folder.object_files import FileError, load_objects
from ssa_operator.tools.printing import canonical_text
from tests.exploration.results import ExplorationRule, Played
from tests.exploration.spec_changes import REMOVED, PatchError, SpecChange, simpler

API_VERSION = "ssa-operator.dev/v1"
KIND = "ExploredSequence"
PATTERN = "explored-*.yaml"
"""The files beside the golden cases of a template folder."""


class ExploredSequence(Struct, frozen=True, kw_only=True):
    """A sequence that broke a rule."""

    folder: str
    """The name of the template folder."""
    parent: Mapping[str, Any]
    """The parent at the beginning."""
    changes: Sequence[SpecChange]
    rule: str
    """The rule that it broke when it was found."""
    message: str

    def text(self) -> str:
        """The content of its file."""
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": self.folder},
            "rule": self.rule,
            "message": self.message,
            "parent": {key: self.parent[key] for key in self.parent if key != "status"},
            "steps": [change.data() for change in self.changes],
        }
        return "# Play it again: ssa-operator test --replay <this file>\n" + canonical_text([body])

    def write(self, path: Path) -> None:
        """Write its file. Raises CommandError."""
        with writing(path):
            write_bytes(path, self.text().encode())


def read_sequence(path: Path) -> tuple[ExploredSequence, Document]:
    """The sequence of a file, and its parent. Raises CommandError."""
    try:
        documents = load_objects([path])
    except FileError as error:
        raise CommandError("\n".join(map(str, error.problems)), code=2) from error
    if len(documents) != 1 or documents[0].body.get("kind") != KIND:
        raise CommandError(f"{path} is no {KIND}; name a file that the exploration wrote", code=2)
    body = documents[0].body
    parent, steps = body.get("parent"), body.get("steps")
    if not isinstance(parent, Mapping) or not {"apiVersion", "kind", "metadata"} <= parent.keys():
        raise CommandError(f"{documents[0].location}: parent needs apiVersion, kind and metadata", code=2)
    if not isinstance(steps, list):
        raise CommandError(f"{documents[0].location}: steps is not a list", code=2)
    changes = []
    for at, step in enumerate(steps):
        try:
            changes.append(SpecChange.of(step))
        except PatchError as error:
            location = documents[0].location_of(("steps", at))
            raise CommandError(f"{location}: {error}", code=2) from error
    found = ExploredSequence(
        folder=str(body["metadata"]["name"]),
        parent=parent,
        changes=tuple(changes),
        rule=str(body.get("rule", "")),
        message=str(body.get("message", "")),
    )
    location = documents[0].location
    return found, Document(body=parent, location=location, location_of=lambda _: location)


Play = Callable[[Sequence[SpecChange]], Awaitable[Played]]


async def shortest_sequence(played: Played, rule: ExplorationRule, play: Play, attempts: int) -> Played:
    """The shortest sequence that was found. `played` breaks the rule."""
    best, changed = played, True
    tried: set[str] = {str(played.changes)}
    while changed:
        changed = False
        for candidate in _candidates(best.changes):
            if str(candidate) in tried:
                continue
            if attempts <= 0:
                return best
            attempts -= 1
            tried.add(str(candidate))
            found = await play(candidate)
            if found.failure is not None and found.failure.rule is rule:
                best, changed = found, True
                break
    return best


def _candidates(changes: Sequence[SpecChange]) -> Iterator[list[SpecChange]]:
    """Shorter and simpler sequences, the shortest first."""
    if len(changes) > 2:
        yield [changes[-1]]
        yield [*changes[len(changes) // 2 :]]
    for at in range(len(changes)):
        yield [*changes[:at], *changes[at + 1 :]]
    for at, change in enumerate(changes):
        for value in simpler(change.value) if change.value is not REMOVED else ():
            yield [*changes[:at], replace(change, value=value), *changes[at + 1 :]]
