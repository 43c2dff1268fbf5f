"""`ssa-operator check` as a process: what it finds, where, in which format, and with which exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.checks.findings import CODES
from tests.cli.process import run
from tests.controller.harness import ROOT

CRD = (ROOT / "crds" / "echoes.example.com.yaml").read_text(encoding="utf-8")
ECHO = "apiVersion: example.com/v1\nkind: Echo\nmetadata: {name: hello}\nspec: {replicas: 1}\n"
WEB = """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - {name: web, image: "nginx:1.27"}
"""
AFTER = """apiVersion: v1
kind: ConfigMap
metadata: {name: after}
data:
  ready: "{{ child('Deployment', 'web').status.readyReplicas }}"
"""


TYPO = (
    AFTER.replace("name: after", "name: typo")
    + "{% if spec.replicas > 99 %}{{ spec.replcas | default(1) }}{% endif %}\n"
)


def project(folder: Path, example: str = ECHO, **files: str) -> Path:
    """A project with templates for Echo, its CRD and an example."""
    templates = folder / "templates" / "echoes.example.com"
    templates.mkdir(parents=True)
    for name, text in files.items():
        (templates / f"{name}.yaml.j2").write_text(text)
    for name, text in {"crds": CRD, "examples": example}.items():
        (folder / name).mkdir()
        (folder / name / "echo.yaml").write_text(text)
    return folder


async def check(folder: Path, *arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, findings and standard error."""
    code, out, err = await run("check", f"--templates={folder / 'templates'}", "--output=json", *arguments)
    return code, json.loads(out), err


async def test_the_project_s_own_templates_have_no_errors() -> None:
    code, out, err = await run("check", "--output=json")
    assert (code, err) == (0, "")
    assert {each["severity"] for each in json.loads(out)} <= {"warning"}


async def test_a_project_without_faults_has_no_findings(tmp_path: Path) -> None:
    assert await check(project(tmp_path, web=WEB, after=AFTER)) == (0, [], "")


@pytest.mark.parametrize(
    ("name", "text", "code", "line", "words"),
    [
        ("web", WEB.replace("nginx:1.27", "nginx"), "latest-image", 10, "is nginx"),
        (
            "web",
            WEB.replace("matchLabels: {app: web}", "matchLabels: {app: wob}"),
            "selector-mismatch",
            5,
            "doesn't match",
        ),
        ("web", WEB + "{% if %}\n", "template-error", 11, "Expected an expression"),
        ("web", WEB.replace("name: web}", "name: '{{ spec.nam }}'}", 1), "render-error", 3, "spec.nam is missing"),
        (
            "typo",
            TYPO,
            "undeclared-field",
            6,
            "declares no spec.replcas",
        ),
        ("two", WEB, "invalid-manifest", 1, "Deployment default/web"),
        # A document that waits for a child is checked, too.
        ("after", AFTER.replace("name: after", "name: after, namespace: other"), "invalid-manifest", 1, "outside"),
    ],
)
async def test_a_fault_is_found_where_it_is_written(
    tmp_path: Path, name: str, text: str, code: str, line: int, words: str
) -> None:
    folder = project(tmp_path, **{"web": WEB, "after": AFTER, name: text})
    exit_code, found, err = await check(folder)
    (finding,) = [each for each in found if each["code"] == code]
    path = Path(finding["file"])
    assert path.parent == folder / "templates" / "echoes.example.com"
    assert finding["line"] == line
    assert words in finding["message"]
    assert finding["severity"] == CODES[code].severity
    assert exit_code == (1 if finding["severity"] == "error" else 0)
    assert bool(err) == bool(exit_code)


async def test_manifests_that_wait_for_each_other_are_found(tmp_path: Path) -> None:
    data = "data: {a: \"{{ child('ConfigMap', 'two').data.a }}\"}"
    one = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: one}}\n{data}\n"
    two = one.replace("name: one", "name: two").replace("'two'", "'one'")
    code, found, _ = await check(project(tmp_path, one=one, two=two))
    assert code == 1
    (finding,) = [each for each in found if each["code"] == "dependency-cycle"]
    assert "ConfigMap/one -> ConfigMap/two -> ConfigMap/one" in finding["message"]


async def test_an_example_finds_another_example_by_lookup(tmp_path: Path) -> None:
    peer = "lookup('example.com/v1', 'Echo', annotations.peer).status.observedGeneration"
    text = AFTER.replace("child('Deployment', 'web').status.readyReplicas", peer)
    example = ECHO.replace("name: hello", "name: hello, annotations: {peer: other}")
    example += "---\n" + example.replace("name: hello", "name: other")
    folder = project(tmp_path, example, after=text.replace("after}", "'{{ name }}'}"))
    templates = folder / "templates" / "echoes.example.com"
    (templates / "_status.yaml.j2").write_text("readyReplicas: 1\n")
    bad = text.replace("name: after", "name: 'bad-{{ name }}', namespace: other")
    (templates / "bad.yaml.j2").write_text(bad.replace("observedGeneration", "readyReplicas"))
    # Only the document whose field the other example's status has is rendered, and found to be wrong.
    _, found, _ = await check(folder)
    assert {each["code"] for each in found} == {"invalid-manifest"}
    assert len(found) == 2


async def test_one_line_that_many_manifests_come_from_is_one_finding(tmp_path: Path) -> None:
    many = WEB.replace("name: web", "name: 'web-{{ each }}'", 1).replace("nginx:1.27", "nginx")
    folder = project(tmp_path, web="{% for each in [1, 2] %}\n---\n" + many + "{% endfor %}\n")
    _, found, _ = await check(folder)
    assert [each["message"] for each in found] == ["Deployment web-1: spec.template.spec.containers[0].image is nginx"]


async def test_a_folder_without_an_example_is_named_and_only_a_warning(tmp_path: Path) -> None:
    folder = project(tmp_path, example=ECHO.replace("Echo", "Other"), web=WEB)
    code, found, err = await check(folder)
    assert (code, err) == (0, "")
    assert [each["code"] for each in found] == ["folder-without-example"]
    assert "file" not in found[0]
    code, found, err = await check(folder, "--strict")
    assert code == 1
    assert err == "ssa-operator: check found 0 errors and 1 warnings\n"


async def test_a_crd_without_printer_columns_is_named_with_its_line(tmp_path: Path) -> None:
    folder = project(tmp_path, web=WEB)
    crd = folder / "crds" / "echo.yaml"
    crd.write_text(CRD.replace("      additionalPrinterColumns:", "      others:"))
    _, found, _ = await check(folder)
    (finding,) = [each for each in found if each["code"] == "crd-without-printer-columns"]
    assert (finding["file"], finding["severity"]) == (str(crd), "warning")
    assert crd.read_text().splitlines()[finding["line"] - 1].strip().startswith("- name: v1")


@pytest.mark.parametrize("output", ["text", "sarif", "github"])
async def test_the_formats_have_code_file_and_line(tmp_path: Path, output: str) -> None:
    folder = project(tmp_path, web=WEB.replace("nginx:1.27", "nginx"))
    _, out, _ = await run("check", f"--templates={folder / 'templates'}", f"--output={output}")
    path = str(folder / "templates" / "echoes.example.com" / "web.yaml.j2")
    if output == "text":
        assert out.startswith(f"{path}:10: warning latest-image: ")
    elif output == "github":
        assert out.startswith(f"::warning file={path},line=10,title=latest-image::")
    else:
        log = json.loads(out)
        (result,) = log["runs"][0]["results"]
        (place,) = result["locations"]
        assert log["version"] == "2.1.0"
        assert (result["ruleId"], result["level"]) == ("latest-image", "warning")
        assert place["physicalLocation"] == {"artifactLocation": {"uri": path}, "region": {"startLine": 10}}
        assert {rule["id"] for rule in log["runs"][0]["tool"]["driver"]["rules"]} == set(CODES)


async def test_a_code_is_explained_and_a_mistyped_one_suggested() -> None:
    code, out, _ = await run("check", "--explain=latest-image")
    assert (code, out.splitlines()[0]) == (0, "latest-image (warning): an image without a fixed version")
    code, _, err = await run("check", "--explain=latest-imag")
    assert (code, err) == (2, "ssa-operator: there is no code latest-imag; did you mean latest-image?\n")


async def test_what_is_dropped_from_a_status_is_a_warning_with_its_line(tmp_path: Path) -> None:
    status = "readyReplicas: 1\nurl: x\nconditions:\n  - {type: Stalled, status: true}\n  - {type: Up, status: true}\n"
    code, found, _ = await check(project(tmp_path, web=WEB, _status=status))
    assert code == 0
    assert [(each["code"], each["line"]) for each in found] == [
        ("dropped-status-field", 2),
        ("dropped-status-field", 4),
    ]
    assert "status.url is dropped: the CRD doesn't declare this field" in found[0]["message"]
