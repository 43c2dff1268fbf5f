"""Rendered for the example, every manifest equals the given one, but for what a note names."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.scaffold.laws import differences, made, renders
from tests.tools.scaffold.shapes import WIDGETS, manifest, of, pods, workload

SIDECAR = {
    "name": "proxy",
    "image": "proxy:1",
    "restartPolicy": "Always",
    "livenessProbe": {"httpGet": {"port": 80, "scheme": "HTTP"}, "terminationGracePeriodSeconds": 30},
}
HELM = {"app.kubernetes.io/managed-by": "Helm", "helm.sh/chart": "shop-1", "heritage": "Helm", "chart": "shop"}
SHAPES: dict[str, list[dict[str, Any]]] = {
    "a policy that selects by the label of Jobs": [
        of(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            "rel",
            spec={"podSelector": {"matchLabels": {"job-name": "migrate"}}, "policyTypes": ["Ingress"]},
        )
    ],
    "a Service that selects by Helm's labels": [
        of("v1", "Service", "rel", spec={"selector": HELM, "ports": [{"port": 80}]}),
        pods(HELM),
    ],
    "labels of Helm in matchLabels": [pods({"app": "rel", "chart": "shop", "heritage": "Helm"})],
    "a native sidecar with the defaults of the API server": [
        pods({"app": "x"}, initContainers=[SIDECAR], terminationGracePeriodSeconds=30, dnsPolicy="ClusterFirst")
    ],
    "finalizers of a custom resource": [
        of("argoproj.io/v1alpha1", "Application", "rel", metadata={"finalizers": ["resources-finalizer.argocd"]})
    ],
    "a Service with families, ports and an address of its own": [
        of(
            "v1",
            "Service",
            "rel",
            spec={
                "type": "NodePort",
                "clusterIP": "10.0.0.7",
                "ipFamilyPolicy": "PreferDualStack",
                "ipFamilies": ["IPv6"],
                "sessionAffinity": "None",
                "ports": [{"port": 80, "nodePort": 30000}],
            },
        )
    ],
    "a claim of a volume, and Secrets of an account": [
        of("v1", "PersistentVolumeClaim", "rel", spec={"volumeName": "pv-1", "volumeMode": "Filesystem"}),
        of("v1", "ServiceAccount", "rel", secrets=[{"name": "rel-token-of-mine"}]),
    ],
    "Endpoints of a Service without a selector": [
        of("v1", "Service", "rel", spec={"ports": [{"port": 80}]}),
        of("v1", "Endpoints", "rel", subsets=[{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]),
    ],
    "a Job with a selector of its own": [
        of(
            "batch/v1",
            "Job",
            "rel",
            spec={
                "manualSelector": True,
                "selector": {"matchLabels": {"job-name": "x"}},
                "template": {
                    "metadata": {"labels": {"job-name": "x", "controller-uid": "y"}},
                    "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]},
                },
            },
        )
    ],
    "a quantity that is a number": [pods({"app": "x"}, containers=[
        {"name": "a", "image": "a:1", "resources": {"limits": {"cpu": 0.5, "memory": 1000000000000}}}
    ])],
    "labels without a value": [
        of("v1", "ConfigMap", "rel", metadata={"labels": None, "annotations": {"a": None, "b": "c"}}, data=None)
    ],
    "Secrets without a value": [
        of("v1", "Secret", "rel-a", type="Opaque", stringData=None), of("v1", "Secret", "rel-b", data=None)
    ],
    "what the API server refuses later": [
        pods({"app": "x"}, containers=[], initContainers=[{"name": "a", "image": "a:1"}]),
        of("apps/v1", "StatefulSet", "rel", spec={"volumeClaimTemplates": [{"spec": {}}]}),
    ],
    "a Lease": [
        of("coordination.k8s.io/v1", "Lease", "rel-lock", spec={"holderIdentity": "x"}),
    ],
    "metadata and status within data": [
        of(
            "example.org/v1",
            "Setup",
            "rel",
            spec={"template": {"metadata": {"uid": "u", "namespace": "x", "labels": {"job-name": "a"}}, "status": {}}},
        )
    ],
    "another namespace": [
        of("v1", "ConfigMap", "rel-a", metadata={"namespace": "default"}),
        of("v1", "ConfigMap", "rel-b", metadata={"namespace": "default"}),
        of("v1", "ConfigMap", "rel-c", metadata={"namespace": "kube-system"}),
    ],
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_of_charts_is_rendered_as_it_is_given(shape: str) -> None:
    bodies = SHAPES[shape]
    assert differences(bodies, made(*copy.deepcopy(bodies), instance="rel")) == []


LABELS = st.dictionaries(
    st.sampled_from([*HELM, "app", "job-name", "controller-uid", "pod-template-hash", "app.kubernetes.io/instance"]),
    st.sampled_from(["rel", "Helm", "shop", "rel-web", "x"]),
    max_size=4,
)
KEYS = st.sampled_from([
    "restartPolicy", "selector", "matchLabels", "metadata", "labels", "annotations", "namespace", "status", "items",
    "finalizers", "name", "uid", "spec", "template", "serviceAccountName", "secretName", "revisionHistoryLimit", "kind",
])  # fmt: skip
VALUES = st.recursive(
    st.sampled_from(["rel", "rel-web", "Always", "None", "x", "{{ x }}", "http://rel-web.default.svc:80", 30, 0.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)  # fmt: skip
POD_FIELDS = st.dictionaries(
    st.sampled_from(["terminationGracePeriodSeconds", "dnsPolicy", "restartPolicy", "schedulerName", "serviceAccount"]),
    st.sampled_from([30, "ClusterFirst", "Always", "default-scheduler", "rel-web"]),
    max_size=3,
)


RUN = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}
TTL = st.sampled_from([{}, {"ttlSecondsAfterFinished": 60}])
NAMES = st.sampled_from(["rel", "rel-web", "rel-web-0", "rel-db-1", "x"])
ARGUMENTS = (
    "--namespace=default", "--namespace", "default", "kubectl -n default get pods", "rel-web-0.rel-db.default.svc",
    "rel-db-$i.rel-db", "namespace: 'default'",
)  # fmt: skip


@st.composite
def plain(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A manifest with labels, selectors and texts."""
    match draw(st.integers(0, 4)):
        case 0:
            return pods(draw(LABELS), name, **draw(POD_FIELDS))
        case 1:
            return of("v1", "Service", name, spec={"selector": draw(LABELS), "ports": [{"port": 80}]})
        case 2:
            selector = {"podSelector": {"matchLabels": draw(LABELS)}, "policyTypes": ["Ingress"]}
            return of("networking.k8s.io/v1", "NetworkPolicy", name, spec=selector)
        case 3:
            return of("v1", "ConfigMap", name, data={"a": draw(st.sampled_from(["rel", "rel-web", "chart", "x"]))})
        case _:
            return of("example.org/v1", "Setup", name, spec=draw(st.dictionaries(KEYS, VALUES, max_size=4)))


@st.composite
def of_clusters(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """A manifest of a clustered application: Secrets, hooks, peers and roles."""
    match draw(st.integers(0, 3)):
        case 0:
            text = st.sampled_from(["pw-1", "pw-2", "rel-web", "https://rel", "two words"])
            values = draw(st.dictionaries(st.sampled_from(["password", "a.b", "A-B", "url", "user"]), text))
            return of("v1", "Secret", name, stringData=values)
        case 1:
            body = of("batch/v1", "Job", name, spec={"template": {"spec": RUN}, **draw(TTL)})
            if hook := draw(st.sampled_from(["", "pre-install,pre-upgrade", "post-install", "post-delete"])):
                weight = draw(st.sampled_from(["-5", "0", "5"]))
                body["metadata"]["annotations"] = {"helm.sh/hook": hook, "helm.sh/hook-weight": weight}
            return body
        case 2:
            term = {"topologyKey": "zone", "labelSelector": {"matchLabels": draw(LABELS)}}
            affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
            arguments = draw(st.lists(st.sampled_from(ARGUMENTS), max_size=4))
            container = {"name": "rel", "image": "a:1", "args": arguments}
            body = pods(draw(LABELS), name, affinity=affinity, containers=[container])
            return {**body, "kind": draw(st.sampled_from(["Deployment", "StatefulSet"]))}
        case _:
            rules = [{"apiGroups": [""], "resources": ["pods", "secrets"], "resourceNames": draw(st.lists(NAMES))}]
            return of("rbac.authorization.k8s.io/v1", "Role", name, rules=rules)


@st.composite
def sets(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Manifests of all sorts, with labels, selectors and references among them."""
    found: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 4))):
        name = draw(st.sampled_from(["rel", "rel-web", "rel-db"])) + f"-{number}" * draw(st.integers(0, 1))
        body = draw(st.one_of(plain(name), of_clusters(name)))
        if draw(st.booleans()):
            body["metadata"]["labels"] = draw(LABELS)
        if (body["kind"], name) not in [(each["kind"], each["metadata"]["name"]) for each in found]:
            found.append(body)
    return found


@settings(max_examples=60)
@given(sets())
def test_any_manifests_are_rendered_as_they_are_given(bodies: list[dict[str, Any]]) -> None:
    assert differences(bodies, made(*copy.deepcopy(bodies), instance="rel")) == []


def test_what_helm_adds_is_named_once_for_all_manifests() -> None:
    config = manifest("ConfigMap", "rel", data={"a": "b"})
    deployment = workload()
    for metadata in (config["metadata"], deployment["metadata"], deployment["spec"]["template"]["metadata"]):
        metadata["labels"] |= HELM
    found = made(config, deployment)
    (note,) = found.notes
    assert note.startswith(
        "ConfigMap rel and Deployment rel-web: without the labels app.kubernetes.io/managed-by, chart"
    )
    for body in renders(found).values():
        assert not HELM.keys() & body["metadata"]["labels"].keys()


def test_crds_among_the_manifests_are_written_and_say_the_scope() -> None:
    found = made(WIDGETS, of("example.org/v1", "Widget", "rel"), of("v1", "ConfigMap", "rel"))
    assert found.given_crds == {
        "widgets.example.org": {
            **{key: item for key, item in WIDGETS.items() if key != "status"},
            "metadata": {"name": "widgets.example.org", "annotations": {"own": "x"}},
        }
    }
    assert found.templates["_settings.yaml"] == "clusterScope: true\n"
    assert [note for note in found.notes if "unknown scope" in note] == []


def test_kinds_of_unknown_scope_are_one_note() -> None:
    found = made(of("example.org/v1", "Widget", "rel"), of("example.org/v1", "Gear", "rel"))
    (note,) = found.notes
    assert note.startswith("Widget rel and Gear rel: a kind of unknown scope, which counts as namespaced")
    assert "_settings.yaml" not in found.templates
