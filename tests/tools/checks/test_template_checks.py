"""What `check` finds by rendering a project, in this process."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.json_codec import encode
from ssa_operator.rendering.folder.loaded_folders import load_all
from ssa_operator.rendering.jinja import environment
from ssa_operator.rendering.jinja.filters import FILTERS
from ssa_operator.tools.checks.checked_project import CheckedProject
from ssa_operator.tools.checks.template_checks import SHOWN_IN_VARIANTS, check_examples, check_templates
from ssa_operator.tools.findings import Severity
from ssa_operator.tools.offline.documents import read_objects
from ssa_operator.tools.offline.project import crd_kinds, read_crds
from ssa_operator.tools.schema_rules import bundled_schemas
from tests.cli.write.test_check import project
from tests.operator.harness import ROOT, definition


def project_in(folder: Path, examples: Path) -> CheckedProject:
    definitions = read_crds([folder / "crds"])
    return CheckedProject(
        sources=load_all([folder / "templates"]),
        kinds=crd_kinds(definitions),
        examples=read_objects([examples]),
        now=0.0,
        schemas=bundled_schemas(KUBERNETES_VERSION).with_crds(each.body for each in definitions),
    )


EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/templates"))


@pytest.mark.more_cases
@pytest.mark.parametrize("folder", EXAMPLES, ids=[each.name for each in EXAMPLES])
def test_the_examples_have_no_errors(folder: Path) -> None:
    found = check_templates([folder / "templates"], project_in(folder, folder / "examples"))
    assert [str(each) for each in found if each.severity is Severity.ERROR] == []
    assert not any(each.code == "folder-without-example" for each in found)


def test_a_document_that_differs_in_each_render_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Templates have no filter that could do this.
    numbers = itertools.count()
    monkeypatch.setattr(environment, "FILTERS", {**FILTERS, "varying": lambda _: str(next(numbers))})
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: {{ name | varying }}\n"
    folder = project(tmp_path, varying=text)
    found = check_examples(project_in(folder, folder / "examples"))
    assert [(each.code, each.location and each.location.line) for each in found] == [("not-deterministic", 5)]


MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ name }}'}\n"
ECHO = """\
apiVersion: example.com/v1
kind: Echo
metadata: {name: '{{ name }}-x'}
spec: {replicas: 1}
"""
LEVEL = ECHO.replace("example.com/v1", "nested.example.com/v1").replace("Echo", "Level")


def nesting(folder: Path) -> list[tuple[str, int, str]]:
    """The findings about nested parents: file, line and message."""
    found = check_examples(project_in(folder, folder / "examples"))
    assert {each.code for each in found if each.severity is Severity.ERROR} <= {"endless-parents"}
    return [
        (each.location.file, each.location.line, each.message)
        for each in found
        if each.code == "endless-parents" and each.location
    ]


def test_a_template_that_renders_its_own_kind_without_an_end_is_found_at_its_line(tmp_path: Path) -> None:
    folder = project(tmp_path, map=MAP, next="# The next one\n" + ECHO)
    [(file, line, message)] = nesting(folder)
    assert (file, line) == ("echoes.example.com/next.yaml.j2", 2)
    assert "Echo default/hello -> Echo default/hello-x -> " in message
    assert message.endswith("or set `maxDepth: 9` or more in echoes.example.com/_settings.yaml")


def test_a_folder_without_an_example_is_tried_with_a_sample_parent(tmp_path: Path) -> None:
    folder = project(tmp_path, map=MAP, next=ECHO)
    shutil.rmtree(folder / "examples")
    (folder / "examples").mkdir()
    [(file, _, message)] = nesting(folder)
    assert file == "echoes.example.com/next.yaml.j2"
    assert "Echo default/sample -> Echo default/sample-x -> " in message


VIRTUAL_SERVICE = """\
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata:
  name: '{{ name }}'
  annotations: {ssa-operator.dev/wait: "false"}
"""


@pytest.mark.parametrize(("default", "found"), [("", ["status-never-written"]), (" | default('')", [])])
def test_a_document_that_waits_for_a_status_which_no_controller_writes_is_found(
    tmp_path: Path, default: str, found: list[str]
) -> None:
    reads = f"data:\n  a: \"{{{{ child('VirtualService', name).status.conditions[0].status{default} }}}}\"\n"
    folder = project(tmp_path, service=VIRTUAL_SERVICE, map=MAP + reads)
    codes = [
        (each.code, each.location and each.location.line)
        for each in check_examples(project_in(folder, folder / "examples"))
    ]
    assert codes == [(code, 5) for code in found]


def test_two_kinds_that_render_each_other_without_an_end_are_found(tmp_path: Path) -> None:
    folder = project(tmp_path, next=LEVEL)
    (folder / "crds" / "levels.yaml").write_text(encode(definition("levels", "nested.example.com", "Level")).decode())
    (folder / "templates" / "levels.nested.example.com").mkdir()
    (folder / "templates" / "levels.nested.example.com" / "next.yaml.j2").write_text(ECHO)
    [(_, _, message)] = nesting(folder)
    assert "Echo default/hello -> Level default/hello-x -> Echo default/hello-x-x -> " in message


def test_only_one_of_several_children_has_no_end(tmp_path: Path) -> None:
    several = "{% for number in range(3) %}\n---\n" + ECHO.replace("-x", "-{{ number }}") + "{% endfor %}\n"
    ends = "{% if name == 'hello' or name.endswith('-0') %}\n" + several + "{% endif %}\n"
    assert len(nesting(project(tmp_path, next=ends))) == 1


@pytest.mark.parametrize(
    ("condition", "settings"),
    [("name | length < 12", ""), ("name | length < 24", "maxDepth: 20\n"), ("spec.replicas > 1", "")],
)
def test_parents_that_create_parents_to_an_end_are_no_finding(tmp_path: Path, condition: str, settings: str) -> None:
    folder = project(
        tmp_path, map=MAP, next="{% if CONDITION %}\n".replace("CONDITION", condition) + ECHO + "{% endif %}\n"
    )
    (folder / "templates" / "echoes.example.com" / "_settings.yaml").write_text(settings)
    assert nesting(folder) == []


SCALABLE = (ROOT / "crds" / "echoes.example.com.yaml").read_text().replace(
    "replicas:\n", "scaled: {type: boolean}\n                replicas:\n", 1
)  # fmt: skip
SCALED = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: '{{ name }}'}
spec:
  replicas: REPLICAS
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "nginx:1.27"}]
"""
SCALER = """\
{% if spec.scaled | default(false) %}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: '{{ name }}'}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: '{{ name }}'}
  maxReplicas: 3
{% endif %}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: '{{ name }}'}
spec:
  podSelector: {}
  ingress: []
"""


def fights(folder: Path, replicas: str) -> list[tuple[str, str, int, bool]]:
    """The warnings about fields that others write: code, file, line, and whether only a variant shows it."""
    folder = project(folder, web=SCALED.replace("REPLICAS", replicas), scaler=SCALER)
    (folder / "crds" / "echo.yaml").write_text(SCALABLE)
    found = check_examples(project_in(folder, folder / "examples"))
    assert [each for each in found if each.severity is Severity.ERROR] == []
    return [
        (each.code, each.location.file.rpartition("/")[2], each.location.line, "scaled" in each.subject)
        for each in found
        if each.code in SHOWN_IN_VARIANTS and each.location is not None
    ]


def test_an_autoscaler_that_only_a_variant_renders_is_found_beside_the_replicas(tmp_path: Path) -> None:
    empty = ("repeated-change", "scaler.yaml.j2", 15, False)
    assert fights(tmp_path, "{{ spec.replicas }}") == [
        empty,
        ("server-field", "web.yaml.j2", 5, True),
    ]


def test_replicas_that_a_template_keeps_as_they_are_may_be_scaled(tmp_path: Path) -> None:
    kept = '{{ live("Deployment", name).spec.replicas | default(spec.replicas) }}'
    assert [code for code, *_ in fights(tmp_path, kept)] == ["repeated-change"]


def test_a_field_without_a_pattern_that_names_objects_is_one_warning(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ spec.config }}'}\n"
    folder = project(tmp_path, a=text, b=text.replace("ConfigMap", "Secret"))
    crd = definition("echoes", "example.com", "Echo")
    properties = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    properties["spec"] = {"type": "object", "required": ["config"], "properties": {"config": {"type": "string"}}}
    (folder / "crds" / "echo.yaml").write_bytes(encode(crd))
    example = {"apiVersion": "example.com/v1", "kind": "Echo", "metadata": {"name": "e"}, "spec": {"config": "c"}}
    (folder / "examples" / "echo.yaml").write_bytes(encode(example))

    def found() -> list[tuple[str, str, str]]:
        named = check_examples(project_in(folder, folder / "examples"))
        return [(each.code, each.message.split(":")[0], each.fix) for each in named if "config" in each.message]

    pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
    fix = f"declare pattern {pattern} of spec.config in its CRD"
    assert found() == [("unrestricted-field", "spec.config names an object, and may be any text", fix)]
    properties["spec"]["properties"]["config"]["pattern"] = pattern
    (folder / "crds" / "echo.yaml").write_bytes(encode(crd))
    assert found() == []
