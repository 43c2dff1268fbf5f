"""Replaces the name of an instance within manifests by the name of the parent.

Promises:
- Two parents render objects with different names: if a manifest's name doesn't contain the instance, it gets the
  parent's name as a prefix. A name that is an identity, as that of an APIService, stays.
- References follow the names and namespaces: those that Kubernetes' schema has, and whole names and hosts in free text.
- The hosts of a route follow if they have the instance in them; their domain stays.
- A reference to an object that is not among the manifests stays, and so does all other text. Where it has the name of
  the instance in it, it is named.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.manifest import POD_SPECS
from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.tools.offline.project import possible_plurals
from ssa_operator.tools.scaffold.reference_fields import FieldPlace, metadata_place, place_of
from ssa_operator.tools.scaffold.template_text import NamedTexts, TemplateText

_NAME = "name"
_FIXED_LABELS = frozenset({
    "app.kubernetes.io/component", "app.kubernetes.io/name", "app.kubernetes.io/part-of", "app.kubernetes.io/version",
})  # fmt: skip
"""Labels that are the same for all instances, if the name of the instance is not in them."""

_LABEL_FIELDS = frozenset({"labels", "matchLabels", "selector"})
NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_POD_LABEL = "statefulset.kubernetes.io/pod-name"
_IDENTITIES = frozenset({"APIService", "CSIDriver", "CSINode", "Namespace", "Node"})
"""Kinds whose names mean something by themselves."""

_OF_SETS = frozenset({"PersistentVolumeClaim", "Pod"})
"""Kinds whose objects a StatefulSet makes, with names of its own."""

_HOSTS = frozenset({"dnsNames", "host", "hostname", "hostnames", "hosts"})
"""Fields of routes and their certificates with the hosts that requests are for."""

_PRODUCED: Mapping[str, tuple[str, ...]] = {"Certificate": ("spec", "secretName")}
"""Fields of custom kinds with the name of a Secret that their controller creates."""


def find_instance(bodies: Sequence[Mapping[str, Any]]) -> str:
    """The name of the instance that the manifests are of: a label that half of them have, or whose value is in half of
    their names; or how all names begin; or the label of a few; '' if unknown.
    """
    names = [str(body["metadata"]["name"]).split("-") for body in bodies if body["kind"] not in _IDENTITIES]
    of_few = ""
    for label in ("app.kubernetes.io/instance", "release"):
        found = Counter(
            str(value) for body in bodies if (value := (body["metadata"].get("labels") or {}).get(label)) is not None
        )
        for value, count in found.most_common(1):
            named = sum(f"-{value}-" in f"-{'-'.join(parts)}-" for parts in names)
            if 2 * max(count, named) >= len(bodies):
                return value
            of_few = of_few or value
    common: list[str] = []
    for parts in zip(*names, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return "-".join(common) or of_few


def find_namespace(bodies: Sequence[Mapping[str, Any]]) -> str:
    """The namespace of most manifests. If none names one, because Helm leaves it to kubectl, that of the references to
    their accounts and Services, and of these Services' hosts; '' if there is none.
    """
    found = Counter(str(value) for body in bodies if (value := body["metadata"].get("namespace")))
    if not found:
        own = [body["metadata"]["name"] for body in bodies if body["kind"] in ("Service", "ServiceAccount")]
        found = Counter(namespace for name, namespace in _named_in(bodies) if name in own)
    if not found:
        services = [body["metadata"]["name"] for body in bodies if body["kind"] == "Service"]
        names = "|".join(map(re.escape, services)) or "$^"
        host = re.compile(rf"(?<![A-Za-z0-9_-])(?:{names})\.([a-z0-9-]+)\.svc(?![A-Za-z0-9_-])")
        found = Counter(host.findall(json.dumps(bodies)))
    return found.most_common(1)[0][0] if found else ""


@dataclass(slots=True, kw_only=True)
class InstanceNames:
    """Replaces the names of an instance."""

    instance: str
    """'' if the manifests have no name in common."""
    namespace: str
    """The namespace of the manifests, '' if they name none."""
    bodies: Sequence[Mapping[str, Any]]
    text: TemplateText
    absent: Sequence[Mapping[str, Any]] = ()
    """Manifests that have no template, and whose names follow all the same."""
    kept: list[FieldPath] = field(default_factory=list)
    """Texts of the last manifest in which the name of an object stayed, because it is an ordinary word."""
    shared: list[FieldPath] = field(default_factory=list)
    """Texts of the last manifest with the instance in a name that no manifest has."""
    _instance: re.Pattern[str] = field(init=False)
    _remaining: re.Pattern[str] = field(init=False)
    _within: re.Pattern[str] | None = field(init=False)
    """The instance within a name: `web-shop-lock`. None where it is an ordinary word, too."""
    _is_word: bool = field(init=False)
    """Whether other things than the instance have its name."""
    _bounded: re.Pattern[str] = field(init=False)
    _objects: dict[tuple[str, str], set[str]] = field(init=False, default_factory=dict)
    """The namespaces of the objects by kind and name, '' for that of the manifests."""
    _names: dict[str, str] = field(init=False, default_factory=dict)
    _texts: NamedTexts = field(init=False)
    _labels: frozenset[tuple[str, str]] = field(init=False)
    """The labels that the manifests have, and their pods."""

    def __post_init__(self) -> None:
        name = re.escape(self.instance or "\0")
        self._instance = re.compile(rf"(?<![A-Za-z0-9]){name}(?![A-Za-z0-9])")
        self._bounded = re.compile(rf"(?<![A-Za-z0-9_.-]){name}(?![A-Za-z0-9_])")
        self._is_word = any(_means_otherwise(body, self.instance) for body in self.bodies)
        word = "" if self._is_word else rf"|(?:\A|=){name}\Z"
        self._remaining = re.compile(rf"(?<![A-Za-z0-9_.-]){name}-[A-Za-z0-9]{word}")
        self._within = None if self._is_word else re.compile(rf"[A-Za-z0-9]-{name}(?![A-Za-z0-9_])")
        self._labels = frozenset(pair for body in self.bodies for pair in _labels_in(body))
        for body in (*self.bodies, *self.absent):
            namespace = body["metadata"].get("namespace") or ""
            self._add(body["kind"], body["metadata"]["name"], "" if namespace == self.namespace else namespace)
            produced = value_at(body, _PRODUCED.get(body["kind"], ("",)))
            if isinstance(produced, str):
                self._add("Secret", produced, "")
        sets = {body["metadata"]["name"]: body for body in self.bodies if body["kind"] == "StatefulSet"}
        claims = {
            f"{claim}-{name}"
            for name, body in sets.items()
            for each in (body.get("spec") or {}).get("volumeClaimTemplates") or ()
            if isinstance(claim := value_at(each, ("metadata", "name")), str)
        }
        self._texts = NamedTexts(
            names=self._names,
            services=self._of_kind("Service"),
            sets=frozenset({*sets, *claims}),
            workloads=frozenset(
                body["metadata"]["name"]
                for body in self.bodies
                if GroupKind.of(body["apiVersion"], body["kind"]) in POD_SPECS
            ),
            label=lambda key, value: self.label(key, value) if (key, value) in self._labels else value,
            accounts=self._of_kind("ServiceAccount"),
            namespace=self.namespace or "default",
            namespace_mark=self.text.mark("namespace"),
            ordinary=cache(self._is_ordinary),
            of_instance=self.remains_in,
        )

    def _add(self, kind: str, name: str, namespace: str) -> None:
        self._objects.setdefault((kind, name), set()).add(namespace)
        if kind not in _IDENTITIES:
            self._names[name] = self.rename(name)

    def _of_kind(self, kind: str) -> frozenset[str]:
        return frozenset(name for (each, name), spaces in self._objects.items() if each == kind and "" in spaces)

    def _is_ordinary(self, name: str) -> bool:
        return name.isalpha() and (name == "default" or any(_means_otherwise(body, name) for body in self.bodies))

    def contains(self, name: str) -> bool:
        """Whether the name of a manifest has the name of the instance in it."""
        return self._instance.search(name) is not None

    def rename(self, name: str) -> str:
        """The name of a manifest, with the name of the parent in it."""
        parent = self.text.mark(_NAME)
        renamed, count = self._instance.subn(parent, name, count=1)
        return renamed if count else f"{parent}-{name}"

    @staticmethod
    def is_identity(body: Mapping[str, Any]) -> bool:
        """Whether a manifest keeps its name, so that only one parent can have it."""
        return body["kind"] in _IDENTITIES

    def replaced(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """A manifest with all names replaced."""
        self.kept, self.shared = [], []
        place = place_of(body)
        return _Renaming(self, body, place.custom).mapping(body, place, ())

    def label(self, key: str, value: Any) -> Any:
        """The value of a label, in an object or a selector. A selector of labels that nothing in the set has stays,
        unless it names an object of the set.
        """
        if not isinstance(value, str) or (key in _FIXED_LABELS and (self._is_word or not self.remains_in(value))):
            return value
        if key == NAMESPACE_LABEL or key.endswith("/namespace"):
            return self.text.mark("namespace") if value == self.namespace else value
        if key == _POD_LABEL:
            return self._texts.pod(value)
        if (key, value) not in self._labels and not (value in self._names and self.contains(value)):
            return value
        if value in self._names:
            return self._names[value]
        return self._bounded.sub(lambda _: self.text.mark(_NAME), value)

    def renamed(self, name: str) -> str:
        """The new name of an object of the set."""
        return self._names.get(name, name)

    def has(self, kind: str, name: str, namespace: str) -> bool:
        """Whether an object is in the set. `namespace` is '' for that of the manifests."""
        spaces = self._objects.get((kind, name), set())
        return (namespace if namespace not in (self.namespace or "default", "") else "") in spaces

    def has_name(self, name: str) -> bool:
        """Whether any object of the set has this name."""
        return name in self._names

    def pod(self, name: str) -> str:
        """The new name of a pod of a StatefulSet of the set, or of its claim; the name itself for any other."""
        return self._texts.pod(name)

    def remains_in(self, text: str) -> bool:
        """Whether a text with new names still has the instance in a name."""
        return self._remaining.search(text) is not None

    def is_shared(self, text: str) -> bool:
        """Whether a text with new names has the instance in a name that all parents share."""
        return self.remains_in(text) or (self._within is not None and self._within.search(text) is not None)

    def in_host(self, host: str) -> str:
        """A public host with the name of the parent, but for its domain. That of another Service stays."""
        labels = host.split(".")
        if "svc" in labels:
            return host
        below = self._instance.sub(lambda _: self.text.mark(_NAME), ".".join(labels[:-2]))
        return ".".join([*([below] if below else []), *labels[-2:]])

    def in_text(self, value: str, before: str = "") -> tuple[str, bool]:
        """A free text with new names, and whether a name stayed in it. `before` names the value."""
        found = self._texts.replaced(value, before)
        return found, bool(self._texts.kept)


@dataclass(slots=True)
class _Renaming:
    """The names in one manifest."""

    names: InstanceNames
    body: Mapping[str, Any]
    custom: bool
    """Whether its kind is a custom one."""

    def mapping(self, value: Mapping[str, Any], place: FieldPlace, path: FieldPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, item in value.items():
            below = metadata_place() if path == () and key == "metadata" else place.below(key)
            if path and path[-1] in _LABEL_FIELDS and isinstance(item, str) and place.field in _LABEL_FIELDS:
                result[key] = self.names.label(key, item)
            elif key == "values" and "operator" in value and isinstance(item, list):
                result[key] = [self.names.label(str(value.get("key")), each) for each in item]
            elif key == "resourceNames" and isinstance(item, list):
                result[key] = [self._resource(each, value, (*path, key, at)) for at, each in enumerate(item)]
            elif isinstance(item, str):
                result[key] = self._field(key, item, value, place, (*path, key))
            else:
                result[key] = self._inner(item, below, (*path, key))
        return result

    def _inner(self, value: Any, place: FieldPlace, path: FieldPath, before: str = "") -> Any:
        if isinstance(value, Mapping):
            return self.mapping(value, place, path)
        if isinstance(value, list):
            words = ["", *(item if isinstance(item, str) else "" for item in value)]
            return [self._inner(item, place.item(), (*path, at), words[at]) for at, item in enumerate(value)]
        if not isinstance(value, str) or not place.free:
            return value
        if place.custom and place.field == "matchNames" and value == self.names.namespace:
            return self.names.text.mark("namespace")
        return self._free(value, path, before)

    def _field(self, key: str, text: str, holder: Mapping[str, Any], place: FieldPlace, path: FieldPath) -> str:
        if path[:-1] == ("metadata",) and key in (_NAME, "namespace"):
            is_own = key == _NAME and not self.names.is_identity(self.body)
            return self.names.rename(text) if is_own else text
        if path[-3:-1] == ("template", "metadata") and key == _NAME and self.names.has_name(text):
            return self.names.renamed(text)
        if path[-3:-1] == ("template", "metadata") and key == "namespace" and text == self.names.namespace:
            return self.names.text.mark("namespace")
        if key == "namespace" and self._follows(text, holder, place):
            return self.names.text.mark("namespace")
        kind = place.kind_named_by(key, holder)
        if kind is not None and self._is_in_set(kind, text, holder):
            return self.names.renamed(text)
        if kind in _OF_SETS:
            return self.names.pod(text)
        if kind is not None and self.names.remains_in(text):
            self.names.shared.append(path)
        if not place.below(key).free or (kind is not None and self.names.has_name(text)):
            return text
        name = holder.get(_NAME)
        return self._free(text, path, name if key == "value" and isinstance(name, str) else key)

    def _follows(self, namespace: str, holder: Mapping[str, Any], place: FieldPlace) -> bool:
        """Whether a namespace is that of an object of the set."""
        name = holder.get(_NAME)
        kind = place.kind_named_by(_NAME, holder)
        if isinstance(name, str) and kind is not None:
            is_there = (kind, name) == ("ServiceAccount", "default") or self.names.has(kind, name, namespace)
            return is_there and namespace == (self.names.namespace or "default")
        return place.custom and bool(namespace) and namespace == self.names.namespace

    def _is_in_set(self, kind: str, name: str, holder: Mapping[str, Any]) -> bool:
        own = self.body["metadata"].get("namespace") or ""
        given = holder.get("namespace")
        namespace = given if isinstance(given, str) else own
        return self.names.has(kind, name, namespace) or (not given and self.names.has(kind, name, ""))

    def _resource(self, name: Any, rule: Mapping[str, Any], path: FieldPath) -> Any:
        """The name of an object in a rule of a role."""
        resources = {str(each).partition("/")[0] for each in rule.get("resources") or ()}
        if isinstance(name, str) and resources & {"pods", "persistentvolumeclaims"} and self.names.pod(name) != name:
            return self.names.pod(name)
        own = self.body["metadata"].get("namespace") or ""
        for kind in {body["kind"] for body in (*self.names.bodies, *self.names.absent)}:
            is_meant = resources & {*possible_plurals(kind), "*"}
            if (
                is_meant
                and isinstance(name, str)
                and (self.names.has(kind, name, own) or self.names.has(kind, name, ""))
            ):
                return self.names.renamed(name)
        if isinstance(name, str) and ":" in name and "services" in resources:
            # A proxied Service has its scheme and port in the name: http:shop-web:80.
            return self._free(name, path)
        if isinstance(name, str) and not self.names.has_name(name) and self.names.remains_in(name):
            self.names.shared.append(path)
        return name

    def _free(self, text: str, path: FieldPath, before: str = "") -> str:
        found, kept = self.names.in_text(text, before)
        if self.custom and found == text and _HOSTS & {*path[-2:]}:
            found = self.names.in_host(text)
        if kept:
            self.names.kept.append(path)
        if self.names.is_shared(found) and path not in self.names.shared:
            self.names.shared.append(path)
        return found


def _named_in(value: Any) -> Iterator[tuple[str, str]]:
    """The names that have a namespace beside them: those of accounts in bindings, and of Services in webhooks."""
    if isinstance(value, Mapping):
        name, namespace = value.get(_NAME), value.get("namespace")
        if isinstance(name, str) and isinstance(namespace, str) and namespace:
            yield name, namespace
        for item in value.values():
            yield from _named_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _named_in(item)


def _labels_in(value: Any) -> Iterator[tuple[str, str]]:
    """The labels in a manifest and in the templates within it."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key == "labels" and isinstance(item, Mapping):
                yield from ((name, text) for name, text in item.items() if isinstance(text, str))
            else:
                yield from _labels_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _labels_in(item)


_PROSE = r"(?:(?<=[A-Za-z][A-Za-z]) {0}(?![\w.:/-])|(?<![\w.:/-]){0} [A-Za-z][A-Za-z])"
"""A word beside another one."""


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
    return (value == instance and key in _COMMON) or re.search(_PROSE.format(instance), value) is not None


_COMMON = frozenset({"app.kubernetes.io/component", "app.kubernetes.io/name", "args", "command", _NAME})
"""Fields whose values other things than the instance have."""
