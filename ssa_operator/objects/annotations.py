"""The operator's annotations in a manifest: instructions that are not applied to the cluster; and its finalizer.

Promises:
- The operator reads and checks each instruction once, and removes it from the manifest.
- An unknown name or value below `ssa-operator.dev/` is an error that lists what is allowed: a misspelt instruction
  never counts as its default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from ssa_operator.objects.messages import near_names

PREFIX = "ssa-operator.dev/"

FINALIZER = f"{PREFIX}cleanup"
"""The finalizer of a parent that has finalize hooks, or children that Kubernetes can't delete."""


class Recreate(StrEnum):
    """What to do when the API server refuses the change of an immutable field."""

    NEVER = "Never"
    ORPHAN = "Orphan"
    FOREGROUND = "Foreground"
    BACKGROUND = "Background"


class ApplyPolicy(StrEnum):
    """When a manifest is applied: always, only if its object is absent, once in the parent's life, or always for each
    of several parents that share the object.
    """

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    ONCE = "Once"
    SHARED = "Shared"


APPLIED_EACH_TIME = frozenset({ApplyPolicy.ALWAYS, ApplyPolicy.SHARED})
"""The policies by which a manifest is applied to an object that exists."""


class AnnotationError(ValueError):
    """An unknown instruction or value; the text names it and what is allowed."""


class Reference(Struct, frozen=True):
    """Another manifest of the same parent, written as `Kind/name`."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class Instructions(Struct, frozen=True, kw_only=True):
    """The instructions of one manifest; the defaults are those of a manifest without annotations."""

    recreate: Recreate = Recreate.NEVER
    """What to do when the API server refuses the change of an immutable field."""
    prune: bool = True
    """Whether the object is deleted when it is no longer rendered, and with its parent."""
    apply: ApplyPolicy = ApplyPolicy.ALWAYS
    """When the manifest is applied."""
    after: tuple[Reference, ...] = ()
    """Manifests that must be ready before."""
    finalize: bool = False
    """Whether the manifest is a finalize hook: applied only when the parent is being deleted."""
    wait: bool = True
    """Whether its readiness counts for the parent's."""
    ready_when: str = ""
    """The expression that replaces the built-in rules of readiness, '' for none."""


DEFAULT = Instructions()


def is_finalize_hook(annotations: Mapping[str, object] | None) -> bool:
    """Whether a manifest with these annotations is a finalize hook: applied only when the parent is being deleted."""
    return annotations is not None and annotations.get(f"{PREFIX}on") == "finalize"


def parse_annotations(annotations: Mapping[str, object]) -> Instructions:
    """The instructions among a manifest's annotations.

    Raises AnnotationError with all unknown instructions and values.
    """
    instructions = {key.removeprefix(PREFIX): value for key, value in annotations.items() if key.startswith(PREFIX)}
    if not instructions:
        return DEFAULT
    values, problems = dict[str, Any](), list[str]()
    for name, value in instructions.items():
        if name not in _READERS:
            near = near_names(name, tuple(_READERS))
            hint = f"did you mean {PREFIX}{near[0]}?" if near else f"allowed are {', '.join(_READERS)}"
            problems.append(f"annotation {PREFIX}{name} is not an instruction of ssa-operator; {hint}")
            continue
        field, read = _READERS[name]
        try:
            values[field] = read(value)
        except AnnotationError as error:
            problems.append(str(error))
    if problems:
        raise AnnotationError("; ".join(problems))
    return Instructions(**values)


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        raise AnnotationError(f'annotation {PREFIX}{name} must be a string: write "{str(value).lower()}" in quotes')
    if value not in allowed:
        raise AnnotationError(f"annotation {PREFIX}{name} is {value!r}; allowed are {', '.join(allowed)}")
    return str(value)


def parse_references(value: object) -> tuple[Reference, ...]:
    """The manifests in the annotation `after`. Raises AnnotationError if its value is not a list of `Kind/name`."""
    references = []
    for item in str(value).split(","):
        if not item.strip():
            continue
        kind, slash, name = item.strip().partition("/")
        if not (kind.strip() and slash and name.strip()) or "/" in name:
            raise AnnotationError(f'annotation {PREFIX}after has {item.strip()!r}; write "Kind/name, Kind/name"')
        references.append(Reference(kind.strip(), name.strip()))
    return tuple(references)


_READERS: Mapping[str, tuple[str, Callable[[object], object]]] = {
    "recreate": ("recreate", lambda value: Recreate(_choice("recreate", value, tuple(Recreate)))),
    "prune": ("prune", lambda value: _choice("prune", value, ("true", "false")) == "true"),
    "apply": ("apply", lambda value: ApplyPolicy(_choice("apply", value, tuple(ApplyPolicy)))),
    "after": ("after", parse_references),
    "on": ("finalize", lambda value: _choice("on", value, ("finalize",)) == "finalize"),
    "wait": ("wait", lambda value: _choice("wait", value, ("true", "false")) == "true"),
    "ready-when": ("ready_when", str),
}
"""For each instruction the field, and what reads its value."""

UNCONVERTED = f"{PREFIX}unconverted"
"""The fields of the versions of a parent that its present version can't hold."""

NOT_CONVERTED = f"{PREFIX}not-converted"
"""Why a parent can't be converted to the version that it is shown in, and its content in its own version."""


class NotConverted(Struct, frozen=True, kw_only=True):
    """The content of that annotation."""

    version: str
    """The parent's own version."""
    message: str
    content: str = ""
    """Its fields but those of the metadata, compressed; '' if they are too large."""
    seal: str = ""


def not_converted(body: Mapping[str, Any]) -> NotConverted | None:
    """Why a parent is shown without its content, None if it isn't."""
    text = ((body.get("metadata") or {}).get("annotations") or {}).get(NOT_CONVERTED)
    try:
        return None if text is None else msgspec.json.decode(text, type=NotConverted)
    except (msgspec.MsgspecError, ValueError):
        return None


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
