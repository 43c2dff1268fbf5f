"""`ssa-operator check` as a process: what it finds, where, in which format, and with which exit code."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.tools.checks.codes import CODES
from tests.cli.process import ALONE, in_terminal, run
from tests.operator.harness import ROOT, Desk, definition

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


OWNED = """apiVersion: v1
kind: ConfigMap
metadata:
  name: owned
  ownerReferences: [{apiVersion: v1, kind: Pod, name: other, uid: other, controller: true}]
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


async def test_a_project_without_faults_has_no_findings(tmp_path: Path) -> None:
    assert await check(project(tmp_path, web=WEB, after=AFTER)) == (0, [], "")


async def test_an_example_that_is_no_yaml_is_a_finding_beside_all_others(tmp_path: Path) -> None:
    folder = project(tmp_path, web=WEB.replace("nginx:1.27", "nginx"), after=AFTER)
    (folder / "examples" / "broken.yaml").write_text("kind: Echo\nspec: {\n")
    (folder / "examples" / "latin.yaml").write_bytes(b"kind: Echo # \xe9\n")
    code, findings, _ = await check(folder)
    assert code == 1
    found = {(each["code"], Path(each["file"]).name, each["line"]) for each in findings}
    assert {("invalid-example", "broken.yaml", 2), ("invalid-example", "latin.yaml", 1)} <= found
    assert {code for code, *_ in found} == {"invalid-example", "latest-image"}
    # What the broken file has isn't known, so no folder lacks its example.
    (folder / "examples" / "echo.yaml").unlink()
    _, findings, _ = await check(folder)
    assert {each["code"] for each in findings} == {"invalid-example"}


async def test_a_path_says_what_is_checked_and_whose_findings_are_shown(tmp_path: Path) -> None:
    broken = WEB.replace("nginx:1.27", "nginx")
    folder = project(tmp_path, web=broken, after=AFTER.replace("name: after", "name: after, namespace: other"))
    templates = folder / "templates"

    async def codes(*paths: Path) -> list[str]:
        _, out, _ = await run("check", *map(str, paths), "--output=json")
        return [each["code"] for each in json.loads(out)]

    both = ["invalid-manifest", "latest-image"]
    assert await codes(folder) == await codes(templates) == await codes(templates / "echoes.example.com") == both
    assert await codes(templates / "echoes.example.com" / "web.yaml.j2") == ["latest-image"]
    assert await codes(folder / "examples") == []
    code, _, err = await run("check", str(tmp_path / "nowhere"))
    assert code == 2
    assert "there is no file or folder" in err


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("name", "text", "code", "line", "words"),
    [
        ("web", WEB.replace("nginx:1.27", "nginx"), "latest-image", 10, "is nginx"),
        (
            "web",
            WEB.replace("matchLabels: {app: web}", "matchLabels: {app: wob}"),
            "broken-reference",
            5,
            "doesn't match",
        ),
        ("web", WEB + "{% if %}\n", "template-error", 11, "Expected an expression"),
        ("web", WEB.replace("name: web}", "name: '{{ spec.nam }}'}", 1), "undeclared-field", 3, "no spec.nam"),
        (
            "typo",
            TYPO,
            "undeclared-field",
            6,
            "declares no spec.replcas",
        ),
        ("two", WEB, "invalid-manifest", 1, "Deployment default/web"),
        ("owned", OWNED, "invalid-manifest", 1, "is controlled by Pod other"),
        # A document that waits for a child is checked, too.
        ("after", AFTER.replace("name: after", "name: after, namespace: other"), "invalid-manifest", 3, "outside"),
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


HELM = """apiVersion: v1
kind: ConfigMap
metadata: {name: helm}
data: {# | toYaml #}
  a: {{ spec.replicas | quote }}\r
  b: "{{ labels | toYaml | b64enc }} toYaml {{ spec.replicas | defualt(1) }}"
"""


async def test_fix_writes_what_means_the_same_and_nothing_else(tmp_path: Path) -> None:
    folder = project(tmp_path)
    file = folder / "templates" / "echoes.example.com" / "helm.yaml.j2"
    file.write_bytes(HELM.encode())
    _, found, _ = await check(folder)
    assert [(each["line"], each["code"]) for each in found] == [
        (5, "unknown-name"), *[(6, "unknown-name")] * 3
    ]  # fmt: skip
    code, found, err = await check(folder, "--fix")
    fixed = HELM.replace("| quote", "| string").replace("labels | toYaml | b64enc", "labels | to_yaml | b64encode")
    assert file.read_bytes() == fixed.encode()
    assert err.splitlines() == [
        f"fixed {file}:5: quote -> string",
        f"fixed {file}:6: b64enc -> b64encode",
        f"fixed {file}:6: toYaml -> to_yaml",
        "ssa-operator: check found 1 error and 0 warnings",
    ]
    # A guess is no safe fix.
    assert [(each["message"], each["fix"]) for each in found] == [
        ("there is no filter defualt", "did you mean default?")
    ]
    assert code == 1


async def test_a_helm_template_is_explained_line_by_line(tmp_path: Path) -> None:
    text = "{{- if .Values.on }}\n" + WEB + "{{- end }}\n"
    code, found, _ = await check(project(tmp_path, web=text))
    assert code == 1
    assert [(each["code"], each["line"]) for each in found if each["severity"] == "error"] == [
        ("go-template", 1), ("go-template", text.count("\n"))
    ]  # fmt: skip
    assert all("Jinja" in each["message"] and each["fix"] for each in found[:2])


async def test_a_field_is_checked_against_kubernetes_and_a_difference_in_case_is_fixed(tmp_path: Path) -> None:
    text = WEB.replace("replicas:", "").replace(
        "spec:\n  selector", "spec:\n  Replicas: '{{ spec.replicas }}'\n  selector"
    )
    folder = project(tmp_path, web=text)
    code, found, _ = await check(folder)
    assert code == 1
    assert [(each["code"], each["line"], each["fix"]) for each in found] == [
        ("unknown-field", 5, "did you mean replicas?")
    ]
    _, found, err = await check(folder, "--fix")
    assert ":5: Replicas -> replicas" in err
    # Quotes make it a string.
    assert [(each["code"], each["line"]) for each in found] == [("invalid-value", 5)]
    assert "must be a whole number" in found[0]["message"]


GREETING = CRD.replace(
    "                replicas:\n", "                greeting: {type: string}\n                replicas:\n", 1
)


async def test_a_variant_that_the_crd_allows_finds_what_the_example_does_not_show(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: greeting}\ndata:\n  a: '{{ spec.greeting }}'\n"
    text += "{% if spec.replicas == 0 %}\n  b: {{ [spec.replicas] }}\n{% endif %}\n"
    folder = project(tmp_path, ECHO.replace("{replicas: 1}", "{replicas: 1, greeting: hi}"), greeting=text, web=WEB)
    (folder / "crds" / "echo.yaml").write_text(GREETING)
    code, found, _ = await check(folder)
    assert code == 1
    assert [(each["code"], each["line"], each["message"].split(": ")[0]) for each in found] == [
        ("render-error", 5, "with spec.greeting left out"),
        ("invalid-value", 7, "ConfigMap greeting with spec.replicas 0"),
    ]
    (folder / "templates/echoes.example.com/greeting.yaml.j2").write_text(
        text.replace("spec.greeting", "spec.greeting | default('')").replace("[spec.replicas]", "'no'")
    )
    assert await check(folder) == (0, [], "")


async def test_a_version_without_schemas_is_an_error() -> None:
    code, _, err = await run("check", "--kubernetes=1.2")
    assert code == 2
    assert "--kubernetes is 1.2; the schemas of 1.36 come with ssa-operator" in err


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_manifests_are_checked_against_the_current_cluster(tmp_path: Path, desk: Desk) -> None:
    other = "apiVersion: unknown.example.org/v1\nkind: Thing\nmetadata: {name: thing}\n"
    folder = project(tmp_path, web=WEB.replace("containers:", "containrs:"), other=other)
    options = (f"--kubeconfig={desk.kubeconfig}", "--kubernetes=cluster")
    _, found, _ = await check(folder, *options)
    assert {each["code"] for each in found} == {"unknown-field", "unknown-kind"}
    (kind,) = [each for each in found if each["code"] == "unknown-kind"]
    assert "the cluster has no Thing in unknown.example.org/v1" in kind["message"]
    _, found, _ = await check(folder)
    assert {each["code"] for each in found} == {"unknown-field"}


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
    wrong = [each for each in found if each["severity"] == "error"]
    assert {each["code"] for each in wrong} == {"invalid-manifest"}
    assert len(wrong) == 2
    assert {each["code"] for each in found} == {"invalid-manifest", "lookup-by-parent"}


async def test_one_line_that_many_manifests_come_from_is_one_finding(tmp_path: Path) -> None:
    many = WEB.replace("name: web", "name: 'web-{{ each }}'", 1).replace("nginx:1.27", "nginx")
    folder = project(tmp_path, web="{% for each in [1, 2] %}\n---\n" + many + "{% endfor %}\n")
    _, found, _ = await check(folder)
    assert [each["message"] for each in found] == ["Deployment web-1: spec.template.spec.containers[0].image is nginx"]


async def test_a_templates_folder_without_resources_is_named_and_only_a_warning(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    code, found, err = await check(tmp_path)
    assert (code, err) == (0, "")
    message = (
        f"{tmp_path / 'templates'} has no folder of a resource; add one, named <plural>.<group>, "
        "for example by `ssa-operator new KIND --group example.com`"
    )
    assert [(each["code"], each["message"]) for each in found] == [("no-folder", message)]
    assert (await check(tmp_path, "--strict"))[0] == 1


async def test_a_folder_without_an_example_is_named_and_only_a_warning(tmp_path: Path) -> None:
    folder = project(tmp_path, example=ECHO.replace("Echo", "Other"), web=WEB)
    code, found, err = await check(folder)
    assert (code, err) == (0, "")
    assert [each["code"] for each in found] == ["folder-without-example"]
    assert "file" not in found[0]
    code, found, err = await check(folder, "--strict")
    assert code == 1
    assert err == "ssa-operator: check found 0 errors and 1 warning\n"


async def test_a_folder_that_does_not_load_is_one_finding(tmp_path: Path) -> None:
    folder = project(tmp_path, web=WEB)
    (folder / "templates" / "echoes.example.com" / "_settings.yaml").write_text("interval: [1]\n")
    code, found, _ = await check(folder)
    assert (code, [(each["code"], each["line"]) for each in found]) == (1, [("template-error", 1)])


WRONG = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: wrong}\ndata: {a: '{{ spec.missing }}'}\n"


def lines(found: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    """The code, file and line of findings, files by their names."""
    return [(each["code"], Path(each["file"]).name, each["line"]) for each in found]


async def test_files_that_jinja_or_yaml_cannot_read_hide_no_error_of_the_others(tmp_path: Path) -> None:
    folder = project(tmp_path, web=WEB, wrong=WRONG, broken="a: 1\nb: {{ spec.replicas\n", worse="{% if %}\n")
    (folder / "templates" / "echoes.example.com" / "static.yaml").write_text("a: [\n")
    code, found, _ = await check(folder)
    assert code == 1
    assert lines(found) == [
        ("template-error", "broken.yaml.j2", 2),
        ("template-error", "static.yaml", 1),
        ("template-error", "worse.yaml.j2", 1),
        ("undeclared-field", "wrong.yaml.j2", 4),
    ]


@pytest.mark.more_cases
@pytest.mark.parametrize(
    "use",
    ["{% include '_part.j2' %}", "{% from '_part.j2' import x %}", "{% include '_' ~ 'part.j2' %}"],
    ids=["included", "imported", "computed"],
)
async def test_an_error_in_an_included_file_is_named_once_and_hides_no_other_file(tmp_path: Path, use: str) -> None:
    folder = project(tmp_path, web=WEB, wrong=WRONG, one=f"{use}\n", two=f"{use}\n")
    templates = folder / "templates" / "echoes.example.com"
    (templates / "_part.j2").write_text("{% include '_deep.j2' %}\n{% import '_shared/x.j2' as x %}\n")
    (templates / "_deep.j2").write_text("{{ 1 +\n }}\n")
    (templates.parent / "_shared").mkdir()
    (templates.parent / "_shared" / "x.j2").write_text("\n\n{% endif %}\n")
    (templates.parent / "_shared" / "unused.j2").write_text("\n{{\n")
    code, found, _ = await check(folder)
    assert code == 1
    assert lines(found) == [
        ("template-error", "unused.j2", 2),
        ("template-error", "x.j2", 3),
        ("template-error", "_deep.j2", 2),
        ("undeclared-field", "wrong.yaml.j2", 4),
    ]


READERS = """apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, namespace: {namespace}}}
data: {{a: "{{{{ {expression} }}}}"}}
"""


async def test_what_a_broken_file_may_render_or_set_is_not_missed_in_the_others(tmp_path: Path) -> None:
    readers = {
        "child": "child('ConfigMap', 'broken').data.a",
        "live": "live('ConfigMap', 'broken').data.a",
        "ready": "ready(child('ConfigMap', 'broken'))",
        "lookup": "lookup('v1', 'ConfigMap', 'broken').data.a",
        "after": "child('ConfigMap', 'live').data.a",
    }
    files = {
        name: READERS.format(name=name, namespace="default", expression=expression)
        for name, expression in readers.items()
    }
    broken = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: broken}\ndata: {a: {{ spec.replicas }\n"
    folder = project(tmp_path, broken=broken + "{% set port = 1 %}{% include '_part.j2' %}", **files)
    (folder / "templates" / "echoes.example.com" / "_part.j2").write_text("# {{ port }}\n")
    code, found, _ = await check(folder)
    assert (code, lines(found)) == (1, [("template-error", "broken.yaml.j2", 4)])


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("file", "text"),
    [("_settings.yaml", "clusterScope: true\nmaxChildren: x\n"), ("_values.yaml", "port: [\n")],
    ids=["settings", "values"],
)
async def test_settings_and_values_that_cannot_be_read_hide_no_error_and_cause_no_other(
    tmp_path: Path, file: str, text: str
) -> None:
    elsewhere = READERS.format(name="elsewhere", namespace="other", expression="spec.replicas")
    files = {"port": READERS.format(name="port", namespace="default", expression="values.port"), "wrong": WRONG}
    folder = project(tmp_path, web=WEB, **(files if file == "_values.yaml" else {"wrong": WRONG, "x": elsewhere}))
    (folder / "templates" / "echoes.example.com" / file).write_text(text)
    code, found, _ = await check(folder)
    assert code == 1
    assert [each[:2] for each in lines(found)] == [
        ("template-error", file),
        ("undeclared-field", "wrong.yaml.j2"),
    ]


async def test_an_example_whose_status_is_no_mapping_is_checked(tmp_path: Path) -> None:
    assert await check(project(tmp_path, example=f"{ECHO}status: 3\n", web=WEB)) == (0, [], "")


async def test_a_crd_without_printer_columns_is_named_with_its_line(tmp_path: Path) -> None:
    folder = project(tmp_path, web=WEB)
    crd = folder / "crds" / "echo.yaml"
    crd.write_text(re.sub(r"      additionalPrinterColumns:\n(?: {8}.*\n)+", "", CRD))
    _, found, _ = await check(folder)
    (finding,) = [each for each in found if each["code"] == "crd-without-report"]
    assert (finding["file"], finding["severity"]) == (str(crd), "warning")
    assert crd.read_text().splitlines()[finding["line"] - 1].strip().startswith("- name: v1")


@pytest.mark.exhaustive
async def test_the_project_s_own_templates_have_no_finding_but_one_that_they_accept(tmp_path: Path) -> None:
    assert await run("check", "--strict") == (0, "", "")
    shutil.copytree("templates", tmp_path / "templates")
    file = tmp_path / "templates" / "echoes.example.com" / "deployment.yaml.j2"
    file.write_text(re.sub(r"  # check: .*", "", file.read_text()))
    options = (f"--templates={tmp_path / 'templates'}", "--crds=crds", "--examples=examples/echo.yaml")
    _, out, _ = await run("check", *options)
    accepted = (
        "deployment.yaml.j2:23: warning latest-image: Deployment hello: spec.template.spec.containers[0].image is "
    )
    assert f"{accepted}inanimate/echo-server:latest; name a version or a digest\n" in out


@pytest.mark.exhaustive
async def test_a_terminal_shows_the_line_a_caret_and_a_summary(tmp_path: Path) -> None:
    folder = project(tmp_path, web=WEB)
    argument = f"--templates={folder / 'templates'}"
    _, out = await in_terminal("check", argument, ALONE, NO_COLOR="1")
    assert out.splitlines() == ["ok: check found no errors and no warnings"]
    file = folder / "templates" / "echoes.example.com" / "web.yaml.j2"
    file.write_text(WEB.replace("nginx:1.27", "nginx"))
    _, out = await in_terminal("check", argument, ALONE, NO_COLOR="1")
    assert "\x1b[3" not in out
    assert [each.rstrip() for each in re.sub(r"\x1b\[\d*m", "", out).splitlines()] == [
        f"{file}:10: warning latest-image: Deployment web: spec.template.spec.containers[0].image is nginx",
        ' 10 |         - {name: web, image: "nginx"}',
        "    |                       ^^^^^",
        "    = name a version or a digest",
        "",
        "check found 0 errors and 1 warning",
    ]
    _, out = await in_terminal("check", argument, ALONE)
    assert "\x1b[1;33mwarning" in out


@pytest.mark.more_cases
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


async def test_crds_that_can_not_be_read_are_findings_beside_all_others(tmp_path: Path) -> None:
    folder = project(tmp_path, web=WEB, typo="v: {{ spec.nope }}\n")
    for name, text in (("one", "a: [\n"), ("two", "kind: {\n"), ("three", GREETING)):
        (folder / "crds" / f"{name}.yaml").write_text(text)
    short = folder / "templates" / "shorts.example.com"
    short.mkdir()
    (short / "_schema.yaml").write_text("kind: Short\nspec: {size: integr}\n")
    (short / "map.yaml.j2").write_text("{{ spec.unknown }}\n")
    code, out, _ = await run("check", f"--templates={folder / 'templates'}", "--output=json")
    found = [(each["code"], Path(each["file"]).name, each["line"]) for each in json.loads(out)]
    assert code == 1
    assert [each for each in found if each[0] == "crd-refused"] == [
        ("crd-refused", "one.yaml", 1),
        ("crd-refused", "three.yaml", 1),
        ("crd-refused", "two.yaml", 1),
        ("crd-refused", "_schema.yaml", 2),
    ]
    assert {each[0] for each in found} >= {"undeclared-field"}
    assert not [each for each in found if each[1] == "map.yaml.j2"]


async def test_a_crd_with_values_of_wrong_types_is_a_finding_beside_those_of_all_other_folders(tmp_path: Path) -> None:
    folder = project(tmp_path, web=WEB.replace("nginx:1.27", "nginx"), after=AFTER)
    other = CRD.replace("echoes", "others").replace("kind: Echo", "kind: Other")
    other = other.replace("scope: Namespaced", "scope: 5")
    crd = folder / "crds" / "other.yaml"
    crd.write_text(other)
    (folder / "templates" / "others.example.com").mkdir()
    (folder / "templates" / "others.example.com" / "map.yaml.j2").write_text("{{ spec.unknown }}\n")
    code, found, _ = await check(folder, f"--against={folder / 'crds'}")
    assert code == 1
    assert [(each["code"], Path(each["file"]).name, each["line"]) for each in found] == [
        ("crd-refused", "other.yaml", other.splitlines().index("  scope: 5") + 1),
        ("latest-image", "web.yaml.j2", 10),
    ]
    assert found[0]["message"].endswith("spec.scope must be a string, and this is a number")


@pytest.mark.parametrize(("policy", "expected"), [("Always", 1), ("IfNotPresent", 0), ("Once", 0), ("Shared", 0)])
async def test_an_object_of_two_examples_is_a_finding_where_one_alone_may_have_it(
    tmp_path: Path, policy: str, expected: int
) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: same, annotations: {ssa-operator.dev/apply: POLICY}}\n"
    folder = project(tmp_path, map=text.replace("POLICY", policy))
    (folder / "examples" / "other.yaml").write_text(ECHO.replace("hello", "other"))
    code, found, _ = await check(folder)
    assert (code, ["belongs to Echo default/hello already" in each["message"] for each in found]) == (
        expected,
        [True] * expected,
    )


async def test_a_folder_of_crds_that_does_not_exist_is_one_line(tmp_path: Path) -> None:
    project(tmp_path, web=WEB)
    code, out, err = await run("check", f"--templates={tmp_path / 'templates'}", "--crds=nosuch")
    assert (code, out) == (2, "")
    begin = "`ssa-operator new KIND --group example.com`"
    assert err == (
        f"ssa-operator: there is no folder nosuch; name the folder of your CRDs with --crds, or begin with {begin}\n"
    )


async def test_a_document_behind_a_child_with_ready_when_is_checked(tmp_path: Path) -> None:
    done = AFTER.replace("name: after", "name: done, annotations: {ssa-operator.dev/ready-when: data.done == 'yes'}")
    behind = "{% if ready(child('ConfigMap', 'done')) %}\n" + WEB.replace("nginx:1.27", "nginx") + "{% endif %}\n"
    behind = behind.replace("name: web}", "name: behind}", 1)
    code, found, _ = await check(project(tmp_path, web=WEB, done=done, behind=behind))
    assert (code, [(each["code"], each["file"].rpartition("/")[2]) for each in found]) == (
        0,
        [("latest-image", "behind.yaml.j2")],
    )


async def test_a_null_in_the_schema_of_a_crd_is_one_line_with_its_field(tmp_path: Path) -> None:
    folder = project(tmp_path, web=WEB)
    crd = folder / "crds" / "echo.yaml"
    crd.write_text(CRD.replace("                replicas:\n", "                port:\n                replicas:\n"))
    code, out, err = await run("check", f"--templates={folder / 'templates'}")
    field = "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.port"
    assert (code, err) == (1, "ssa-operator: check found 1 error and 0 warnings\n")
    assert out.startswith(f"{crd}:47: error crd-refused: CRD echoes.example.com: {field} is null; ")
    assert len(out.splitlines()) == 1


async def test_a_field_of_a_crd_that_is_null_is_missing(tmp_path: Path) -> None:
    folder = project(tmp_path, web=WEB)
    crd = folder / "crds" / "echo.yaml"
    crd.write_text(CRD.replace("minimum: 0", "minimum:"))
    assert await check(folder) == (0, [], "")
    crd.write_text(CRD.replace("    - name: v1", "    - name:"))
    code, out, err = await run("check", f"--templates={folder / 'templates'}")
    assert (code, err) == (1, "ssa-operator: check found 1 error and 0 warnings\n")
    assert out.startswith(f"{crd}:1: error crd-refused: a CRD needs")


async def test_what_is_dropped_from_a_status_is_a_warning_with_its_line(tmp_path: Path) -> None:
    status = "readyReplicas: 1\nurl: x\nconditions:\n  - {type: Stalled, status: true}\n  - {type: Up, status: true}\n"
    code, found, _ = await check(project(tmp_path, web=WEB, _status=status))
    assert code == 0
    assert [(each["code"], each["line"]) for each in found] == [
        ("dropped-status-field", 2),
        ("dropped-status-field", 4),
    ]
    assert "status.url is dropped: the CRD doesn't declare this field" in found[0]["message"]


async def test_an_example_that_the_api_server_refuses_is_an_error_with_its_line(tmp_path: Path) -> None:
    example = ECHO.replace("spec: {replicas: 1}", "spec:\n  replicas: many\n  replcas: 1")
    code, findings, _ = await check(project(tmp_path, example, web=WEB))
    assert code == 1
    invalid, undeclared = (each for each in findings if each["code"] in ("invalid-example", "undeclared-field"))
    assert (invalid["line"], undeclared["line"]) == (5, 6)
    assert "Echo hello is invalid: spec.replicas: Invalid value" in invalid["message"]
    assert undeclared["message"] == "the CRD echoes.example.com declares no spec.replcas"
    assert undeclared["fix"] == "did you mean spec.replicas?"


SILENT = "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: web}\nspec: {hosts: [web]}\n"


@pytest.mark.more_cases
@pytest.mark.parametrize(("declared", "lines"), [(None, [2]), ("conditions", [2]), ("phase", [])])
async def test_a_kind_whose_status_nothing_writes_is_a_warning_unless_its_crd_declares_no_conditions(
    tmp_path: Path, declared: str | None, lines: list[int]
) -> None:
    folder = project(tmp_path, web=WEB, silent=SILENT)
    if declared is not None:
        crd = definition("virtualservices", "networking.istio.io", "VirtualService")
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
        schema["status"] = {"type": "object", "properties": {declared: {"type": "array", "items": {"type": "object"}}}}
        (folder / "crds" / "silent.yaml").write_text(json.dumps(crd))
    code, found, err = await check(folder)
    assert (code, err) == (0, "")
    found = [each for each in found if each["code"] == "status-never-written"]
    assert [each["line"] for each in found] == lines
    assert all(Path(each["file"]).name == "silent.yaml.j2" for each in found)


async def test_a_kind_whose_status_the_operator_writes_has_no_warning(tmp_path: Path) -> None:
    folder = project(tmp_path, web=WEB, silent=SILENT)
    crd = definition("virtualservices", "networking.istio.io", "VirtualService")
    (folder / "crds" / "silent.yaml").write_text(json.dumps(crd))
    own = folder / "templates" / "virtualservices.networking.istio.io"
    own.mkdir()
    (own / "a.yaml.j2").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    _, found, _ = await check(folder)
    assert "status-never-written" not in {each["code"] for each in found}


HOME = """apiVersion: v1
kind: Namespace
metadata:
  name: {{ namespace }}
"""


async def test_a_manifest_of_what_its_parent_lives_in_is_a_warning_unless_it_says_that_it_is_kept(
    tmp_path: Path,
) -> None:
    kept = HOME + '  annotations: {ssa-operator.dev/prune: "false"}\n'
    for name, text in {"silent": HOME, "kept": kept}.items():
        folder = project(tmp_path / name, ECHO.replace("name: hello", "name: hello, namespace: team"), home=text)
        settings = folder / "templates" / "echoes.example.com" / "_settings.yaml"
        settings.write_text("clusterScope: true\nadopt: Always\n")
        code, findings, _ = await check(folder)
        assert code == 0
        assert [each["code"] for each in findings] == (["never-deleted"] if name == "silent" else [])
        assert all("Echo team/hello lives in it" in each["message"] for each in findings)
        assert all(each["line"] == 1 and each["file"].endswith("home.yaml.j2") for each in findings)
