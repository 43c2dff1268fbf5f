"""Rules about the manifests of one parent, as values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.label_selectors import selects
from ssa_operator.rendering.folder.object_files import objects
from ssa_operator.tools.checks.codes import CODES
from ssa_operator.tools.checks.manifest_rules import check_manifests, has_fixed_version
from ssa_operator.tools.findings import Finding

DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web, tier: front}
    spec:
      containers:
        - name: web
          image: nginx:1.27
          ports:
            - {name: http, containerPort: 80}
          readinessProbe:
            httpGet: {path: /, port: http}
          volumeMounts:
            - {name: data, mountPath: /data}
      volumes:
        - name: data
          emptyDir: {}
"""
SERVICE = """---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports:
    - {name: http, port: 80, targetPort: http}
"""


def check(text: str) -> list[Finding]:
    return check_manifests(objects(text, "web.yaml"))


def line(text: str, part: str) -> int:
    return next(number for number, each in enumerate(text.splitlines(), 1) if part in each)


def test_manifests_that_fit_together_have_no_finding() -> None:
    assert check(DEPLOYMENT + SERVICE) == []


@pytest.mark.parametrize(
    ("before", "after", "code", "message"),
    [
        ("nginx:1.27", "nginx", "latest-image", "Deployment web: spec.template.spec.containers[0].image is nginx"),
        ("nginx:1.27", "nginx:latest", "latest-image", "is nginx:latest; name a version or a digest"),
        ("labels: {app: web, ", "labels: {app: wob, ", "broken-reference", "spec.selector doesn't match the labels"),
        (
            "port: http}",
            "port: https}",
            "broken-reference",
            "is https, and the container has none of that name; it has http",
        ),
        ("targetPort: http", "targetPort: web", "unknown-reference", "Service web: spec.ports[0].targetPort is web"),
        (
            "- {name: data, mount",
            "- {name: date, mount",
            "broken-reference",
            "is date, and the pod has none of that name",
        ),
    ],
)
def test_what_a_cluster_would_not_run_is_found_where_it_is_written(
    before: str, after: str, code: str, message: str
) -> None:
    text = (DEPLOYMENT + SERVICE).replace(before, after, 1)
    found = [each for each in check(text) if each.code == code]
    assert len(found) == 1
    assert message in str(found[0])
    assert found[0].location is not None
    where = "selector:" if "spec.selector" in message else after
    assert (found[0].location.file, found[0].location.line) == ("web.yaml", line(text, where))
    assert code in CODES


def test_an_unknown_port_of_a_headless_service_is_a_warning() -> None:
    headless = SERVICE.replace("spec:\n", "spec:\n  clusterIP: None\n").replace("targetPort: http", "targetPort: web")
    assert [(each.code, each.severity) for each in check(DEPLOYMENT + headless)] == [("unknown-reference", "warning")]


def test_a_volume_of_a_stateful_set_may_be_a_claim() -> None:
    text = DEPLOYMENT.replace("kind: Deployment", "kind: StatefulSet")
    text = text[: text.index("      volumes:")] + "  volumeClaimTemplates:\n    - metadata: {name: data}\n"
    assert check(text) == []


def test_a_service_may_select_the_pods_of_others() -> None:
    assert check(SERVICE.replace("targetPort: http", "targetPort: other")) == []
    others = SERVICE.replace("{app: web}", "{app: other}").replace("http}", "other}")
    assert check(DEPLOYMENT + SERVICE + others) == []
    custom = "---\napiVersion: databases.example.com/v1\nkind: Database\nmetadata: {name: pods}\n"
    assert check(DEPLOYMENT + others + custom) == []
    assert check(DEPLOYMENT.replace("apps/v1", "batch/v1").replace("Deployment", "Job") + others) == []


def test_a_service_that_selects_no_pod_beside_workloads_that_no_service_selects_is_found() -> None:
    (found,) = check(DEPLOYMENT + SERVICE.replace("{app: web}", "{app: wob}"))
    assert found.code == "unknown-reference"
    assert found.fix == "the labels of Deployment web's pods are app: web, tier: front"
    assert found.location is not None
    assert found.location.line == line(DEPLOYMENT + SERVICE.replace("{app: web}", "{app: wob}"), "app: wob")


def test_a_custom_kind_with_the_name_of_a_workload_is_no_workload() -> None:
    assert check(DEPLOYMENT.replace("apps/v1", "example.com/v1").replace("nginx:1.27", "nginx")) == []


def test_a_manifest_of_any_shape_raises_no_error() -> None:
    for spec in (
        "spec: 1",
        "spec: [1]",
        "spec: {template: [], selector: 1}",
        "spec: {template: {spec: {containers: 1}}}",
    ):
        check(f"apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: a}}\n{spec}\n")


@pytest.mark.parametrize(
    ("image", "fixed"),
    [
        ("nginx", False),
        ("nginx:latest", False),
        ("nginx:1", True),
        ("localhost:5000/nginx", False),
        ("localhost:5000/nginx:1", True),
        ("localhost:5000/nginx:latest", False),
        ("nginx@sha256:" + 64 * "0", True),
        ("nginx:latest@sha256:" + 64 * "0", True),
    ],
)
def test_an_image_has_a_fixed_version_with_a_tag_or_a_digest(image: str, fixed: bool) -> None:
    assert has_fixed_version(image) is fixed


LABELS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"))


@given(LABELS, LABELS)
def test_match_labels_are_expressions_with_one_value(wanted: dict[str, str], labels: dict[str, str]) -> None:
    """https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#resources-that-support-set-based-requirements"""
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()]
    assert selects({"matchLabels": wanted}, labels) == selects({"matchExpressions": expressions}, labels)


@given(st.sampled_from("abc"), st.lists(st.sampled_from("xyz"), min_size=1), LABELS)
def test_an_operator_and_its_opposite_never_agree(key: str, values: list[str], labels: dict[str, str]) -> None:
    def of(operator: str) -> bool:
        return selects({"matchExpressions": [{"key": key, "operator": operator, "values": values}]}, labels)

    assert of("In") != of("NotIn")
    assert of("Exists") != of("DoesNotExist")


SILENT = """apiVersion: {group}/v1
kind: {kind}
metadata:
  name: web
  annotations: {annotations}
"""


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        ("networking.istio.io", "VirtualService"),
        ("networking.istio.io", "Gateway"),
        ("security.istio.io", "AuthorizationPolicy"),
        ("telemetry.istio.io", "Telemetry"),
        ("extensions.istio.io", "WasmPlugin"),
    ],
)
@pytest.mark.parametrize("annotations", ["{}", '{ssa-operator.dev/wait: "true"}', "{ssa-operator.dev/apply: Once}", ""])
def test_a_kind_whose_status_nothing_writes_has_to_say_how_it_is_ready(group: str, kind: str, annotations: str) -> None:
    (finding,) = check(SILENT.format(group=group, kind=kind, annotations=annotations))
    assert str(finding).startswith(f"web.yaml:2: warning status-never-written: {kind} web: kind is {kind}, ")
    assert finding.fix == 'set the annotation ssa-operator.dev/wait: "false", or ssa-operator.dev/ready-when'


@pytest.mark.parametrize(
    ("group", "kind", "annotations"),
    [
        ("networking.istio.io", "VirtualService", '{ssa-operator.dev/wait: "false"}'),
        ("networking.istio.io", "VirtualService", "{ssa-operator.dev/ready-when: metadata.uid is defined}"),
        ("gateway.networking.k8s.io", "Gateway", "{}"),
        ("networking.istio.io", "Unheard", "{}"),
    ],
)
def test_a_kind_whose_status_is_written_or_does_not_count_has_no_finding(
    group: str, kind: str, annotations: str
) -> None:
    assert check(SILENT.format(group=group, kind=kind, annotations=annotations)) == []


def test_a_kind_that_is_known_better_has_no_finding() -> None:
    text = SILENT.format(group="networking.istio.io", kind="Sidecar", annotations="{}")
    written = frozenset({GroupKind("networking.istio.io", "Sidecar")})
    assert check_manifests(objects(text, "web.yaml"), written) == []


JOB = """apiVersion: batch/v1
kind: Job
metadata: {name: seed}
spec:
  ttlSecondsAfterFinished: 60
  template:
    spec:
      restartPolicy: Never
      containers: [{name: seed, image: "seed:1"}]
"""


def test_a_job_that_its_ttl_deletes_runs_once() -> None:
    (found,) = check(JOB)
    assert (found.code, found.location and found.location.line) == ("repeated-job", line(JOB, "ttl"))
    assert "ssa-operator.dev/apply: Once" in str(found)
    for annotation in ("apply: Once", "on: finalize"):
        annotated = JOB.replace("{name: seed}", f"{{name: seed, annotations: {{ssa-operator.dev/{annotation}}}}}")
        assert check(annotated) == []
    assert check(JOB.replace("  ttlSecondsAfterFinished: 60\n", "")) == []
