"""The proof that templates give the same manifests each time.

Promises:
- A document in which two renders of the same input differ is a problem with the place of the difference; only generated
  values may differ.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ssa_operator.core.identity import GroupKind, Identity
from ssa_operator.core.place import field_text
from ssa_operator.core.rendered import Problem
from ssa_operator.core.world import Answer, Body, Lookup, Selection, World
from ssa_operator.rendering.difference import difference
from ssa_operator.rendering.render import render
from ssa_operator.rendering.templates import Templates

if TYPE_CHECKING:
    from ssa_operator.rendering.sources import Folder


def differences(templates: Templates | Folder, parent: Mapping[str, Any], world: World) -> tuple[Problem, ...]:
    """Every document that two renders of the parent in the same world make differently. It costs both renders."""
    one, other = (render(templates, parent, _Repeated(world, itertools.count())) for _ in range(2))
    if len(one.documents) != len(other.documents):
        counts = f"{len(one.documents)} and {len(other.documents)} documents"
        return (Problem(f"two renders of the same input give {counts}; remove what the templates find by chance"),)
    found = []
    for left, right in zip(one.documents, other.documents, strict=True):
        field = difference(left.body, right.body)
        if field is not None:
            what = field_text(field) or "the document"
            message = f"{what} is another one in each render of the same input; a manifest must always be the same"
            found.append(Problem(message, left.place_of(field)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A world that draws the same numbers in each render."""

    world: World
    numbers: Iterator[int]

    @property
    def now(self) -> float:
        return self.world.now

    def synced(self, kind: GroupKind, /) -> bool:
        return self.world.synced(kind)

    def namespaced(self, kind: GroupKind, /) -> bool | None:
        return self.world.namespaced(kind)

    def child(self, kind: str, name: str, /) -> Body | None:
        return self.world.child(kind, name)

    def lookup(self, identity: Identity, /) -> Body | None:
        return self.world.lookup(identity)

    def answer(self, question: Lookup | Selection, /) -> Answer:
        return self.world.answer(question)

    def random(self, below: int, /) -> int:
        return next(self.numbers) % below
