"""A condition over one object as a value: the expression of an author, and the function that judges an object by it.

Promises:
- Rules judge objects by an expression without a template language: rendering compiles it (see
  rendering.jinja.predicates).
- Two predicates are equal if their expressions are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import Struct

from ssa_operator.objects.secret_fields import HIDDEN


class Judgement(Struct, frozen=True):
    """The result of a predicate for one object."""

    holds: bool
    cause: str = ""
    """Why the expression has no value, such as a missing field; '' if it has one."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """An expression over the top-level fields of an object."""

    text: str
    """The expression as its author wrote it."""
    judge: Callable[[Mapping[str, Any]], Judgement] = field(compare=False, repr=False)
    """Judges an object. It never raises: an expression without a value does not hold."""
    secret: bool = False
    """Whether a Secret's content is a part of the expression."""

    @property
    def shown(self) -> str:
        """The expression as a message may quote it."""
        return HIDDEN if self.secret else self.text

    def without_causes(self, *, secret: bool = False) -> Predicate:
        """The same expression, of which no message quotes what it read of the object. If it is `secret`, no message
        quotes the expression either.
        """
        return replace(self, judge=lambda body: Judgement(self.judge(body).holds), secret=self.secret or secret)
