"""What rendering a template folder for one parent gave: documents, problems, waits.

Promises:
- All of it is known at once: one failed document never hides the others.
- Each document and each problem knows the template line it came from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ssa_operator.core.place import FieldPath, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One manifest as its template says it: `body` is plain JSON data, `place` its first line.

    `place_of(path)` is the line that wrote a field, or the nearest field around it.
    """

    body: Mapping[str, Any]
    place: Place
    place_of: Callable[[FieldPath], Place]


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a template or one of its documents can't be used; `str` is the sentence users read."""

    message: str
    place: Place | None = None

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """Everything that one render of a folder gave.

    `digest` names the template set. `status` stays None: its fields come of the children as they are after a pass, and
    are rendered then.
    """

    documents: tuple[Document, ...] = ()
    problems: tuple[Problem, ...] = ()
    status: Mapping[str, Any] | None = None
    digest: str = ""

    @property
    def complete(self) -> bool:
        """Whether every template gave all of its documents: only then may anything be pruned."""
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFields:
    """What `_status.yaml.j2` gave: the fields that are known, or why there are none."""

    fields: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
