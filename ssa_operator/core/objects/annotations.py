"""Annotations of a manifest that speak to the operator and are not applied to the cluster.

Promises:
- An instruction is read once, checked, and taken out of the manifest.
- An unknown name or value below `ssa-operator.dev/` is an error that says what is allowed: a misspelt instruction is
  never obeyed as its default.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "ssa-operator.dev/"


class Recreate(StrEnum):
    """What to do when the API server says that a changed field is immutable."""

    NEVER = "Never"
    ORPHAN = "Orphan"
    FOREGROUND = "Foreground"
    BACKGROUND = "Background"


class ApplyPolicy(StrEnum):
    """When a manifest is applied: always, only while its object is absent, or once in the parent's life."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    ONCE = "Once"


class AnnotationError(ValueError):
    """An instruction that can't be obeyed; the text says which one and what is allowed."""


@dataclass(frozen=True, slots=True)
class Reference:
    """`Kind/name`, as `after` names another manifest of the same parent."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """The instructions of one manifest; the defaults are what a manifest without annotations gets.

    recreate: what to do about an immutable field. prune: whether the object goes with its template and its parent.
    apply: when it is applied. after: manifests that must be ready before. finalize: applied only when the parent is
    being deleted. wait: whether its readiness counts.
    """

    recreate: Recreate = Recreate.NEVER
    prune: bool = True
    apply: ApplyPolicy = ApplyPolicy.ALWAYS
    after: tuple[Reference, ...] = ()
    finalize: bool = False
    wait: bool = True


DEFAULT = Instructions()


def is_finalize_hook(annotations: Mapping[str, object] | None) -> bool:
    """Whether a manifest with these annotations is a finalize hook: applied only when the parent is being deleted."""
    return annotations is not None and annotations.get(f"{PREFIX}on") == "finalize"


def parse_annotations(annotations: Mapping[str, object]) -> Instructions:
    """The instructions among a manifest's annotations.

    Raises InstructionError for an unknown instruction or value.
    """
    found = {key.removeprefix(PREFIX): value for key, value in annotations.items() if key.startswith(PREFIX)}
    if not found:
        return DEFAULT
    allowed = ("recreate", "prune", "apply", "after", "on", "wait")
    for name in found:
        if name not in allowed:
            near = difflib.get_close_matches(name, allowed, n=1)
            hint = f"did you mean {PREFIX}{near[0]}?" if near else f"known are {', '.join(allowed)}"
            raise AnnotationError(f"annotation {PREFIX}{name} is not an instruction of ssa-operator; {hint}")
    return Instructions(
        recreate=Recreate(_choice("recreate", found.get("recreate", Recreate.NEVER), tuple(Recreate))),
        prune=_choice("prune", found.get("prune", "true"), ("true", "false")) == "true",
        apply=ApplyPolicy(_choice("apply", found.get("apply", ApplyPolicy.ALWAYS), tuple(ApplyPolicy))),
        after=parse_references(found.get("after", "")),
        finalize="on" in found and _choice("on", found["on"], ("finalize",)) == "finalize",
        wait=_choice("wait", found.get("wait", "true"), ("true", "false")) == "true",
    )


def _choice(name: str, value: object, allowed: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        raise AnnotationError(f'annotation {PREFIX}{name} must be a string: write "{str(value).lower()}" in quotes')
    if value not in allowed:
        raise AnnotationError(f"annotation {PREFIX}{name} is {value!r}; allowed are {', '.join(allowed)}")
    return str(value)


def parse_references(value: object) -> tuple[Reference, ...]:
    """The manifests that an annotation `after` names. Raises InstructionError where it is no list of `Kind/name`."""
    named = []
    for item in str(value).split(","):
        if not item.strip():
            continue
        kind, slash, name = item.strip().partition("/")
        if not (kind.strip() and slash and name.strip()) or "/" in name:
            raise AnnotationError(f'annotation {PREFIX}after has {item.strip()!r}; write "Kind/name, Kind/name"')
        named.append(Reference(kind.strip(), name.strip()))
    return tuple(named)
