"""Whether the API server is away, as the watches of a running operator know it.

Promises:
- The API server is away if no watch of parents or of CRDs is open, and one of them failed repeatedly for another reason
  than a missing kind or permission.
- It costs no request. The last contact is known to within the interval between two looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from ssa_operator.kube.watch.reflector import Reflector, ReflectorState
from ssa_operator.operator.operator import Operator
from ssa_operator.reconcile.status.conditions import timestamp


class ApiServerAway(Struct, frozen=True, kw_only=True):
    """The API server does not answer."""

    since: str
    """The last contact (RFC 3339)."""
    problem: str
    """The error of a watch."""


class ApiContact:
    """Follows the watches of an operator. `now` is in seconds since 1970."""

    def __init__(self, operator: Operator, now: Callable[[], float]) -> None:
        self._operator = operator
        self._now = now
        self._last = now()

    def look(self) -> ApiServerAway | None:
        """What is known now, None if the API server answers."""
        reflectors = [*self._reflectors()]
        failing = [each for each in reflectors if each.state is ReflectorState.FAILING]
        if not failing or any(each.state is ReflectorState.WATCHING for each in reflectors):
            self._last = self._now()
            return None
        problem = next((each.problem for each in failing if each.problem), "")
        # Fewer failures than it takes for a problem are transient.
        return ApiServerAway(since=timestamp(self._last), problem=problem) if problem else None

    def _reflectors(self) -> Iterator[Reflector]:
        yield self._operator.controllers.crds.reflector
        for parents in self._operator.folders.values():
            yield from parents.reflectors
