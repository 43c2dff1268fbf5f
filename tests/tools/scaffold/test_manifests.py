"""From manifests to templates: what is removed, renamed, made a field or an instruction, and kept as it is."""

from __future__ import annotations

import base64
import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tools.scaffold.laws import differences, made, renders
from tests.tools.scaffold.projects import findings, invoke, project, read, rendered, spec_of
from tests.tools.scaffold.shapes import LABELS, WIDGETS, manifest, of, pods, workload


def written(tmp_path: Path, *manifests: dict[str, Any]) -> str:
    """The option that names a file with these manifests."""
    path = tmp_path / "in.yaml"
    path.write_text("\n---\n".join(json.dumps(each, ensure_ascii=False) for each in manifests), encoding="utf-8")
    return f"--from-manifests={path}"


def test_what_the_cluster_and_helm_added_is_removed(tmp_path: Path) -> None:
    server = {
        "namespace": "prod", "uid": "u", "resourceVersion": "1", "generation": 2, "managedFields": [],
        "creationTimestamp": "2024-01-01T00:00:00Z", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}", "meta.helm.sh/release-name": "rel", "own": "x",
        },
        "labels": {**LABELS, "helm.sh/chart": "shop-1", "app.kubernetes.io/managed-by": "Helm"},
    }  # fmt: skip
    spec = {
        "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
        "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
        "ports": [{"port": 80, "nodePort": 30000}], "selector": LABELS,
    }  # fmt: skip
    service = manifest("Service", "rel", metadata=server, spec=spec, status={"loadBalancer": {}})
    with project(written(tmp_path, service)) as folder:
        assert rendered(folder) == [
            manifest(
                "Service",
                "rel",
                metadata={"annotations": {"own": "x"}},
                spec={"ports": [{"port": 80}], "selector": LABELS},
            )
        ]
        assert findings(folder) == []


def test_the_crds_of_the_manifests_are_files_of_the_project_that_check_uses(tmp_path: Path) -> None:
    option = written(
        tmp_path, WIDGETS, {**manifest("ConfigMap", "rel"), "apiVersion": "example.org/v1", "kind": "Widget"}
    )
    with project(option) as folder:
        assert [path.name for path in (folder / "crds").iterdir()] == ["widgets.example.org.yaml"]
        assert [each["message"] for each in findings(folder) if each["severity"] == "error"] == []
        # A second resource of the same chart finds the CRD there.
        result = invoke(folder, "new", "Other", "--group=example.com", option)
        assert result.exit_code == 0, result.exception


def test_a_list_and_a_folder_of_files_are_read(tmp_path: Path) -> None:
    inner = tmp_path / "in" / "shop" / "templates"
    inner.mkdir(parents=True)
    items = [manifest("ConfigMap", "rel-a", data={"a": "1"}), manifest("ConfigMap", "rel-b", data={"a": "1"})]
    (inner / "list.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    (tmp_path / "in" / "web.yaml").write_text(json.dumps(workload()))
    with project(f"--from-manifests={tmp_path / 'in'}") as folder:
        assert {each["metadata"]["name"] for each in rendered(folder)} == {"rel-a", "rel-b", "rel-web"}


def test_an_object_with_a_generated_name_is_left_out_and_named(tmp_path: Path) -> None:
    job = manifest("Job", "", metadata={"generateName": "rel-sample-"})
    del job["metadata"]["name"]
    option = written(tmp_path, manifest("ConfigMap", "rel-a"), job, manifest("ConfigMap", "rel-b"))
    result = invoke(tmp_path, "new", "Thing", "--group=example.com", option, "--output=json")
    assert result.exit_code == 0, result.output
    (note,) = (note for note in json.loads(result.stdout)["notes"] if "left out" in note)
    assert re.fullmatch(r".*:\d+: an object is left out, because generateName can't be applied, .*; name it", note)
    assert [each["metadata"]["name"] for each in rendered(tmp_path)] == ["rel-a", "rel-b"]
    (tmp_path / "alone").mkdir()
    result = invoke(tmp_path, "new", "Other", "--group=example.com", written(tmp_path / "alone", job))
    assert re.search("there is no manifest in .*\n.* because generateName can't be applied", str(result.exception))


def test_objects_of_controllers_tests_of_helm_and_certificates_are_left_out_by_name(tmp_path: Path) -> None:
    owned = manifest("Pod", "rel-web-x", metadata={"ownerReferences": [{"controller": True}]})
    test = manifest("Pod", "rel-test", metadata={"annotations": {"helm.sh/hook": "test"}})
    certificate = manifest("Secret", "rel-tls", type="kubernetes.io/tls", data={"tls.key": "c2VjcmV0LWtleQ=="})
    option = written(tmp_path, owned, test, certificate, manifest("ConfigMap", "rel"))
    result = invoke(tmp_path, "new", "Thing", "--group=example.com", option, "--output=json")
    notes = " ".join(json.loads(result.stdout)["notes"])
    for words in (
        "Pod rel-web-x is left out: its controller",
        "Pod rel-test is left out",
        "Secret rel-tls is left out",
    ):
        assert words in notes
    assert [each["metadata"]["name"] for each in rendered(tmp_path)] == ["rel"]


def test_an_object_of_another_namespace_stays_there_and_is_named(tmp_path: Path) -> None:
    names = {"rel-a": "prod", "rel-b": "prod", "rel-c": "system"}
    maps = [manifest("ConfigMap", name, metadata={"namespace": namespace}) for name, namespace in names.items()]
    option = written(tmp_path, *maps, manifest("ConfigMap", "rel-d"))
    result = invoke(tmp_path, "new", "Thing", "--group=example.com", option, "--output=json")
    first, second = json.loads(result.stdout)["notes"]
    assert first == "the manifests were in the namespace prod, and go into that of the object"
    assert second.startswith("ConfigMap rel-c is outside of the object's namespace; _settings.yaml allows")
    assert {each["metadata"].get("namespace") for each in rendered(tmp_path)} == {None, "system"}


def test_no_content_of_a_secret_is_in_a_file_or_in_the_output(tmp_path: Path) -> None:
    secret = manifest("Secret", "rel", data={"password": "aHVudGVyMg=="}, stringData={"token": "hunter2"})
    secret["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": '{"a": "hunter2"}'}
    option = written(tmp_path, secret)
    for extra in ("--dry-run", "--output=table"):
        result = invoke(tmp_path, "new", "Thing", "--group=example.com", option, extra)
        assert result.exit_code == 0
        assert "hunter2" not in result.output
        assert "aHVudGVyMg" not in result.output
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "in.yaml"]
    assert not [path for path in files if "hunter2" in path.read_text() or "aHVudGVyMg" in path.read_text()]
    (made,) = rendered(tmp_path)
    assert made["stringData"].keys() == {"password", "token"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("username", "carol"),
        ("dsn", "postgres://app:pw@rel-db/app"),
        ("config", '{"a": 1}'),
        ("motto", "two words"),
        ("peer", "rel-db"),
        ("fernet-key", "cw_0x689RpI-jtRR7oE8h_eQsKImvJapLeSbXpwF4e4="),
        ("cluster", "123e4567-e89b-12d3-a456-426614174000"),
    ],
)
def test_a_secret_text_with_a_meaning_is_a_required_field(key: str, value: str) -> None:
    database = manifest("Service", "rel-db", spec={"ports": [{"port": 80}]})
    found = made(
        database, manifest("Secret", "rel-auth", stringData={key: value, "password": "hunter2"}), instance="rel"
    )
    (parameter,) = found.parameters
    schema = found.crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert schema["required"] == ["secrets"]
    assert schema["properties"]["secrets"]["required"] == [parameter.path[-1]]
    assert value not in repr(found)
    (data,) = (body["data"] for identity, body in renders(found).items() if identity[1] == "Secret")
    assert base64.b64decode(data[key]).decode() == "change-me"
    assert base64.b64decode(data["password"]).decode() != "change-me"
    meaning = "because the text has a meaning: a required field, which all readers of the object see"
    assert f"Secret rel-auth: {key} can't be drawn, {meaning}" in found.notes


def test_a_value_that_two_secrets_have_is_drawn_once(tmp_path: Path) -> None:
    first = manifest("Secret", "rel-db", stringData={"password": "hunter2"})
    second = manifest("Secret", "rel-web", data={"db-password": "aHVudGVyMg=="})
    templates = made(first, second, instance="rel").templates
    assert "password: {{ generated() }}" in templates["secret-db.yaml.j2"]
    read_it = 'db-password: {{ child("Secret", name ~ "-db").data["password"] | b64decode }}'
    assert read_it in templates["secret-web.yaml.j2"]


def test_a_value_that_users_set_is_a_field_with_the_value_as_default(tmp_path: Path) -> None:
    resources = {"limits": {"memory": "1Gi"}}
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "8Gi"}}}}
    web, db = workload(resources=resources), workload("rel-db", "StatefulSet", replicas=1)
    db["spec"]["volumeClaimTemplates"] = [claim]
    ingress = manifest(
        "Ingress", "rel", spec={"rules": [{"host": "a.example.com"}], "tls": [{"hosts": ["a.example.com"]}]}
    )
    with project(written(tmp_path, web, db, ingress)) as folder:
        fields = spec_of(folder)["properties"]
        assert {name: each["default"] for name, each in fields["web"]["properties"].items()} == {
            "replicas": 2,
            "image": "shop:1",
            "resources": resources,
        }
        assert fields["db"]["properties"]["storage"]["default"] == "8Gi"
        assert fields["host"]["default"] == "a.example.com"
        path = folder / "examples" / "thing.yaml"
        example = {**read(path), "spec": {"web": {"replicas": 5}, "host": "b.example.com"}}
        path.write_text(json.dumps(example))
        by_name = {(each["kind"], each["metadata"]["name"]): each["spec"] for each in rendered(folder)}
        assert by_name["Deployment", "rel-web"]["replicas"] == 5
        assert by_name["Ingress", "rel"]["rules"][0]["host"] == "b.example.com"
        assert by_name["Ingress", "rel"]["tls"][0]["hosts"] == ["b.example.com"]


def test_replicas_that_an_autoscaler_sets_are_left_to_it(tmp_path: Path) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "rel-web"}
    scaler = manifest("HorizontalPodAutoscaler", "rel-web", spec={"scaleTargetRef": target, "maxReplicas": 3})
    scaler["apiVersion"] = "autoscaling/v2"
    with project(written(tmp_path, workload(), scaler)) as folder:
        assert "replicas" not in spec_of(folder)["properties"]
        found = {each["kind"]: each["spec"] for each in rendered(folder)}
        assert "replicas" not in found["Deployment"]


def renamed(folder: Path) -> list[dict[str, Any]]:
    """The manifests of an object with another name and namespace."""
    path = folder / "examples" / "thing.yaml"
    example = read(path)
    example["metadata"] = {"name": "mine", "namespace": "here"}
    path.write_text(json.dumps(example))
    return rendered(folder)


def test_references_follow_the_name_of_the_object(tmp_path: Path) -> None:
    environment = [
        {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "rel-conf", "key": "a"}}},
        {"name": "B", "value": "http://rel-db.prod.svc:80/rel-db"},
        {"name": "C", "valueFrom": {"secretKeyRef": {"name": "of-others", "key": "a"}}},
    ]
    objects = [
        workload(env=environment),
        manifest("ConfigMap", "rel-conf", data={"a": "relevant barrel rel/x rel-db/x"}),
        manifest("Service", "rel-db", metadata={"namespace": "prod"}, spec={"ports": [{"port": 80}]}),
    ]
    with project(written(tmp_path, *objects)) as folder:
        found = {each["kind"]: each for each in renamed(folder)}
    assert found["Deployment"]["metadata"]["name"] == "mine-web"
    assert found["Deployment"]["spec"]["selector"]["matchLabels"]["app.kubernetes.io/instance"] == "mine"
    container = found["Deployment"]["spec"]["template"]["spec"]["containers"][0]
    assert container["env"][0]["valueFrom"]["configMapKeyRef"]["name"] == "mine-conf"
    assert container["env"][1]["value"] == "http://mine-db.here.svc:80/mine-db"
    assert container["env"][2]["valueFrom"]["secretKeyRef"]["name"] == "of-others"
    assert found["ConfigMap"]["data"] == {"a": "relevant barrel rel/x mine-db/x"}


def test_a_name_that_means_other_things_too_is_replaced_in_names_and_references_only(tmp_path: Path) -> None:
    """`kubectl get` of objects called web, with a container called web."""
    deployment = workload("web", image="registry/web:1", args=["web", "--port=80"])
    for labels in (deployment["spec"]["selector"]["matchLabels"], deployment["spec"]["template"]["metadata"]["labels"]):
        labels.clear()
        labels["app"] = "web"
    deployment["metadata"]["labels"] = {"app": "web"}
    config = manifest("ConfigMap", "web-conf", metadata={"labels": {}}, data={"a": "start web"})
    with project(written(tmp_path, deployment, config)) as folder:
        found = {each["kind"]: each for each in renamed(folder)}
    pod = found["Deployment"]["spec"]["template"]
    assert found["Deployment"]["metadata"]["name"] == "mine"
    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"] == {"app": "mine"}
    assert pod["spec"]["containers"] == deployment["spec"]["template"]["spec"]["containers"]
    assert found["ConfigMap"]["metadata"]["name"] == "mine-conf"
    assert found["ConfigMap"]["data"] == {"a": "start web"}


def test_names_without_a_common_beginning_get_the_name_of_the_object_before_them(tmp_path: Path) -> None:
    objects = [manifest("ConfigMap", name, metadata={"labels": {}}) for name in ("alpha", "beta")]
    with project(written(tmp_path, *objects)) as folder:
        assert {each["metadata"]["name"] for each in renamed(folder)} == {"mine-alpha", "mine-beta"}


def test_cluster_scoped_manifests_are_allowed_by_the_settings(tmp_path: Path) -> None:
    role = manifest("ClusterRole", "rel", rules=[])
    role["apiVersion"] = "rbac.authorization.k8s.io/v1"
    with project(written(tmp_path, role)) as folder:
        assert read(folder / "templates" / "things.example.com" / "_settings.yaml") == {"clusterScope": True}
        assert findings(folder) == []


WORDS = st.sampled_from(["rel", "rel-web", "{{", "{{ x }}", "{%", "{#", "{", "}}", "%}", "{% raw %}", "{% endraw %}"])
TEXTS = st.lists(
    WORDS | st.sampled_from([" ", "\n", ":", "-", "#", '"', "'", "\t", "\\", "é"]) | st.text(max_size=3), max_size=8
).map("".join)
SAFE = TEXTS.filter(lambda text: not any("\ue000" <= each <= "\uf8ff" or "\ud800" <= each <= "\udfff" for each in text))
YAML_SAFE = SAFE.filter(lambda text: all(each.isprintable() or each in "\n\t" for each in text))


@pytest.mark.slow
@settings(max_examples=30)
@given(
    data=st.dictionaries(st.sampled_from(["a", "b.c", "{{", "x-{%"]), YAML_SAFE, max_size=3),
    name=st.sampled_from(["rel", "other"]),
)
def test_the_templates_give_the_manifests_again(data: dict[str, str], name: str) -> None:
    body = manifest("ConfigMap", name, data=data)
    with tempfile.TemporaryDirectory() as temporary, project(written(Path(temporary), body)) as folder:
        found = rendered(folder)
    # The name of the label is the instance, and comes before a name without it.
    own = {"name": "rel" if name == "rel" else "rel-other"}
    assert found == [{**body, "metadata": {**body["metadata"], **own}}]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: 1", "apiVersion is missing"),
        ("", "there is no manifest in"),
        (json.dumps(manifest("Pod", "x", metadata={"ownerReferences": [{"controller": True}]})), "no manifest is left"),
    ],
)
def test_a_folder_without_usable_manifests_is_refused(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "in.yaml").write_text(content)
    result = invoke(tmp_path, "new", "Thing", "--group=example.com", f"--from-manifests={tmp_path / 'in.yaml'}")
    assert result.exit_code != 0
    assert words in str(result.exception)


def test_problems_of_the_golden_case_are_a_note(tmp_path: Path) -> None:
    """The object of the golden case is in the namespace `other`, where one of the manifests is, too."""
    bodies = [manifest("ConfigMap", "rel-a", metadata={"namespace": each}) for each in ("web", "web", "other")]
    bodies[1]["metadata"]["name"] = "rel-b"
    source = written(tmp_path, *bodies)
    result = invoke(tmp_path, "new", "Thing", "--group=example.com", source)
    assert result.exit_code == 0
    assert "note: the operator reports problems for the object of the golden case: things.example.com/" in result.output
    assert "ConfigMap other/rel-two-a is rendered twice" in result.output
    case = tmp_path / "tests" / "things.example.com" / "example"
    assert "is rendered twice" in (case / "problems.txt").read_text()


RUN = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a:1"}]}


def job(name: str, hook: str = "", weight: str = "0", kind: str = "Job", **spec: Any) -> dict[str, Any]:
    annotations = {"helm.sh/hook": hook, "helm.sh/hook-weight": weight, "own": "x"} if hook else {}
    body = of("batch/v1", kind, name, spec={"template": {"spec": RUN}, **spec})
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}} if annotations else body


SET = [
    job("rel-migrate", "pre-install,pre-upgrade", "5"),
    job("rel-prepare", "pre-install", "-5"),
    job("rel-seed", "post-install"),
    job("rel-clean", "pre-delete"),
    job("rel-purge", "Pre-Delete, pre-upgrade"),
    job("rel-convert", "post-upgrade"),
    job("rel-test", "test"),
    job("rel-report", ttlSecondsAfterFinished=60),
    pods({"app": "rel"}),
    of("v1", "PersistentVolumeClaim", "rel-data", metadata={"annotations": {"helm.sh/resource-policy": "keep"}}),
]


def instructions(name: str) -> dict[str, str]:
    """The annotations that the template of a manifest has."""
    texts = made(*SET, instance="rel").templates.values()
    bodies = [yaml.safe_load(re.sub(r"\{\{.*?\}\}", "rel", text)) for text in texts if "clusterScope" not in text]
    (found,) = (body["metadata"] for body in bodies if body["metadata"]["name"] == name)
    annotations: dict[str, str] = found.get("annotations", {})
    return {key.removeprefix("ssa-operator.dev/"): text for key, text in annotations.items()}


def test_hooks_of_installations_run_once_in_the_order_of_their_weights() -> None:
    assert instructions("rel-prepare") == {"own": "x", "apply": "Once"}
    assert instructions("rel-migrate") == {"own": "x", "apply": "Once", "after": "Job/rel-prepare"}
    assert instructions("rel-web") == {"after": "Job/rel-migrate"}
    assert instructions("rel-seed") == {"own": "x", "apply": "Once", "after": "Deployment/rel-web"}


def test_hooks_of_deletions_are_applied_when_the_parent_is_deleted() -> None:
    for name in ("rel-clean", "rel-purge"):
        assert instructions(name) == {"own": "x", "on": "finalize"}


def test_a_job_with_a_ttl_runs_once_and_what_helm_keeps_is_kept() -> None:
    assert instructions("rel-report") == {"apply": "Once"}
    assert instructions("rel-data") == {"prune": "false"}


def test_hooks_without_an_event_of_the_operator_are_left_out_and_all_is_noted() -> None:
    found = made(*SET, instance="rel")
    notes = "\n".join(found.notes)
    assert "Job rel-convert is left out: it is a hook of Helm for post-upgrade, and the operator has no such" in notes
    assert "Job rel-test is left out: it is a test of Helm" in notes
    both = "\n".join(made(job("rel-both", "post-install,pre-delete"), instance="rel").notes)
    assert "Job rel-both: not applied by pre-delete any more: add a copy with ssa-operator.dev/on: finalize" in both
    assert "Job rel-migrate, rel-prepare, rel-seed: a hook of installations, which runs once" in notes
    assert differences(SET, found) == []
