"""The outcomes of a run in a file, so that a run that was ended goes on where it was.

Promises:
- An outcome is in the file as soon as its run is over: one JSON object a line.
- A line that a killed process left half-written is not an outcome: its point is played again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from tests.perturbations.perturbation import Perturbation
from tests.perturbations.play import Outcome


@dataclass(slots=True)
class Record:
    """The outcomes so far, by story and perturbation. Without a file they are only in memory."""

    file: BinaryIO | None = None
    _outcomes: dict[tuple[str, str], Outcome] = field(default_factory=dict)

    def find(self, story: str, perturbation: Perturbation) -> Outcome | None:
        return self._outcomes.get((story, str(perturbation)))

    def add(self, outcome: Outcome) -> None:
        self._outcomes[outcome.story, outcome.perturbation] = outcome
        if self.file is not None:
            self.file.write(msgspec.json.encode(outcome) + b"\n")
            self.file.flush()


@contextmanager
def recorded(path: Path | None) -> Iterator[Record]:
    """The record of a file, which need not exist yet. Raises OSError if the file can't be written."""
    if path is None:
        yield Record()
        return
    outcomes = list(_complete(path.read_bytes().splitlines(keepends=True) if path.exists() else ()))
    # Written again without a half-written line, so that the next outcome has a line of its own.
    path.write_bytes(b"".join(msgspec.json.encode(outcome) + b"\n" for outcome in outcomes))
    with path.open("ab") as file:
        yield Record(file, {(outcome.story, outcome.perturbation): outcome for outcome in outcomes})


def _complete(lines: Iterable[bytes]) -> Iterator[Outcome]:
    return (msgspec.json.decode(line, type=Outcome) for line in lines if line.endswith(b"\n"))
