"""What a user may set about a running operator; the defaults are those of `ssa-operator run`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ssa_operator.core.policies.field_conflicts import ConflictPolicy


class ApplyMode(StrEnum):
    """Whether a look at a parent applies every manifest, or only those that are not proven unchanged.

    A child's own event never applies what is proven; a new value of `reconcile-at` always applies everything.
    """

    ALWAYS = "always"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `ssa-operator run`.

    templates: the folders of template folders. namespaces: where to look, all if empty. selector: a label selector for
    parents. interval: seconds between two ticks of a parent. tick_rate: applies a second that ticks may cost over all
    parents; 0 switches ticks off. listen: host and port of the HTTP server (no host: all addresses), None for none.
    tolerance: when others' changes are a fight, and how it goes on.
    """

    templates: tuple[Path, ...] = (Path("templates"),)
    namespaces: tuple[str, ...] = ()
    selector: str = ""
    interval: float = 10.0
    tick_rate: float = 20.0
    workers: int = 16
    apply: ApplyMode = ApplyMode.ALWAYS
    listen: tuple[str | None, int] | None = ("127.0.0.1", 8080)
    conflict_policy: ConflictPolicy = field(default_factory=ConflictPolicy)
