"""Adds the label of the instance where two parents would select each other's pods.

Promises:
- A selector that is the same for all parents, and the pods of the set that it selects, get the label
  `app.kubernetes.io/instance` with the name of the parent. That holds for workloads, Services, disruption budgets,
  network policies, affinities and topology spread constraints, and for PodMonitors. A ServiceMonitor and the Services
  that it selects get the label, too.
- The label makes no other selector select more. Where it would, a note names the selector.
- Selectors that differ for each parent, and those of pods that are not in the set, stay.
- A selector that selects all pods of its namespace, or pods of other namespaces, stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.label_selectors import selects
from ssa_operator.objects.manifest import POD_SPECS
from ssa_operator.objects.source_location import value_at
from ssa_operator.tools.scaffold.cleaning import Notes
from ssa_operator.tools.scaffold.instance_names import NAMESPACE_LABEL, InstanceNames

LABEL = "app.kubernetes.io/instance"
"""The label that tells the pods of two parents apart."""

_SELECTING = ("DaemonSet", "Deployment", "PodDisruptionBudget", "ReplicaSet", "StatefulSet")
_PLAIN = (GroupKind("", "Service"), GroupKind("", "ReplicationController"))
_POLICY = GroupKind("networking.k8s.io", "NetworkPolicy")
_SERVICE_MONITOR = GroupKind("monitoring.coreos.com", "ServiceMonitor")
_MONITORS = (GroupKind("monitoring.coreos.com", "PodMonitor"), _SERVICE_MONITOR)
_POSITIVE = ("In", "Exists")


class _Selector(Struct, frozen=True):
    """A selector of pods in a manifest."""

    body: Mapping[str, Any]
    holder: dict[str, Any]
    """The LabelSelector, or the labels themselves."""
    plain: bool = False
    """Whether it has labels only, as that of a Service."""
    services: bool = False
    """Whether it selects Services."""

    def selects(self, labels: Mapping[str, Any]) -> bool:
        return selects({"matchLabels": self.holder} if self.plain else self.holder, labels)

    def is_positive(self) -> bool:
        """Whether it names a label that the pods must have."""
        labels = self.holder if self.plain else self.holder.get("matchLabels")
        return bool(labels) or any(each.get("operator") in _POSITIVE for each in self.expressions())

    def renamed(self, names: InstanceNames) -> dict[str, Any]:
        """The LabelSelector that a parent renders."""
        labels = self.holder if self.plain else self.holder.get("matchLabels") or {}
        expressions = [
            {**each, "values": [names.label(str(each.get("key")), value) for value in each.get("values") or ()]}
            for each in self.expressions()
        ]
        return {"matchLabels": _renamed(labels, names), "matchExpressions": expressions}

    def expressions(self) -> list[Mapping[str, Any]]:
        found = None if self.plain else self.holder.get("matchExpressions")
        return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []

    def labels(self) -> dict[str, Any]:
        """Where the label is added."""
        found: dict[str, Any] = self.holder
        if not self.plain:
            found = self.holder["matchLabels"] = self.holder.get("matchLabels") or {}
        return found


def add_instance_labels(bodies: Sequence[dict[str, Any]], names: InstanceNames, notes: Notes) -> None:
    """Add the label to selectors and pods. No object exists yet, so that immutable selectors can change."""
    pods = [(body, labels) for body in bodies if (labels := _pod_labels(body)) is not None]
    services = [
        (body, labels)
        for body in bodies
        if body["kind"] == "Service" and (labels := _mapping(body, ("metadata", "labels"))) is not None
    ]
    selectors = [each for body in bodies for each in _selectors(body, names.namespace)]
    found = {id(each): each.renamed(names) for each in selectors}
    changes: list[tuple[Mapping[str, Any], dict[str, Any], str]] = []
    for selector in selectors:
        if not selector.is_positive():
            notes.add("a selector selects pods of other objects in the namespace, too", selector.body)
            continue
        targets = services if selector.services else pods
        chosen = [each for each in targets if selector.selects(each[1])]
        if not chosen or not any(selects(found[id(selector)], _of_another(labels, names)) for _, labels in targets):
            continue
        rivals = [found[id(each)] for each in selectors if each.services == selector.services]
        first, *others = [_value(labels, rivals, names) for _, labels in chosen]
        if first is None or any(each != first for each in others):
            subject = "Services" if selector.services else "pods"
            reason = f"because {subject} or other selectors have the label {LABEL} already"
            notes.add(f"the selector is the same for all objects, {reason}", selector.body)
            continue
        changes.append((selector.body, selector.labels(), first))
        changes += [(*each, first) for each in chosen if LABEL not in each[1]]
    for _, labels, value in changes:
        labels[LABEL] = value
    changed = [body for body in bodies if any(body is each for each, _, _ in changes)]
    notes.add(f"the label {LABEL} is added to selectors and pods, so that two objects don't share them", *changed)


def _renamed(labels: Mapping[str, Any], names: InstanceNames) -> dict[str, Any]:
    """The labels that a parent renders."""
    return {key: names.label(key, value) for key, value in labels.items()}


def _of_another(labels: Mapping[str, Any], names: InstanceNames) -> dict[str, Any]:
    """The labels that another parent renders."""
    mark = names.text.mark("name")
    return {key: str(value).replace(mark, f"{mark}-of-another") for key, value in _renamed(labels, names).items()}


def _value(labels: Mapping[str, Any], rivals: Sequence[Mapping[str, Any]], names: InstanceNames) -> str | None:
    """The label's value for pods: the parent's name, or their own one. None if their own is the same for all parents,
    or if a selector would select them because of the label.
    """
    if LABEL in labels:
        value = names.label(LABEL, labels[LABEL])
        return value if value != labels[LABEL] else None
    value = names.text.mark("name")
    before = _renamed(labels, names)
    after = {**before, LABEL: value}
    return value if all(selects(each, before) == selects(each, after) for each in rivals) else None


def _pod_labels(body: Mapping[str, Any]) -> dict[str, Any] | None:
    """The labels of the pods of a workload, None if it has none."""
    path = POD_SPECS.get(GroupKind.of(body["apiVersion"], body["kind"]))
    return None if path is None else _mapping(body, (*path[:-1], "metadata", "labels"))


def _selectors(body: Mapping[str, Any], namespace: str) -> Iterator[_Selector]:
    """The selectors of a manifest that select pods of its own namespace."""
    kind = GroupKind.of(body["apiVersion"], body["kind"])
    own = _mapping(body, ("spec", "selector"))
    if own is not None and body["kind"] in _SELECTING:
        yield _Selector(body, own)
    elif own and kind in _PLAIN:
        yield _Selector(body, own, plain=True)
    elif own is not None and kind in _MONITORS and body["spec"].get("namespaceSelector") is None:
        yield _Selector(body, own, services=kind == _SERVICE_MONITOR)
    elif kind == _POLICY:
        yield from (_Selector(body, each) for each in _policy_selectors(body, namespace))
    pod = _mapping(body, POD_SPECS.get(kind, ("",)))
    if pod is not None:
        yield from (_Selector(body, each) for each in _pod_selectors(pod))


def _policy_selectors(body: Mapping[str, Any], namespace: str) -> Iterator[dict[str, Any]]:
    own = _mapping(body, ("spec", "podSelector"))
    if own is not None:
        yield own
    for direction, field in (("ingress", "from"), ("egress", "to")):
        for rule in _items(body, ("spec", direction)):
            for peer in _items(rule, (field,)):
                found = _mapping(peer, ("podSelector",))
                spaces = peer.get("namespaceSelector")
                if found and (spaces is None or spaces == {"matchLabels": {NAMESPACE_LABEL: namespace}}):
                    yield found


def _pod_selectors(pod: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The selectors of affinities and of topology spread constraints."""
    terms = list(_items(pod, ("topologySpreadConstraints",)))
    for affinity in ("podAffinity", "podAntiAffinity"):
        terms += _items(pod, ("affinity", affinity, "requiredDuringSchedulingIgnoredDuringExecution"))
        preferred = _items(pod, ("affinity", affinity, "preferredDuringSchedulingIgnoredDuringExecution"))
        terms += [term for each in preferred if (term := _mapping(each, ("podAffinityTerm",))) is not None]
    for term in terms:
        if not term.get("namespaces") and term.get("namespaceSelector") is None:
            found = _mapping(term, ("labelSelector",))
            if found:
                yield found


def _items(value: Any, path: Sequence[str]) -> list[dict[str, Any]]:
    found = value_at(value, tuple(path))
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _mapping(value: Any, path: Sequence[str]) -> dict[str, Any] | None:
    found = value_at(value, tuple(path))
    return found if isinstance(found, dict) else None
