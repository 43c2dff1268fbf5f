"""Finds the values that users of manifests usually want to set, and makes them fields of the spec.

Promises:
- A parameter's default is the value of the manifest, so an object without a spec renders the original manifests.
- A value becomes a parameter only if nothing else writes it: the replicas of a workload that an autoscaler scales are
  left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.manifest import POD_SPECS
from ssa_operator.objects.scalars import amount
from ssa_operator.tools.scaffold.cleaning import GIVEN
from ssa_operator.tools.scaffold.fields import QUANTITY
from ssa_operator.tools.scaffold.template_text import TemplateText, expression

_SCALED = ("Deployment", "StatefulSet")
_RESOURCES: Mapping[str, Any] = {
    "type": "object",
    "properties": {name: {"type": "object", "additionalProperties": dict(QUANTITY)} for name in ("limits", "requests")},
}
_WORD = re.compile(r"[^A-Za-z0-9]+")


class Parameter(Struct, frozen=True, kw_only=True):
    """A value of manifests that became a field."""

    path: tuple[str, ...]
    """The field, below `spec`."""
    schema: Mapping[str, Any]
    """Its schema, with the value as default. The value of a Secret has none, and is required."""
    sources: tuple[str, ...]
    """The manifests that use it: `Deployment web`."""


@dataclass(slots=True)
class Parameters:
    """Collects parameters, and puts their expressions into manifests."""

    text: TemplateText
    instance: str = ""
    """The name of the instance, which no field has in its name."""
    found: dict[tuple[str, ...], Parameter] = field(default_factory=dict)

    def wire(self, body: dict[str, Any], component: str) -> None:
        """Replace the parameters of one manifest. `component` begins their names, '' if it is the only workload."""
        kind, title = body["kind"], f"{body['kind']} {body['metadata']['name']}"
        prefix = (component,) if component else ()
        if kind == "Secret":
            self._wire_secret(body, title)
        spec = body.get("spec")
        if not isinstance(spec, dict):
            return
        if kind in _SCALED and isinstance(spec.get("replicas"), int):
            schema = {"type": "integer", "minimum": 0}
            spec["replicas"] = self._add((*prefix, "replicas"), schema, spec["replicas"], title)
        if _kind_of(body) in POD_SPECS:
            self._wire_containers(body, prefix, title)
        claims = [spec] if kind == "PersistentVolumeClaim" else []
        claims += [
            each["spec"] for each in spec.get("volumeClaimTemplates") or () if isinstance(each.get("spec"), dict)
        ]
        for claim in claims:
            requests = (claim.get("resources") or {}).get("requests") or {}
            if amount(requests.get("storage")) is not None:
                path = (*prefix, "storage")
                requests["storage"] = self._add(path, QUANTITY, _as_texts(requests)["storage"], title)
        if kind == "Ingress":
            self._wire_hosts(spec, title)

    def _wire_secret(self, secret: dict[str, Any], title: str) -> None:
        for key, word in (secret.get("stringData") or {}).items():
            if word == GIVEN:
                path = ("secrets", _camel(f"{secret['metadata']['name'].removeprefix(self.instance)}-{key}"))
                self.found.setdefault(path, Parameter(path=path, schema={"type": "string"}, sources=(title,)))
                secret["stringData"][key] = self.text.mark(expression(("spec", *path)))

    def _wire_containers(self, body: Mapping[str, Any], prefix: tuple[str, ...], title: str) -> None:
        pod: Any = body
        for part in POD_SPECS[_kind_of(body)]:
            pod = pod.get(part) if isinstance(pod, Mapping) else None
        if not isinstance(pod, Mapping):
            return
        main = pod.get("containers") or []
        for container in (*main, *(pod.get("initContainers") or ())):
            own = prefix if container in main[:1] else (*prefix, _camel(str(container.get("name"))))
            if isinstance(container.get("image"), str):
                container["image"] = self._add((*own, "image"), {"type": "string"}, container["image"], title)
            resources = container.get("resources")
            if isinstance(resources, Mapping) and resources and resources.keys() <= {"limits", "requests"}:
                amounts = {name: _as_texts(each) for name, each in resources.items()}
                container["resources"] = self._add((*own, "resources"), _RESOURCES, amounts, title)

    def _wire_hosts(self, spec: Mapping[str, Any], title: str) -> None:
        for rule in spec.get("rules") or ():
            if isinstance(rule.get("host"), str):
                rule["host"] = self._add(("host",), {"type": "string"}, rule["host"], title)
        for tls in spec.get("tls") or ():
            if isinstance(tls.get("hosts"), list):
                tls["hosts"] = [self._add(("host",), {"type": "string"}, host, title) for host in tls["hosts"]]

    def _add(self, path: tuple[str, ...], schema: Mapping[str, Any], value: Any, title: str) -> Any:
        """The mark of a parameter with this value; the path gets a number if another value has it."""
        for number in range(1, len(self.found) + 2):
            own = path if number == 1 else (*path[:-1], f"{path[-1]}{number}")
            known = self.found.get(own)
            same = known is not None and known.schema.get("default") == value
            if known is not None and same and path[-1] in ("host", "image"):
                sources = tuple(dict.fromkeys((*known.sources, title)))
                self.found[own] = Parameter(path=own, schema=known.schema, sources=sources)
                break
            if known is None and not any(self._overlap(own, other) for other in self.found):
                self.found[own] = Parameter(path=own, schema={**schema, "default": value}, sources=(title,))
                break
        return self.text.mark(expression(("spec", *own)))

    @staticmethod
    def _overlap(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Whether one path leads through the field of the other."""
        shorter = min(len(one), len(other))
        return len(one) != len(other) and one[:shorter] == other[:shorter]


def component_of(body: Mapping[str, Any], instance: str, bodies: Sequence[Mapping[str, Any]]) -> str:
    """The prefix of a manifest's parameters: its name without that of the instance; '' for the only workload."""
    workloads = [each for each in bodies if _kind_of(each) in POD_SPECS]
    if len(workloads) <= 1:
        return ""
    name = str(body["metadata"]["name"]).removeprefix(instance).strip("-")
    return _camel(name) or _camel(str(body["kind"]))


def without_scaled_replicas(bodies: Sequence[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Remove the replicas of workloads that an autoscaler scales. Returns these workloads."""
    targets = {
        (target.get("kind"), target.get("name"))
        for body in bodies
        if body["kind"] == "HorizontalPodAutoscaler"
        for target in ((body.get("spec") or {}).get("scaleTargetRef") or {},)
    }
    for body in bodies:
        if (body["kind"], body["metadata"]["name"]) in targets and "replicas" in (body.get("spec") or {}):
            del body["spec"]["replicas"]
            yield body


def _as_texts(amounts: Any) -> Any:
    """Quantities that the schema of a quantity accepts: it has integers and texts, and `0.5` is neither."""
    if not isinstance(amounts, Mapping):
        return amounts
    return {name: str(each) if isinstance(each, float) else each for name, each in amounts.items()}


def _kind_of(body: Mapping[str, Any]) -> GroupKind:
    return GroupKind.of(body["apiVersion"], body["kind"])


def _camel(text: str) -> str:
    """Words as a field name: `my-redis` -> `myRedis`."""
    first, *rest = [part for part in _WORD.split(text) if part] or [""]
    name = first[:1].lower() + first[1:] + "".join(part[:1].upper() + part[1:] for part in rest)
    return f"x{name}" if name[:1].isdigit() else name
