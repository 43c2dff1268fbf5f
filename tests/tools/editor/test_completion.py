"""What an editor completes."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol.types import CompletionItem, MarkupContent

from ssa_operator.rendering.folder.folder_settings import _SETTINGS as SETTINGS_KEYS
from ssa_operator.schema.short_schema.expanded_crd import _KEYS as SCHEMA_KEYS
from ssa_operator.schema.short_schema.field_texts import MARKERS
from ssa_operator.tools.editor import vocabulary
from ssa_operator.tools.editor.completion import completions
from ssa_operator.tools.editor.edited_project import EditedProject
from tests.tools.editor.projects import loaded, marked, reading

SITE = "sites.example.com"
SCHEMA = """\
kind: Site
spec:
  image: string | required description="Image of the web server."
  replicas: integer | default=1 minimum=0 maximum=10
  size: string | enum=small,large default=small
  labels: "map[string]string"
  ports: "[]Port"
status:
  address: string
types:
  Port:
    number: integer | required
    name: string
"""
WEB = """\
{% import "_names.yaml.j2" as names %}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: {{ spec.replicas }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ name }}-http
"""
POD = "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n"
FILES = {
    "_schema.yaml": SCHEMA,
    "web.yaml.j2": WEB,
    "_names.yaml.j2": "{% macro label(part, sep='-') %}{{ name }}{{ sep }}{{ part }}{% endmacro %}\n",
    "_status.yaml.j2": "address: {{ name }}\n",
    "_values.yaml": "region: eu\nlimits:\n  cpu: 2\n",
    "files/conf/nginx.conf": "x",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> EditedProject:
    root = tmp_path_factory.mktemp("project") / "templates"
    for name, text in FILES.items():
        path = root / SITE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return loaded(root)


def complete(project: EditedProject, text: str, file: str = "new.yaml.j2") -> dict[str, CompletionItem]:
    """What is completed at the mark, by label."""
    written, line, column = marked(text)
    _, found = completions(reading(project, f"{SITE}/{file}", written), line, column)
    return {each.label: each for each in found}


def documentation(found: CompletionItem) -> str:
    assert isinstance(found.documentation, MarkupContent)
    return found.documentation.value


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("{{ spec.§ }}", ["image", "replicas", "size", "labels", "ports"]),
        ("{{ spec.rep§", ["image", "replicas", "size", "labels", "ports"]),
        ("{{ object.spec.ports[0].§ }}", ["number", "name"]),
        ("{% for port in spec.ports if port.name %}{{ port.§ }}", ["number", "name"]),
        ("{% set all = spec.ports %}{% set one = all[0] %}{{ one.§ }}", ["number", "name"]),
        ("{{ values.§ }}", ["region", "limits"]),
        ("{{ values.limits.§ }}", ["cpu"]),
        ("{{ operator.§ }}", ["namespace", "version"]),
        ('{% import "_names.yaml.j2" as names %}{{ names.§ }}', ["label"]),
        ('{{ child("§") }}', ["Deployment", "Service"]),
        ('{{ child("Deployment", "§") }}', ["web"]),
        (
            '{{ lookup("apps/v1", "§") }}',
            ["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"],
        ),
        ('{% include "§" %}', ["_names.yaml.j2", "_status.yaml.j2", "web.yaml.j2"]),
        ('{{ read_file("§") }}', ["conf/nginx.conf"]),
        ('{% from "_names.yaml.j2" import §', ["label"]),
        ("{% for x in spec.ports %}{{ loop.in§", ["index", "index0", "first", "last", "length"]),
        ("{# spec.§ #}", []),
        ("# a§", []),
        (
            "apiVersion: apps/v1\nkind: §",
            ["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"],
        ),
        (f"{POD}      - name: x\n        imagePullPolicy: §", ["Always", "IfNotPresent", "Never"]),
        ("apiVersion: v1\nkind: Pod\nspec:\n  hostNetwork: §", ["true", "false"]),
        ("metadata:\n  annotations:\n    ssa-operator.dev/apply: §", ["Always", "IfNotPresent", "Once", "Shared"]),
        ("metadata:\n  annotations:\n    ssa-operator.dev/prune: §", ['"true"', '"false"']),
        ('metadata:\n  annotations:\n    ssa-operator.dev/prune: "§"', ["true", "false"]),
        ("§", ["apiVersion", "kind", "metadata"]),
        ("apiVersion: v1\nkind: Pod\nspec: {hostNetwork: §}", ["true", "false"]),
        ("apiVersion: v1\nkind: Pod\nspec: {nodeName: '{{ name }}', hostNetwork: §", ["true", "false"]),
        (f"{POD}      - {{name: x, imagePullPolicy: §}}", ["Always", "IfNotPresent", "Never"]),
        (
            "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: x, imagePullPolicy: §",
            ["Always", "IfNotPresent", "Never"],
        ),
        ("apiVersion: v1\nkind: Pod\nspec:\n  os: {§}", ["name"]),
        ("apiVersion: v1\nkind: Pod\nspec:\n  os: {na§}", ["name"]),
        ("metadata: {annotations: {ssa-operator.dev/apply: §", ["Always", "IfNotPresent", "Once", "Shared"]),
        ("metadata:\n  annotations: {ssa-operator.dev/prune: '§'}", ["true", "false"]),
    ],
)
def test_a_template_completes(project: EditedProject, text: str, labels: list[str]) -> None:
    assert list(complete(project, text)) == labels


@pytest.mark.parametrize(
    ("file", "text", "labels"),
    [
        ("_settings.yaml", "adopt: §", ["Always", "InNamespace", "Never"]),
        ("_settings.yaml", "§", sorted(SETTINGS_KEYS)),
        ("_status.yaml.j2", "§", ["address", "conditions"]),
        ("_schema.yaml", "§", sorted(SCHEMA_KEYS)),
        ("_schema.yaml", "spec:\n  a: integer | §", sorted(MARKERS)),
        (
            "_schema.yaml",
            "spec:\n  a: §\ntypes:\n  Port:\n    x: string\n",
            sorted(("string", "integer", "number", "boolean", "object", '"[]string"', '"map[string]string"', "Port")),
        ),
        (
            "../../examples/a.yaml",
            "apiVersion: example.com/v1alpha1\nkind: Site\nmetadata:\n  annotations:\n    §",
            ["ssa-operator.dev/deletion", "ssa-operator.dev/reconcile-at", "ssa-operator.dev/suspend"],
        ),
        ("../../examples/a.yaml", "apiVersion: example.com/v1alpha1\nkind: Site\nspec:\n  size: §", ["large", "small"]),
    ],
)
def test_a_file_of_the_folder_completes(project: EditedProject, file: str, text: str, labels: list[str]) -> None:
    assert sorted(complete(project, text, file)) == labels


def test_a_field_shows_its_type_its_default_and_its_description(project: EditedProject) -> None:
    found = complete(project, "{{ spec.§ }}")
    assert documentation(found["image"]) == "Image of the web server."
    assert found["replicas"].detail == "integer"
    assert "default: `1`" in documentation(found["replicas"])
    assert found["ports"].detail == "[]object"
    assert found["labels"].detail == "map[string]string"


def test_a_function_and_a_filter_show_their_call_and_meaning(project: EditedProject) -> None:
    child = complete(project, "{{ §")["child"]
    assert child.detail == "child(kind, name)"
    assert "waits until it is ready" in documentation(child)
    assert str(complete(project, "{{ name | §")["k8s_name"].detail).startswith("k8s_name")
    assert "version_at_least" in complete(project, "{{ kubernetes_version is §")
    assert (
        complete(project, '{% import "_names.yaml.j2" as names %}{{ names.§')["label"].detail == "label(part, sep='-')"
    )


def test_a_key_is_followed_by_its_colon_unless_it_has_one(project: EditedProject) -> None:
    service = "apiVersion: v1\nkind: Service\nspec:\n  "
    assert complete(project, f"{service}§")["clusterIP"].insert_text == "clusterIP: "
    assert complete(project, f"{service}§")["ports"].insert_text == "ports:"
    assert complete(project, f"{service}clu§: x")["clusterIP"].insert_text is None


def test_a_variable_of_jinja_hides_no_field_of_another_kind(project: EditedProject) -> None:
    found = complete(project, '{{ child("Service", name).spec.§ }}')
    assert documentation(found["externalTrafficPolicy"]) == "one of `Cluster`, `Local`"
    assert "image" not in found


def test_the_words_of_files_are_those_that_the_operator_reads() -> None:
    assert set(vocabulary.settings()) == set(SETTINGS_KEYS)
    assert set(vocabulary.SCHEMA_MARKERS) == set(MARKERS)
    assert set(vocabulary.SCHEMA_KEYS) == set(SCHEMA_KEYS)


def test_a_file_in_no_folder_completes_nothing_of_a_parent(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    assert complete(loaded(tmp_path / "templates"), "{{ spec.§ }}") == {}
