"""Chooses the manifests to make templates of, and removes what the cluster or Helm added to them.

Promises:
- A manifest that no cluster wrote keeps every field.
- An object of a cluster loses what the API server and its controllers wrote: status, identity, history, defaults.
- A label goes only if no selector of the set needs it, and a selector never changes.
- Objects that controllers create are left out, because their owners recreate them.
- A Secret's content is never kept. Its values are drawn for each parent, or the Secret is left out. A Secret without
  content stays.
- Each change is a note, one for many alike.
"""

from __future__ import annotations

import base64
import binascii
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ssa_operator.objects.annotations import LAST_APPLIED
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.manifest import MANAGED_BY_LABEL, POD_SPECS
from ssa_operator.objects.source_location import value_at
from ssa_operator.tools.offline.project import cluster_scoped
from ssa_operator.tools.scaffold.helm_hooks import replace_hooks, without_event
from ssa_operator.tools.scaffold.notes import Notes
from ssa_operator.tools.scaffold.secret_values import DRAWN, GIVEN, is_drawable
from ssa_operator.tools.scaffold.server_fields import shows_cluster, without_server_fields

_HELM = ("Helm", "Tiller")
_HELM_LABELS = ("chart", "helm.sh/chart", "heritage")

_CLUSTER_KINDS = frozenset({"ControllerRevision", "Event", "Lease", "Node", "PodMetrics"})
"""Kinds whose objects in a cluster Kubernetes writes."""

_CLUSTER_OBJECTS = frozenset(
    {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default"), ("Service", "kubernetes")}
)
_SLICE_SERVICE = "kubernetes.io/service-name"
_SECRET_TYPES = ("kubernetes.io/service-account-token", "helm.sh/")
_SECRET_LENGTH_LIMIT = 128


def clean(bodies: Sequence[Mapping[str, Any]], namespace: str, notes: Notes) -> list[dict[str, Any]]:
    """The manifests to make templates of. `namespace` is that of most of them. Adds what was left out to the notes."""
    selecting = frozenset(body["metadata"]["name"] for body in bodies if _selects_pods(body))
    names = frozenset(body["metadata"]["name"] for body in bodies)
    drawn: dict[str, tuple[str, str]] = {}
    kept: list[dict[str, Any]] = []
    for body in bodies:
        reason = _left_out(body, namespace, selecting)
        if reason:
            notes.add(f"is left out: {reason}", body)
            continue
        live = shows_cluster(body)
        result = without_server_fields(body) if live else copy.deepcopy(dict(body))
        result.pop("status", None)
        metadata = result["metadata"]
        if metadata.get("namespace") in ("", namespace) or _is_cluster_scoped(body):
            # The API server ignores the namespace of what is in none.
            metadata.pop("namespace", None)
        if live and any(port.get("nodePort") for port in (body.get("spec") or {}).get("ports") or ()):
            notes.add("without nodePort: the API server chooses one for each object", body)
        if body["kind"] == "Secret":
            _remove_content(result, names, drawn, notes)
        kept.append(result)
    replace_hooks(kept, notes)
    _remove_labels(kept, notes)
    return kept


def absent_secrets(
    given: Sequence[Mapping[str, Any]], kept: Sequence[Mapping[str, Any]], instance: str
) -> list[Mapping[str, Any]]:
    """The Secrets of the instance that are left out. Each object needs its own one, so references follow the name."""
    found = {body["metadata"]["name"] for body in kept if body["kind"] == "Secret"}
    secrets = [body for body in given if body["kind"] == "Secret" and _unfit_secret(body)]
    own = re.compile(rf"{re.escape(instance)}(?![A-Za-z0-9])")
    return [
        body
        for body in secrets
        if instance and body["metadata"]["name"] not in found and own.match(body["metadata"]["name"])
    ]


def _is_cluster_scoped(body: Mapping[str, Any]) -> bool:
    return GroupKind.of(body["apiVersion"], body["kind"]) in cluster_scoped({})


def _selects_pods(body: Mapping[str, Any]) -> bool:
    return bool(body["kind"] == "Service" and (body.get("spec") or {}).get("selector"))


def _left_out(body: Mapping[str, Any], namespace: str, selecting: frozenset[str]) -> str | None:
    """Why a manifest is left out; None if it isn't."""
    kind, metadata = body["kind"], body["metadata"]
    if any(owner.get("controller") for owner in metadata.get("ownerReferences") or ()):
        return "its controller makes it"
    if _made_by_kubernetes(body, selecting):
        return "Kubernetes makes it"
    if kind == "Namespace" and namespace in ("", metadata["name"]):
        return "the manifests go into the namespace of the object"
    if reason := without_event(body):
        return reason
    if kind == "Secret":
        return _unfit_secret(body)
    return None


def _made_by_kubernetes(body: Mapping[str, Any], selecting: frozenset[str]) -> bool:
    kind, metadata = body["kind"], body["metadata"]
    if kind in ("Endpoints", "EndpointSlice"):
        service = metadata["name"] if kind == "Endpoints" else (metadata.get("labels") or {}).get(_SLICE_SERVICE)
        return service in selecting or "control-plane.alpha.kubernetes.io/leader" in (metadata.get("annotations") or {})
    return shows_cluster(body) and (kind in _CLUSTER_KINDS or (kind, metadata["name"]) in _CLUSTER_OBJECTS)


def _unfit_secret(secret: Mapping[str, Any]) -> str | None:
    kind = str(secret.get("type") or "Opaque")
    if not shows_cluster(secret) and not secret.get("data") and not secret.get("stringData"):
        return None
    if kind.startswith(_SECRET_TYPES):
        return "Kubernetes or Helm makes it"
    if kind != "Opaque":
        return f"the values of a Secret of type {kind} can't be drawn; create it for each object"
    values = [str(value) for value in (secret.get("stringData") or {}).values()]
    for value in (secret.get("data") or {}).values():
        try:
            values.append(base64.b64decode(str(value)).decode())
        except (binascii.Error, UnicodeDecodeError):
            return "it has binary values; create it for each object"
    if any("\n" in value.strip() or len(value) > _SECRET_LENGTH_LIMIT for value in values):
        return "it has values of several lines; create it for each object"
    return None


def _remove_content(
    secret: dict[str, Any], names: frozenset[str], drawn: dict[str, tuple[str, str]], notes: Notes
) -> None:
    """Replace the values of a Secret by words that say where they come from. `drawn` has the Secret and key of each
    value that is drawn.
    """
    (secret["metadata"].get("annotations") or {}).pop(LAST_APPLIED, None)
    plain = {key: base64.b64decode(str(value)).decode() for key, value in (secret.get("data") or {}).items()}
    plain |= {key: str(value) for key, value in (secret.get("stringData") or {}).items()}
    if not plain:
        return
    secret.pop("data", None)
    found = secret["stringData"] = {}
    for key, value in plain.items():
        found[key] = DRAWN if is_drawable(key, value, names) else GIVEN
        first = drawn.setdefault(value, (secret["metadata"]["name"], key)) if found[key] == DRAWN else None
        own = secret["metadata"]["name"]
        if first is not None and first != (own, key):
            found[key] = f"/{first[1]}" if first[0] == own else "/".join(first)
    given = [key for key, word in secret["stringData"].items() if word == GIVEN]
    if len(given) < len(plain):
        notes.add("its values are drawn for each object by generated()", secret)
    if given:
        reason = "because the text has a meaning: a required field, which all readers of the object see"
        notes.add(f"{', '.join(given)} can't be drawn, {reason}", secret)


def _remove_labels(bodies: Sequence[dict[str, Any]], notes: Notes) -> None:
    """Remove Helm's labels from objects and pods, and the label that the operator writes from objects."""
    written = [text for body in bodies for text in _texts(body, ())]
    needed = {key for key in (*_HELM_LABELS, MANAGED_BY_LABEL) if any(_names(text, key) for text in written)}
    removed: dict[str, list[Mapping[str, Any]]] = {}
    for body in bodies:
        pod = POD_SPECS.get(GroupKind.of(body["apiVersion"], body["kind"]), ())
        template = value_at(body, (*pod[:-1], "metadata")) if len(pod) > 1 else None
        for metadata in (body["metadata"], template):
            if not isinstance(metadata, dict) or not isinstance(labels := metadata.get("labels"), dict):
                continue
            for key in _unwanted(labels, needed, own=metadata is body["metadata"]):
                del labels[key]
                removed.setdefault(key, []).append(body)
            if not labels:
                del metadata["labels"]
    if removed:
        found = {id(body): body for each in removed.values() for body in each}.values()
        notes.add(f"without the labels {', '.join(sorted(removed))} (Helm's, or the operator's own)", *found)


def _unwanted(labels: Mapping[str, Any], needed: set[str], *, own: bool) -> list[str]:
    by_helm = labels.get("heritage") in _HELM or labels.get(MANAGED_BY_LABEL) in _HELM
    found = [key for key in _HELM_LABELS if key in labels and (by_helm or key == "helm.sh/chart")]
    if labels.get(MANAGED_BY_LABEL) in _HELM or (own and MANAGED_BY_LABEL in labels):
        found.append(MANAGED_BY_LABEL)
    return [key for key in found if key not in needed]


def _names(text: str, label: str) -> bool:
    """Whether a text has the key of a label in it."""
    return label in text and re.search(rf"(?<![\w./-]){re.escape(label)}(?![\w./-])", text) is not None


def _texts(value: Any, path: tuple[Any, ...]) -> Iterator[str]:
    """All texts and keys of a manifest, without the labels of objects and pods and the annotations of the object."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            if (path and path[-1] == "metadata" and key == "labels") or (
                path == ("metadata",) and key == "annotations"
            ):
                continue
            yield str(key)
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, path)
    elif isinstance(value, str):
        yield value
