"""What the templates of one render ask the cluster.

Promises:
- Asking never waits; reading what was asked for does, where the cluster does not have it.
- In a lenient render nothing waits: a child need not be ready for its fields to be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import TemplateRuntimeError

from ssa_operator.core.instruction import Reference
from ssa_operator.core.readiness import State, readiness
from ssa_operator.core.world import World
from ssa_operator.rendering.functions import TAKES_OBSERVED
from ssa_operator.rendering.observed import Awaited, Observed, Source, Unknown


class Inquiry:
    """The functions of one render; `lenient` where nothing waits."""

    def __init__(self, world: World, lenient: bool) -> None:
        self._world = world
        self._lenient = lenient
        self.functions: Mapping[str, Callable[..., Any]] = {"child": self._child, "ready": self._ready}

    def _child(self, kind: str, name: str) -> Observed | Unknown:
        source = Source(Reference(kind, name), self._world.child(kind, name), self._lenient)
        if source.body is not None and (self._lenient or self._is_ready(source.body)):
            return Observed(source.body, (source,))
        return Unknown((source,), [Awaited(source.reference, state="be ready")])

    def _ready(self, asked: Any) -> Observed:
        sources = asked.sources if isinstance(asked, (Observed, Unknown)) else ()
        if len(sources) != 1 or (isinstance(asked, Observed) and asked.value is not sources[0].body):
            raise TemplateRuntimeError("ready needs what child or lookup gave, as in ready(child('Job', name))")
        return Observed(sources[0].body is not None and self._is_ready(sources[0].body), sources)

    def _is_ready(self, body: Mapping[str, Any]) -> bool:
        return readiness(body, self._world.now).state is State.CURRENT


setattr(Inquiry._ready, TAKES_OBSERVED, True)  # noqa: SLF001 - its own module
