"""The first templates of a new resource: a Deployment and a Service that become ready.

Promises:
- `replicas`, `image`, `port` and `resources` of the spec are those of the Deployment. Each other field is an
  environment variable of the container.
- A field that may be missing is read only if it exists.
- The objects of a cluster-scoped resource have a namespace each, which holds their children.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ssa_operator.objects.json_schema import PRESERVED
from ssa_operator.tools.scaffold.fields import Leaf, leaves
from ssa_operator.tools.scaffold.names import ResourceNames
from ssa_operator.tools.scaffold.template_text import expression

IMAGE = "nginxinc/nginx-unprivileged:1.29-alpine"
"""A server that runs without privileges and listens on PORT."""

PORT = 8080

FIELDS = ("replicas:int=1", f"image:string={IMAGE}")
"""The default fields of a resource."""

SAMPLES: Mapping[str, Any] = {"image": IMAGE, "host": "www.example.com", "port": PORT}
"""Samples of fields by name."""

_KNOWN: Mapping[str, tuple[str, ...]] = {
    "replicas": ("integer",),
    "image": ("string",),
    "port": ("integer",),
}
"""The fields that a Deployment has, with the types that suit them; beside them `resources`."""

LEGAL_NAME = "{{ name | k8s_name }}"
"""The name of a Namespace or a Service for a parent whose name may have dots."""

_MANY = 8

_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_VARIABLE = re.compile(r"[^A-Za-z0-9]+")


def starter(
    names: ResourceNames, spec: Mapping[str, Any], *, own_crd: bool, namespaced: bool = True, name: str = "{{ name }}"
) -> dict[str, str]:
    """The files of the template folder. `own_crd` is false for a foreign CRD, whose status belongs to its author.
    `name` is the text that names the children.
    """
    found = list(leaves(spec)) if own_crd else [leaf for leaf in leaves(spec) if _is_simple(leaf)]
    known = {leaf.path[0]: leaf for leaf in found if leaf.path[0] in _KNOWN and _suits(leaf)}
    known |= {name: each for name in ("resources",) if (each := _resources(spec)) is not None}
    others = [leaf for leaf in found if leaf.path[0] not in known]
    namespace = () if namespaced else (f"  namespace: {LEGAL_NAME}",)
    metadata = ["metadata:", f"  name: {name}", *namespace, "  labels:"]
    files = {
        "deployment.yaml.j2": "\n".join(_deployment(names, metadata, known, others)) + "\n",
        "service.yaml.j2": "\n".join(_service(names, metadata, known.get("port"))) + "\n",
    }
    if not namespaced:
        files["namespace.yaml.j2"] = f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {LEGAL_NAME}\n"
    if own_crd:
        files["_status.yaml.j2"] = "readyReplicas: {{ child('Deployment', name).status.readyReplicas | default(0) }}\n"
    return files


def _is_simple(leaf: Leaf) -> bool:
    return len(leaf.path) == 1 and leaf.schema.get("type") in ("string", "integer", "boolean", "number")


def _suits(leaf: Leaf) -> bool:
    return len(leaf.path) == 1 and leaf.schema.get("type") in _KNOWN[leaf.path[0]]


def _resources(spec: Mapping[str, Any]) -> Leaf | None:
    """The field `resources`, if its fields are those of a container."""
    schema = (spec.get("properties") or {}).get("resources")
    if not isinstance(schema, Mapping) or schema.get("type") != "object":
        return None
    fields = schema.get("properties") or {}
    if not {*fields, *(schema.get("default") or ())} <= {"limits", "requests"} or not (fields or schema.get(PRESERVED)):
        return None
    if not all(each.get("additionalProperties") or each.get(PRESERVED) for each in fields.values()):
        return None
    guaranteed = "resources" in spec.get("required", ()) or "default" in schema
    return Leaf(path=("resources",), schema=schema, guaranteed=guaranteed)


def _value(leaf: Leaf | None, default: str) -> str:
    """The value of a field as template text; `default` if there is no such field, or if it is missing."""
    if leaf is None:
        return default
    text = expression(("spec", *leaf.path))
    quoted = default if default.isdigit() else f'"{default}"'
    return f"{{{{ {text} }}}}" if leaf.guaranteed else f"{{{{ {text} | default({quoted}) }}}}"


def _labels(names: ResourceNames, indent: int) -> list[str]:
    space = " " * indent
    return [f"{space}app.kubernetes.io/name: {names.singular}", f"{space}app.kubernetes.io/instance: {{{{ name }}}}"]


def _deployment(
    names: ResourceNames, metadata: Sequence[str], known: Mapping[str, Leaf], others: Sequence[Leaf]
) -> Iterator[str]:
    yield from ("apiVersion: apps/v1", "kind: Deployment", *metadata)
    yield from _labels(names, 4)
    yield from ("spec:", f"  replicas: {_value(known.get('replicas'), '1')}", "  selector:", "    matchLabels:")
    yield from _labels(names, 6)
    yield from ("  template:", "    metadata:", "      labels:")
    yield from _labels(names, 8)
    yield from ("    spec:", "      automountServiceAccountToken: false", "      securityContext:")
    if "image" not in known:
        yield "        runAsNonRoot: true"
    yield from ("        seccompProfile:", "          type: RuntimeDefault", "      containers:")
    yield from (f"        - name: {names.singular}", f"          image: {_value(known.get('image'), IMAGE)}")
    yield from _variables(others)
    yield from ("          ports:", "            - name: http")
    yield f"              containerPort: {_value(known.get('port'), str(PORT))}"
    yield from ("          readinessProbe:", "            tcpSocket:", "              port: http")
    yield from _container_resources(known.get("resources"))
    yield from ("          securityContext:", "            allowPrivilegeEscalation: false")


def _container_resources(leaf: Leaf | None) -> Iterable[str]:
    if leaf is None:
        requests = ("            requests:", "              cpu: 10m", "              memory: 16Mi")
        return ("          resources:", *requests)
    return (f"          resources: {{{{ spec.resources{'' if leaf.guaranteed else ' | default({})'} }}}}",)


def _variables(others: Sequence[Leaf]) -> Iterator[str]:
    """The environment of the container."""
    if not others:
        return
    if any(leaf.guaranteed for leaf in others):
        yield "          env:"
    else:
        # Without an item the list would be null.
        conditions = [f"{expression(('spec', *leaf.path))} is defined" for leaf in others]
        # Jinja nests each `or` in the one before.
        any_of = " or ".join(conditions) if len(conditions) <= _MANY else f"true in [{', '.join(conditions)}]"
        yield f"          {{% if {any_of} %}}"
        yield "          env:"
        yield "          {% endif %}"
    taken: set[str] = set()
    for leaf in others:
        text = expression(("spec", *leaf.path))
        lines = [f"            - name: {_variable(leaf, taken)}", f'              value: "{{{{ {text} }}}}"']
        if leaf.guaranteed:
            yield from lines
        else:
            yield from (f"            {{% if {text} is defined %}}", *lines, "            {% endif %}")


def _variable(leaf: Leaf, taken: set[str]) -> str:
    """The name of a variable that isn't taken: `dbHost` -> `DB_HOST`."""
    words = "_".join(_WORD_ENDS.sub("_", part) for part in leaf.path)
    name = _NO_VARIABLE.sub("_", words).upper()
    name = f"_{name}" if not name[:1].isalpha() else name
    found = next(each for at in range(1, len(taken) + 2) if (each := name if at == 1 else f"{name}_{at}") not in taken)
    taken.add(found)
    return found if found not in _YAML_WORDS else f'"{found}"'


_YAML_WORDS = frozenset({"NULL", "TRUE", "FALSE", "YES", "NO", "ON", "OFF", "Y", "N"})


def _service(names: ResourceNames, metadata: Sequence[str], port: Leaf | None) -> Iterator[str]:
    yield from ("apiVersion: v1", "kind: Service", *metadata)
    yield from _labels(names, 4)
    yield from ("spec:", "  selector:")
    yield from _labels(names, 4)
    yield from ("  ports:", "    - name: http", f"      port: {_value(port, '80')}", "      targetPort: http")
