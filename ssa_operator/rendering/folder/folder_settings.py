"""Parses the settings of a folder: `_settings.yaml`.

Promises:
- An unknown or invalid setting is an error with its line. The default never replaces it silently.
- A folder's settings are those that the operator reads. If they are invalid, or if two templates folders have the
  resource, the defaults are used: `check` and the operator report the problem.
- A templates folder that does not exist or can't be read has no resources.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path
from typing import Any

from ssa_operator.objects.live_object import MANAGER
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.parent_settings import MAX_CHILDREN, MAX_DEPTH, AdoptPolicy, ParentSettings
from ssa_operator.objects.predicate import Predicate
from ssa_operator.objects.rollout_settings import RolloutSettings
from ssa_operator.objects.scalars import parse_duration
from ssa_operator.rendering.folder.folder_snapshot import read_snapshot
from ssa_operator.rendering.folder.rollout_fields import parse_rollout
from ssa_operator.rendering.jinja.predicates import PredicateError, compile_predicate
from ssa_operator.rendering.values.limits import MOST_SECONDS
from ssa_operator.rendering.values.line_marks import StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import DocumentError, Node, SlotValues, find_location

SETTINGS = "_settings.yaml"

SCHEMA = "_schema.yaml"
"""The API of the folder in short, from which the CRD is made."""

_KEYS = (
    "interval",
    "version",
    "clusterScope",
    "formerManagers",
    "suspendWhen",
    "maxChildren",
    "maxDepth",
    "renderLimit",
    "adopt",
    "rollout",
)


class Settings(ParentSettings, frozen=True, kw_only=True):
    """The settings of one resource's folder."""

    interval: float | None = None
    """Seconds between two resyncs; None for the operator's interval."""
    version: str | None = None
    """The version of the resource to read; None for the preferred one."""
    former_managers: frozenset[str] = frozenset()
    """Field managers whose fields the operator takes over when it adopts an existing object."""
    suspend_when: Predicate | None = None
    """The expression over a parent that suspends it while it is true; None without one."""
    render_limit: float | None = None
    """Seconds of processor time that one template may take, at most 30; None for one."""
    rollout: RolloutSettings | None = None
    """How a changed template set is rolled out; None for all parents at once."""


DEFAULT = Settings()


def parse_settings(name: str, text: str) -> Settings:
    """The settings in a file's text. Raises DocumentError."""
    nodes = parse(StaticText(text, name))
    if not nodes:
        return DEFAULT
    if len(nodes) > 1:
        raise DocumentError("there may be only one document", nodes[1].location)
    return _settings(nodes[0].build(SlotValues()), nodes[0])


def _settings(found: Any, node: Node) -> Settings:
    if not isinstance(found, dict):
        raise DocumentError(f"settings are a mapping of {', '.join(_KEYS)}", node.location)
    for key in found:
        if key not in _KEYS:
            near = near_names(key, _KEYS, likeness=0.5)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(_KEYS)}"
            raise DocumentError(f"{key} is not a setting; {hint}", find_location(node, (key,), SlotValues()))
    version, cluster_scope = found.get("version"), found.get("clusterScope", False)
    if version is not None and (not isinstance(version, str) or not version):
        raise DocumentError("version must be a name such as v1", find_location(node, ("version",), SlotValues()))
    if not isinstance(cluster_scope, bool):
        raise DocumentError("clusterScope must be true or false", find_location(node, ("clusterScope",), SlotValues()))
    return Settings(
        interval=_seconds("interval", found.get("interval"), node),
        version=version,
        cluster_scope=cluster_scope,
        former_managers=_former_managers(found.get("formerManagers", []), node),
        adopt=_adopt(found.get("adopt", AdoptPolicy.IN_NAMESPACE), node),
        max_children=_count("maxChildren", found, MAX_CHILDREN, node),
        max_depth=_count("maxDepth", found, MAX_DEPTH, node),
        render_limit=_seconds("renderLimit", found.get("renderLimit"), node, MOST_SECONDS),
        suspend_when=_suspend_when(found.get("suspendWhen"), node),
        rollout=parse_rollout(found.get("rollout"), node),
    )


def _adopt(value: Any, node: Node) -> AdoptPolicy:
    if value not in tuple(AdoptPolicy):
        location = find_location(node, ("adopt",), SlotValues())
        raise DocumentError(f"adopt must be {', '.join(AdoptPolicy)}", location)
    return AdoptPolicy(value)


def _count(name: str, found: dict[str, Any], default: int, node: Node) -> int:
    value = found.get(name)
    if value is None:
        return default
    if type(value) is not int or value < 1:
        location = find_location(node, (name,), SlotValues())
        raise DocumentError(f"{name} must be a whole number from 1; the default is {default}", location)
    return value


def _suspend_when(value: Any, node: Node) -> Predicate | None:
    if value is None:
        return None
    location = find_location(node, ("suspendWhen",), SlotValues())
    if not isinstance(value, str):
        raise DocumentError("suspendWhen must be an expression such as \"labels['x'] == 'true'\", in quotes", location)
    try:
        return compile_predicate(value)
    except PredicateError as error:
        raise DocumentError(f"suspendWhen {error}", location) from None


def _former_managers(value: Any, node: Node) -> frozenset[str]:
    if not isinstance(value, list) or not all(isinstance(name, str) and name for name in value):
        location = find_location(node, ("formerManagers",), SlotValues())
        raise DocumentError("formerManagers must be a list of field managers such as [helm]", location)
    if MANAGER in value:
        location = find_location(node, ("formerManagers",), SlotValues())
        raise DocumentError(f"formerManagers: {MANAGER} is the operator itself; remove it", location)
    return frozenset(value)


def _seconds(name: str, value: Any, node: Node, most: float = inf) -> float | None:
    """The seconds of a setting that is a duration, None without it."""
    if value is None:
        return None
    location = find_location(node, (name,), SlotValues())
    try:
        seconds = parse_duration(str(value))
    except ValueError as error:
        raise DocumentError(f"{name}: {error}", location) from None
    if seconds <= 0:
        raise DocumentError(f"{name} must be longer than 0", location)
    if seconds > most:
        raise DocumentError(f"{name} must be at most {most:g}s", location)
    return seconds


RESOURCE_NAME = re.compile(r"[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)*")
"""The names of template folders: those of resources."""


def read_resource_settings(roots: Iterable[Path]) -> Mapping[str, Settings]:
    """The settings by the name of the resource."""
    found: dict[str, Settings] = {}
    for root in dict.fromkeys(roots):
        with contextlib.suppress(OSError):
            snapshot = read_snapshot(root)
            for name in filter(RESOURCE_NAME.fullmatch, snapshot.folders):
                settings = DEFAULT
                with contextlib.suppress(DocumentError):
                    settings = parse_settings(f"{name}/{SETTINGS}", snapshot.files.get(f"{name}/{SETTINGS}", ""))
                found[name] = DEFAULT if name in found else settings
    return found
