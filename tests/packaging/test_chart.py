"""The Helm chart in deploy/chart: it says what deploy/base says, refuses wrong values, and its account suffices."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssa_operator import __version__
from ssa_operator.devcluster.cluster import Cluster
from tests.cli import process
from tests.conftest import Kubectl
from tests.packaging.checkout import ROOT
from tests.packaging.helm_build import helm_program

CHART = ROOT / "deploy" / "chart"
PATIENCE = "--timeout=90s"
NAMESPACE = "chart"
needs_helm = [pytest.mark.slow, pytest.mark.skipif(shutil.which("go") is None, reason="needs Go, which builds helm")]


def run(*command: str | Path, accept_failure: bool = False) -> str:
    """What a command printed."""
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert accept_failure or ended.returncode == 0, ended.stderr
    return ended.stderr if ended.returncode else ended.stdout


@pytest.fixture(scope="module")
def helm() -> Path:
    return helm_program()


def objects_of(helm: Path, **values: object) -> list[Any]:
    """The objects of a release."""
    sets = [f"--set-json={name.replace('__', '.')}={json.dumps(value)}" for name, value in values.items()]
    text = run(helm, "template", "ssa-operator", CHART, "--kube-version=1.36", f"--namespace={NAMESPACE}", *sets)
    return [body for body in yaml.safe_load_all(text) if body]


def rendered(helm: Path, **values: object) -> dict[tuple[str, str], Any]:
    """The objects of a release by kind and name."""
    return {(body["kind"], body["metadata"]["name"]): body for body in objects_of(helm, **values)}


def permissions(bodies: list[Any]) -> set[tuple[str, ...]]:
    """What the bound roles allow: namespace (none: everywhere), group, resource, name (none: every one), verb."""
    roles = {
        (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]): body["rules"]
        for body in bodies
        if body["kind"] in ("ClusterRole", "Role")
    }
    allowed: set[tuple[str, ...]] = set()
    for body in bodies:
        if body["kind"] in ("ClusterRoleBinding", "RoleBinding"):
            where = body["metadata"].get("namespace", "")
            for rule in roles[body["roleRef"]["kind"], where, body["roleRef"]["name"]]:
                names = rule.get("resourceNames", [""])
                allowed |= {
                    (where, *it) for it in itertools.product(rule["apiGroups"], rule["resources"], names, rule["verbs"])
                }
    # Without what a wider rule allows already, which `rbac` leaves out
    return {
        (where, group, resource, name, verb)
        for where, group, resource, name, verb in allowed
        if not {("", group, resource, name, verb), (where, group, resource, "", verb), ("", group, resource, "", verb)}
        & (allowed - {(where, group, resource, name, verb)})
    }


def container(workload: Any) -> Any:
    return workload["spec"]["template"]["spec"]["containers"][0]


def base(name: str) -> list[Any]:
    return list(yaml.safe_load_all((ROOT / "deploy" / "base" / name).read_text()))


@contextmanager
def operating(
    cluster: Cluster, kubectl: Kubectl, workload: str, folder: Path, **environment: str
) -> Iterator[dict[str, str]]:
    """The operator as a pod of a workload runs it, under the account of the pod, with a folder for its files. Yields
    the variables of the pod. It must end well, and may not have missed a permission.
    """
    system = f"--namespace={NAMESPACE}"
    pod = json.loads(kubectl("get", system, workload, "--output=json"))["spec"]["template"]["spec"]
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    content["users"][0]["user"] = {"token": kubectl("create", "token", pod["serviceAccountName"], system)}
    kubeconfig, log = folder / "kubeconfig", folder / "operator.log"
    kubeconfig.write_text(yaml.safe_dump(content))
    # As the kubelet gives them to the container
    variables = pod["containers"][0]["env"]
    given = {it["name"]: it.get("value", "0").replace("$(POD_INDEX)", "0") for it in variables}
    ours = {name: value for name, value in os.environ.items() if not name.startswith("SSA_OPERATOR_")}
    # The addresses are this machine's.
    here = {"POD_NAMESPACE": NAMESPACE, "SSA_OPERATOR_LISTEN": ""}
    command = [sys.executable, "-m", "ssa_operator", "run", f"--kubeconfig={kubeconfig}"]
    with log.open("w") as stream:
        operator = subprocess.Popen(
            command, cwd=ROOT, env=ours | given | here | environment, stdout=stream, stderr=stream
        )
        try:
            yield given
        finally:
            operator.send_signal(signal.SIGTERM)
            code = operator.wait(timeout=60)
    assert code == 0, log.read_text()
    # The admission plugin OwnerReferencesPermissionEnforcement discovers a new CRD after a moment.
    lines = [line for line in log.read_text().splitlines() if "cannot find RESTMapping for" not in line]
    assert [line for line in lines if "forbidden" in line.lower()] == []


def test_the_chart_has_the_version_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def test_the_schema_knows_every_value_and_refuses_every_other() -> None:
    def compare(values: dict[str, Any], schema: dict[str, Any]) -> None:
        assert schema["additionalProperties"] is False
        assert set(schema["properties"]) - {"global"} == set(values)
        for name, value in values.items():
            if "properties" in schema["properties"][name]:
                compare(value, schema["properties"][name])

    compare(yaml.safe_load((CHART / "values.yaml").read_text()), json.loads((CHART / "values.schema.json").read_text()))


class TestTemplate:
    """What helm renders, without a cluster."""

    pytestmark = needs_helm

    def test_lint_finds_nothing(self, helm: Path) -> None:
        assert "0 chart(s) failed" in run(helm, "lint", "--strict", CHART)

    @pytest.mark.exhaustive
    @pytest.mark.parametrize("examples", [False, True], ids=["alone", "examples"])
    @pytest.mark.parametrize(
        ("values", "options"),
        [
            ({}, ()),
            ({"shards": 3}, ("--shards=3",)),
            (
                {"admission": {"enabled": True}, "conversion": {"enabled": True}},
                ("--admission-service=ssa-operator-admission", "--conversion-service=ssa-operator-conversion"),
            ),
            ({"namespaces": ["team-a", "team-b"]}, ("--namespace=team-a", "--namespace=team-b")),
        ],
        ids=["all", "shards", "webhooks", "namespaces"],
    )
    def test_the_permissions_are_those_that_rbac_prints(
        self, helm: Path, values: dict[str, object], options: tuple[str, ...], examples: bool, tmp_path: Path
    ) -> None:
        templates = ROOT / "templates" if examples else tmp_path
        where = f"--operator-namespace={NAMESPACE}"
        code, text, errors = asyncio.run(process.run("rbac", f"--templates={templates}", where, *options))
        assert code == 0, errors
        printed = permissions(list(yaml.safe_load_all(text)))
        assert permissions(objects_of(helm, examples=examples, **values)) == printed

    def test_rules_for_some_namespaces_are_no_rules_for_others(self, helm: Path) -> None:
        rules = [{"apiGroups": ["a.example"], "resources": ["things"], "verbs": ["list"]}]
        objects = objects_of(helm, namespaces=["team-a", "team-b"], rbac={"rules": rules})
        allowed = {it for it in permissions(objects) if it[1] == "a.example"}
        assert allowed == {(name, "a.example", "things", "", "list") for name in ("team-a", "team-b")}
        [workload] = [body for body in objects if body["kind"] == "Deployment"]
        assert {"name": "SSA_OPERATOR_NAMESPACE", "value": "team-a team-b"} in container(workload)["env"]

    @pytest.mark.parametrize("shards", [0, 2])
    @pytest.mark.parametrize("name", ["null", "true", "no", "123", "1e3", "2026-11-24"])
    def test_a_legal_name_that_yaml_reads_as_something_else_stays_a_name(
        self, helm: Path, name: str, shards: int
    ) -> None:
        def texts(name: str) -> str:
            values = {
                "admission": {"enabled": True},
                "conversion": {"enabled": True, "crds": [f"things.{name}"]},
                "fullnameOverride": name,
                "image": {"repository": name, "tag": name},
                "nameOverride": name,
                "namespaces": [name],
                "podDisruptionBudget": {"enabled": True},
                "podMonitor": {"enabled": True, "tokenSecret": {"name": name, "key": name}},
                "prometheusRule": {"enabled": True},
                "rbac": {"clusterRole": name, "rules": [{"apiGroups": [name], "resources": [name], "verbs": ["get"]}]},
                "replicas": 2,
                "serviceAccount": {"name": name},
                "shards": shards,
                "templateConfigMaps": {name: name},
            }
            sets = [f"--set-json={key}={json.dumps(value)}" for key, value in values.items()]
            text = run(helm, "template", name, CHART, "--kube-version=1.36", f"--namespace={name}", *sets)
            return "\n".join(json.dumps(body, sort_keys=True) for body in yaml.safe_load_all(text) if body)

        # Names of volumes and bindings have a hash of it.
        hashed = re.compile(r"-[0-9a-f]{8}\b")
        assert hashed.sub("", texts(name)) == hashed.sub("", texts("some-name")).replace("some-name", name)

    @pytest.mark.parametrize("webhook", ["admission", "conversion"])
    def test_the_api_server_reaches_the_webhook(self, helm: Path, webhook: str) -> None:
        objects = rendered(helm, **{webhook: {"enabled": True, "port": 10250}})
        [port] = objects["Service", f"ssa-operator-{webhook}"]["spec"]["ports"]
        workload = objects["Deployment", "ssa-operator"]
        named = {it["name"]: it["containerPort"] for it in container(workload)["ports"]}
        assert (port["port"], named[port["targetPort"]]) == (443, 10250)
        env = {it["name"]: it["value"] for it in container(workload)["env"]}
        assert env[f"SSA_OPERATOR_{webhook.upper()}"] == ":10250"
        assert env[f"SSA_OPERATOR_{webhook.upper()}_SERVICE"] == f"ssa-operator-{webhook}"
        selector = objects["Service", f"ssa-operator-{webhook}"]["spec"]["selector"]
        assert selector.items() <= workload["spec"]["template"]["metadata"]["labels"].items()
        # A pod that waits for its objects converts them. One that knows no objects would admit everything.
        unready = objects["Service", f"ssa-operator-{webhook}"]["spec"].get("publishNotReadyAddresses", False)
        assert unready == (webhook == "conversion")
        # From everywhere: the API server has no address that a policy can name.
        assert {"ports": [{"port": webhook}]} in objects["NetworkPolicy", "ssa-operator"]["spec"]["ingress"]

    def test_the_operator_may_change_the_crds_that_it_converts_and_no_others(self, helm: Path) -> None:
        def changed(**values: object) -> set[str]:
            objects = objects_of(helm, conversion={"enabled": True, **values})
            return {it[3] for it in permissions(objects) if it[2] == "customresourcedefinitions" and it[4] == "patch"}

        assert changed(crds=["sites.example.com"]) == {"sites.example.com"}
        assert changed() == set()

    def test_without_the_webhook_its_port_is_closed(self, helm: Path) -> None:
        objects = rendered(helm)
        assert ("Service", "ssa-operator-admission") not in objects
        [rule] = objects["NetworkPolicy", "ssa-operator"]["spec"]["ingress"]
        assert rule["ports"] == [{"port": "http"}]

    def test_the_pod_reaches_only_the_api_server_if_its_addresses_are_known(self, helm: Path) -> None:
        assert rendered(helm)["NetworkPolicy", "ssa-operator"]["spec"]["policyTypes"] == ["Ingress"]
        dns = {"ports": [{"port": 53, "protocol": "UDP"}]}
        egress = {"enabled": True, "apiServer": {"cidrs": ["10.0.0.1/32"], "ports": [6443]}, "more": [dns]}
        spec = rendered(helm, networkPolicy={"egress": egress})["NetworkPolicy", "ssa-operator"]["spec"]
        assert spec["policyTypes"] == ["Ingress", "Egress"]
        assert spec["egress"] == [{"to": [{"ipBlock": {"cidr": "10.0.0.1/32"}}], "ports": [{"port": 6443}]}, dns]

    def test_the_pod_is_that_of_the_kustomization(self, helm: Path) -> None:
        [ours] = base("deployment.yaml")
        expected = container(ours)
        expected["image"] = f"ssa-operator:{__version__}-examples"
        theirs = rendered(helm, examples=True)["Deployment", "ssa-operator"]
        assert container(theirs) == expected
        assert theirs["spec"]["template"]["spec"] == ours["spec"]["template"]["spec"]

    def test_without_the_examples_it_has_nothing_of_them(self, helm: Path) -> None:
        objects = rendered(helm)
        assert "CustomResourceDefinition" not in {kind for kind, _ in objects}
        assert container(objects["Deployment", "ssa-operator"])["image"] == f"ssa-operator:{__version__}"
        assert not re.search("echo|neon", json.dumps([*objects.values()]))

    def test_a_named_tag_is_used_as_it_is(self, helm: Path) -> None:
        workload = rendered(helm, examples=True, image__tag="7")["Deployment", "ssa-operator"]
        assert container(workload)["image"] == "ssa-operator:7"

    def test_replicas_elect_a_leader(self, helm: Path) -> None:
        workload = rendered(helm, replicas=2)["Deployment", "ssa-operator"]
        assert workload["spec"]["strategy"] == {"type": "RollingUpdate"}
        assert {"name": "SSA_OPERATOR_LEADER_ELECT", "value": "true"} in container(workload)["env"]

    def test_each_shard_has_its_ordinal(self, helm: Path) -> None:
        workload = rendered(helm, shards=4)["StatefulSet", "ssa-operator"]
        assert workload["spec"]["replicas"] == 4
        assert [variable["name"] for variable in container(workload)["env"]][:2] == ["POD_INDEX", "SSA_OPERATOR_SHARD"]
        assert container(workload)["env"][1]["value"] == "$(POD_INDEX)/4"

    def test_replicas_of_shards_are_standbys_with_pods_of_their_own(self, helm: Path) -> None:
        objects = rendered(helm, shards=4, replicas=2)
        both = [objects["StatefulSet", name]["spec"] for name in ("ssa-operator", "ssa-operator-standby-1")]
        assert [spec["replicas"] for spec in both] == [4, 4]
        selectors = [spec["selector"]["matchLabels"] for spec in both]
        assert selectors[0] != selectors[1]
        for spec, selector in zip(both, selectors, strict=True):
            assert selector.items() <= spec["template"]["metadata"]["labels"].items()
        pods = [spec["template"]["spec"] for spec in both]
        assert pods[0] == pods[1]
        assert {"name": "SSA_OPERATOR_LEADER_ELECT", "value": "true"} in pods[0]["containers"][0]["env"]

    def test_the_first_replica_of_a_shard_stays_when_standbys_come(self, helm: Path) -> None:
        one, two = (rendered(helm, shards=2, replicas=count)["StatefulSet", "ssa-operator"] for count in (1, 2))
        assert one["spec"]["selector"] == two["spec"]["selector"]  # immutable

    @pytest.mark.parametrize("shards", [0, 2])
    def test_no_replicas_are_no_pods(self, helm: Path, shards: int) -> None:
        kind = "StatefulSet" if shards else "Deployment"
        assert rendered(helm, shards=shards, replicas=0)[kind, "ssa-operator"]["spec"]["replicas"] == 0

    def test_templates_are_mounted_by_folder(self, helm: Path) -> None:
        files = {"thing.yaml.j2": "kind: {{ kind }}\n"}
        objects = rendered(helm, templates={"things.a.example": files}, templateConfigMaps={"_shared": "macros"})
        pod = objects["Deployment", "ssa-operator"]["spec"]["template"]["spec"]
        maps = {volume["name"]: volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
        mounts = {mount["mountPath"]: maps.get(mount["name"]) for mount in pod["containers"][0]["volumeMounts"]}
        assert mounts == {
            "/tmp": None,
            "/templates/things.a.example": "ssa-operator-things.a.example",
            "/templates/_shared": "macros",
        }
        assert {"name": "SSA_OPERATOR_TEMPLATES", "value": "/templates"} in pod["containers"][0]["env"]
        assert objects["ConfigMap", "ssa-operator-things.a.example"]["data"] == files

    def test_an_own_role_takes_the_place_of_the_derived_one(self, helm: Path) -> None:
        objects = rendered(helm, rbac__clusterRole="mine")
        assert ("ClusterRole", "ssa-operator") not in objects
        bound = [body["roleRef"]["name"] for (kind, _), body in objects.items() if kind == "ClusterRoleBinding"]
        assert bound == ["mine"]

    def test_another_role_is_another_binding_because_a_binding_keeps_its_role(self, helm: Path) -> None:
        one, two = (
            {name for kind, name in rendered(helm, rbac__clusterRole=role) if kind == "ClusterRoleBinding"}
            for role in ("one", "two")
        )
        assert one.isdisjoint(two)

    @pytest.mark.parametrize("examples", [False, True], ids=["alone", "examples"])
    def test_an_own_role_for_some_namespaces_is_bound_in_these_only(self, helm: Path, examples: bool) -> None:
        names = ["team-a", "team-b"]
        objects = objects_of(helm, examples=examples, namespaces=names, rbac__clusterRole="mine")
        bindings = [it for it in objects if it["kind"].endswith("Binding") and "roleRef" in it]
        mine = [it for it in bindings if it["roleRef"] == {**it["roleRef"], "kind": "ClusterRole", "name": "mine"}]
        assert [(it["kind"], it["metadata"]["namespace"]) for it in mine] == [("RoleBinding", name) for name in names]
        # The role of the user takes the place of those of the chart in these namespaces, but a RoleBinding grants
        # nothing that is cluster-scoped.
        others = permissions([it for it in objects if it not in mine])
        assert {it[0] for it in others} == {"", NAMESPACE}
        own = permissions(objects_of(helm, examples=examples, namespaces=names))
        assert others == {it for it in own if it[0] not in names}

    def test_more_rules_are_bound_to_the_account(self, helm: Path) -> None:
        rules = [{"apiGroups": ["a.example"], "resources": ["things"], "verbs": ["list", "watch"]}]
        objects = rendered(helm, rbac__rules=rules)
        assert objects["ClusterRole", "ssa-operator-templates"]["rules"] == rules
        binding = objects["ClusterRoleBinding", "ssa-operator-templates"]
        assert binding["roleRef"]["name"] == "ssa-operator-templates"
        assert binding["subjects"] == objects["ClusterRoleBinding", "ssa-operator"]["subjects"]

    def test_who_may_view_or_edit_may_view_or_edit_parents(self, helm: Path) -> None:
        objects = rendered(helm, examples=True)
        viewer, editor = (objects["ClusterRole", f"ssa-operator-{name}"] for name in ("viewer", "editor"))
        aggregated = "rbac.authorization.k8s.io/aggregate-to-"
        assert {f"{aggregated}{name}" for name in ("view", "edit", "admin")} <= set(viewer["metadata"]["labels"])
        assert f"{aggregated}view" not in editor["metadata"]["labels"]
        assert {verb for rule in viewer["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
        parents = {path.stem for path in (ROOT / "crds").glob("*.yaml")}
        for role in (viewer, editor):
            assert {f"{rule['resources'][0]}.{rule['apiGroups'][0]}" for rule in role["rules"]} == parents

    def test_the_policy_for_secrets_names_the_account(self, helm: Path) -> None:
        objects = rendered(helm, serviceAccount__name="robot")
        policy = objects["ValidatingAdmissionPolicy", "ssa-operator-secrets"]["spec"]
        account = f"'system:serviceaccount:{NAMESPACE}:robot'"
        assert policy["matchConditions"][0]["expression"] == f"request.userInfo.username == {account}"
        assert f"oldObject.metadata.namespace == '{NAMESPACE}'" in policy["validations"][0]["expression"]
        for kind in ("ClusterRoleBinding", "RoleBinding"):
            [subject] = objects[kind, "ssa-operator"]["subjects"]
            assert (subject["name"], subject["namespace"]) == ("robot", NAMESPACE)

    def test_monitoring_and_disruptions_are_options(self, helm: Path) -> None:
        kinds = {"PodDisruptionBudget", "PodMonitor", "PrometheusRule"}
        assert not kinds & {kind for kind, _ in rendered(helm)}
        objects = rendered(
            helm,
            podDisruptionBudget__enabled=True,
            podMonitor={"enabled": True, "tokenSecret": {"name": "token"}},
            prometheusRule__enabled=True,
        )
        assert kinds <= {kind for kind, _ in objects}
        alerts = yaml.safe_load((ROOT / "deploy" / "monitoring" / "alerts.yaml").read_text())
        assert objects["PrometheusRule", "ssa-operator"]["spec"] == alerts

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("replica=1", "replica"),
            ('image.tags="1"', "tags"),
            ('replicas="two"', "replicas"),
            ("shards=257", "shards"),
            ('namespaces=["a b"]', "namespaces"),
            ("admission.port=443", "port"),
            ('conversion.crds=["sites"]', "crds"),
            ('rbac.rules={"verbs":[]}', "rules"),
        ],
    )
    def test_a_wrong_value_is_refused_by_name(self, helm: Path, setting: str, message: str) -> None:
        said = run(helm, "template", CHART, "--kube-version=1.36", f"--set-json={setting}", accept_failure=True)
        assert "values don't meet the specifications of the schema" in said
        assert message in said


@pytest.fixture(scope="module")
def upgrade(helm: Path, cluster: Cluster) -> Iterator[list[str]]:
    """The command that installs or changes the release, up to the chart. All tests have the same namespace."""
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    where = f"--kubeconfig={cluster.kubeconfig}"
    kubectl = [str(Path(sys.executable).parent / "kubectl"), where]
    subprocess.run([*kubectl, "apply", "--filename=-"], input=json.dumps(namespace), text=True, check=True)
    options = [where, f"--namespace={NAMESPACE}"]
    # Other tests may have applied the CRDs already.
    yield [
        str(helm),
        "upgrade",
        "ssa-operator",
        "--install",
        "--take-ownership",
        "--set=examples=true",
        *options,
    ]
    run(helm, "uninstall", "ssa-operator", "--ignore-not-found", *options)
    run(*kubectl, "delete", "namespace", NAMESPACE, PATIENCE)


@pytest.mark.cluster
class TestRelease:
    """The chart in a real cluster, in a namespace that admits only restricted pods."""

    pytestmark = needs_helm

    @pytest.fixture
    def release(self, upgrade: list[str]) -> list[str]:
        """The command that changes the release, up to the chart. The release has no values of another test."""
        run(*upgrade, str(CHART))
        return upgrade

    @pytest.mark.parametrize("everything", [False, True], ids=["one pod", "every feature"])
    def test_its_account_suffices_and_its_removal_keeps_crds_and_children(
        self,
        release: list[str],
        helm: Path,
        cluster: Cluster,
        kubectl: Kubectl,
        namespace: str,
        tmp_path: Path,
        everything: bool,
    ) -> None:
        where, system = f"--namespace={namespace}", f"--namespace={NAMESPACE}"
        workloads = ["deployment/ssa-operator"]
        if everything:
            values = f"shards=1,replicas=2,admission.enabled=true,namespaces={{{namespace}}}"
            run(*release, str(CHART), f"--set={values}")
            workloads = ["statefulset/ssa-operator", "statefulset/ssa-operator-standby-1"]
        for workload in workloads:
            kubectl("rollout", "status", PATIENCE, system, workload)
        environment = {"SSA_OPERATOR_NAMESPACE": namespace}
        if everything:
            environment["SSA_OPERATOR_ADMISSION"] = "127.0.0.1:0"
        body = {"apiVersion": "example.com/v1", "kind": "Echo", "metadata": {"name": "hello"}, "spec": {"replicas": 1}}
        with operating(cluster, kubectl, workloads[0], tmp_path, **environment) as given:
            kubectl("apply", where, "--filename=-", input=json.dumps(body))
            kubectl("wait", "--for=condition=Ready", PATIENCE, where, "echo/hello")
            if everything:
                assert given["SSA_OPERATOR_NAMESPACE"] == namespace
                kubectl("wait", "--for=create", PATIENCE, "validatingwebhookconfiguration/ssa-operator")
        if everything:
            kubectl("get", system, "lease/ssa-operator-shard-0", "secret/ssa-operator-admission")
            kubectl("delete", "validatingwebhookconfiguration/ssa-operator")

        uid = kubectl("get", where, "deployment/hello", "--output=jsonpath={.metadata.uid}")
        run(helm, "uninstall", "ssa-operator", f"--kubeconfig={cluster.kubeconfig}", system)
        assert kubectl("get", system, "deployments,statefulsets", "--output=name") == ""
        assert kubectl("get", where, "roles,rolebindings", "--output=name") == ""
        assert kubectl("get", where, "echo/hello", "--output=jsonpath={.metadata.deletionTimestamp}") == ""
        assert kubectl("get", where, "deployment/hello", "--output=jsonpath={.metadata.uid}") == uid

    def test_a_new_resource_is_installed_with_the_permissions_that_the_command_prints(
        self, release: list[str], cluster: Cluster, kubectl: Kubectl, namespace: str, tmp_path: Path
    ) -> None:
        templates, permissions = tmp_path / "templates", tmp_path / "permissions.yaml"
        new = ("new", "Website", "--group=chart.example.com", f"--templates={templates}")
        run(sys.executable, "-m", "ssa_operator", *new)
        schema = templates / "websites.chart.example.com" / "_schema.yaml"
        where_crds = ("crds", "apply", "-f", str(schema), f"--kubeconfig={cluster.kubeconfig}")
        run(sys.executable, "-m", "ssa_operator", *where_crds)
        rules = run(sys.executable, "-m", "ssa_operator", "rbac", "--helm-values", f"--templates={templates}")
        permissions.write_text(rules)
        run(*release, str(CHART), f"--values={permissions}", "--set=examples=false")
        example = yaml.safe_load((tmp_path / "examples" / "website.yaml").read_text())
        example["metadata"]["namespace"] = namespace
        where = {"SSA_OPERATOR_TEMPLATES": str(templates), "SSA_OPERATOR_NAMESPACE": namespace}
        with operating(cluster, kubectl, "deployment/ssa-operator", tmp_path, **where):
            kubectl("apply", "--filename=-", input=json.dumps(example))
            kubectl(
                "wait",
                "--for=condition=Ready",
                PATIENCE,
                f"--namespace={namespace}",
                "website.chart.example.com/website",
            )

    @pytest.mark.exhaustive
    def test_an_own_role_suffices_for_some_namespaces_and_grants_nothing_in_others(
        self, release: list[str], cluster: Cluster, kubectl: Kubectl, namespace: str, tmp_path: Path
    ) -> None:
        printed = run(sys.executable, "-m", "ssa_operator", "rbac", f"--operator-namespace={NAMESPACE}")
        role = next(body for body in yaml.safe_load_all(printed) if body["kind"] == "ClusterRole")
        role["metadata"] = {"name": f"own-{namespace}"}
        kubectl("apply", "--filename=-", input=json.dumps(role))
        run(*release, str(CHART), f"--set=rbac.clusterRole=own-{namespace},namespaces={{{namespace}}}")
        try:
            body = {
                "apiVersion": "example.com/v1",
                "kind": "Echo",
                "metadata": {"name": "own"},
                "spec": {"replicas": 1},
            }
            where = {"SSA_OPERATOR_NAMESPACE": namespace}
            with operating(cluster, kubectl, "deployment/ssa-operator", tmp_path, **where):
                kubectl("apply", f"--namespace={namespace}", "--filename=-", input=json.dumps(body))
                kubectl("wait", "--for=condition=Ready", PATIENCE, f"--namespace={namespace}", "echo/own")
            # Asked as the account, because `auth can-i` ends with 1 for a no
            account = f"system:serviceaccount:{NAMESPACE}:ssa-operator"
            review = {
                "user": account,
                "resourceAttributes": {"group": "apps", "resource": "deployments", "verb": "list"},
            }
            allowed = []
            for each in (namespace, "default"):
                review["resourceAttributes"]["namespace"] = each  # type: ignore[index]
                asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": review}
                answer = kubectl("create", "--filename=-", "--output=json", input=json.dumps(asked))
                allowed.append(json.loads(answer)["status"]["allowed"])
            assert allowed == [True, False]
        finally:
            kubectl("delete", "clusterrole", f"own-{namespace}")

    def test_a_second_release_in_a_namespace_is_refused(self, release: list[str], helm: Path, cluster: Cluster) -> None:
        where = [f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}"]
        assert run(helm, "list", "--short", *where) == "ssa-operator\n"
        said = run(helm, "install", "second", CHART, *where, accept_failure=True)
        assert 'Role "ssa-operator" in namespace "chart" exists and cannot be imported' in said
        assert release[2] == "ssa-operator"

    def test_an_upgrade_brings_a_changed_crd(self, release: list[str], kubectl: Kubectl, tmp_path: Path) -> None:
        chart = Path(shutil.copytree(CHART, tmp_path / "chart"))
        crd = chart / "files" / "crds" / "echoes.example.com.yaml"
        crd.write_text(crd.read_text().replace("shortNames: [echo]", "shortNames: [echo, ech]"))

        def short_names() -> str:
            return kubectl("get", "crd/echoes.example.com", "--output=jsonpath={.spec.names.shortNames}")

        assert short_names() == '["echo"]'
        run(*release, str(chart))
        assert short_names() == '["echo","ech"]'
        run(*release, str(CHART))
        assert short_names() == '["echo"]'

    @pytest.mark.exhaustive
    def test_replicas_can_become_one_again(self, release: list[str], kubectl: Kubectl) -> None:
        def strategy() -> str:
            shown = "jsonpath={.spec.strategy.type}"
            return kubectl("get", f"--namespace={NAMESPACE}", "deployment/ssa-operator", f"--output={shown}")

        run(*release, str(CHART), "--set=replicas=2")
        assert strategy() == "RollingUpdate"
        run(*release, str(CHART), "--set=replicas=1")
        assert strategy() == "Recreate"

    def test_a_rollback_brings_the_former_values_and_loses_nothing(
        self, release: list[str], helm: Path, cluster: Cluster, kubectl: Kubectl, namespace: str
    ) -> None:
        def kinds() -> str:
            return kubectl("get", f"--namespace={NAMESPACE}", "deployments,statefulsets", "--output=name")

        body = {"apiVersion": "example.com/v1", "kind": "Echo", "metadata": {"name": "kept"}, "spec": {"replicas": 1}}
        kubectl("apply", f"--namespace={namespace}", "--filename=-", input=json.dumps(body))
        before = kubectl("get", f"--namespace={namespace}", "echo/kept", "--output=json")
        assert kinds() == "deployment.apps/ssa-operator\n"
        run(*release, str(CHART), "--set=shards=2")
        assert kinds() == "statefulset.apps/ssa-operator\n"
        run(helm, "rollback", "ssa-operator", f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}")
        assert kinds() == "deployment.apps/ssa-operator\n"
        assert kubectl("get", f"--namespace={namespace}", "echo/kept", "--output=json") == before

    @pytest.mark.exhaustive
    def test_templates_and_monitoring_come_as_values(
        self, release: list[str], kubectl: Kubectl, tmp_path: Path
    ) -> None:
        crds = [
            {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": f"{kind.lower()}s.monitoring.coreos.com"},
                "spec": {
                    "group": "monitoring.coreos.com",
                    "scope": "Namespaced",
                    "names": {"kind": kind, "plural": f"{kind.lower()}s"},
                    "versions": [
                        {
                            "name": "v1",
                            "served": True,
                            "storage": True,
                            "schema": {
                                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                            },
                        }
                    ],
                },
            }
            for kind in ("PodMonitor", "PrometheusRule")
        ]
        bodies = json.dumps({"apiVersion": "v1", "kind": "List", "items": crds})
        names = [f"crd/{crd['metadata']['name']}" for crd in crds]  # type: ignore[index]
        kubectl("apply", "--filename=-", input=bodies)
        try:
            kubectl("wait", "--for=condition=Established", PATIENCE, *names)
            files = {"echoes.example.com": {"map.yaml.j2": "kind: ConfigMap\n"}}
            values = tmp_path / "values.yaml"
            monitor = {"enabled": True, "tokenSecret": {"name": "token"}}
            chosen = {"templates": files, "podMonitor": monitor, "prometheusRule": {"enabled": True}, "shards": 2}
            values.write_text(yaml.safe_dump(chosen))
            run(*release, str(CHART), f"--values={values}")
            where = f"--namespace={NAMESPACE}"
            kubectl("rollout", "status", PATIENCE, where, "statefulset/ssa-operator")
            shown = kubectl("get", where, "configmap/ssa-operator-echoes.example.com", "--output=json")
            assert json.loads(shown)["data"] == files["echoes.example.com"]
            found = kubectl("get", where, "podmonitors,prometheusrules", "--output=name")
            assert found.splitlines() == [
                "podmonitor.monitoring.coreos.com/ssa-operator",
                "prometheusrule.monitoring.coreos.com/ssa-operator",
            ]
            run(*release, str(CHART))
            assert kubectl("get", where, "podmonitors,prometheusrules", "--output=name") == ""
        finally:
            kubectl("delete", *names)
