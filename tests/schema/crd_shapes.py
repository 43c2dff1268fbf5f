"""CRDs with the shapes that public ones have, each small."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GROUP = "shapes.example.com"
TEXT: dict[str, Any] = {"type": "string"}
NUMBER: dict[str, Any] = {"type": "integer"}
OPEN: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def fields(*required: str, **properties: Any) -> dict[str, Any]:
    """The schema of a mapping."""
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def items(schema: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The schema of a list."""
    return {"type": "array", "items": schema, **more}


def rules(schema: Mapping[str, Any], *texts: str, **more: Any) -> dict[str, Any]:
    """A schema with rules."""
    return {**schema, "x-kubernetes-validations": [{"rule": text, **more} for text in texts]}


def version(name: str, spec: Any, *, storage: bool = True, served: bool = True, **root: Any) -> dict[str, Any]:
    """A version of a CRD. `spec` is the schema of that field, None without one."""
    own = {"spec": spec} if spec is not None else {}
    schema = {"type": "object", "properties": {**own, "status": OPEN}, **root}
    return {"name": name, "served": served, "storage": storage, "schema": {"openAPIV3Schema": schema}}


def shape(
    kind: str,
    spec: Any = None,
    *versions: Mapping[str, Any],
    group: str = GROUP,
    cluster: bool = False,
    names: Mapping[str, Any] | None = None,
    more: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A CRD with the spec in one version, or with versions of its own."""
    own = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower(), "listKind": f"{kind}List"}
    own |= names or {}
    approved = {"annotations": {"api-approved.kubernetes.io": "unapproved"}} if group.endswith("k8s.io") else {}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{own['plural']}.{group}", **approved},
        "spec": {
            "group": group,
            "scope": "Cluster" if cluster else "Namespaced",
            "names": own,
            "versions": [*(versions or [version("v1", spec)])],
            **(more or {}),
        },
    }


_WEBHOOK = {
    "strategy": "Webhook",
    "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "default", "name": "absent"}},
    },
}
_REFERENCE = fields("name", name=TEXT, namespace=TEXT)
_FORMATS = ("date-time", "date", "duration", "ipv4", "ipv6", "cidr", "uuid", "byte", "uri", "email", "mac", "hexcolor")
_UNION = fields("type", type={**TEXT, "enum": ["Static", "Remote"]}, static=_REFERENCE, remote=fields("url", url=TEXT))

SHAPES: tuple[dict[str, Any], ...] = (
    shape("Plain", fields("host", "replicas", host=TEXT, replicas=NUMBER, port=NUMBER)),
    shape("Wide", fields("host", host=TEXT), cluster=True),
    shape("WideOpen", OPEN, cluster=True, names={"shortNames": ["wo", "wop"], "categories": ["all"]}),
    shape("Gate", fields("controller", controller=TEXT), group="gate.networking.k8s.io", cluster=True),
    shape("Snapshot", fields("source", source=_REFERENCE), group="snapshot.storage.k8s.io"),
    shape(
        "Converted",
        None,
        version("v1alpha1", fields("old", old=TEXT), storage=False),
        version("v1", fields("size", size=NUMBER)),
        version("v2beta1", fields("size", size=TEXT), storage=False, served=False),
        more={"conversion": _WEBHOOK},
    ),
    shape(
        "Versioned",
        None,
        version("v1beta1", fields("size", size=NUMBER), storage=True),
        version("v1", fields("size", size=NUMBER, more=TEXT), storage=False),
        more={"conversion": {"strategy": "None"}},
    ),
    shape("Stable", None, version("stable", fields("a", a=TEXT)), version("canary", fields(a=TEXT), storage=False)),
    shape("Data", names={"plural": "data", "singular": "data"}),
    shape("ENIConfig", fields(subnet=TEXT), names={"plural": "eniconfigs", "singular": ""}),
    shape("X-Odd", fields("a", a=TEXT), names={"plural": "x-odd-things", "singular": "odd"}),
    shape("Closed", None, version("v1", None)),
    shape("Root", None, version("v1", None, properties={"data": items(TEXT), "mode": TEXT}, required=["mode"])),
    shape("Anything", None, version("v1", None, **{"x-kubernetes-preserve-unknown-fields": True})),
    shape(
        "Ports",
        fields(
            "port",
            "either",
            port={"x-kubernetes-int-or-string": True},
            either={
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "x-kubernetes-int-or-string": True,
                "pattern": r"^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$",
            },
        ),
    ),
    shape("Embedded", fields("template", template={**OPEN, "x-kubernetes-embedded-resource": True})),
    shape(
        "Formats",
        fields(
            *(name.replace("-", "") for name in _FORMATS),
            **{name.replace("-", ""): {**TEXT, "format": name} for name in _FORMATS},
        ),
    ),
    shape(
        "Patterns",
        fields(
            "arn",
            "name",
            "long",
            "percent",
            "both",
            arn={**TEXT, "pattern": r"^arn:aws[a-z-]*:iam::\d{12}:role/.+$"},
            name={**TEXT, "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "minLength": 12, "maxLength": 63},
            long={**TEXT, "minLength": 40, "maxLength": 41},
            percent={**TEXT, "pattern": "^(100|[1-9]?[0-9])%$"},
            both={**TEXT, "allOf": [{"maxLength": 5}, {"pattern": "^[A-Z]+-"}]},
        ),
    ),
    shape(
        "Counts",
        fields(
            "list",
            "set",
            "map",
            "some",
            "number",
            "even",
            list=items(TEXT, minItems=2, maxItems=3),
            set=items({**TEXT, "enum": ["a", "b", "c"]}, minItems=2, **{"x-kubernetes-list-type": "set"}),
            map={"type": "object", "additionalProperties": NUMBER, "minProperties": 2},
            some={**fields(a=TEXT, b=TEXT), "minProperties": 1},
            number={"type": "number", "minimum": 0.5, "exclusiveMinimum": True, "maximum": 1},
            even={"type": "integer", "minimum": 3, "multipleOf": 2},
        ),
    ),
    shape(
        "Keyed",
        fields(
            "ports",
            ports=items(
                fields(
                    "name", "port", name=TEXT, port={**NUMBER, "format": "int32"}, protocol={**TEXT, "default": "TCP"}
                ),
                minItems=2,
                **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "protocol"]},
            ),
        ),
    ),
    shape(
        "Defaults",
        fields(
            "mode",
            "inner",
            mode={**TEXT, "enum": ["", "On"], "default": "On"},
            inner=fields(
                "deep", deep={**fields(size={**NUMBER, "default": 3}, list=items(TEXT, default=["a"])), "default": {}}
            ),
            maybe={**TEXT, "nullable": True},
        ),
    ),
    shape("Nullable", fields("a", "b", a={**TEXT, "nullable": True}, b={**fields("c", c=TEXT), "nullable": True})),
    shape("OneOf", {**fields(a=_REFERENCE, b=TEXT, c=NUMBER), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}),
    shape("AnyOf", {**fields(a=TEXT, b=TEXT), "anyOf": [{"required": ["b"]}, {"required": ["a"]}]}),
    shape(
        "Discriminated",
        {
            **_UNION,
            "oneOf": [
                {"properties": {"type": {"enum": ["Remote"]}}, "required": ["remote"]},
                {"properties": {"type": {"enum": ["Static"]}}, "required": ["static"]},
            ],
        },
    ),
    shape("Exclusive", {**fields(a=TEXT, b=TEXT), "not": {"required": ["a", "b"]}, "minProperties": 1}),
    shape(
        "Rules",
        rules(
            _UNION,
            "self.type == 'Static' ? has(self.static) : !has(self.static)",
            "self.type == 'Remote' ? has(self.remote) : !has(self.remote)",
            message="the type says which field is set",
        ),
    ),
    shape("EitherRule", rules(fields(by=_REFERENCE, reason=TEXT), "has(self.by) || has(self.reason)")),
    shape(
        "PairRule",
        fields(
            "reference",
            reference=rules(
                fields(name=TEXT, namespace=TEXT),
                "has(self.name) && has(self.namespace)",
            ),
        ),
    ),
    shape(
        "TextRule",
        fields(
            "url",
            "prefix",
            url=rules({**TEXT, "maxLength": 100}, "self.startsWith('https://')", "url(self).getHostname() != ''"),
            prefix=rules({**TEXT, "maxLength": 100}, "self.matches('^team-[a-z]+$')"),
        ),
    ),
    shape("Singleton", None, version("v1", fields(a=TEXT), **rules({}, "self.metadata.name == 'cluster'"))),
    shape(
        "Named",
        None,
        version("v1", fields(a=TEXT), **rules({}, r"self.metadata.name.matches('^(.+\\.)?rbd\\.example$')")),
    ),
    shape(
        "FieldRule",
        rules(
            fields("low", "high", low=NUMBER, high=NUMBER),
            "self.low < self.high",
            fieldPath=".high",
            reason="FieldValueInvalid",
        ),
    ),
    shape("Ratchet", rules(fields("a", a=TEXT), "self.a == oldSelf.a")),
    shape(
        "Scaled",
        None,
        {
            **version("v1", fields("replicas", replicas=NUMBER)),
            "subresources": {
                "status": {},
                "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
            },
        },
    ),
    shape("Silent", None, {**version("v1", fields(a=TEXT)), "subresources": {"status": {}}}),
    shape(
        "Nested", fields("a", a=items(fields("b", b=items(fields("c", c=fields("d", d={**TEXT, "format": "ipv4"}))))))
    ),
    shape("Many", fields(**{f"field{at:03}": TEXT for at in range(130)})),
)
"""CRDs whose samples the API server accepts."""

BEYOND = {"type": "integer", "format": "int32", "maximum": 2**32 - 1}

OPEN_SHAPES: tuple[tuple[dict[str, Any], tuple[str, ...]], ...] = (
    (shape("Beyond", fields("host", "number", host=TEXT, number=BEYOND)), ("spec.number",)),
    (shape("Script", fields("word", word={**TEXT, "pattern": r"^\p{Greek}{3}$"})), ("spec.word",)),
    (
        shape(
            "Secretive",
            fields(
                "list",
                list=items(fields("name", "word", name=TEXT, word={**TEXT, "pattern": r"^\pL-\pN$"}), minItems=1),
            ),
        ),
        ("spec.list[0].word",),
    ),
    (shape("Checksum", fields("sum", sum=rules({**TEXT, "maxLength": 9}, "int(self) % 9973 == 17"))), ("spec.sum",)),
)
"""CRDs for which no sample is known, with the fields that stay open."""
