"""Rules about the manifests of one parent: images, selectors, ports, volumes, Jobs, readiness, and references.

Promises:
- A rule reads nothing but manifests. Each finding has the line of the field that causes it.
- A manifest of a kind whose controller writes no status says how its object is ready, or that nothing waits for it.
- A Service that selects no pod of the same parent is a finding only if none of the parent's Services selects any: it
  may select pods of others, or of a custom resource.
- A missing object is a finding only if it is meant to be of this render: its name is near to that of a rendered one, or
  it has the parent's name and is of a kind that no user creates beside the operator. A custom resource of the render
  may have a controller that creates it; then only a near name counts.
- What the examples contain, what a template looks up, and what the parent's spec names is made elsewhere. `optional`
  references may lead nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.objects.annotations import PREFIX, Reference
from ssa_operator.objects.identity import GroupKind, is_built_in
from ssa_operator.objects.label_selectors import selects
from ssa_operator.objects.manifest import POD_SPECS
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.render_result import Document, Wait
from ssa_operator.objects.source_location import FieldPath, leaves
from ssa_operator.tools.findings import Code, Finding, field_finding
from ssa_operator.tools.scaffold.reference_fields import FieldPlace, place_of
from ssa_operator.tools.schema_rules import INVALID_VALUE

_CONTAINERS = ("initContainers", "containers")
_HANDLERS = ("startupProbe", "readinessProbe", "livenessProbe")

_SELECTING = ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")
"""The workloads whose selector must match their pod template."""

_JOB = GroupKind("batch", "Job")

_NEVER_WRITTEN = frozenset(
    GroupKind(f"{group}.istio.io", kind)
    for group, kinds in (
        ("extensions", "WasmPlugin"),
        ("networking", "DestinationRule EnvoyFilter Gateway ProxyConfig ServiceEntry Sidecar VirtualService"),
        ("networking", "WorkloadEntry WorkloadGroup"),
        ("security", "AuthorizationPolicy PeerAuthentication RequestAuthentication"),
        ("telemetry", "Telemetry"),
    )
    for kind in kinds.split()
)
"""The kinds whose CRDs declare `status.conditions` that no controller writes by default
(https://istio.io/latest/docs/reference/config/config-status/).
"""


class _ManifestField(Struct, frozen=True):
    """A field of a manifest, with its path."""

    document: Document
    path: FieldPath
    value: Any

    def __getitem__(self, part: str | int) -> _ManifestField:
        """A part of it; its value is None if there is none."""
        value = None
        if isinstance(self.value, Mapping):
            value = self.value.get(part)
        elif isinstance(self.value, list) and isinstance(part, int):
            value = self.value[part]
        return _ManifestField(self.document, (*self.path, part), value)

    def items(self) -> Iterator[_ManifestField]:
        """The items of a list; none if it is no list."""
        if isinstance(self.value, list):
            yield from (self[position] for position in range(len(self.value)))

    @property
    def mapping(self) -> Mapping[str, Any]:
        """The value if it is a mapping, an empty one otherwise."""
        return self.value if isinstance(self.value, Mapping) else {}

    def finding(self, code: Code, message: str, fix: str = "") -> Finding:
        return field_finding(self.document, code, self.path, message, fix)


def check_manifests(documents: Sequence[Document], not_awaited: Container[GroupKind] = ()) -> list[Finding]:
    """The findings in the manifests of one parent. `not_awaited` are kinds that are known to be ready without a status,
    or whose status is known to be written.
    """
    found = [finding for rule in _RULES for finding in rule(documents)]
    return [*found, *_statuses_never_written(documents, not_awaited)]


LATEST_IMAGE = Code.warning(
    "latest-image",
    "an image without a fixed version",
    "The image has the tag latest, or no tag. With imagePullPolicy IfNotPresent different nodes run "
    "different builds, and with Always a restarted pod may run another one than its neighbours. Name a "
    "version, or a digest.",
)


def _latest_images(documents: Sequence[Document]) -> Iterable[Finding]:
    for pod in _pods(documents):
        for container in _containers(pod):
            image = container["image"]
            if isinstance(image.value, str) and not has_fixed_version(image.value):
                yield image.finding(LATEST_IMAGE, f"is {image.value}", "name a version or a digest")


def check_image_names(documents: Sequence[Document]) -> Iterable[Finding]:
    """The findings about names of images that no kubelet takes: a blank is in them."""
    for pod in _pods(documents):
        for container in _containers(pod):
            image = container["image"]
            if isinstance(image.value, str) and len(image.value.split()) > 1:
                fix = f"write {''.join(image.value.split())}"
                yield image.finding(INVALID_VALUE, f"is {image.value}, and no image has a blank in its name", fix)


def has_fixed_version(image: str) -> bool:
    """Whether the reference of an image has a digest, or a tag other than `latest`.

    A registry's port is no tag: https://github.com/distribution/reference.
    """
    if "@" in image:
        return True
    _, _, tag = image.rpartition("/")[2].partition(":")
    return tag not in ("", "latest")


BROKEN_REFERENCE = Code.error(
    "broken-reference",
    "a reference within a manifest that leads nowhere",
    "A selector doesn't match the labels of its pod template, a mount names no volume of its pod and no "
    "volumeClaimTemplate, or a probe or a hook names a port that its container doesn't declare. The API "
    "server refuses the first two, and the probe fails. Write the name as the manifest does.",
    replaces="selector-mismatch unknown-volume unknown-port",
)


def _selector_mismatches(documents: Sequence[Document]) -> Iterable[Finding]:
    for document in documents:
        if document.body["kind"] not in _SELECTING or not _is_builtin(document, "apps"):
            continue
        selector = _ManifestField(document, (), document.body)["spec"]["selector"]
        labels = _pod(document)["metadata"]["labels"].mapping
        if selector.value is not None and not selects(selector.mapping, labels):
            yield selector.finding(BROKEN_REFERENCE, "doesn't match the labels of spec.template")


UNKNOWN_REFERENCE = Code.warning(
    "unknown-reference",
    "a name, a key, a port or a label that no manifest of the render has",
    "A manifest names an object that the same templates should render (the target of an autoscaler, a Service "
    "of an Ingress, a ConfigMap whose name is nearly that of a rendered one), a key or a port that the "
    "rendered one doesn't have, or a Service selects no pod of its folder. The API server accepts it; pods "
    "don't start, or nothing is scaled or reached. The pods of a Service with clusterIP: None are reached all "
    "the same, without the port. An object that is created elsewhere can be among the examples. Or "
    "_status.yaml.j2 reads a child of a name that no template of the folder renders for the examples: its "
    "fields are never known, so the operator leaves them out of the status. In a manifest, that is a "
    "render-error. Write the name as the other manifest does.",
    replaces="selects-nothing unknown-target-port headless-port unknown-child",
)


def _unknown_ports(documents: Sequence[Document]) -> Iterable[Finding]:
    for pod in _pods(documents):
        for container in _containers(pod):
            known = set(_port_names([container]))
            declared = {port["containerPort"].value for each in _containers(pod) for port in each["ports"].items()}
            for port in _handler_ports(container):
                if container["ports"].value and isinstance(port.value, int) and port.value not in declared:
                    message = f"is {port.value}, and no container declares this port"
                    numbers = ", ".join(sorted(map(str, declared)))
                    yield port.finding(UNKNOWN_REFERENCE, message, f"declared are {numbers}")
                if isinstance(port.value, str) and not port.value.isdigit() and port.value not in known:
                    yield port.finding(BROKEN_REFERENCE, *_unknown(port.value, known, "the container"))
    for document in documents:
        if document.body["kind"] == "Service" and _is_builtin(document, ""):
            yield from _unknown_target_ports(document, documents)


def _unknown_target_ports(service: Document, documents: Sequence[Document]) -> Iterable[Finding]:
    spec = _ManifestField(service, (), service.body)["spec"]
    selector = spec["selector"].mapping
    pods = [pod for pod in _pods(documents) if selector and selects({"matchLabels": selector}, _labels(pod))]
    known = {name for pod in pods for name in _port_names(_containers(pod))}
    # Of a pod without containers, another rule reports that.
    for port in spec["ports"].items() if any(any(_containers(pod)) for pod in pods) else ():
        target = port["targetPort"]
        if isinstance(target.value, str) and not target.value.isdigit() and target.value not in known:
            yield target.finding(UNKNOWN_REFERENCE, *_unknown(target.value, known, "a pod that the Service selects"))


def _selects_nothing(documents: Sequence[Document]) -> Iterable[Finding]:
    pods = [pod for pod in _pods(documents) if not _is_builtin(pod.document, "batch")]
    if not pods or not all(is_built_in(each.identity.group) for each in documents):
        return
    if any(_selector_mismatches(documents)):  # it is not known which of the labels are meant
        return
    services = []
    for document in documents:
        selector = _ManifestField(document, (), document.body)["spec"]["selector"]
        if document.identity.group_kind == GroupKind("", "Service") and selector.mapping:
            services.append((selector, {"matchLabels": selector.mapping}))
    if any(selects(wanted, _labels(pod)) for _, wanted in services for pod in pods):
        return
    names = {pod.document.identity.name for pod in pods}
    for selector, _ in services:
        labels = _labels(pods[0])
        if selector.document.identity.name in names or any(key in labels for key in selector.mapping):
            written = ", ".join(f"{key}: {value}" for key, value in labels.items()) or "none"
            workload = f"{pods[0].document.identity.kind} {pods[0].document.identity.name}"
            yield selector.finding(
                UNKNOWN_REFERENCE, "selects no pod", f"the labels of {workload}'s pods are {written}"
            )


def _unknown_volumes(documents: Sequence[Document]) -> Iterable[Finding]:
    for pod in _pods(documents):
        claims = _ManifestField(pod.document, (), pod.document.body)["spec"]["volumeClaimTemplates"]
        known = {claim["metadata"]["name"].value for claim in claims.items()}
        known |= {volume["name"].value for volume in pod["spec"]["volumes"].items()}
        for container in _containers(pod):
            for mount in (*container["volumeMounts"].items(), *container["volumeDevices"].items()):
                name = mount["name"]
                if isinstance(name.value, str) and name.value not in known:
                    yield name.finding(BROKEN_REFERENCE, *_unknown(name.value, known, "the pod"))


STATUS_NEVER_WRITTEN = Code.warning(
    "status-never-written",
    "a manifest of a kind whose status nothing writes",
    "The CRD of the kind declares status.conditions, so its object counts as ready once its controller has "
    "written its status. The controller of this kind writes none by default (Istio's kinds), so the parent "
    "stays Progressing, and what depends on the object waits. Set the annotation "
    'ssa-operator.dev/wait: "false" if the parent need not wait for the object, or ssa-operator.dev/ready-when '
    "with an expression that says when it is ready, such as metadata.uid is defined: once it exists.",
)


def _statuses_never_written(documents: Sequence[Document], not_awaited: Container[GroupKind]) -> Iterable[Finding]:
    for document in documents:
        body = _ManifestField(document, (), document.body)
        annotations = body["metadata"]["annotations"].mapping
        if document.identity.group_kind not in _NEVER_WRITTEN or document.identity.group_kind in not_awaited:
            continue
        if annotations.get(f"{PREFIX}wait") != "false" and not annotations.get(f"{PREFIX}ready-when"):
            yield body["kind"].finding(
                STATUS_NEVER_WRITTEN,
                f"is {document.identity.kind}, whose status no controller writes by default, so it never gets ready",
                f'set the annotation {PREFIX}wait: "false", or {PREFIX}ready-when',
            )


def check_waits(
    waits: Iterable[Wait], documents: Iterable[Document], not_awaited: Container[GroupKind]
) -> Iterator[Finding]:
    """The findings about documents that wait for the status of a child that no controller writes."""
    kinds = {Reference(each.identity.kind, each.identity.name): each.identity.group_kind for each in documents}
    for wait in waits:
        for target in wait.awaited:
            kind = kinds.get(target.query) if isinstance(target.query, Reference) else None
            if kind in _NEVER_WRITTEN and kind not in not_awaited and target.field[:1] == ("status",):
                message = f"waits for the status of {target.query}, which no controller writes by default"
                fix = "write | default(...) behind it, or remove it"
                yield Finding(code=STATUS_NEVER_WRITTEN, message=message, location=wait.location, fix=fix)


REPEATED_JOB = Code.warning(
    "repeated-job",
    "a Job with a TTL that the operator runs again and again",
    "Kubernetes deletes a Job with ttlSecondsAfterFinished when it has finished. The operator then finds that "
    "a child is missing, and creates it again. A Job that runs once for each parent has the annotation "
    "ssa-operator.dev/apply: Once.",
)


def _repeated_jobs(documents: Sequence[Document]) -> Iterable[Finding]:
    for document in documents:
        body = _ManifestField(document, (), document.body)
        annotations = body["metadata"]["annotations"].mapping
        limit = body["spec"]["ttlSecondsAfterFinished"]
        if document.identity.group_kind != _JOB or limit.value is None or f"{PREFIX}on" in annotations:
            continue
        if annotations.get(f"{PREFIX}apply") != "Once":
            yield limit.finding(
                REPEATED_JOB,
                "lets Kubernetes delete the Job after it finished, and the operator runs it again each time",
                f"set the annotation {PREFIX}apply: Once, or leave out the field",
            )


def _unknown(name: str, known: Iterable[Any], owner: str) -> tuple[str, str]:
    """The message and the fix for a name that doesn't exist."""
    names = ", ".join(sorted(each for each in known if isinstance(each, str)))
    return f"is {name}, and {owner} has none of that name", f"it has {names}" if names else ""


_RULES: tuple[Callable[[Sequence[Document]], Iterable[Finding]], ...] = (
    _latest_images,
    _selector_mismatches,
    _unknown_ports,
    _unknown_volumes,
    _selects_nothing,
    _repeated_jobs,
)


def _is_builtin(document: Document, group: str) -> bool:
    return document.identity.group == group


def _pods(documents: Iterable[Document]) -> Iterator[_ManifestField]:
    for document in documents:
        if document.identity.group_kind in POD_SPECS:
            yield _pod(document)


def _pod(document: Document) -> _ManifestField:
    pod = _ManifestField(document, (), document.body)
    for part in POD_SPECS[document.identity.group_kind][:-1]:
        pod = pod[part]
    return pod


def _labels(pod: _ManifestField) -> Mapping[str, Any]:
    return pod["metadata"]["labels"].mapping


def _containers(pod: _ManifestField) -> Iterator[_ManifestField]:
    for field in _CONTAINERS:
        yield from pod["spec"][field].items()


def _port_names(containers: Iterable[_ManifestField]) -> Iterator[str]:
    for container in containers:
        for port in container["ports"].items():
            if isinstance(port["name"].value, str):
                yield port["name"].value


def _handler_ports(container: _ManifestField) -> Iterator[_ManifestField]:
    handlers = [container[name] for name in _HANDLERS]
    handlers += [container["lifecycle"][name] for name in ("postStart", "preStop")]
    for handler in handlers:
        for action in ("httpGet", "tcpSocket"):
            yield handler[action]["port"]


_OF_OPERATORS = ("Deployment", "ReplicaSet", "Role", "Service", "ServiceAccount", "StatefulSet")
"""The kinds that no user creates beside an operator under the name of its parent."""
_OPTIONAL = ("serviceName", "subdomain")
"""Fields that may name a Service that doesn't exist: then the pods have no names in DNS."""


class _Named(Struct, frozen=True):
    """An object that a manifest names."""

    document: Document
    path: FieldPath
    kind: str
    name: str
    holder: Mapping[str, Any]
    """The mapping with the name."""

    def finding(self, path: FieldPath, message: str, fix: str) -> Finding:
        return field_finding(self.document, UNKNOWN_REFERENCE, path, message, fix)


def check_references(
    documents: Sequence[Document], parent: Mapping[str, Any], known: Collection[Reference]
) -> Iterator[Finding]:
    """The findings in the manifests of a parent. `known` are the objects of the examples and of documents that wait."""
    prefix = parent["metadata"]["name"]
    given = [text for _, text in leaves(parent.get("spec")) if isinstance(text, str) and text not in ("", prefix)]
    asked = [each.query for document in documents for each in document.dependencies]
    elsewhere = {*known, *(Reference(getattr(each, "kind", ""), getattr(each, "name", "")) for each in asked)}
    alone = all(is_built_in(each.identity.group) for each in documents)
    rendered = {(each.identity.namespace, each.identity.kind, each.identity.name): each for each in documents}
    for document in documents:
        namespace = document.identity.namespace
        for each in _names(document.body, place_of(document.body), (), document):
            target = rendered.get((namespace, each.kind, each.name))
            if each.holder.get("optional") is True or each.holder.get("namespace", namespace) != namespace:
                continue
            if target is not None:
                yield from _keys(each, target)
                yield from _ports(each, target)
            elif Reference(each.kind, each.name) not in elsewhere and not any(text in each.name for text in given):
                names = [name for place, kind, name in rendered if (place, kind) == (namespace, each.kind)]
                # Without the parent's name, which all have.
                short = {name.removeprefix(f"{prefix}-"): name for name in names}
                alike = near_names(each.name.removeprefix(f"{prefix}-"), short, likeness=0.7)
                near = [short[name] for name in alike]
                own = (
                    f"-{prefix}-" in f"-{each.name}-" and each.kind in _OF_OPERATORS and each.path[-1] not in _OPTIONAL
                )
                if near or (own and alone):
                    fix = f"did you mean {(near or names)[0]}?" if near or len(names) == 1 else "add its manifest"
                    yield each.finding(each.path, f"is {each.name}, and no template renders this {each.kind}", fix)


def _names(value: Any, place: FieldPlace, path: FieldPath, document: Document) -> Iterator[_Named]:
    if isinstance(value, Mapping) and not place.custom:
        for key, item in value.items():
            kind = place.kind_named_by(key, value)
            if kind and isinstance(item, str) and item:
                yield _Named(document, (*path, key), kind, item, value)
            yield from _names(item, place.below(key), (*path, key), document)
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _names(item, place.item(), (*path, at), document)


def _keys(named: _Named, target: Document) -> Iterator[Finding]:
    """The findings about keys that a ConfigMap or Secret of the render doesn't have."""
    known = {key for part in ("data", "stringData", "binaryData") for key in target.body.get(part) or ()}
    items = enumerate(named.holder.get("items") or ())
    wanted: list[tuple[FieldPath, Any]] = [(("key",), named.holder.get("key"))]
    wanted += [(("items", at, "key"), each.get("key")) for at, each in items]
    for path, key in wanted if known else ():  # a controller may fill an empty one
        if isinstance(key, str) and key not in known:
            near = near_names(key, known)
            fix = f"did you mean {near[0]}?" if near else f"it has {', '.join(sorted(known))}"
            yield named.finding(
                (*named.path[:-1], *path), f"is {key}, and {named.kind} {named.name} has no such key", fix
            )


def _ports(named: _Named, target: Document) -> Iterator[Finding]:
    """The findings about a port of an Ingress that its Service doesn't have."""
    port, spec = named.holder.get("port"), target.body.get("spec")
    if named.document.body["kind"] != "Ingress" or not isinstance(port, Mapping) or not isinstance(spec, Mapping):
        return
    for field, of_service in (("number", "port"), ("name", "name")):
        known = [each.get(of_service) for each in spec.get("ports") or ()]
        if field in port and port[field] not in known:
            message = f"is {port[field]}, and Service {named.name} has no such port"
            fix = f"it has {', '.join(str(each) for each in known if each is not None)}"
            yield named.finding((*named.path[:-1], "port", field), message, fix)
