"""What the laws of `new --from-manifests` speak of: the manifests that the operator applies, given or rendered."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import POD_SPECS, Rules, manifest
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.schema.new_object import new_object
from ssa_operator.tools.offline.project import cluster_scoped
from ssa_operator.tools.scaffold.instance_labels import LABEL
from ssa_operator.tools.scaffold.project import NewRequest, Parts, parts
from tests.rendering.template_files import parent, rendered

Key = tuple[str, str, str, str]
"""Group, kind, namespace and name of a manifest."""

HERE = SourceLocation("in.yaml", 1)

Bodies = Sequence[Mapping[str, Any]]


def made(*manifests: Mapping[str, Any], instance: str = "") -> Parts:
    """What `new` writes for manifests."""
    return parts(NewRequest(kind="Thing", group="example.com", manifests=manifests, instance=instance))


def renders(found: Parts, name: str = "", namespace: str = "default") -> dict[Key, dict[str, Any]]:
    """The manifests that the operator applies for a parent; without a name, for the example."""
    metadata = {"name": name or found.example["metadata"]["name"], "namespace": namespace, "uid": "u"}
    body = {**found.example, "metadata": metadata}
    created = new_object(body, found.crd, found.names.version)
    assert created.errors == ()
    spec = created.body.get("spec", {})
    result = rendered(found.templates, spec, metadata=metadata)
    assert result.problems == ()
    return applied([document.body for document in result.documents], metadata)


def applied(bodies: Bodies, metadata: Mapping[str, Any]) -> dict[Key, dict[str, Any]]:
    """The manifests as the operator sends them for a parent with this metadata, without its labels and reference."""
    live = LiveObject.of(parent({}, metadata=dict(metadata)))
    found = {}
    for body in bodies:
        namespaced = GroupKind.of(body["apiVersion"], body["kind"]) not in cluster_scoped({})
        document = Document(body=dict(body), location=HERE, location_of=lambda _: HERE)
        sent = manifest(document, live, Rules(namespaced=namespaced, cluster_scope=True))
        result: dict[str, Any] = dict(sent.body)
        result["metadata"].pop("ownerReferences", None)
        for label in ("app.kubernetes.io/managed-by", "ssa-operator.dev/parent-uid"):
            result["metadata"]["labels"].pop(label)
        if not result["metadata"]["labels"]:
            del result["metadata"]["labels"]
        identity = sent.identity
        found[identity.group, identity.kind, identity.namespace, identity.name] = result
    return found


def differences(given: Bodies, found: Parts, namespace: str = "default") -> list[str]:
    """Where a manifest rendered for the example differs from the given one, and no note says so."""
    metadata = {"name": found.example["metadata"]["name"], "namespace": namespace, "uid": "u"}
    expected = applied(given, metadata)
    actual = renders(found, namespace=namespace)
    wrong = []
    for key in expected.keys() | actual.keys():
        title = f"{key[1]} {key[3]}"
        notes = [note for note in found.notes if re.search(rf"\b{key[1]} (.*, )?{re.escape(key[3])}(?![\w.-])", note)]
        # A Secret that reads a value of another one waits for it.
        absent = (" left out: ", "drawn for each object") if key[1] == "Secret" else (" left out: ",)
        if any(each in note for each in absent for note in notes) and key not in actual:
            continue
        if key not in expected or key not in actual:
            wrong.append(f"{title} is {'missing' if key in expected else 'new'}")
            continue
        one, other = (_without_noted(body, notes, key) for body in (expected[key], actual[key]))
        if one != other:
            wrong.append(f"{title} was {one}\nand is {other}")
    return wrong


def _without_noted(body: dict[str, Any], notes: Sequence[str], key: Key) -> dict[str, Any]:
    """A manifest without what the notes about it name."""
    said = " ".join(notes)
    pod = POD_SPECS.get(GroupKind(key[0], key[1]), ())
    template: Any = body
    for part in pod[:-1]:
        template = template.get(part, {})
    for holder in (body, template):
        for field in ("labels", "annotations"):
            values = holder.get("metadata", {}).get(field) or {}
            for name in [name for name in values if f"without the {field}" in said and name in said]:
                del values[name]
            if not values:
                holder.get("metadata", {}).pop(field, None)
    if f"label {LABEL} is added" in said:
        (template.get("metadata", {}).get("labels") or {}).pop(LABEL, None)
        _remove_label(body.get("spec"))
    if key[1] == "Secret" and any(each in said for each in ("drawn for each object", "a required field")):
        body.pop("data", None)
    if "replicas are left to" in said:
        body["spec"].pop("replicas", None)
    return body


def _remove_label(value: Any) -> None:
    """Remove the label of the instance from all selectors."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key in ("matchLabels", "selector") and isinstance(item, dict):
                item.pop(LABEL, None)
            _remove_label(item)
        if value.get("matchLabels") == {}:
            del value["matchLabels"]
    elif isinstance(value, list):
        for item in value:
            _remove_label(item)
