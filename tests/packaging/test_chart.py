"""The Helm chart in deploy/chart: it says what deploy/base says, refuses wrong values, and its account suffices."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssa_operator import __version__
from ssa_operator.devcluster.cluster import Cluster
from tests.conftest import Kubectl
from tests.packaging.checkout import ROOT

CHART = ROOT / "deploy" / "chart"
MODULE = Path(__file__).parent / "helm"
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
    """The program helm, built once from its Go module and kept in the cache of the user."""
    pinned = re.search(r"helm\.sh/helm/v3 v(\S+)", (MODULE / "go.mod").read_text())
    assert pinned
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = cache / "ssa-operator" / "helm" / pinned[1] / "helm"
    if not program.exists():
        new = program.with_name(f"helm.{os.getpid()}")
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": ""}
        build = ["go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(new)]
        subprocess.run([*build, "helm.sh/helm/v3/cmd/helm"], cwd=MODULE, env=environment, check=True)
        new.rename(program)
    return program


def rendered(helm: Path, **values: object) -> dict[tuple[str, str], Any]:
    """The objects of a release by kind and name."""
    sets = [f"--set-json={name.replace('__', '.')}={json.dumps(value)}" for name, value in values.items()]
    text = run(helm, "template", "ssa-operator", CHART, "--kube-version=1.36", f"--namespace={NAMESPACE}", *sets)
    return {(body["kind"], body["metadata"]["name"]): body for body in yaml.safe_load_all(text) if body}


def container(workload: Any) -> Any:
    return workload["spec"]["template"]["spec"]["containers"][0]


def base(name: str) -> list[Any]:
    return list(yaml.safe_load_all((ROOT / "deploy" / "base" / name).read_text()))


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

    @pytest.mark.parametrize("examples", [False, True])
    @pytest.mark.parametrize("kind", ["ClusterRole", "Role"])
    def test_the_permissions_are_those_that_rbac_prints(
        self, helm: Path, kind: str, examples: bool, tmp_path: Path
    ) -> None:
        templates = ROOT / "templates" if examples else tmp_path
        text = run(sys.executable, "-m", "ssa_operator", "rbac", f"--templates={templates}")
        [printed] = [body["rules"] for body in yaml.safe_load_all(text) if body["kind"] == kind]
        assert rendered(helm, examples=examples)[kind, "ssa-operator"]["rules"] == printed

    def test_shards_have_the_permissions_that_rbac_prints_for_them(self, helm: Path, tmp_path: Path) -> None:
        text = run(sys.executable, "-m", "ssa_operator", "rbac", f"--templates={tmp_path}", "--shards=3")
        [role] = [body for body in yaml.safe_load_all(text) if body["kind"] == "Role"]

        def permissions(*roles: Any) -> set[tuple[str, str]]:
            rules = [rule for role in roles for rule in role["rules"]]
            return {
                (verb, name) for rule in rules for verb in rule["verbs"] for name in rule.get("resourceNames", [""])
            }

        objects = rendered(helm, shards=3)
        given = permissions(objects["Role", "ssa-operator"], objects["Role", "ssa-operator-shards"])
        assert given == permissions(role)

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
        assert objects["ClusterRoleBinding", "ssa-operator"]["roleRef"]["name"] == "mine"

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
            ('rbac.rules={"verbs":[]}', "rules"),
        ],
    )
    def test_a_wrong_value_is_refused_by_name(self, helm: Path, setting: str, message: str) -> None:
        said = run(helm, "template", CHART, "--kube-version=1.36", f"--set-json={setting}", accept_failure=True)
        assert "values don't meet the specifications of the schema" in said
        assert message in said

    def test_shards_exclude_replicas(self, helm: Path) -> None:
        said = run(helm, "template", CHART, "--kube-version=1.36", "--set=shards=2,replicas=2", accept_failure=True)
        assert "set either shards or replicas" in said


@pytest.mark.cluster
class TestRelease:
    """The chart in a real cluster, in a namespace that admits only restricted pods."""

    pytestmark = needs_helm

    @pytest.fixture
    def release(self, helm: Path, cluster: Cluster, kubectl: Kubectl) -> Iterator[list[str]]:
        """The command that changes the release, up to the chart."""
        namespace = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
        }
        kubectl("apply", "--filename=-", input=json.dumps(namespace))
        options = [f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}"]
        # Other tests may have applied the CRDs already.
        upgrade = [
            str(helm),
            "upgrade",
            "ssa-operator",
            "--install",
            "--take-ownership",
            "--set=examples=true",
            *options,
        ]
        run(*upgrade, str(CHART))
        yield upgrade
        run(helm, "uninstall", "ssa-operator", "--ignore-not-found", *options)
        kubectl("delete", "namespace", NAMESPACE, PATIENCE)

    @pytest.mark.usefixtures("release")
    def test_its_account_suffices_and_its_removal_keeps_crds_and_children(
        self, helm: Path, cluster: Cluster, kubectl: Kubectl, namespace: str, tmp_path: Path
    ) -> None:
        where = f"--namespace={namespace}"
        kubectl("wait", "--for=condition=Available", PATIENCE, f"--namespace={NAMESPACE}", "deployment/ssa-operator")
        content = yaml.safe_load(cluster.kubeconfig.read_text())
        content["users"][0]["user"] = {"token": kubectl("create", "token", "ssa-operator", f"--namespace={NAMESPACE}")}
        kubeconfig, log = tmp_path / "kubeconfig", tmp_path / "operator.log"
        kubeconfig.write_text(yaml.safe_dump(content))
        command = [sys.executable, "-m", "ssa_operator", "run", f"--kubeconfig={kubeconfig}", where, "--listen="]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SSA_OPERATOR_")}
        body = {"apiVersion": "example.com/v1", "kind": "Echo", "metadata": {"name": "hello"}, "spec": {"replicas": 1}}
        with log.open("w") as stream:
            operator = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=stream, stderr=stream)
            try:
                kubectl("apply", where, "--filename=-", input=json.dumps(body))
                kubectl("wait", "--for=condition=Ready", PATIENCE, where, "echo/hello")
            finally:
                operator.send_signal(signal.SIGTERM)
                code = operator.wait(timeout=60)
        assert code == 0, log.read_text()
        assert "forbidden" not in log.read_text().lower()

        uid = kubectl("get", where, "deployment/hello", "--output=jsonpath={.metadata.uid}")
        run(helm, "uninstall", "ssa-operator", f"--kubeconfig={cluster.kubeconfig}", f"--namespace={NAMESPACE}")
        assert kubectl("get", f"--namespace={NAMESPACE}", "deployments", "--output=name") == ""
        assert kubectl("get", where, "echo/hello", "--output=jsonpath={.metadata.deletionTimestamp}") == ""
        assert kubectl("get", where, "deployment/hello", "--output=jsonpath={.metadata.uid}") == uid

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

    def test_replicas_can_become_one_again(self, release: list[str], kubectl: Kubectl) -> None:
        def strategy() -> str:
            shown = "jsonpath={.spec.strategy.type}"
            return kubectl("get", f"--namespace={NAMESPACE}", "deployment/ssa-operator", f"--output={shown}")

        run(*release, str(CHART), "--set=replicas=2")
        assert strategy() == "RollingUpdate"
        run(*release, str(CHART), "--set=replicas=1")
        assert strategy() == "Recreate"
