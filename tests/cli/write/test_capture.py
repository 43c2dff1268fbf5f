"""`ssa-operator capture` saves a live parent as a case that passes at once, without the content of Secrets."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.operator.operator_options import Options
from ssa_operator.rendering.folder.object_files import load_objects
from tests.cli.process import run
from tests.operator.harness import ECHOES, ROOT, Desk, config_map, echo, only, operating

CREDENTIALS = """\
apiVersion: v1
kind: Secret
metadata: {name: "{{ name }}-credentials"}
stringData: {own: "{{ generated() }}"}
"""

CONFIG = """\
{% set registry = lookup("v1", "Secret", "registry") %}
{% set auths = registry.data.config | b64decode | from_json %}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
  annotations: {checksum: "{{ registry.data.password | sha256 }}"}
data:
  url: https://robot:{{ registry.data.password | b64decode }}@{{ lookup("v1", "ConfigMap", "settings").data.host }}
  user: {{ auths.auths.host.username }}
  own: {{ child("Secret", name ~ "-credentials").data.own }}
  teams: "{{ lookup_all("v1", "ConfigMap", labels={"team": "a"}) | map(attribute="metadata.name") | join(" ") }}"
  none: "{{ lookup("v1", "ConfigMap", "absent", optional=true) is none }}"
  old: "{{ expired("1h") }}"
  again: "{{ status.readyReplicas | default("no") }}"
"""

STATUS = """\
readyReplicas: {{ lookup("v1", "ConfigMap", "for-status", optional=true).data.x | default(0) | int }}
"""

PASSWORD = "correct-horse-battery-7"
USERNAME = "gordon-shumway-9"


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def registry() -> dict[str, Any]:
    config = json.dumps({"auths": {"host": {"username": USERNAME, "pass": PASSWORD}}})
    data = {"password": encoded(PASSWORD), "config": encoded(config)}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "registry"}, "data": data}


@pytest.mark.cluster
async def test_a_captured_case_passes_at_once_and_holds_no_secret(
    desk: Desk, client: Client, templates: Path, tmp_path: Path
) -> None:
    only(templates, credentials=CREDENTIALS, config=CONFIG)
    (templates / ECHOES / "_status.yaml.j2").write_text(STATUS)
    team = config_map("blue", x="1")
    team["metadata"]["labels"] = {"team": "a"}
    await desk.create(registry(), config_map("settings", host="registry.local"), config_map("for-status", x="7"), team)
    arguments = (f"--templates={templates}", f"--crds={ROOT / 'crds'}")
    live = (*arguments, f"--kubeconfig={desk.kubeconfig}", "-n", desk.namespace)
    async with operating(client, Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)):
        await desk.apply(echo("hello"))
        await desk.until(ECHOES, "hello", lambda body: body.get("status", {}).get("readyReplicas") == 7)
        await desk.until("configmaps", "hello", lambda body: body["data"]["again"] == "7")
        await desk.ready(ECHOES, "hello")
    generated = (await desk.read("secrets", "hello-credentials"))["data"]["own"]
    checksum = (await desk.read("configmaps", "hello"))["metadata"]["annotations"]["checksum"]
    case = tmp_path / "tests" / ECHOES / "is-ready"
    # A folder of somebody else stays, whatever its name is.
    other = case.with_name(".is-ready") / "kept"
    other.parent.mkdir(parents=True)
    other.touch()

    code, out, err = await run("capture", "echo/hello", "--case=is-ready", *live)
    names = ["children.yaml", "expected.yaml", "now.txt", "others.yaml", "parent.yaml", "status.yaml"]
    assert (code, out, err) == (0, "".join(f"wrote {case / name}\n" for name in names), "")
    assert sorted(case.parent.iterdir()) == [other.parent, case]
    assert other.exists()

    # It passes, and renders what the cluster has.
    assert await run("test", str(case), *arguments) == (0, "1 case: 1 passed\n", "")
    rendered, _ = load_objects([case / "expected.yaml"])
    data = rendered.body["data"]
    assert (data["teams"], data["none"], data["old"], data["again"]) == ("blue", "true", "false", "7")
    assert data["url"].startswith("https://robot:masked-")
    assert data["url"].endswith("@registry.local")
    assert data["user"].startswith("masked-")
    assert (case / "status.yaml").read_text() == "readyReplicas: 7\n"
    # The children are as the templates render them from the stand-ins.
    children = {each.body["kind"]: each.body for each in load_objects([case / "children.yaml"])}
    assert children["ConfigMap"]["data"] == data
    assert children["ConfigMap"]["metadata"]["annotations"] == rendered.body["metadata"]["annotations"]
    # What only the cluster and the operator write is not there, and neither is a Secret's content.
    text = "".join(path.read_text() for path in case.iterdir())
    content = [PASSWORD, USERNAME, generated, base64.b64decode(generated).decode(), encoded(PASSWORD), checksum]
    server = ["managedFields", "resourceVersion", "uid", "ssa-operator.dev", "observedGeneration", "ownerReferences"]
    assert [each for each in (*content, *server) if each in text] == []

    # A change of the templates is a difference then. The case is not overwritten.
    (templates / ECHOES / "config.yaml.j2").write_text(CONFIG.replace("robot:", "human:"))
    code, out, _ = await run("test", str(case), *arguments)
    assert (code, "(hash " in out) == (1, True)
    code, out, err = await run("capture", "echo/hello", "--case=is-ready", *live)
    assert (code, out) == (2, "")
    assert err == f"ssa-operator: {case} exists; remove it, or name another case with --case\n"


async def test_a_name_that_is_no_folder_is_refused() -> None:
    code, out, err = await run("capture", "echo/hello", "--case=../x", KUBECONFIG="nowhere")
    assert (code, out) == (2, "")
    assert err == "ssa-operator: --case is '../x', which is not a name of a folder of a case\n"
