"""`ssa-operator blame`: each field of a live child has its template line and origin, or another writer."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs.generate.transcripts import lasting
from ssa_operator.kube.api.client import Client
from ssa_operator.operator.operator_options import Options
from tests.cli.process import run
from tests.operator.harness import ECHOES, Desk, config_map, echo, only, operating

pytestmark = pytest.mark.cluster

MACROS = """\
{% macro env(values) %}
{% for key in values %}
- name: {{ key }}
  value: "{{ key }}"
{% endfor %}
{% endmacro %}
"""

DEPLOYMENT = """\
{% from "_macros.yaml.j2" import env %}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ name }}
  annotations:
    ip: {{ child("Service", name).spec.clusterIP }}
    url: {{ lookup("v1", "ConfigMap", "settings").data.url }}
    word: {{ child("Secret", name).data.word | b64decode }}
    pin: {{ child("Secret", name).data.pin | b64decode }}
spec:
  replicas: {{ spec.replicas }}
  selector:
    matchLabels: {app: "{{ name }}"}
  template:
    metadata:
      labels: {app: "{{ name }}"}
    spec:
      containers:
      - name: web
        image: example.com/web:1
        env:
          {{ env(["A", "B"]) | indent(10) }}
      - name: log
        image: example.com/log:{{ spec.replicas + 1 }}
"""

SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: {{ name }}
spec:
  selector: {app: "{{ name }}"}
  ports:
  - port: 80
"""

SECRET = """\
apiVersion: v1
kind: Secret
metadata:
  name: {{ name }}
stringData:
  word: {{ generated() }}
  pin: "42"
"""


@pytest.fixture
async def web(desk: Desk, client: Client, templates: Path) -> Path:
    """An Echo `web` that an operator has applied and no longer watches; the fixture is the folder of its templates."""
    only(templates, deployment=DEPLOYMENT, service=SERVICE, secret=SECRET)
    (templates / ECHOES / "_macros.yaml.j2").write_text(MACROS)
    await desk.create(config_map("settings", url="http://settings"))
    async with operating(client, Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)):
        await desk.apply_until_ready(echo("web", replicas=2))
    return templates


async def blame(desk: Desk, templates: Path, *arguments: str, **environment: str) -> str:
    """The output of `blame`; it never has the content of the Secret."""
    connection = (f"--templates={templates}", f"--kubeconfig={desk.kubeconfig}", f"--namespace={desk.namespace}")
    code, out, err = await run("blame", *arguments, *connection, **environment)
    assert (code, err) == (0, "")
    encoded = (await desk.read("secrets", "web"))["data"]["word"]
    assert encoded not in out
    assert base64.b64decode(encoded).decode() not in out
    return out


async def fields(desk: Desk, templates: Path, child: str = "deployment/web") -> dict[str, dict[str, Any]]:
    """The fields of one child in the JSON output, by path."""
    (found,) = json.loads(await blame(desk, templates, "echo/web", child, "--output=json"))
    return {field.pop("path"): field for field in found["fields"]}


def wrote(file: str, line: int, origin: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"value": value, "file": f"{ECHOES}/{file}", "line": line, "origin": origin, **more}


POD = "spec.template.spec"


async def test_each_field_of_a_child_names_its_writer(desk: Desk, web: Path) -> None:
    found = await fields(desk, web)
    service = await desk.read("services", "web")
    included = [{"file": f"{ECHOES}/deployment.yaml.j2", "line": 23}]
    assert found["kind"] == wrote("deployment.yaml.j2", 3, "literal", "Deployment")
    assert found["metadata.name"] == wrote("deployment.yaml.j2", 5, "metadata.name", "web")
    assert found["spec.replicas"] == wrote("deployment.yaml.j2", 12, "spec.replicas", 2)
    assert found[f"{POD}.containers[0].image"] == wrote("deployment.yaml.j2", 21, "literal", "example.com/web:1")
    assert found[f"{POD}.containers[1].image"] == wrote(
        "deployment.yaml.j2", 25, "computed from spec.replicas", "example.com/log:3"
    )
    assert found[f"{POD}.containers[0].env[1].value"] == wrote(
        "_macros.yaml.j2", 4, "literal", "B", includedFrom=included
    )
    ip = service["spec"]["clusterIP"]
    allocated = (await fields(desk, web, "service/web"))["spec.clusterIP"]
    assert allocated == {"value": ip, "manager": "", "reason": "no manager recorded"}
    assert found["metadata.annotations.ip"] == wrote("deployment.yaml.j2", 7, "child(Service/web).spec.clusterIP", ip)
    assert found["metadata.annotations.url"] == wrote(
        "deployment.yaml.j2", 8, f"lookup(ConfigMap {desk.namespace}/settings).data.url", "http://settings"
    )
    default = {"default": True, "reason": "default of the API server"}
    assert found[f"{POD}.dnsPolicy"] == {"value": "ClusterFirst", **default}
    assert found[f"{POD}.containers[1].imagePullPolicy"] == {"value": "IfNotPresent", **default}
    assert found["metadata.generation"]["reason"] == "set by the API server"
    label = found["metadata.labels[app.kubernetes.io/managed-by]"]
    assert (label["value"], label["manager"], label["reason"]) == (
        "ssa-operator",
        "ssa-operator",
        "label of every child",
    )
    assert found["metadata.ownerReferences[0].name"]["reason"] == "owner reference to the parent"
    status = found["status.replicas"]
    assert (status["manager"], status["subresource"]) == ("kube-controller-manager", "status")
    assert not any(path.startswith("metadata.managedFields") for path in found)


@pytest.mark.exhaustive
async def test_a_secrets_content_is_hidden_wherever_it_is(desk: Desk, web: Path) -> None:
    hidden = "(a Secret's content)"
    assert (await fields(desk, web, "secret/web"))["data.word"] == wrote("secret.yaml.j2", 6, "generated()", hidden)
    assert (await fields(desk, web))["metadata.annotations.word"] == wrote(
        "deployment.yaml.j2", 9, "computed from child(Secret/web).data.word", hidden
    )
    assert (await fields(desk, web))["metadata.annotations.pin"]["value"] == hidden
    assert hidden in await blame(desk, web, "echo/web", "--output=yaml")


@pytest.mark.exhaustive
async def test_kubectl_scale_is_named_with_its_subresource(desk: Desk, web: Path) -> None:
    await desk.kubectl("scale", "deployment/web", "--replicas=5")
    found = (await fields(desk, web))["spec.replicas"]
    rendered = wrote("deployment.yaml.j2", 12, "spec.replicas", 2)
    assert found == {
        "value": 5,
        "manager": "kubectl",
        "operation": "Update",
        "subresource": "scale",
        "time": "",  # the API server records none for the subresource scale
        "rendered": rendered,
    }
    text = await blame(desk, web, "echo/web", "deployment/web")
    assert re.search(r"^kubectl \(scale\) +│   replicas: 5  # deployment\.yaml\.j2:12 renders 2$", text, re.MULTILINE)


@pytest.mark.exhaustive
async def test_what_kubectl_scaled_without_a_record_is_no_default(desk: Desk, web: Path) -> None:
    never_written = DEPLOYMENT.replace("  replicas: {{ spec.replicas }}\n", "").replace(
        "name: {{ name }}", "name: free", 1
    )
    (web / ECHOES / "free.yaml.j2").write_text(never_written)
    async with operating(desk.client, Options(templates=(web,), namespaces=(desk.namespace,), listen=None)):
        await desk.until("deployments.apps", "free", lambda body: body["spec"]["replicas"] == 1)
    await desk.kubectl("scale", "deployment/free", "--replicas=5")
    scaled = (await fields(desk, web, "deployment/free"))["spec.replicas"]
    assert scaled == {"value": 5, "manager": "", "reason": "no manager recorded"}
    text = await blame(desk, web, "echo/web", "deployment/free")
    assert re.search(r"^no manager recorded +│   replicas: 5$", text, re.MULTILINE)


@pytest.mark.exhaustive
async def test_a_field_that_kubectl_added_is_kubectls(desk: Desk, web: Path) -> None:
    await desk.patch("deployment", "web", spec={"revisionHistoryLimit": 3})
    found = (await fields(desk, web))["spec.revisionHistoryLimit"]
    assert (found["value"], found["manager"], found["operation"]) == (3, "kubectl-patch", "Update")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["time"])
    text = await blame(desk, web, "echo/web", "deployment/web")
    assert re.search(r"^kubectl-patch +\d+s ago +│   revisionHistoryLimit: 3", text, re.MULTILINE)


@pytest.mark.exhaustive
async def test_the_gutter_has_lines_origins_managers_and_defaults(desk: Desk, web: Path) -> None:
    await desk.patch("deployment", "web", spec={"revisionHistoryLimit": 3})
    printed = lasting(await blame(desk, web, "echo/web", "deployment/web", COLUMNS="200"))
    gutter = """\
deployment.yaml.j2:12                     spec.replicas                         │   replicas: 2
_macros.yaml.j2:3 < deployment.yaml.j2:23 literal                               │       - name: A
kubectl-patch                             3d ago                                │   revisionHistoryLimit: 3
default of the API server                                                       │       dnsPolicy: ClusterFirst
"""
    assert [line for line in lasting(gutter) if line not in printed] == []


@pytest.mark.exhaustive
async def test_a_field_of_two_managers_names_both(desk: Desk, web: Path) -> None:
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 2}}
    await desk.kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=json.dumps(body))
    found = (await fields(desk, web))["spec.replicas"]
    assert (found["file"], found["line"]) == (f"{ECHOES}/deployment.yaml.j2", 12)
    assert {owner["manager"] for owner in found["owners"]} == {"ssa-operator", "other"}
    assert "replicas: 2  # also owned by other" in await blame(desk, web, "echo/web", "deployment/web")


@pytest.mark.exhaustive
async def test_a_template_that_changed_since_is_told_apart_from_what_it_applied(desk: Desk, web: Path) -> None:
    file = web / ECHOES / "service.yaml.j2"
    file.write_text(SERVICE.replace('  selector: {app: "{{ name }}"}\n', "").replace("port: 80", "port: 81"))
    found = await fields(desk, web, "service/web")
    assert found["spec.selector.app"]["reason"] == "applied by an earlier template"
    assert found["spec.selector.app"]["manager"] == "ssa-operator"
    assert found["spec.ports[0].port"]["reason"] == "applied by an earlier template"
    file.unlink()
    (web / ECHOES / "deployment.yaml.j2").write_text(DEPLOYMENT.replace('child("Service", name).spec.clusterIP', "'-'"))
    text = await blame(desk, web, "echo/web", "service/web")
    assert text.startswith(f"# Service {desk.namespace}/web; no template renders it now\n")
    assert re.search(r"^ssa-operator +applied by an earlier template +│ kind: Service$", text, re.MULTILINE)


@pytest.mark.exhaustive
async def test_a_child_whose_template_waits_says_for_what(desk: Desk, web: Path) -> None:
    await desk.delete("configmap", "settings")
    text = await blame(desk, web, "echo/web", "deployment/web")
    waiting = f"waiting for ConfigMap {desk.namespace}/settings .data.url (there is no such ConfigMap)"
    assert text.startswith(f"# Deployment {desk.namespace}/web; its template is {waiting}\n")


@pytest.mark.exhaustive
async def test_all_children_are_shown_one_document_each_and_without_the_gutter_they_are_the_live_objects(
    desk: Desk, web: Path
) -> None:
    import yaml

    text = await blame(desk, web, "echo", "web")
    bars = {line.index("│") for line in text.splitlines() if "│" in line}
    assert len(bars) == 1
    shown = "\n".join(line.partition(" │ ")[2] if "│" in line else line for line in text.splitlines())
    bodies = {body["kind"]: body for body in yaml.safe_load_all(shown)}
    assert list(bodies) == ["Deployment", "Secret", "Service"]
    live = await desk.read("services", "web")
    del live["metadata"]["managedFields"]
    assert bodies["Service"] == live


@pytest.mark.exhaustive
async def test_a_narrow_terminal_shortens_the_gutter_and_not_the_object(desk: Desk, web: Path) -> None:
    text = await blame(
        desk, web, "echo/web", "deployment/web", COLUMNS="80", FORCE_COLOR="1", NO_COLOR="1", TERM="xterm"
    )
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert {line.index("│") for line in plain.splitlines() if "│" in line} == {37}
    assert re.search(r"^deployment\.yaml\.j2:7 child\(Service/… │     ip: ", plain, re.MULTILINE)
    assert re.search(r"^_macros\.yaml\.j2:4 < deployment\.yaml… │               value: B$", plain, re.MULTILINE)


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["echo/web", "service/wbe"], 1, "has no child service/wbe; did you mean Service/web"),
        (["echo/wbe"], 1, "did you mean web?"),
        (["echo/web", "service/web", "secret/web"], 2, "names 3 objects; name a parent and one child"),
        (["configmap/settings"], 2, "no template folder"),
    ],
)
async def test_a_wrong_name_is_one_line(desk: Desk, web: Path, arguments: list[str], code: int, message: str) -> None:
    connection = (f"--templates={web}", f"--kubeconfig={desk.kubeconfig}", f"--namespace={desk.namespace}")
    found, out, err = await run("blame", *arguments, *connection)
    assert message in err
    assert (found, out) == (code, "")
    assert err.count("\n") == 1
