"""For a parent of another name and namespace, references follow the objects, and nothing else changes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssa_operator.tools.scaffold.names import ScaffoldError
from tests.tools.scaffold.laws import made, renders
from tests.tools.scaffold.shapes import of, pods

SERVICE = of("v1", "Service", "shop-db-headless", metadata={"namespace": "web"}, spec={"ports": [{"port": 80}]})
SET = of(
    "apps/v1",
    "StatefulSet",
    "shop-db",
    spec={
        "serviceName": "shop-db-headless",
        "selector": {"matchLabels": {"app": "shop-db"}},
        "template": {
            "metadata": {"labels": {"app": "shop-db"}},
            "spec": {"containers": [{"name": "a", "image": "a:1"}]},
        },
        "volumeClaimTemplates": [{"metadata": {"name": "data"}}],
    },
)
ACCOUNT = of("v1", "ServiceAccount", "shop-sa")
OTHERS = [
    SERVICE,
    SET,
    ACCOUNT,
    of("v1", "ConfigMap", "shop-labels", metadata={"labels": {"release": "shop"}}),
    of("v1", "Service", "shop-web", spec={"ports": [{"port": 80}]}),
]


def follows(body: dict[str, Any]) -> dict[str, Any]:
    """A manifest beside OTHERS, rendered for the parent `two` in the namespace `here`."""
    found = renders(made(*OTHERS, body, instance="shop"), "two", "here")
    (result,) = (each for each in found.values() if each["kind"] == body["kind"] and "test" in each["metadata"]["name"])
    return result


@pytest.mark.parametrize(
    ("text", "renamed"),
    [
        ("shop-db-0.shop-db-headless.web.svc.cluster.local:1", "two-db-0.two-db-headless.here.svc.cluster.local:1"),
        ("a=http://shop-db-1.shop-db-headless:80,x", "a=http://two-db-1.two-db-headless:80,x"),
        ("shop-db-$i.shop-db-headless.web.svc", "two-db-$i.two-db-headless.here.svc"),
        ("$(POD).shop-db-headless.web.svc", "$(POD).two-db-headless.here.svc"),
        ("*.shop-db-headless.web.svc", "*.two-db-headless.here.svc"),
        ("_sql._tcp.shop-db-headless.web.svc.cluster.local", "_sql._tcp.two-db-headless.here.svc.cluster.local"),
        ("dns+_sql._tcp.shop-db-headless.web.svc", "dns+_sql._tcp.two-db-headless.here.svc"),
        ("_sql._tcp.shop-db-0.shop-db-headless.web.svc", "_sql._tcp.two-db-0.two-db-headless.here.svc"),
        ("_sql._tcp.shop-web _sql._tcp.other.web.svc", "_sql._tcp.two-web _sql._tcp.other.web.svc"),
        ("claim=data-shop-db-0", "claim=data-two-db-0"),
        ("shop-db-{0..2}", "two-db-{0..2}"),
        ("user:pw@shop-web/x", "user:pw@two-web/x"),
        ("system:serviceaccount:web:shop-sa", "system:serviceaccount:here:two-sa"),
        ("shop-web.web", "two-web.here"),
        ("--publish-service=web/shop-web", "--publish-service=here/two-web"),
        ("http://web/shop-web /web/shop-web web/other", "http://web/two-web /web/two-web web/other"),
        ('pod=~"shop-db-.*"', 'pod=~"two-db-.*"'),
        ("kubectl get pods -l release=shop,app==shop-db", "kubectl get pods -l release=two,app==two-db"),
        ('{"release": "shop"} release=shop-2 tier=shop', '{"release": "two"} release=shop-2 tier=shop'),
        ("selector: release=shop selector=release=shop", "selector: release=two selector=release=two"),
        ("web/shop-ca-made-later web/shops", "here/shop-ca-made-later web/shops"),
        ("/api/v1/namespaces/web/secrets namespaces/website", "/api/v1/namespaces/here/secrets namespaces/website"),
        ("system:serviceaccount:other:shop-sa", "system:serviceaccount:other:shop-sa"),
        ("prometheus.web.svc", "prometheus.web.svc"),
        ("shop-web.other.svc", "shop-web.other.svc"),
        ("shop-websites my-shop-web shop-web_x", "shop-websites my-shop-web shop-web_x"),
        ("shop shop/x shop-queue-0", "shop shop/x shop-queue-0"),
    ],
)  # fmt: skip
def test_a_name_or_host_in_a_text_follows_its_object(text: str, renamed: str) -> None:
    environment = [{"name": "A", "value": text}]
    container = {"name": "shop-web", "image": "shop-web:1", "env": environment, "args": [text]}
    deployment = follows(pods({"app": "x"}, "shop-test", containers=[container]))
    (found,) = deployment["spec"]["template"]["spec"]["containers"]
    assert [found["env"][0]["value"], *found["args"]] == [renamed, renamed]
    assert (found["name"], found["image"]) == ("shop-web", "shop-web:1")
    assert follows(of("v1", "ConfigMap", "shop-test", data={"shop-web": text}))["data"] == {"shop-web": renamed}
    spec = {"hosts": [text], "name": text}
    assert follows(of("example.org/v1", "Setup", "shop-test", spec=spec))["spec"] == {
        "hosts": [renamed],
        "name": renamed,
    }


RBAC = "rbac.authorization.k8s.io/v1"


def test_roles_and_subjects_follow() -> None:
    subjects = [
        {"kind": "ServiceAccount", "name": "shop-sa", "namespace": "web"},
        {"kind": "ServiceAccount", "name": "shop-sa", "namespace": "other"},
        {"kind": "ServiceAccount", "name": "prometheus", "namespace": "web"},
    ]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    binding = follows(of(RBAC, "RoleBinding", "shop-test", roleRef=reference, subjects=subjects))
    assert binding["roleRef"]["name"] == "view"
    assert [(each["name"], each["namespace"]) for each in binding["subjects"]] == [
        ("two-sa", "here"),
        ("shop-sa", "other"),
        ("prometheus", "web"),
    ]
    rules = [
        {"apiGroups": [""], "resources": ["services"], "resourceNames": ["shop-web", "other"]},
        {"apiGroups": [""], "resources": ["services/proxy"], "resourceNames": ["http:shop-web:80"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["shop-web"]},
    ]
    role = follows(of(RBAC, "Role", "shop-test", rules=rules))
    assert [rule["resourceNames"] for rule in role["rules"]] == [
        ["two-web", "other"],
        ["http:two-web:80"],
        ["shop-web"],
    ]


def test_webhooks_and_targets_follow() -> None:
    config = {"clientConfig": {"service": {"name": "shop-web", "namespace": "web"}}, "name": "shop-web.example.com"}
    hooks = follows(
        of("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "shop-test", webhooks=[config])
    )
    assert hooks["webhooks"] == [
        {"clientConfig": {"service": {"name": "two-web", "namespace": "here"}}, "name": "shop-web.example.com"}
    ]
    target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "shop-db"}
    scaler = of("autoscaling/v2", "HorizontalPodAutoscaler", "shop-test", spec={"scaleTargetRef": target})
    assert follows(scaler)["spec"]["scaleTargetRef"]["name"] == "two-db"


def test_classes_follow_and_those_of_the_cluster_stay() -> None:
    bodies = [
        of("scheduling.k8s.io/v1", "PriorityClass", "shop-high", value=5),
        pods({"app": "x"}, "shop-a", priorityClassName="shop-high", runtimeClassName="shop-high"),
        of("apiregistration.k8s.io/v1", "APIService", "v1.shop.example.com"),
    ]
    found = made(*bodies, instance="shop")
    by_kind = {each["kind"]: each for each in renders(found, "two", "here").values()}
    pod = by_kind["Deployment"]["spec"]["template"]["spec"]
    assert (pod["priorityClassName"], pod["runtimeClassName"]) == ("two-high", "shop-high")
    assert made(*bodies).example["metadata"]["name"] == "shop"
    assert by_kind["APIService"]["metadata"]["name"] == "v1.shop.example.com"
    assert any(note.startswith("APIService v1.shop.example.com: the name has a meaning") for note in found.notes)


def test_an_ordinary_word_stays_and_is_named() -> None:
    bodies = [
        of("v1", "Service", "my", spec={"ports": [{"port": 80}]}),
        of("v1", "ConfigMap", "my-conf", data={"a": "this is my text", "b": "http://my:80"}),
    ]
    found = made(*bodies, instance="my")
    by_kind = {each["kind"]: each for each in renders(found, "two", "here").values()}
    assert by_kind["ConfigMap"]["data"] == {"a": "this is my text", "b": "http://two:80"}
    assert (
        "these texts have names of objects that are ordinary words, too, and stay: "
        "configmap.yaml.j2:6 (data.a of ConfigMap my-conf)" in found.notes
    )


NAMES = ("shop-a", "shop-b", "shop-db")
KINDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "ConfigMap": ("envFrom", lambda name: {"configMapRef": {"name": name}}),
    "Secret": ("envFrom", lambda name: {"secretRef": {"name": name}}),
    "Service": ("env", lambda name: {"name": "A", "value": f"http://{name}.web.svc:80/{name}"}),
    "PersistentVolumeClaim": ("volumes", lambda name: {"name": "v", "persistentVolumeClaim": {"claimName": name}}),
    "ServiceAccount": ("account", lambda name: name),
    "StatefulSet": ("env", lambda name: {"name": "A", "value": f"peers={name}-0,{name}-$i"}),
    "Role": ("env", lambda _: {"name": "POD_NAMESPACE", "value": "web"}),
}
"""How a pod names an object of each kind. Whatever the role, the namespace follows."""


@settings(max_examples=60)
@given(
    objects=st.sets(st.tuples(st.sampled_from([*KINDS]), st.sampled_from(NAMES)), max_size=6),
    references=st.lists(st.tuples(st.sampled_from([*KINDS]), st.sampled_from([*NAMES, "other", "shop-x"])), max_size=6),
)
def test_a_reference_resolves_among_the_rendered_manifests_if_it_did_among_the_given(
    objects: set[tuple[str, str]], references: list[tuple[str, str]]
) -> None:
    apis = {"Role": RBAC, "StatefulSet": "apps/v1"}
    bodies = [of(apis.get(kind, "v1"), kind, name, metadata={"namespace": "web"}) for kind, name in sorted(objects)]
    container: dict[str, Any] = {"name": "shop-a", "image": "shop-b:1", "env": [], "envFrom": []}
    pod: dict[str, Any] = {"containers": [container], "volumes": []}
    for kind, name in references:
        field, reference = KINDS[kind]
        if field == "account":
            pod["serviceAccountName"] = name
        else:
            (container if field in container else pod)[field].append(reference(name))
    found = made(*bodies, pods({"app": "x"}, "shop-pods", **pod), instance="shop")
    rendered = {(key[1], key[3]): body for key, body in renders(found, "two", "here").items()}
    for kind, name in objects:
        assert (kind, name.replace("shop", "two")) in rendered
    actual = rendered["Deployment", "two-pods"]["spec"]["template"]["spec"]
    expected: dict[str, Any] = {"containers": [{**container, "env": [], "envFrom": []}], "volumes": []}
    for kind, name in references:
        new = name.replace("shop", "two") if (kind, name) in objects else name
        field, reference = KINDS[kind]
        if field == "account":
            expected["serviceAccountName"] = new
        elif kind == "Service":
            host = f"{new}.{'here' if new != name else 'web'}.svc:80"
            known = name in dict.fromkeys(each for _, each in objects) or name == "shop-pods"
            path = name.replace("shop", "two") if known else name
            expected["containers"][0]["env"].append({"name": "A", "value": f"http://{host}/{path}"})
        elif kind == "Role":
            expected["containers"][0]["env"].append({"name": "POD_NAMESPACE", "value": "here" if objects else "web"})
        else:
            (expected["containers"][0] if field in container else expected)[field].append(reference(new))
    assert actual == expected


def test_two_parents_do_not_select_each_other_s_pods() -> None:
    service = of("v1", "Service", "web", spec={"selector": {"app": "front"}, "ports": [{"port": 80}]})
    budget = of("policy/v1", "PodDisruptionBudget", "web", spec={"selector": {"matchLabels": {"app": "front"}}})
    elsewhere = of("v1", "Service", "dns", spec={"selector": {"k8s-app": "dns"}, "ports": [{"port": 53}]})
    found = made(pods({"app": "front", "tier": "x"}, "web"), service, budget, elsewhere, instance="shop")
    by_name = {(key[1], key[3]): body["spec"] for key, body in renders(found, "two", "here").items()}
    deployment = by_name["Deployment", "two-web"]
    labels = deployment["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/instance"] == "two"
    assert deployment["selector"]["matchLabels"] == labels
    assert by_name["Service", "two-web"]["selector"].items() <= labels.items()
    assert by_name["Service", "two-web"]["selector"]["app.kubernetes.io/instance"] == "two"
    assert by_name["PodDisruptionBudget", "two-web"]["selector"]["matchLabels"]["app.kubernetes.io/instance"] == "two"
    assert by_name["Service", "two-dns"]["selector"] == {"k8s-app": "dns"}
    (note,) = (note for note in found.notes if "is added" in note)
    assert note.startswith("Deployment web, Service web and PodDisruptionBudget web: the label app.kubernetes.io/inst")


def test_manifests_that_would_have_one_name_are_refused() -> None:
    with pytest.raises(ScaffoldError) as caught:
        made(of("v1", "ConfigMap", "other"), of("v1", "ConfigMap", "shop-other"), instance="shop")
    assert "ConfigMap other and ConfigMap shop-other would have the same name" in str(caught.value)


def test_the_namespace_of_hosts_follows_even_if_no_manifest_names_it() -> None:
    service = of("v1", "Service", "shop-db", spec={"ports": [{"port": 80}]})
    texts = of("v1", "ConfigMap", "shop-conf", data={"a": "shop-db.web.svc:80", "b": "dns.kube-system.svc"})
    found = renders(made(service, texts, instance="shop"), "two", "here")
    (data,) = (body["data"] for key, body in found.items() if key[1] == "ConfigMap")
    assert data == {"a": "two-db.here.svc:80", "b": "dns.kube-system.svc"}


@pytest.mark.parametrize(
    ("name", "text", "renamed"),
    [
        ("POD_NAMESPACE", "web", "here"),
        ("A", "web", "web"),
        ("A", "--namespace=web --watch-namespaces=web,other", "--namespace=here --watch-namespaces=here,other"),
        ("A", "kubectl -n web get pods", "kubectl -n here get pods"),
        ("A", "echo -n web", "echo -n web"),
        ("A", 'namespace: "web"', 'namespace: "here"'),
        ("A", "--namespace=web.example.com namespace web-2", "--namespace=web.example.com namespace web-2"),
    ],
)
def test_a_text_follows_the_namespace_where_a_word_says_that_it_is_one(name: str, text: str, renamed: str) -> None:
    container = {"name": "a", "image": "a:1", "env": [{"name": name, "value": text}], "args": [text]}
    arguments = {"name": "b", "image": "a:1", "command": ["run", "--namespace", "web", "--user", "web"]}
    deployment = follows(pods({"app": "x"}, "shop-test", containers=[container, arguments]))
    first, second = deployment["spec"]["template"]["spec"]["containers"]
    assert first["env"][0]["value"] == renamed
    assert first["args"] == [text if name == "POD_NAMESPACE" else renamed]
    assert second["command"] == ["run", "--namespace", "here", "--user", "web"]


def test_what_names_a_pod_of_a_set_or_its_claim_follows() -> None:
    rules = [
        {"apiGroups": [""], "resources": ["pods", "pods/exec"], "resourceNames": ["shop-db-0", "other-0"]},
        {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "resourceNames": ["data-shop-db-1"]},
    ]
    role = follows(of(RBAC, "Role", "shop-test", rules=rules))
    assert [rule["resourceNames"] for rule in role["rules"]] == [["two-db-0", "other-0"], ["data-two-db-1"]]
    selector = {"app": "shop-db", "statefulset.kubernetes.io/pod-name": "shop-db-0"}
    service = of("v1", "Service", "shop-test", spec={"selector": selector, "ports": [{"port": 80}]})
    pod_name = follows(service)["spec"]["selector"]["statefulset.kubernetes.io/pod-name"]
    assert pod_name == "two-db-0"
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data-shop-db-0"}}
    pod = follows(pods({"app": "x"}, "shop-test", volumes=[volume]))["spec"]["template"]["spec"]
    assert pod["volumes"] == [{"name": "v", "persistentVolumeClaim": {"claimName": "data-two-db-0"}}]


METADATA_NAME = "kubernetes.io/metadata.name"
PEERS = {"app": "db", "part": "peer"}
EXPRESSIONS = [{"key": "app", "operator": "In", "values": ["db"]}, {"key": "part", "operator": "Exists"}]


def policy(selector: dict[str, Any], *peers: dict[str, Any]) -> dict[str, Any]:
    spec = {"podSelector": selector, "policyTypes": ["Ingress"], "ingress": [{"from": list(peers)}]}
    return of("networking.k8s.io/v1", "NetworkPolicy", "web", spec=spec)


def test_policies_affinities_and_spreads_select_own_pods_only() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": EXPRESSIONS}}
    elsewhere = {**copy.deepcopy(term), "namespaceSelector": {}}
    affinity = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [term, elsewhere],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": copy.deepcopy(term)}],
        }
    }
    spread = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
    clients: list[dict[str, Any]] = [
        {"podSelector": {"matchLabels": dict(PEERS)}},
        {"podSelector": {"matchLabels": {"may-connect": "true"}}},
        {"podSelector": {"matchLabels": dict(PEERS)}, "namespaceSelector": {}},
        {"podSelector": {"matchLabels": dict(PEERS)}, "namespaceSelector": {"matchLabels": {METADATA_NAME: "web"}}},
        {"podSelector": {}},
    ]
    database = pods(PEERS, "web", affinity=affinity, topologySpreadConstraints=[spread])
    bodies = [database, policy({"matchLabels": {"app": "db"}}, *clients), SERVICE]
    found = made(*bodies, instance="shop")
    by_kind = {key[1]: body["spec"] for key, body in renders(found, "two", "here").items()}
    own = {"app.kubernetes.io/instance": "two"}
    assert by_kind["NetworkPolicy"]["podSelector"]["matchLabels"] == {"app": "db", **own}
    peers = [each["podSelector"] for each in by_kind["NetworkPolicy"]["ingress"][0]["from"]]
    assert peers == [
        {"matchLabels": {**PEERS, **own}},
        {"matchLabels": {"may-connect": "true"}},
        {"matchLabels": PEERS},
        {"matchLabels": {**PEERS, **own}},
        {},
    ]
    pod = by_kind["Deployment"]["template"]["spec"]
    required, other = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (preferred,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert required["labelSelector"] == {"matchExpressions": EXPRESSIONS, "matchLabels": own}
    assert preferred["podAffinityTerm"] == required
    assert other["labelSelector"] == {"matchExpressions": EXPRESSIONS}
    assert pod["topologySpreadConstraints"][0]["labelSelector"] == {"matchLabels": {"app": "db", **own}}
    assert by_kind["Deployment"]["template"]["metadata"]["labels"] == {**PEERS, **own}


def test_a_selector_gets_the_label_of_the_instance_that_its_pods_have() -> None:
    labels = {"app": "db", "app.kubernetes.io/instance": "shop"}
    found = made(pods(labels, "shop"), policy({"matchLabels": {"app": "db"}}), instance="shop")
    by_kind = {key[1]: body["spec"] for key, body in renders(found, "two", "here").items()}
    assert by_kind["NetworkPolicy"]["podSelector"]["matchLabels"] == {"app": "db", "app.kubernetes.io/instance": "two"}
    assert by_kind["Deployment"]["template"]["metadata"]["labels"]["app.kubernetes.io/instance"] == "two"


def test_a_policy_of_all_pods_of_the_namespace_is_named() -> None:
    found = made(policy({}), instance="web")
    assert "NetworkPolicy web: a selector selects pods of other objects in the namespace, too" in found.notes


def test_equal_values_of_secrets_are_drawn_once() -> None:
    first = of("v1", "Secret", "shop-a", stringData={"password": "pw-1", "admin-password": "pw-1", "other": "pw-2"})
    second = of("v1", "Secret", "shop-b", stringData={"root": "pw-1", "again": "pw-1"})
    templates = made(first, second, instance="shop").templates
    text = templates["secret-a.yaml.j2"]
    assert text.startswith("{% set generated_password = generated() %}\napiVersion: v1\n")
    assert "\n  password: {{ generated_password }}\n  admin-password: {{ generated_password }}\n" in text
    assert "\n  other: {{ generated() }}\n" in text
    read = '{{ child("Secret", name ~ "-a").data["password"] | b64decode }}'
    assert templates["secret-b.yaml.j2"].endswith(f"stringData:\n  root: {read}\n  again: {read}\n")


def test_monitors_select_own_services_and_pods_only() -> None:
    labels = {"app": "db"}
    selector = {"selector": {"matchLabels": dict(labels)}}
    service = of("v1", "Service", "web", metadata={"labels": dict(labels)}, spec={"ports": [{"port": 80}]})
    monitors = [of("monitoring.coreos.com/v1", kind, "web", spec=selector) for kind in ("ServiceMonitor", "PodMonitor")]
    found = made(*copy.deepcopy([service, *monitors, pods(labels, "web")]), instance="shop")
    by_kind = {key[1]: body for key, body in renders(found, "two", "here").items()}
    own = {"app": "db", "app.kubernetes.io/instance": "two"}
    assert by_kind["Service"]["metadata"]["labels"] == own
    assert by_kind["Deployment"]["spec"]["template"]["metadata"]["labels"] == own
    for kind in ("ServiceMonitor", "PodMonitor"):
        assert by_kind[kind]["spec"]["selector"]["matchLabels"] == own


def test_what_only_one_object_can_have_is_named() -> None:
    spec = {"type": "NodePort", "clusterIP": "10.0.0.7", "ports": [{"port": 80, "nodePort": 30001}]}
    rules = [{"host": "shop.example.com"}]
    found = made(
        of("v1", "Service", "shop-a", spec=spec),
        of("v1", "Service", "shop-b", spec={"clusterIP": "None", "ports": [{"port": 80}]}),
        of("v1", "PersistentVolumeClaim", "shop-c", spec={"volumeName": "disk"}),
        of("networking.k8s.io/v1", "Ingress", "shop-d", spec={"rules": rules}),
        of("v1", "ConfigMap", "shop-e", metadata={"namespace": "web"}),
        of("v1", "ConfigMap", "shop-f", metadata={"namespace": "web"}),
        of("v1", "ConfigMap", "shop-e", metadata={"namespace": "kube-system"}),
        instance="shop",
    )
    notes = {note for note in found.notes if "outside of the object" not in note}
    assert notes >= {
        "Service shop-a: spec.clusterIP can be that of one object only, so remove it for others",
        "Service shop-a: spec.ports[].nodePort can be that of one object only, so remove it for others",
        "PersistentVolumeClaim shop-c: spec.volumeName can be that of one object only, so remove it for others",
        "Ingress shop-d: objects that don't set spec.host have the same host",
        "ConfigMap shop-e is in two namespaces, so no object can be in the namespace kube-system",
    }
    assert not [note for note in notes if "shop-b" in note]


def test_the_namespace_of_references_follows_even_if_no_manifest_names_it() -> None:
    account, service = of("v1", "ServiceAccount", "shop-sa"), of("v1", "Service", "shop-hook")
    subjects = [
        {"kind": "ServiceAccount", "name": "shop-sa", "namespace": "web"},
        {"kind": "ServiceAccount", "name": "default", "namespace": "web"},
        {"kind": "User", "name": "system:serviceaccount:web:default"},
        {"kind": "ServiceAccount", "name": "default", "namespace": "other"},
    ]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
    binding = of(RBAC, "ClusterRoleBinding", "shop", subjects=subjects, roleRef=role)
    found = renders(made(account, service, binding, instance="shop"), "two", "here")
    (result,) = (body for key, body in found.items() if key[1] == "ClusterRoleBinding")
    assert [(each["name"], each.get("namespace")) for each in result["subjects"]] == [
        ("two-sa", "here"),
        ("default", "here"),
        ("system:serviceaccount:here:default", None),
        ("default", "other"),
    ]


def test_a_name_of_the_instance_that_no_manifest_has_stays_and_is_named() -> None:
    environment = [{"name": "A", "value": text} for text in ("shop-leader", "my-shop-x", "http://shop-web", "shop")]
    container = {"name": "shop", "image": "a:1", "env": environment, "args": ["--id=shop-lock"]}
    volumes = [
        {"name": "tls", "secret": {"secretName": "shop-cert"}},
        {"name": "cache", "hostPath": {"path": "/var/lib/shop-cache"}},
    ]
    web = pods({"app": "x"}, "shop-web", containers=[container], volumes=volumes)
    found = made(web, of("v1", "Service", "shop-web"), instance="shop")
    (note,) = (note for note in found.notes if "have shop in names that no manifest has" in note)
    assert sorted(part.split(" (")[1] for part in note.split(": ", 1)[1].split(", ")) == [
        "spec.template.spec.containers[0].args[0] of Deployment shop-web)",
        "spec.template.spec.containers[0].env[0].value of Deployment shop-web)",
        "spec.template.spec.volumes[0].secret.secretName of Deployment shop-web)",
        "spec.template.spec.volumes[1].hostPath.path of Deployment shop-web)",
    ]


def test_a_name_with_the_instance_in_it_is_named_where_nothing_else_has_its_name() -> None:
    container = {"name": "main", "image": "a:1", "args": ["--lock=web-shop-contour", "--other=workshop-x"]}
    found = made(pods({"app": "x"}, "shop-web", containers=[container]), instance="shop")
    (note,) = (note for note in found.notes if "have shop in names that no manifest has" in note)
    assert note.endswith("(spec.template.spec.containers[0].args[0] of Deployment shop-web)")


def test_a_secret_that_each_object_needs_for_itself_follows() -> None:
    tls = of(
        "v1", "Secret", "shop-tls", type="kubernetes.io/tls", data={"tls.key": "a2V5"}, metadata={"namespace": "web"}
    )
    pull = of("v1", "Secret", "registry", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": "e30="})
    token = of("v1", "Secret", "shop-token", type="kubernetes.io/service-account-token")
    volumes = [{"name": "tls", "secret": {"secretName": "shop-tls"}}]
    web = pods({"app": "x"}, "shop-web", volumes=volumes, imagePullSecrets=[{"name": "registry"}])
    web["spec"]["template"]["metadata"] |= {"name": "shop-web", "namespace": "web"}
    web["metadata"]["labels"] = {"example.com/namespace": "web", "tier": "web"}
    web["metadata"]["namespace"] = "web"
    found = made(tls, pull, token, web, instance="shop")
    rendered = {key[1]: (key[3], body) for key, body in renders(found, "two", "here").items()}
    template = rendered["Deployment"][1]["spec"]["template"]
    assert (template["metadata"]["name"], template["metadata"]["namespace"]) == ("two-web", "here")
    assert rendered["Deployment"][1]["metadata"]["labels"] == {"example.com/namespace": "here", "tier": "web"}
    assert template["spec"]["volumes"][0]["secret"]["secretName"] == "two-tls"
    assert template["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert rendered["Secret"][0] == "two-token"
    assert any(note.startswith("Secret shop-tls is left out: ") for note in found.notes)


def test_the_example_is_in_no_namespace_that_manifests_name() -> None:
    spaces = ("web", "web", "default")
    bodies = [
        of(RBAC, "Role", name, metadata={"namespace": space}, rules=[])
        for name, space in zip(("shop", "shop-b", "shop"), spaces, strict=True)
    ]
    found = made(*bodies, instance="shop")
    assert found.example["metadata"] == {"name": "shop", "namespace": "web"}
    assert sorted(key[2:] for key in renders(found, namespace="web")) == [
        ("default", "shop"), ("web", "shop"), ("web", "shop-b")
    ]  # fmt: skip


def test_a_namespace_of_a_cluster_scoped_object_means_nothing() -> None:
    role = of(RBAC, "ClusterRole", "shop", metadata={"namespace": "kube-system"}, rules=[])
    found = renders(made(role, of("v1", "Service", "shop-web", metadata={"namespace": "web"}), instance="shop"), "two")
    assert [key[2:] for key in found if key[1] == "ClusterRole"] == [("", "two")]


def test_what_no_two_objects_share_follows_in_schedulers_and_labels() -> None:
    part = {"app.kubernetes.io/part-of": "shop-core", "app.kubernetes.io/name": "core"}
    containers = [{"name": "a", "image": "a:1"}]
    web = pods(part, "shop-core", containers=containers, schedulerName="shop-core", hostname="other")
    found = renders(made(web, instance="shop"), "two")
    (result,) = found.values()
    template = result["spec"]["template"]
    assert template["spec"]["schedulerName"] == "two-core"
    assert template["metadata"]["labels"] == {**part, "app.kubernetes.io/part-of": "two-core"}


HOSTS = ["shop.example.com", "*.api-shop.eu.example.com", "shop.com", "www.shop.com", "shop-web.web.svc"]
FOLLOWING = ["two.example.com", "*.api-two.eu.example.com", "shop.com", "www.shop.com", "two-web.here.svc"]


def test_the_hosts_of_routes_follow_but_for_the_domain() -> None:
    """A second parent with the hosts of the first one would take its requests."""
    route = of("gateway.networking.k8s.io/v1", "HTTPRoute", "shop-test", spec={"hostnames": HOSTS})
    assert follows(route)["spec"]["hostnames"] == FOLLOWING
    http = [{"route": [{"destination": {"host": "shop-web"}}]}]
    mesh = follows(of("networking.istio.io/v1", "VirtualService", "shop-test", spec={"hosts": HOSTS, "http": http}))
    assert mesh["spec"]["hosts"] == FOLLOWING
    assert mesh["spec"]["http"][0]["route"][0]["destination"]["host"] == "two-web"


def test_the_label_of_few_objects_is_not_the_instance_of_all() -> None:
    few = {"metadata": {"labels": {"app.kubernetes.io/instance": "webhooks"}}}
    names = ("", "-operator", "-metrics", "-auth", "-reader", "-server")
    bodies = [of("v1", "Service", f"keda-webhooks-{part}", **few) for part in ("a", "b")]
    bodies += [of("v1", "ServiceAccount", f"keda{name}") for name in names]
    found = made(*bodies)
    assert found.example["metadata"]["name"] == "keda"
    assert not [note for note in found.notes if "a name without" in note]
    assert sorted(key[3] for key in renders(found, "two") if key[1] == "ServiceAccount") == sorted(
        f"two{name}" for name in names
    )


@pytest.mark.parametrize(
    ("names", "labelled", "instance"),
    [
        (["shop-a", "shop-b", "other"], 1, "shop"),  # most names have it
        (["a", "b", "other"], 2, "shop"),  # most objects have the label
        (["a", "b", "other"], 1, "shop"),  # nothing else tells it
        (["app-a", "app-b", "app-c"], 1, "app"),
        (["app-a", "app-b"], 1, "shop"),
    ],
)
def test_the_instance_is_what_most_of_the_manifests_say(names: list[str], labelled: int, instance: str) -> None:
    labels = {"metadata": {"labels": {"app.kubernetes.io/instance": "shop"}}}
    bodies = [of("v1", "ConfigMap", name, **(labels if at < labelled else {})) for at, name in enumerate(names)]
    assert made(*bodies).example["metadata"]["name"] == instance
