"""Adds the label of the instance where two parents would select each other's pods.

Promises:
- A selector of a workload, a Service or a disruption budget that is the same for all parents, and the pods of the set,
  get the label `app.kubernetes.io/instance` with the name of the parent.
- Selectors that differ for each parent, and those of pods that are not in the set, stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.manifest import POD_SPECS
from ssa_operator.objects.source_location import value_at
from ssa_operator.tools.scaffold.instance_names import InstanceNames
from ssa_operator.tools.scaffold.notes import Notes

LABEL = "app.kubernetes.io/instance"
"""The label that tells the pods of two parents apart."""

_SELECTING = ("DaemonSet", "Deployment", "PodDisruptionBudget", "ReplicaSet", "StatefulSet")


def add_instance_labels(bodies: Sequence[dict[str, Any]], names: InstanceNames, notes: Notes) -> None:
    """Add the label to selectors and pods. No object exists yet, so that immutable selectors can change."""
    pods = [labels for body in bodies if (labels := _pod_labels(body)) is not None]
    shared = [
        (body, selector)
        for body in bodies
        if (selector := _selector(body))
        and all(names.label(key, value) == value for key, value in selector.items())
        and any(_selects(selector, labels) for labels in pods)
    ]
    fixed = [(body, selector) for body, selector in shared if _has_label(selector, pods)]
    notes.add(f"the selector is the same for all objects, because the pods have a label {LABEL} of their own", *[
        body for body, _ in fixed
    ])  # fmt: skip
    free = [(body, selector) for body, selector in shared if not _has_label(selector, pods)]
    if not free:
        return
    changed = [body for body, _ in free]
    mark = names.text.mark("name")
    for body in bodies:
        labels = _pod_labels(body)
        if labels is not None and any(_selects(selector, labels) for _, selector in free):
            changed.append(body)
    for labels in pods:
        if any(_selects(selector, labels) for _, selector in free):
            labels.setdefault(LABEL, mark)
    for _, selector in free:
        selector[LABEL] = mark
    notes.add(f"the label {LABEL} is added to selectors and pods, so that two objects don't share them", *changed)


def _selects(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    return selector.items() <= labels.items()


def _has_label(selector: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the pods of a selector have the label with a value of their own."""
    return any(LABEL in labels for labels in pods if _selects(selector, labels))


def _pod_labels(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The labels of the pods of a workload, None if it has none."""
    path = POD_SPECS.get(GroupKind.of(body["apiVersion"], body["kind"]))
    return None if path is None else _mapping(body, (*path[:-1], "metadata", "labels"))


def _selector(body: Mapping[str, Any]) -> dict[str, Any] | None:
    if body["kind"] == "Service":
        return _mapping(body, ("spec", "selector"))
    return _mapping(body, ("spec", "selector", "matchLabels")) if body["kind"] in _SELECTING else None


def _mapping(value: Any, path: Sequence[str]) -> dict[str, Any] | None:
    found = value_at(value, tuple(path))
    return found if isinstance(found, dict) else None
