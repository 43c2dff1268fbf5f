"""`ssa-operator graph`: the dependencies of a parent's manifests, of a file, a kind, and a live parent."""

from __future__ import annotations

import json
import re
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.operator.operator_options import Options
from tests.cli.process import run
from tests.operator.harness import ECHOES, ROOT, Desk, config_map, echo, only, operating

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ name }}
  annotations:
    ip: {{ child("Service", name).spec.clusterIP }}
    url: {{ lookup("v1", "ConfigMap", "settings").data.url }}
    extra: {{ lookup("v1", "ConfigMap", "extra", optional=true).data.x | default("none") }}
spec:
  replicas: {{ spec.replicas }}
  selector:
    matchLabels: {app: "{{ name }}"}
  template:
    metadata:
      labels: {app: "{{ name }}"}
    spec:
      containers: [{name: web, image: "example.com/web:1"}]
"""

SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: {{ name }}
spec:
  selector: {app: "{{ name }}"}
  ports: [{port: 80}]
"""

AFTER = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
  annotations: {ssa-operator.dev/after: "Deployment/{{ name }}"}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A templates folder with the CRD beside it, and no examples."""
    (tmp_path / "crds").mkdir()
    shutil.copy(ROOT / "crds" / f"{ECHOES}.yaml", tmp_path / "crds")
    (tmp_path / "templates" / ECHOES).mkdir(parents=True)
    return only(tmp_path / "templates", deployment=DEPLOYMENT, service=SERVICE, after=AFTER)


async def graph(folder: Path, *arguments: str, stdin: str = "") -> str:
    code, out, err = await run("graph", *arguments, f"--templates={folder}", stdin=stdin, KUBECONFIG="nowhere")
    assert (code, err) == (0, "")
    return out


WEB = json.dumps(echo("web"))
SHOWN = """\
Echo default/hello
  Service/hello  Current
  Deployment/hello  Waiting  waiting for ConfigMap default/settings .data.url (there is no such ConfigMap)
    waits for Service/hello  .spec.clusterIP  echoes.example.com/deployment.yaml.j2:6
    waits for ConfigMap default/settings  lookup .data.url  echoes.example.com/deployment.yaml.j2:7
    reads ConfigMap default/extra  lookup .data.x  echoes.example.com/deployment.yaml.j2:8
""".splitlines()
"""The lines of a live parent, without those of its ConfigMap."""


async def test_a_file_is_listed_in_order_with_the_fields_that_are_read(folder: Path) -> None:
    file = f"{ECHOES}/deployment.yaml.j2"
    assert (await graph(folder, "-", stdin=WEB)).splitlines() == [
        "Echo default/web",
        "  Service/web",
        "  Deployment/web",
        f"    waits for Service/web  .spec.clusterIP  {file}:6",
        f"    waits for ConfigMap default/settings  lookup .data.url  {file}:7",
        f"    reads ConfigMap default/extra  lookup .data.x  {file}:8",
        "  ConfigMap/web",
        "    after Deployment/web  " + f"{ECHOES}/after.yaml.j2:5",
    ]


async def test_mermaid_has_the_same_nodes_and_edges(folder: Path) -> None:
    out = await graph(folder, "-", "--output=mermaid", stdin=WEB)
    assert out.startswith('---\ntitle: "Echo default/web"\n---\nflowchart RL\n')
    names = dict(re.findall(r'^  (n\d+)\(?\["?([^"]*)"\]\)?$', out, re.MULTILINE))
    edges = re.findall(r'^  (n\d+) (-->|-\.->)\|"([^"]*)"\| (n\d+)$', out, re.MULTILINE)
    assert {(names[source], arrow, label, names[target]) for source, arrow, label, target in edges} == {
        ("Deployment/web", "-->", ".spec.clusterIP", "Service/web"),
        ("Deployment/web", "-->", "lookup .data.url", "ConfigMap default/settings"),
        ("Deployment/web", "-.->", "lookup .data.x", "ConfigMap default/extra"),
        ("ConfigMap/web", "-->", "after", "Deployment/web"),
    }


async def test_an_svg_is_laid_out_by_graphviz_from_the_dot_output(folder: Path) -> None:
    dot = await graph(folder, "-", "--output=dot", stdin=WEB)
    assert dot.startswith('digraph "Echo default/web" {\n')
    assert '[label="lookup .data.x", style=dashed' in dot
    image = ET.fromstring(await graph(folder, "-", "--output=svg", stdin=WEB))
    texts = {element.text for element in image.iter() if element.tag.endswith("}text")}
    assert {"Deployment/web", "Service/web", "ConfigMap default/settings", ".spec.clusterIP", "after"} <= texts
    kinds = [element.get("class") for element in image.iter() if element.tag.endswith("}g")]
    assert (kinds.count("node"), kinds.count("edge")) == (5, 4)


@pytest.mark.parametrize("output", ["mermaid", "dot", "svg"])
async def test_a_name_is_never_syntax(folder: Path, output: str) -> None:
    hostile = '"]; x -> y [label="<b>\\'
    only(folder, a=f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {json.dumps(hostile)}}}\n")
    out = await graph(folder, "-", f"--output={output}", stdin=WEB)
    if output == "svg":
        image = ET.fromstring(out)
        texts = [element.text for element in image.iter() if element.tag.endswith("}text")]
        assert texts == ["Echo default/web", f"ConfigMap/{hostile}"]
    else:
        assert len(re.findall(r"^ +n\d", out, re.MULTILINE)) == 1
        assert "<b>" not in out or output == "dot"


async def test_a_cycle_is_shown_and_is_an_error(folder: Path) -> None:
    head = "apiVersion: v1\nkind: ConfigMap\n"
    a = head + "metadata: {name: a}\ndata:\n  x: {{ child('ConfigMap', 'b').data.x }}\n"
    b = head + "metadata: {name: b}\ndata:\n  x: {{ child('ConfigMap', 'a').data.x }}\n"
    only(folder, a=a, b=b)
    code, out, err = await run("graph", "-", f"--templates={folder}", stdin=WEB)
    assert code == 1
    assert out.splitlines()[-1] == "  cycle: ConfigMap/a -> ConfigMap/b -> ConfigMap/a"
    assert out.count("in a cycle") == 2
    assert err == "ssa-operator: Echo default/web has a dependency cycle: ConfigMap/a -> ConfigMap/b -> ConfigMap/a\n"
    _, out, _ = await run("graph", "-", f"--templates={folder}", "-o", "dot", stdin=WEB)
    assert out.count('fontcolor="#c00000"') == 2


async def test_a_template_that_fails_leaves_the_graph_of_the_others(folder: Path) -> None:
    (folder / ECHOES / "broken.yaml.j2").write_text("a: {{ spec.nope }}\n")
    code, out, err = await run("graph", "-", f"--templates={folder}", stdin=WEB)
    assert code == 1
    assert "  Deployment/web\n" in out
    assert err.startswith(f"ssa-operator: {ECHOES}/broken.yaml.j2:1: spec.nope is missing")


@pytest.mark.exhaustive
@pytest.mark.parametrize("word", ["echo", "Echo", "echoes", ECHOES])
async def test_a_kind_is_shown_by_its_first_example(word: str) -> None:
    code, out, err = await run("graph", word, KUBECONFIG="nowhere")
    assert (code, err) == (0, "")
    assert out == "Echo default/hello  (from examples/echo.yaml)\n  Deployment/hello\n"


async def test_a_kind_without_an_example_is_shown_by_a_sample(folder: Path, tmp_path: Path) -> None:
    out = await graph(folder, "echo")
    assert out.startswith(
        "Echo default/sample  (from a sample of its CRD, because there is no example)\n  Service/sample\n"
    )
    assert "    waits for Service/sample  .spec.clusterIP" in out
    (tmp_path / "own.yaml").write_text(WEB)
    out = await graph(folder, "echo", f"--examples={tmp_path / 'own.yaml'}")
    assert out.startswith(f"Echo default/web  (from {tmp_path / 'own.yaml'})\n")


async def test_a_kind_of_two_groups_is_drawn_for_the_group_that_the_user_names(folder: Path, tmp_path: Path) -> None:
    other = "echoes.other.example.org"
    definition = (tmp_path / "crds" / f"{ECHOES}.yaml").read_text().replace("example.com", "other.example.org")
    (tmp_path / "crds" / f"{other}.yaml").write_text(definition)
    shutil.copytree(folder / ECHOES, folder / other)
    code, out, err = await run("graph", "Echo", f"--templates={folder}")
    assert (code, out) == (2, "")
    assert err == f"ssa-operator: Echo is a kind of several groups; write {ECHOES} or {other} instead\n"
    for word in (other, "echo.other"):
        assert "  Service/sample\n" in await graph(folder, word)


async def test_a_file_with_two_parents_is_two_lists_and_no_image(folder: Path) -> None:
    two = WEB + "\n---\n" + json.dumps(echo("other"))
    out = await graph(folder, "-", stdin=two)
    assert [line for line in out.splitlines() if not line.startswith(" ")] == [
        "Echo default/web",
        "",
        "Echo default/other",
    ]
    code, out, err = await run("graph", "-", f"--templates={folder}", "-o", "svg", stdin=two)
    assert (code, out) == (2, "")
    assert (
        err
        == "ssa-operator: --output svg draws one parent, and the files have 2: Echo default/web, Echo default/other\n"
    )


@pytest.mark.exhaustive
async def test_without_graphviz_the_error_names_the_extra(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "without" / "pygraphviz").mkdir(parents=True)
    (tmp_path / "without" / "pygraphviz" / "__init__.py").write_text("raise ImportError('no Graphviz here')\n")
    arguments = ("graph", "-", f"--templates={folder}", "-o", "svg")
    code, out, err = await run(*arguments, stdin=WEB, PYTHONPATH=str(tmp_path / "without"))
    assert (code, out) == (1, "")
    remedy = "install it with: pip install 'ssa-operator[graph]'"
    assert err == f"ssa-operator: --output svg needs Graphviz (no Graphviz here); {remedy}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ehco"], "did you mean echoes.example.com?"),
        (["nowhere.yaml"], "nowhere.yaml"),
        (["echo", "--examples=nowhere"], "there is no file or folder nowhere; correct --examples"),
    ],
)
async def test_a_wrong_argument_is_one_line(folder: Path, arguments: list[str], message: str) -> None:
    code, out, err = await run("graph", *arguments, f"--templates={folder}")
    assert (code, out) == (2 if "--examples" in message else 1, "")
    assert message in err
    assert err.count("\n") == 1


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_a_live_parent_has_the_states_of_its_children(desk: Desk, client: Client, templates: Path) -> None:
    only(templates, deployment=DEPLOYMENT, service=SERVICE, after=AFTER.replace("Deployment", "Service"))
    arguments = (
        "graph",
        "echo/web",
        f"--templates={templates}",
        f"--kubeconfig={desk.kubeconfig}",
        "-n",
        desk.namespace,
    )
    async with operating(client, Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)):
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", lambda body: "settings" in json.dumps(body.get("status", {})))
        code, out, err = await run(*arguments)
        assert (code, err) == (0, "")
        waiting = f"Waiting  waiting for ConfigMap {desk.namespace}/settings .data.url (there is no such ConfigMap)"
        assert f"  Deployment/web  {waiting}\n" in out
        assert "  Service/web  Current\n" in out
        printed = out.replace(desk.namespace, "default").replace("/web", "/hello").splitlines()
        assert [line for line in printed if line in SHOWN] == SHOWN
        await desk.create(config_map("settings", url="x"))
        await desk.ready(ECHOES, "web")
    code, out, err = await run(*arguments)
    assert (code, err) == (0, "")
    assert re.search(r"^  Deployment/web  Current\n    waits for Service/web  \.spec\.clusterIP  ", out, re.MULTILINE)
    code, dot, err = await run(*arguments, "-o", "dot")
    assert (code, err) == (0, "")
    assert re.search(r'label="Deployment/web\\nCurrent", fillcolor="#d5f0d5"', dot)
    code, _, err = await run(*arguments[:1], "echo/wbe", *arguments[2:])
    assert (code, err.count("\n")) == (1, 1)
    assert "did you mean web?" in err
