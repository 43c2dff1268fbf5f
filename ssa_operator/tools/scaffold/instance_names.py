"""Replaces the name of an instance within manifests by the name of the parent.

Promises:
- Two parents render objects with different names: if a manifest's name doesn't contain the instance, it gets the
  parent's name as a prefix.
- References follow the names: Services, ConfigMaps, Secrets, claims, service accounts, roles, and host names.
- Other text is changed only if the name of the instance can't mean anything else there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ssa_operator.tools.scaffold.escaped_text import TemplateText

_NAME = "name"
_FIXED_LABELS = frozenset({
    "app.kubernetes.io/component", "app.kubernetes.io/name", "app.kubernetes.io/part-of", "app.kubernetes.io/version",
})  # fmt: skip
"""Labels that are the same for all instances."""

_LABEL_FIELDS = frozenset({"labels", "matchLabels", "selector"})
_REFERENCES: Mapping[str, str] = {
    "claimName": "PersistentVolumeClaim",
    "secretName": "Secret",
    "serviceAccount": "ServiceAccount",
    "serviceAccountName": "ServiceAccount",
    "serviceName": "Service",
}
"""Fields that name an object of a kind."""

_REFERRING: Mapping[str, str] = {
    "configMap": "ConfigMap",
    "configMapKeyRef": "ConfigMap",
    "configMapRef": "ConfigMap",
    "imagePullSecrets": "Secret",
    "secret": "Secret",
    "secretKeyRef": "Secret",
    "secretRef": "Secret",
    "service": "Service",
}
"""Fields whose `name` names an object of a kind."""

_LITERAL = frozenset({
    "apiGroup", "apiVersion", "image", "imagePullPolicy", "key", "kind", "mountPath", "name", "path",
    "storageClassName", "subPath", "type",
})  # fmt: skip
"""Fields that don't follow the name of the instance unless they are references."""

Path = tuple[Any, ...]


def find_instance(bodies: Sequence[Mapping[str, Any]]) -> str:
    """The name of the instance that the manifests are of: by their labels, or how all names begin; '' if unknown."""
    for label in ("app.kubernetes.io/instance", "release"):
        found = Counter(
            str(value) for body in bodies if (value := (body["metadata"].get("labels") or {}).get(label)) is not None
        )
        if found:
            return found.most_common(1)[0][0]
    names = [str(body["metadata"]["name"]).split("-") for body in bodies]
    common: list[str] = []
    for parts in zip(*names, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return "-".join(common)


def find_namespace(bodies: Sequence[Mapping[str, Any]]) -> str:
    """The namespace of most manifests, '' if none names one."""
    found = Counter(str(value) for body in bodies if (value := body["metadata"].get("namespace")))
    return found.most_common(1)[0][0] if found else ""


@dataclass(slots=True, kw_only=True)
class InstanceNames:
    """Replaces the names of an instance."""

    instance: str
    """'' if the manifests have no name in common."""
    namespace: str
    objects: frozenset[tuple[str, str]]
    """Kind and name of each manifest."""
    text: TemplateText
    general: bool = field(init=False)
    """Whether the name of the instance means the instance in any text."""
    _bounded: re.Pattern[str] = field(init=False)
    _namespace: re.Pattern[str] = field(init=False)
    _hosts: re.Pattern[str] | None = field(init=False)

    def __post_init__(self) -> None:
        bound = r"(?<![A-Za-z0-9_.-]){}(?![A-Za-z0-9_])"
        self._bounded = re.compile(bound.format(re.escape(self.instance or "\0")))
        self._namespace = re.compile(rf"(?<=\.){re.escape(self.namespace or chr(0))}(?=\.svc(?![A-Za-z0-9_-]))")
        services = sorted((name for kind, name in self.objects if kind == "Service"), key=len, reverse=True)
        names = "|".join(map(re.escape, services))
        after = r"(?=:[0-9]+(?![0-9])|\.svc(?![A-Za-z0-9_-])" + (
            rf"|\.{re.escape(self.namespace)}(?![A-Za-z0-9_-]))" if self.namespace else ")"
        )
        before = r"(?:(?<=://)|(?<=@)|(?<![A-Za-z0-9_./-]))"
        self._hosts = re.compile(rf"{before}({names}){after}") if services else None
        self.general = False

    def judge(self, bodies: Sequence[Mapping[str, Any]]) -> None:
        """Find out whether the name of the instance has another meaning in the manifests."""
        self.general = bool(self.instance) and not any(_means_otherwise(body, self.instance) for body in bodies)

    def contains(self, name: str) -> bool:
        """Whether the name of a manifest has the name of the instance in it."""
        return self._bounded.search(name) is not None

    def rename(self, name: str) -> str:
        """The name of a manifest, with the name of the parent in it."""
        parent = self.text.mark(_NAME)
        renamed, count = self._bounded.subn(parent, name, count=1)
        return renamed if count else f"{parent}-{name}"

    def replaced(self, value: Any, path: Path = ()) -> Any:
        """A part of a manifest with all names replaced; `path` is where it is in the manifest."""
        if isinstance(value, Mapping):
            return self._mapping(value, path)
        if isinstance(value, list):
            return [self.replaced(item, (*path, at)) for at, item in enumerate(value)]
        return self._text(value, path) if isinstance(value, str) else value

    def _mapping(self, value: Mapping[str, Any], path: Path) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in value.items():
            if key == _NAME and (path == ("metadata",) or (path and self._refers(value, path))):
                result[key] = self.rename(item)
            elif key == "values" and "operator" in value and isinstance(item, list):
                result[key] = [self._label(str(value.get("key")), each) for each in item]
            elif key == "namespace" and item == self.namespace and item and path:
                result[key] = self.text.mark("namespace")
            elif path and path[-1] in _LABEL_FIELDS and isinstance(item, str):
                result[key] = self._label(key, item)
            else:
                result[key] = self.replaced(item, (*path, key))
        return result

    def _refers(self, value: Mapping[str, Any], path: Path) -> bool:
        """Whether the name in a mapping is that of another manifest."""
        kind = value.get("kind")
        if kind is None:
            field_name = next((part for part in reversed(path) if isinstance(part, str)), "")
            kind = _REFERRING.get(field_name)
        if not isinstance(kind, str):
            return False
        return isinstance(value[_NAME], str) and (kind, value[_NAME]) in self.objects

    def _label(self, key: str, value: Any) -> Any:
        if not isinstance(value, str) or key in _FIXED_LABELS:
            return value
        return self._bounded.sub(lambda _: self.text.mark(_NAME), value)

    def _text(self, text: str, path: Path) -> str:
        key = path[-1] if path else ""
        if (_REFERENCES.get(str(key)), text) in self.objects:
            return self.rename(text)
        if key in _LITERAL and path[0] not in ("data", "stringData"):
            return text
        if self._hosts is not None:
            text = self._hosts.sub(lambda found: self.rename(found[0]), text)
        text = self._namespace.sub(lambda _: self.text.mark("namespace"), text)
        return self._bounded.sub(lambda _: self.text.mark(_NAME), text) if self.general else text


def _means_otherwise(value: Any, instance: str, key: str = "") -> bool:
    """Whether an image, a container, a port, a program or a key has the name of the instance, too."""
    if isinstance(value, Mapping):
        for item_key, item in value.items():
            inner = {"labels": item.get("labels")} if item_key == "metadata" and isinstance(item, Mapping) else item
            if item_key == instance or _means_otherwise(inner, instance, item_key):
                return True
        return False
    if isinstance(value, list):
        return any(_means_otherwise(item, instance, key) for item in value)
    if not isinstance(value, str):
        return False
    if key == "image":
        return instance in re.split(r"[/:@]", value)
    return value == instance and key in _COMMON


_COMMON = frozenset({"app.kubernetes.io/component", "app.kubernetes.io/name", "args", "command", _NAME})
"""Fields whose values other things than the instance have."""
