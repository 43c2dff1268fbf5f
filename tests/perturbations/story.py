"""A story: parents of one or more folders, and what a user does with them."""

from __future__ import annotations

import enum
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Body = dict[str, Any]

Key = tuple[str, str]
"""A resource and the name of an object."""

RUN_LABEL = "perturbations.example.com/run"
"""The label of a cluster-scoped parent that has the name of the run's namespace."""


@dataclass(frozen=True, slots=True)
class Apply:
    """A user applies an object. Its namespace is that of the run, unless it says one; '' is a cluster-scoped object."""

    resource: str
    body: Body


@dataclass(frozen=True, slots=True)
class Delete:
    """A user deletes an object."""

    resource: str
    name: str
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Orphan:
    """A user deletes an object with `--cascade=orphan`. The garbage collector has left its children when it returns."""

    resource: str
    name: str


@dataclass(frozen=True, slots=True)
class Annotate:
    """A user annotates an object, if it exists."""

    resource: str
    name: str
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Write:
    """A user changes a file of the templates."""

    path: str
    text: str


Action = Apply | Delete | Orphan | Annotate | Write


@dataclass(frozen=True, slots=True)
class Step:
    """One change by a user. What the operator makes of it is awaited before the next one."""

    name: str
    actions: Callable[[str], Sequence[Action]]
    """The user's actions in a namespace."""
    down: bool = False
    """Whether no operator runs meanwhile."""
    ends: Callable[[Mapping[Key, Body]], object] = lambda _: True
    """Whether the objects are as the step says, more than that all parents are Ready."""
    decided: bool = True
    """Whether each parent that was deleted goes in this step."""


class Processes(enum.Enum):
    """The operator processes of a run."""

    ONE = "one"
    SHARDS = "two shards"
    REPLICAS = "two replicas"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """Parents of one or more folders, and what a user does with them."""

    name: str
    templates: Path
    crds: Path | None
    folders: tuple[str, ...]
    """The template folders."""
    steps: tuple[Step, ...]
    resources: tuple[str, ...]
    """The resources of parents and children."""
    cluster_scoped: bool = False
    """Whether its parents are cluster-scoped."""
    reports_status: bool = True
    """Whether parents have a status."""
    processes: Processes = Processes.ONE
    converts: bool = False
    """Whether its parents have two versions."""
    replaced: Mapping[str, str] = field(default_factory=dict)
    """Texts in templates that each run needs of its own; `NS` in the new text is the run's namespace."""

    def write_templates(self, target: Path, namespace: str) -> Path:
        """Copy the templates for one run. Returns their folder."""
        for folder in (*self.folders, "_shared"):
            if (self.templates / folder).exists():
                shutil.copytree(self.templates / folder, target / folder)
        for path in (*target.glob("*/*.j2"), *target.glob("*/*.yaml")):
            text = path.read_text()
            for old, new in self.replaced.items():
                text = text.replace(old, new.replace("NS", namespace))
            path.write_text(text)
        return target
