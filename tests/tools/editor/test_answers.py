"""Hover, definitions, references, the outline, and findings with their fixes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.tools.checks.project_checks import find_problems
from ssa_operator.tools.editor.definitions import definition, references, symbols
from ssa_operator.tools.editor.diagnostics import problems_of
from ssa_operator.tools.editor.edited_project import EditedProject, load_project
from ssa_operator.tools.editor.expression_types import Reading
from ssa_operator.tools.editor.hover import hover
from ssa_operator.tools.editor.places import Target, lines_of
from tests.tools.editor.projects import loaded, marked, reading
from tests.tools.editor.test_completion import FILES, SITE

WEB = """\
{% import "_names.yaml.j2" as names %}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-conf
data:
  size: "{{ spec.size }}"
  region: "{{ values.region }}"
  count: "{{ spec.replicas }}"
{% for port in spec.ports | default([]) %}
  port-{{ port.number }}: "{{ port.name }}"
{% endfor %}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ names.label("http") }}
  annotations:
    ssa-operator.dev/after: "ConfigMap/{{ name }}-conf"
spec:
  clusterIP: None
  selector: {app: "{{ child("ConfigMap", name ~ "-conf").metadata.name }}"}
  ports:
    - port: 80
---
apiVersion: v1
kind: Secret
metadata:
  name: {{ name }}-secret
stringData:
  password: {{ spec.size }}
"""
JOB = "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: 'x'}\n"
SITE_HEAD = """\
apiVersion: example.com/v1alpha1
kind: Site
metadata:
  name: shop
spec:
  image: x
"""
EXAMPLE = f"""\
{SITE_HEAD}\
  ports: [{{number: 1, name: a}}, {{number: 2, name: b}}]
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> EditedProject:
    root = tmp_path_factory.mktemp("project").resolve()
    for name, text in {**FILES, "web.yaml.j2": WEB}.items():
        path = root / "templates" / SITE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (root / "examples").mkdir()
    (root / "examples" / "site.yaml").write_text(EXAMPLE)
    return loaded(root / "templates")


def at(words: str, text: str = WEB) -> tuple[str, int, int]:
    """A text, and the place of the mark in some of its words."""
    return marked(text.replace(words.replace("§", ""), words, 1))


def shown(project: EditedProject, words: str, file: str = "web.yaml.j2", text: str = WEB) -> str:
    written, line, column = at(words, text)
    found = hover(reading(project, f"{SITE}/{file}", written), line, column)
    return "" if found is None else found.markdown


def test_hover_shows_a_field_with_its_values_in_the_first_example(project: EditedProject) -> None:
    found = shown(project, "spec.repl§icas")
    assert "spec.replicas: integer" in found
    assert "default: `1`" in found
    assert "Site shop: `1`" in found
    assert "`data.count: 1` in ConfigMap shop-conf" in found


def test_hover_shows_each_value_of_a_loop(project: EditedProject) -> None:
    found = shown(project, "port.num§ber")
    assert "port.number: integer" in found
    assert "`data.port-1: a` in ConfigMap shop-conf" in found
    assert "`data.port-2: b` in ConfigMap shop-conf" in found


def test_hover_shows_no_value_of_a_secret(project: EditedProject) -> None:
    text = WEB.replace("password: {{ spec.size }}", "password: {{ spec.image ~ 'word' }}")
    assert "Renders" not in shown(project, "'wo§rd'", text=text)


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ("chi§ld(", "child(kind, name)"),
        ("| def§ault", ""),
        ("names.la§bel", "label(part, sep='-')"),
        ("values.reg§ion", "default: `eu`"),
        ("ssa-operator.dev/af§ter", "Manifests that must be ready before."),
        ("cluster§IP", "clusterIP: string"),
        ("- po§rt: 80", "required"),
    ],
)
def test_hover_shows_a_word(project: EditedProject, words: str, part: str) -> None:
    assert part in shown(project, words)


def test_hover_shows_a_setting_and_a_field_of_an_example(project: EditedProject) -> None:
    assert "Which objects without an owner" in shown(project, "ado§pt", "_settings.yaml", "adopt: Never\n")
    found = shown(project, "ima§ge", "../../examples/site.yaml", EXAMPLE)
    assert "Image of the web server." in found
    assert "required" in found


def text_at(project: EditedProject, target: Target) -> str:
    return lines_of(project.text(target.path))[target.span.line][target.span.column : target.span.end]


def defined(project: EditedProject, words: str) -> list[str]:
    """The definitions, each as its file, its line and the text that it marks."""
    written, line, column = at(words)
    return [
        f"{each.path.name}:{each.span.line + 1}: {text_at(project, each)}"
        for each in definition(reading(project, f"{SITE}/web.yaml.j2", written), line, column)
    ]


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ('"_names§.yaml.j2"', "_names.yaml.j2:1: "),
        ("names.la§bel", "_names.yaml.j2:1: label"),
        ("spec.si§ze", "_schema.yaml:5: size"),
        ("port.num§ber", "_schema.yaml:12: number"),
        ("{{ po§rt.number", "web.yaml.j2:10: port"),
        ("values.reg§ion", "_values.yaml:1: region"),
        ('child("Config§Map"', "web.yaml.j2:3: kind: ConfigMap"),
        ("chi§ld(", "web.yaml.j2:3: kind: ConfigMap"),
        ('"ConfigMap/{{ na§me', ""),
        ('after: "Config§Map', "web.yaml.j2:3: kind: ConfigMap"),
    ],
)
def test_a_name_leads_to_its_definition(project: EditedProject, words: str, place: str) -> None:
    assert defined(project, words) == [place][: bool(place)]


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("../../examples/site.yaml", EXAMPLE.replace("image", "ima§ge"), 2),
        ("../../examples/site.yaml", SITE_HEAD + "  ports:\n    - name: a\n      num§ber: 1\n", 11),
        ("_status.yaml.j2", "addr§ess: {{ name }}\n", 8),
        ("web.yaml.j2", WEB.replace("clusterIP", "cluster§IP"), None),
    ],
)
def test_a_key_leads_to_its_declaration(project: EditedProject, file: str, text: str, line: int | None) -> None:
    written, at_line, column = marked(text)
    found = definition(reading(project, f"{SITE}/{file}", written), at_line, column)
    assert [(each.path.name, each.span.line) for each in found] == ([] if line is None else [("_schema.yaml", line)])


def test_a_field_has_the_template_lines_that_read_it_as_references(project: EditedProject) -> None:
    written, line, column = at("spec.si§ze")
    here = references(reading(project, f"{SITE}/web.yaml.j2", written), line, column)
    written, line, column = at("siz§e: string", FILES["_schema.yaml"])
    there = references(reading(project, f"{SITE}/_schema.yaml", written), line, column)
    assert [(each.path.name, each.span.line) for each in here] == [("web.yaml.j2", 6), ("web.yaml.j2", 30)]
    assert there == here


def test_the_outline_has_the_manifests_and_macros() -> None:
    assert [each.name for each in symbols(WEB, is_template=True)] == [
        "ConfigMap {{ name }}-conf",
        'Service {{ names.label("http") }}',
        "Secret {{ name }}-secret",
    ]
    [macro] = symbols(FILES["_names.yaml.j2"], is_template=True)
    assert (macro.name, macro.detail) == ("label", "(part, sep='-')")


# Findings.


def test_problems_are_the_findings_of_check(project: EditedProject) -> None:
    path = project.path_of(f"{SITE}/web.yaml.j2")
    text = WEB.replace("spec.size }}", "spec.siez | default(1) }}").replace("clusterIP", "clusterIp")
    edited = loaded(project.files.templates[0], {path: text})
    problems = [(path, each) for path, each in problems_of(edited).items()]
    findings = find_problems(edited.files)
    assert problems_of(load_project(edited.files, edited)) == dict(problems), "a second check finds something else"
    assert sorted(each.code for _, found in problems for each in found) == sorted(each.code for each in findings)
    found = {each.code: each for each in problems_of(edited)[path]}
    lines = text.split("\n")
    field = found["undeclared-field"]
    assert lines[field.span.line][field.span.column : field.span.end] == "spec.siez"
    assert [(fix.new, lines[fix.span.line][fix.span.column : fix.span.end]) for fix in field.fixes] == [
        ("spec.size", "spec.siez")
    ]
    [fix] = found["unknown-field"].fixes
    assert (fix.new, lines[fix.span.line][fix.span.column : fix.span.end]) == ("clusterIP", "clusterIp")


def test_a_syntax_error_is_one_problem_and_the_rest_of_the_folder_has_answers(project: EditedProject) -> None:
    path = project.path_of(f"{SITE}/web.yaml.j2")
    edited = loaded(project.files.templates[0], {path: WEB.replace("{% endfor %}", "")})
    [problem] = problems_of(edited)[path]
    assert problem.code == "template-error"
    written, line, column = marked("{{ spec.§ }}")
    assert hover(reading(edited, f"{SITE}/web.yaml.j2", written.replace(". ", ".size ")), line, column + 1)


def test_a_broken_crd_is_a_problem_at_its_line(project: EditedProject) -> None:
    path = project.path_of(f"{SITE}/_schema.yaml")
    text = FILES["_schema.yaml"].replace("integer | default=1", "integr | default=1")
    [problem] = problems_of(loaded(project.files.templates[0], {path: text}))[path]
    assert problem.span.line == 3
    assert "integr" in problem.message


def test_a_finding_in_an_included_file_names_the_line_that_includes_it(project: EditedProject) -> None:
    path = project.path_of(f"{SITE}/_names.yaml.j2")
    edited = loaded(project.files.templates[0], {path: FILES["_names.yaml.j2"].replace("{{ part }}", "{{ part.x }}")})
    [problem] = problems_of(edited)[path]
    assert [(each.path.name, each.span.line) for each in problem.related] == [("web.yaml.j2", 16)]
    assert SourceLocation(f"{SITE}/_names.yaml.j2", 1).line == problem.span.line + 1


def test_a_finding_without_a_file_is_in_the_folder_that_it_is_about(project: EditedProject, tmp_path: Path) -> None:
    folder = tmp_path / "templates" / SITE
    folder.mkdir(parents=True)
    (folder / "_schema.yaml").write_text(FILES["_schema.yaml"])
    (folder / "web.yaml.j2").write_text("")
    found = problems_of(loaded(tmp_path / "templates"))
    assert [each.code for each in found[folder / "_schema.yaml"]] == ["folder-without-example"]


def test_a_file_that_is_not_saved_yet_is_a_file_of_its_folder(project: EditedProject) -> None:
    path = project.path_of(SITE) / "new.yaml.j2"
    edited = loaded(
        project.files.templates[0], {path: WEB.replace("spec.size", "spec.siez").replace("-conf", "-new") + JOB}
    )
    assert {each.code for each in problems_of(edited)[path]} >= {"undeclared-field"}
    web = project.path_of(f"{SITE}/web.yaml.j2")
    written, line, column = marked('{{ child("Job§", name) }}')
    [target] = definition(Reading(project=edited, path=web, text=written), line, column)
    assert target.path == path
