"""Chooses the manifests to make templates of, and removes what the cluster or Helm added to them.

Promises:
- A manifest that no cluster wrote keeps every field. An object of a cluster loses what the API server and its
  controllers wrote, and objects that controllers create are left out. A CRD is written to the folder of CRDs.
- A label goes only if no selector of the set needs it, and a selector never changes.
- A Secret's content is never kept: its values are drawn for each parent, or the Secret is left out. A text that means
  something is not drawn: a name of the set, an address, JSON, words, a user, a number, a format.
- A hook of deletions runs when the parent is being deleted; a Job of installations runs once in the parent's life, in
  the order of the weights, before or after the workloads. Hooks of tests, upgrades and rollbacks are left out.
- Each change is a note, one for many alike, and so is what only one object can have: addresses, node ports, volumes,
  hosts, a name in two namespaces.
"""

from __future__ import annotations

import base64
import binascii
import copy
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ssa_operator.objects.annotations import LAST_APPLIED, PREFIX
from ssa_operator.objects.built_in_kinds import BUILT_IN_KINDS
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.manifest import MANAGED_BY_LABEL, POD_SPECS
from ssa_operator.objects.source_location import value_at
from ssa_operator.tools.offline.project import cluster_scoped
from ssa_operator.tools.scaffold.server_fields import shows_cluster, without_server_fields


class Notes:
    """Sentences about manifests; what is said of several is one sentence."""

    def __init__(self) -> None:
        self._titles: dict[str, dict[str, None]] = {}

    def add(self, text: str, *bodies: Mapping[str, Any]) -> None:
        """Say something of manifests, if there are any: "is left out", "without labels"."""
        if bodies:
            self._titles.setdefault(text, {}).update(dict.fromkeys(map(title, bodies)))

    def say(self, sentence: str) -> None:
        """Add a sentence that is about no manifest."""
        self._titles[sentence] = {}

    def __iter__(self) -> Iterator[str]:
        for text, found in self._titles.items():
            if not found:
                yield text
            elif text.startswith("is "):
                yield f"{_listed(found)} {'are' if len(found) > 1 else 'is'} {text.removeprefix('is ')}"
            else:
                yield f"{_listed(found)}: {text}"


def title(body: Mapping[str, Any]) -> str:
    """A manifest in a note: `Deployment web`."""
    return f"{body['kind']} {body['metadata']['name']}"


def _listed(titles: Iterable[str]) -> str:
    """The names by kind: `Deployment web, db and Service web`."""
    kinds: dict[str, list[str]] = {}
    for each in titles:
        kind, _, name = each.partition(" ")
        kinds.setdefault(kind, []).append(name)
    parts = [f"{kind} {', '.join(names)}" for kind, names in kinds.items()]
    return " and ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else parts[0]


DRAWN, GIVEN = "drawn", "given"
"""Stand for a value that `generated()` draws, and for one that the author of a parent gives. `Secret/key` stands for
the value of another Secret, and `/key` for another one of the same Secret.
"""

_MEANING = re.compile(
    r"""\s | :// | ^[\[{] | @               # words, addresses, JSON
    | ^(?:[0-9.]+|true|false|)$              # numbers
    | ^[A-Za-z0-9_-]{43}=$                   # a Fernet key
    | ^[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$  # an identifier
    """,
    re.VERBOSE,
)
_KEYS = re.compile(
    r"(?:^|[-_.])(?:user(?:-?name)?|login|e?mail|host(?:name)?|port|database|db|id|url|uri)$", re.IGNORECASE
)
_NAME = re.compile(r"[A-Za-z0-9.-]+", re.ASCII)


def is_drawable(key: str, value: str, names: frozenset[str]) -> bool:
    """Whether a value may be any random text. `names` are those of the objects of the set."""
    return not (_MEANING.search(value) or _KEYS.search(key) or names & {*_NAME.findall(value)})


_CRD = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")


def given_crds(manifests: Sequence[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[Mapping[str, Any]]]:
    """The CRDs, and all other manifests."""
    crds, others = [], []
    for body in manifests:
        if GroupKind.of(body["apiVersion"], body["kind"]) == _CRD:
            found = without_server_fields(body) if shows_cluster(body) else copy.deepcopy(dict(body))
            found.pop("status", None)
            crds.append(found)
        else:
            others.append(body)
    return crds, others


def scopes_of(crds: Iterable[Mapping[str, Any]]) -> Mapping[GroupKind, bool]:
    """Whether the objects of a kind are namespaced, for each kind whose scope is known."""
    wide = cluster_scoped({})
    built_in = {GroupKind.of(each.api_version, each.kind) for each in BUILT_IN_KINDS}
    own = {
        GroupKind(crd["spec"]["group"], crd["spec"]["names"]["kind"]): crd["spec"].get("scope") == "Namespaced"
        for crd in crds
    }
    return {**{kind: kind not in wide for kind in built_in}, **own}


HELM = ("helm.sh/", "meta.helm.sh/")
"""How Helm's annotations begin."""

_HOOK, _WEIGHT, _POLICY = "helm.sh/hook", "helm.sh/hook-weight", "helm.sh/resource-policy"
_INSTALL = ("pre-install", "post-install", "crd-install")
_DELETE = ("pre-delete", "post-delete")
_RUNS = ("Job", "Pod")
_WORKLOADS = ("DaemonSet", "Deployment", "StatefulSet")


def without_event(body: Mapping[str, Any]) -> str | None:
    """Why a hook is left out, None for all other manifests."""
    events = _events(body)
    if not events or any(each in (*_INSTALL, *_DELETE) for each in events):
        return None
    if any(each.startswith("test") for each in events):
        return "it is a test of Helm"
    return f"it is a hook of Helm for {' and '.join(events)}, and the operator has no such event"


def replace_hooks(bodies: Sequence[dict[str, Any]], notes: Notes) -> None:
    """Replace Helm's annotations by those of the operator."""
    first, last = (_jobs(bodies, event) for event in ("pre-install", "post-install"))
    workloads = [body for body in bodies if body["kind"] in _WORKLOADS and not _events(body)]
    for body in bodies:
        after: list[dict[str, Any]] = []
        if body in workloads and first:
            after = _of_weight(first, max(map(_weight, first)))
        for jobs in (first, last):
            lower = [each for each in jobs if _weight(each) < _weight(body)]
            if body in jobs and lower:
                after += _of_weight(lower, max(map(_weight, lower)))
        if body in last and not after:
            after = workloads
        _instruct(body, after, notes)
    for body in bodies:
        _remove(body, notes)


def _annotations(body: Mapping[str, Any]) -> dict[str, Any]:
    return body["metadata"].get("annotations") or {}


def _events(body: Mapping[str, Any]) -> list[str]:
    hook = str(_annotations(body).get(_HOOK, ""))
    return [each.strip().lower() for each in hook.split(",") if each.strip()]  # as Helm reads it


def _weight(body: Mapping[str, Any]) -> int:
    text = str(_annotations(body).get(_WEIGHT, "0"))
    return int(text) if text.lstrip("+-").isdecimal() else 0


def _jobs(bodies: Sequence[dict[str, Any]], event: str) -> list[dict[str, Any]]:
    return [body for body in bodies if body["kind"] in _RUNS and event in _events(body)]


def _of_weight(bodies: Sequence[dict[str, Any]], weight: int) -> list[dict[str, Any]]:
    return [body for body in bodies if _weight(body) == weight]


def _instruct(body: dict[str, Any], after: Sequence[Mapping[str, Any]], notes: Notes) -> None:
    """Add the operator's annotations to a manifest."""
    events = _events(body)
    found: dict[str, str] = {}
    if events and not set(events) & {*_INSTALL}:
        found["on"] = "finalize"
        notes.add(f"a hook of deletions, which is applied when the object is being deleted ({PREFIX}on)", body)
    elif body["kind"] in _RUNS and events:
        found["apply"] = "Once"
        notes.add(f"a hook of installations, which runs once for each object ({PREFIX}apply)", body)
    elif events:
        notes.add("was a Helm hook, and is applied as any other manifest now", body)
    elif body["kind"] == "Job" and (body.get("spec") or {}).get("ttlSecondsAfterFinished") is not None:
        found["apply"] = "Once"
        notes.add(f"Kubernetes deletes it when it has finished, so it runs once for each object ({PREFIX}apply)", body)
    lost = [each for each in events if each in _DELETE] if "on" not in found else []
    if lost:
        notes.add(f"not applied by {' and '.join(lost)} any more: add a copy with {PREFIX}on: finalize", body)
    if after:
        found["after"] = ", ".join(f"{each['kind']}/{each['metadata']['name']}" for each in after)
    if _annotations(body).get(_POLICY) == "keep":
        found["prune"] = "false"
        notes.add(f'the policy keep of Helm: the object stays when its parent goes ({PREFIX}prune: "false")', body)
    if found:
        annotations = _annotations(body)
        body["metadata"]["annotations"] = {**annotations, **{f"{PREFIX}{key}": text for key, text in found.items()}}


def _remove(body: dict[str, Any], notes: Notes) -> None:
    """Remove Helm's annotations."""
    annotations = _annotations(body)
    removed = [key for key in annotations if key.startswith(HELM)]
    for key in removed:
        del annotations[key]
    if removed:
        notes.add(f"without the annotations of Helm ({', '.join(sorted(removed))})", body)
    if not annotations:
        body["metadata"].pop("annotations", None)


_FIELDS: Mapping[str, tuple[str, ...]] = {
    "PersistentVolumeClaim": ("volumeName",),
    "Service": ("clusterIP", "loadBalancerIP"),
}
"""Fields of the spec of kinds."""


def note_exclusive_values(bodies: Sequence[Mapping[str, Any]], notes: Notes) -> None:
    """Add the notes about manifests."""
    for body in bodies:
        for path in dict.fromkeys(_exclusive(body)):
            notes.add(f"{path} can be that of one object only, so remove it for others", body)
        if body["kind"] == "Ingress" and any(each.get("host") for each in _items(_spec(body), "rules")):
            notes.add("objects that don't set spec.host have the same host", body)
    known = {(body["kind"], body["metadata"]["name"]): body for body in bodies if not body["metadata"].get("namespace")}
    for body in bodies:
        namespace = body["metadata"].get("namespace")
        if namespace and (body["kind"], body["metadata"]["name"]) in known:
            notes.say(f"{title(body)} is in two namespaces, so no object can be in the namespace {namespace}")


def _exclusive(body: Mapping[str, Any]) -> Iterator[str]:
    spec = _spec(body)
    for field in _FIELDS.get(body["kind"], ()):
        if spec.get(field) not in (None, "", "None"):
            yield f"spec.{field}"
    if body["kind"] == "Service" and any(each.get("nodePort") for each in _items(spec, "ports")):
        yield "spec.ports[].nodePort"


def _spec(body: Mapping[str, Any]) -> Mapping[str, Any]:
    spec = body.get("spec")
    return spec if isinstance(spec, Mapping) else {}


def _items(value: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    found = value.get(field)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


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
