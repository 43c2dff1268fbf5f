"""Beginner's mistakes: the first line of `check`, and of `render` where it fails, is enough to correct each.

A row is one mistake in a project that is without fault. Its words are what the user must read in the first line: the
file and the line, what is wrong, and what to write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from ssa_operator.cli.main import application_of
from ssa_operator.cli.write.check import check
from ssa_operator.operator.process.streams import CommandError
from tests.conftest import Kubectl
from tests.packaging.checkout import ROOT

pytestmark = pytest.mark.cluster

CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: sites.example.com
spec:
  group: example.com
  names:
    kind: Site
    plural: sites
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources:
        status: {}
      additionalPrinterColumns:
        - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              required: [image]
              properties:
                image:
                  type: string
                replicas:
                  type: integer
                  default: 1
                size:
                  type: string
                  enum: [small, large]
                  default: small
            status:
              type: object
              properties:
                conditions:
                  type: array
                  x-kubernetes-list-type: map
                  x-kubernetes-list-map-keys: [type]
                  items:
                    type: object
                    required: [type]
                    properties: {type: {type: string}}
                    x-kubernetes-preserve-unknown-fields: true
                resources:
                  type: array
                  items: {type: object, x-kubernetes-preserve-unknown-fields: true}
                address:
                  type: string
                ready:
                  type: integer
"""
DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ name }}
  labels:
    app: {{ name }}
spec:
  replicas: {{ spec.replicas }}
  selector:
    matchLabels:
      app: {{ name }}
  template:
    metadata:
      labels:
        app: {{ name }}
    spec:
      containers:
        - name: web
          image: {{ spec.image }}
          ports:
            - name: http
              containerPort: 8080
          env:
            - name: SIZE
              value: {{ spec.size }}
          resources:
            requests:
              memory: 16Mi
              cpu: 100m
          volumeMounts:
            - name: settings
              mountPath: /settings
      volumes:
        - name: settings
          configMap:
            name: {{ name }}
"""
SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: {{ name }}
spec:
  selector:
    app: {{ name }}
  ports:
    - name: http
      port: 80
      targetPort: http
"""
SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
data:
  greeting: hello
"""
STATUS = """\
address: {{ child('Service', name).spec.clusterIP }}
ready: {{ child('Deployment', name).status.readyReplicas }}
"""
EXAMPLE = """\
apiVersion: example.com/v1
kind: Site
metadata:
  name: hello
spec:
  image: nginx:1.27
"""
FOLDER = "templates/sites.example.com"
FILES = {
    "crds/sites.yaml": CRD,
    "examples/site.yaml": EXAMPLE,
    f"{FOLDER}/deployment.yaml.j2": DEPLOYMENT,
    f"{FOLDER}/service.yaml.j2": SERVICE,
    f"{FOLDER}/settings.yaml.j2": SETTINGS,
    f"{FOLDER}/_status.yaml.j2": STATUS,
}
NAMES = {
    "crd": "crds/sites.yaml",
    "example": "examples/site.yaml",
    "deployment": f"{FOLDER}/deployment.yaml.j2",
    "service": f"{FOLDER}/service.yaml.j2",
    "settings": f"{FOLDER}/settings.yaml.j2",
    "status": f"{FOLDER}/_status.yaml.j2",
}


class Mistake(NamedTuple):
    """One edit of a project without fault, and what the first line must have."""

    what: str
    file: str
    """A key of NAMES, or a path."""
    before: str
    """The text that is replaced; '' adds the text at the end or makes the file."""
    after: str
    line: int
    """The line that the first line of the output names; 0 where no line has the mistake."""
    words: tuple[str, ...]
    findings: int = 1
    """How many findings there are; one, unless the mistake is in two places."""


@pytest.fixture(scope="module", autouse=True)
def running_cluster(kubectl: Kubectl) -> Iterator[None]:
    """A local cluster runs and has the project's CRD, so that a `check` needs no API server of its own."""
    kubectl("apply", "--server-side", "--filename=-", input=CRD)
    kubectl("wait", "--for=condition=Established", "crd/sites.example.com")
    yield
    kubectl("delete", "crd/sites.example.com")


def first_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines of `check` in this folder."""
    try:
        check(templates=[folder / "templates"])
        error = ""
    except CommandError as refused:
        error = str(refused)
    text = capsys.readouterr().out
    return [each.replace(f"{folder}/", "") for each in (text or error).splitlines()]


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def make(mistake: Mistake, folder: Path) -> None:
    """Write the project with a mistake."""
    name = NAMES.get(mistake.file, mistake.file)
    text = FILES.get(name, "")
    assert mistake.before in text
    changed = text.replace(mistake.before, mistake.after, 1) if mistake.before else text + mistake.after
    write(folder, {**FILES, name: changed})


def test_the_project_without_mistakes_has_no_finding(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, FILES)
    assert first_lines(tmp_path, capsys) == []


def test_a_template_that_refuses_a_parent_with_its_own_words_is_no_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refusal = "{% if spec.size == 'large' %}{{ fail('large is not offered') }}{% endif %}\n"
    write(tmp_path, {**FILES, NAMES["settings"]: refusal + SETTINGS})
    assert first_lines(tmp_path, capsys) == []
    write(tmp_path, {"examples/site.yaml": EXAMPLE + "  size: large\n"})
    assert first_lines(tmp_path, capsys)[0].endswith("error render-error: large is not offered")


def secret(text: str) -> str:
    return "apiVersion: v1\nkind: Secret\nmetadata:\n  name: '{{ name }}-extra'\n" + text


MISTAKES = (
    # The text of templates.
    Mistake(
        "a variable without spec",
        "deployment",
        "{{ spec.replicas }}",
        "{{ replicas }}",
        8,
        ("there is no variable replicas", "did you mean spec.replicas?"),
    ),
    Mistake(
        "a typo in a field of the parent",
        "deployment",
        "spec.replicas",
        "spec.replcas",
        8,
        ("declares no spec.replcas", "did you mean spec.replicas?"),
    ),
    Mistake(
        "a typo in a filter",
        "deployment",
        "{{ spec.replicas }}",
        "{{ spec.replicas | defualt(1) }}",
        8,
        ("no filter defualt", "did you mean default?"),
    ),
    Mistake(
        "a filter of Helm",
        "deployment",
        "value: {{ spec.size }}",
        "value: {{ spec.size | quote }}",
        25,
        ("no filter quote",),
    ),
    Mistake("Helm's values", "deployment", "{{ spec.replicas }}", "{{ .Values.replicas }}", 8, ("Go template", "spec")),
    Mistake(
        "Helm's range", "service", "  ports:\n", "  ports:\n{{- range .Values.ports }}\n", 9, ("Go template", "{% for")
    ),
    Mistake(
        "an if without end",
        "service",
        "spec:\n",
        "{% if spec.replicas > 1 %}\nspec:\n",
        5,
        ("{% if %} has no {% endif %}",),
    ),
    Mistake(
        "an end of another block",
        "service",
        "spec:\n",
        "{% if name %}\n{% for port in [80] %}\nspec:\n{% endif %}\n",
        8,
        ("{% endif %} is here before {% endfor %}", "{% for %} of line 6"),
    ),
    Mistake("an end of no block", "service", "spec:\n", "{% endif %}\nspec:\n", 5, ("{% endif %} closes nothing",)),
    Mistake(
        "one brace",
        "service",
        "name: {{ name }}",
        "name: { name }",
        4,
        ("metadata.name must be a string", "two braces: {{ name }}"),
    ),
    Mistake(
        "braces that are not closed",
        "service",
        "name: {{ name }}",
        "name: {{ name }",
        4,
        ("unexpected '}'", "two braces"),
    ),
    Mistake("a dollar before the braces", "service", "name: {{ name }}", "name: ${name}", 4, ("${name}", "{{ name }}")),
    Mistake(
        "the name in a plain file",
        f"{FOLDER}/extra.yaml",
        "",
        SETTINGS.replace("name: {{ name }}", "name: {{ name }}-extra"),
        4,
        ("extra.yaml", "{{", "rename", "extra.yaml.j2"),
    ),
    Mistake(
        "a quoted value in a plain file",
        f"{FOLDER}/extra.yaml",
        "",
        SETTINGS.replace("name: {{ name }}", "name: extra").replace("hello", '"{{ spec.image }}"'),
        6,
        ("rename", "extra.yaml.j2"),
    ),
    Mistake(
        "a file of another template engine",
        f"{FOLDER}/extra.yaml.tpl",
        "",
        SETTINGS,
        0,
        ("extra.yaml.tpl", "rename", "extra.yaml.j2"),
    ),
    Mistake(
        "a file that ends in jinja",
        f"{FOLDER}/extra.yml.jinja",
        "",
        SETTINGS,
        0,
        ("extra.yml.jinja", "rename", "extra.yaml.j2"),
    ),
    Mistake(
        "a folder in the singular",
        "templates/site.example.com/extra.yaml.j2",
        "",
        SETTINGS,
        0,
        ("templates/site.example.com", "sites.example.com"),
    ),
    Mistake(
        "a folder without a group",
        "templates/sites/extra.yaml.j2",
        "",
        SETTINGS,
        0,
        ("templates/sites", "sites.example.com"),
    ),
    Mistake("a tab in YAML", "service", "  ports:\n", "\tports:\n", 8, ("tab",)),
    Mistake("a wrong indentation", "service", "  ports:\n", " ports:\n", 8, ("check the indentation",)),
    Mistake(
        "a field that is there twice",
        "service",
        "  ports:\n",
        "  type: ClusterIP\n  type: NodePort\n  ports:\n",
        9,
        ("type", "twice"),
    ),
    Mistake(
        "a colon in a value",
        "settings",
        "greeting: hello",
        "greeting: note: this",
        6,
        ("put a value with a colon into quotes",),
    ),
    Mistake(
        "no separator between two manifests",
        "settings",
        "data:\n",
        SERVICE.partition("spec")[0] + "data:\n",
        4,
        ("kind is there twice", "write --- between two manifests"),
    ),
    # Manifests.
    Mistake(
        "a typo in a field of a manifest",
        "deployment",
        "containers:",
        "containrs:",
        17,
        ("no field spec.template.spec.containrs", "did you mean containers?"),
    ),
    Mistake(
        "a field in another case",
        "deployment",
        "containerPort",
        "containerport",
        22,
        ("containerport", "did you mean containerPort?"),
    ),
    Mistake(
        "a field at a wrong level",
        "deployment",
        "spec:\n  replicas: {{ spec.replicas }}\n",
        "replicas: {{ spec.replicas }}\nspec:\n",
        7,
        ("no field replicas", "it belongs into spec"),
    ),
    Mistake(
        "a typo in a kind",
        "deployment",
        "kind: Deployment",
        "kind: Deploymnet",
        2,
        ("no Deploymnet in apps/v1", "did you mean Deployment?"),
    ),
    Mistake(
        "the kind in another version",
        "deployment",
        "apiVersion: apps/v1",
        "apiVersion: v1",
        1,
        ("no Deployment in v1", "apps/v1"),
    ),
    Mistake(
        "an old version of a kind",
        "deployment",
        "apiVersion: apps/v1",
        "apiVersion: extensions/v1beta1",
        1,
        ("removed", "apps/v1"),
    ),
    Mistake("no apiVersion", "settings", "apiVersion: v1\n", "", 1, ("apiVersion",)),
    Mistake(
        "no name",
        "settings",
        "metadata:\n  name: {{ name }}\n",
        "",
        1,
        ("metadata must be a mapping", "name: below it"),
    ),
    Mistake(
        "a string where a number belongs",
        "deployment",
        "{{ spec.replicas }}",
        '"{{ spec.replicas }}"',
        8,
        ("spec.replicas must be a whole number", "without quotes"),
    ),
    Mistake(
        "a number where a string belongs",
        "deployment",
        "value: {{ spec.size }}",
        "value: {{ spec.replicas }}",
        25,
        ("must be a string", "quotes"),
    ),
    Mistake(
        "yes in an environment variable",
        "deployment",
        "value: {{ spec.size }}",
        "value: true",
        25,
        ("must be a string", "quotes"),
    ),
    Mistake(
        "a list where a mapping belongs",
        "deployment",
        "    matchLabels:\n      app:",
        "    matchLabels:\n      - app:",
        10,
        ("matchLabels must be a mapping",),
    ),
    Mistake(
        "a mapping where a list belongs",
        "service",
        "    - name: http\n      port: 80\n      targetPort: http\n",
        "    name: http\n    port: 80\n",
        8,
        ("spec.ports must be a list",),
    ),
    Mistake(
        "a value that is not allowed",
        "service",
        "spec:\n",
        "spec:\n  type: Loadbalancer\n",
        6,
        ("is Loadbalancer", "did you mean LoadBalancer?"),
    ),
    Mistake("megabytes", "deployment", "16Mi", "16MB", 28, ("16MB", "16M or 16Mi")),
    Mistake("a quantity with a space", "deployment", "16Mi", "16 Mi", 28, ("16 Mi", "16Mi")),
    Mistake("a CPU with a unit of its own", "deployment", "cpu: 100m", "cpu: 100mc", 29, ("100mc",)),
    Mistake("no image", "deployment", "          image: {{ spec.image }}\n", "", 18, ("container web has no image",)),
    Mistake(
        "no containers",
        "deployment",
        "      containers:\n        - name: web\n          image: {{ spec.image }}\n",
        "      initContainers:\n        - name: web\n          image: {{ spec.image }}\n",
        16,
        ("containers is missing",),
    ),
    Mistake("an image of any version", "deployment", "{{ spec.image }}", "nginx", 19, ("is nginx", "name a version")),
    Mistake(
        "a name in upper case",
        "settings",
        "name: {{ name }}",
        "name: Settings-{{ name }}",
        4,
        ("Settings-hello", "lower case", "settings-hello"),
    ),
    Mistake(
        "a name with an underscore",
        "settings",
        "name: {{ name }}",
        "name: my_settings",
        4,
        ("my_settings", "my-settings"),
    ),
    Mistake(
        "a name of a Service with a dot",
        "service",
        "  name: {{ name }}\n",
        "  name: {{ name }}.web\n",
        4,
        ("hello.web",),
    ),
    Mistake("a long name of a Service", "service", "  name: {{ name }}\n", f"  name: {'long' * 20}\n", 4, ("63",)),
    Mistake(
        "a label with a space",
        "deployment",
        "metadata:\n  name: {{ name }}\n  labels:\n    app: {{ name }}",
        "metadata:\n  name: {{ name }}\n  labels:\n    app: my site",
        6,
        ("my site", "metadata.labels.app"),
    ),
    Mistake(
        "a long label",
        "settings",
        "metadata:\n",
        f"metadata:\n  labels:\n    note: {'long' * 20}\n",
        5,
        ("metadata.labels.note", "63"),
    ),
    Mistake(
        "a label that is a number",
        "settings",
        "metadata:\n",
        "metadata:\n  labels:\n    version: 1.0\n",
        5,
        ("metadata.labels.version", "string", "quotes"),
    ),
    Mistake(
        "a label key with two slashes", "settings", "metadata:\n", "metadata:\n  labels:\n    a/b/c: x\n", 5, ("a/b/c",)
    ),
    Mistake(
        "an annotation that is true",
        "settings",
        "metadata:\n",
        "metadata:\n  annotations:\n    on: true\n",
        5,
        ("metadata.annotations",),
    ),
    Mistake(
        "another namespace",
        "settings",
        "metadata:\n",
        "metadata:\n  namespace: other\n",
        4,
        ("outside", "clusterScope"),
    ),
    Mistake(
        "another namespace that is no name",
        "settings",
        "metadata:\n",
        "metadata:\n  namespace: Other_NS\n",
        4,
        ("outside", "clusterScope"),
    ),
    Mistake(
        "a namespace that the parent chooses",
        "settings",
        "metadata:\n",
        "metadata:\n  namespace: '{{ spec.size }}'\n",
        4,
        ("outside", "clusterScope"),
    ),
    Mistake(
        "a selector that doesn't match",
        "deployment",
        "    metadata:\n      labels:\n        app: {{ name }}",
        "    metadata:\n      labels:\n        app: web",
        9,
        ("spec.selector doesn't match the labels of spec.template",),
    ),
    Mistake(
        "a Service that selects nothing",
        "service",
        "    app: {{ name }}",
        "    app: web",
        6,
        ("selects no pod", "Deployment hello"),
    ),
    Mistake(
        "a port name that no container has",
        "service",
        "targetPort: http",
        "targetPort: web",
        11,
        ("is web", "it has http"),
    ),
    Mistake(
        "a volume that isn't there",
        "deployment",
        "            - name: settings\n",
        "            - name: setting\n",
        31,
        ("is setting", "it has settings"),
    ),
    Mistake(
        "two containers of one name",
        "deployment",
        "      volumes:\n",
        "        - name: web\n          image: nginx:1.27\n      volumes:\n",
        33,
        ("same name",),
    ),
    Mistake("a port out of range", "deployment", "containerPort: 8080", "containerPort: 80800", 22, ("80800", "65535")),
    Mistake(
        "data of a ConfigMap that is a number",
        "settings",
        "greeting: hello",
        "greeting: 1",
        6,
        ("data.greeting must be a string", "quotes"),
    ),
    Mistake(
        "plain text in a Secret's data",
        f"{FOLDER}/extra.yaml.j2",
        "",
        secret("data:\n  token: '{{ name }}!'\n"),
        1,
        ("data.token", "base64", "stringData"),
    ),
    Mistake(
        "a password in a Secret",
        f"{FOLDER}/extra.yaml.j2",
        "",
        secret("stringData:\n  password: hunter2\n"),
        6,
        ("stringData.password has a password in the text", "generated"),
    ),
    Mistake(
        "a password in an environment variable",
        "deployment",
        "            - name: SIZE\n              value: {{ spec.size }}\n",
        "            - name: DB_PASSWORD\n              value: hunter2\n",
        25,
        ("has a password in the text", "secretKeyRef"),
    ),
    Mistake(
        "two manifests of one object",
        f"{FOLDER}/twice.yaml.j2",
        "",
        SERVICE,
        1,
        ("Service default/hello is rendered twice", "service.yaml.j2:1"),
    ),
    # What refers to other objects.
    Mistake(
        "a field that a child never has",
        "status",
        "spec.clusterIP",
        "spec.clusterIp",
        1,
        ("Service", "spec.clusterIp", "did you mean spec.clusterIP?"),
    ),
    Mistake(
        "a child of a kind with a typo",
        "status",
        "child('Service', name)",
        "child('Servce', name)",
        1,
        ("Servce", "Service"),
    ),
    Mistake(
        "a child of a name that no template renders",
        "status",
        "child('Service', name)",
        "child('Service', name ~ '-web')",
        1,
        ("no template renders Service/hello-web", "did you mean Service/hello?"),
    ),
    Mistake(
        "a child of a name that no template renders, in a manifest",
        "settings",
        "greeting: hello",
        "greeting: \"{{ child('Service', 'web').spec.clusterIP }}\"",
        6,
        ("no template renders Service/web", "did you mean Service/hello?"),
    ),
    Mistake(
        "a field that the status of a child never has",
        "status",
        "status.readyReplicas",
        "status.redyReplicas",
        2,
        ("no Deployment has a field status.redyReplicas", "did you mean status.readyReplicas?"),
    ),
    Mistake(
        "a field of the status that the CRD doesn't declare", "status", "ready:", "redy:", 2, ("status.redy", "declare")
    ),
    # CRDs.
    Mistake(
        "the name of a CRD in the singular",
        "crd",
        "  name: sites.example.com",
        "  name: site.example.com",
        4,
        ("site.example.com", "sites.example.com"),
    ),
    Mistake("a default of another type", "crd", "default: 1", 'default: "1"', 31, ("default", "integer")),
    Mistake("a default that isn't allowed", "crd", "default: small", "default: medium", 35, ("medium", "small")),
    Mistake(
        "a type that doesn't exist",
        "crd",
        "type: integer\n                  default",
        "type: int\n                  default",
        30,
        ("int", "integer"),
    ),
    Mistake(
        "a field without type",
        "crd",
        "                  type: integer\n                  default: 1\n",
        "                  default: 1\n",
        29,
        ("spec.replicas has no type",),
    ),
    Mistake("a CRD without schema", "crd", CRD[CRD.index("      schema:") :], "", 12, ("no schema",)),
    Mistake("a plural in upper case", "crd", "plural: sites", "plural: Sites", 9, ("Sites", "lower case")),
    Mistake(
        "a scope that doesn't exist", "crd", "scope: Namespaced", "scope: Namespace", 10, ("Namespace", "Namespaced")
    ),
    Mistake(
        "two versions that are stored",
        "crd",
        "    - name: v1\n      served: true\n",
        "    - {name: v2, served: false, storage: true, schema: {openAPIV3Schema: {type: object}}}\n"
        "    - name: v1\n      served: true\n",
        0,
        ("storage",),
    ),
    Mistake("a version that isn't served", "crd", "served: true", "served: false", 0, ("v1",)),
    Mistake(
        "a pattern that is no regular expression",
        "crd",
        "                  default: small\n",
        "                  default: small\n                  pattern: '['\n",
        36,
        ("pattern",),
    ),
    Mistake(
        "a required field that isn't declared",
        "crd",
        "required: [image]",
        "required: [imag]",
        25,
        ("requires spec.imag", "did you mean image?"),
    ),
    # Examples.
    Mistake(
        "an example without a required field",
        "example",
        "  image: nginx:1.27\n",
        "  replicas: 1\n",
        5,
        ("spec.image", "Required value"),
    ),
    Mistake(
        "an example with a typo",
        "example",
        "spec:\n",
        "spec:\n  replicass: 2\n",
        6,
        ("declares no spec.replicass", "did you mean spec.replicas?"),
    ),
    Mistake(
        "an example with a string for a number",
        "example",
        "spec:\n",
        'spec:\n  replicas: "2"\n',
        6,
        ("spec.replicas", "integer"),
    ),
    Mistake(
        "an example with a value that isn't allowed",
        "example",
        "spec:\n",
        "spec:\n  size: medium\n",
        6,
        ("medium", "small"),
    ),
    Mistake("an example of another version", "example", "example.com/v1", "example.com/v2", 1, ("v2", "v1")),
    Mistake("an example of a kind with a typo", "example", "kind: Site", "kind: Sites", 2, ("Sites", "Site")),
    Mistake(
        "an example with a name in upper case", "example", "name: hello", "name: Hello", 4, ("Hello", "lower case")
    ),
    Mistake("no examples", "example", EXAMPLE, "", 0, ("no example", "sites.example.com")),
)

MORE_MISTAKES = (
    Mistake(
        "a field with a hyphen",
        "deployment",
        "{{ spec.size }}",
        "{{ spec.my-size }}",
        25,
        ("spec.my-size is a subtraction", "write spec['my-size']"),
    ),
    Mistake(
        "to_yaml that is not indented",
        "settings",
        "data:\n  greeting: hello\n",
        "data:\n{{ {'greeting': 'hello'} | to_yaml }}\n",
        6,
        ("beside data: and not below it", "write data: {{ {'greeting': 'hello'} }} in one line"),
    ),
    Mistake(
        "tags that join lines",
        "settings",
        "data:\n  greeting: hello\n",
        "{%- if spec.size == 'small' -%}\ndata:\n  greeting: hello\n{%- endif %}\n",
        6,
        ("-%} joins this line to the one above: data:", "write %}"),
    ),
    Mistake(
        "a manifest that reads itself",
        "settings",
        "greeting: hello",
        "greeting: {{ child('ConfigMap', name).data.greeting }}",
        6,
        ("ConfigMap/hello waits for itself", "live()"),
    ),
    Mistake(
        "a macro that is called with too few arguments",
        "settings",
        "apiVersion: v1\n",
        "apiVersion: v1\n{% macro pair(key, value) %}{{ key }}: {{ value }}{% endmacro %}\n{{ pair('immutable') }}\n",
        3,
        ("a macro that is called here needs the argument value",),
    ),
    Mistake(
        "a loop over a number without a maximum",
        "settings",
        "  greeting: hello\n",
        "{% for each in range(spec.replicas) %}\n  greeting{{ each }}: hello\n{% endfor %}\n",
        6,
        ("spec.replicas has no maximum", "the range has more than", "declare maximum of spec.replicas in its CRD"),
    ),
    Mistake(
        "a ConfigMap of another name",
        "deployment",
        "configMap:\n            name: {{ name }}",
        "configMap:\n            name: {{ name }}s",
        36,
        ("is hellos, and no template renders this ConfigMap", "did you mean hello?"),
    ),
    Mistake(
        "an account that no template renders",
        "deployment",
        "      containers:",
        "      serviceAccountName: {{ name }}\n      containers:",
        17,
        ("serviceAccountName is hello, and no template renders this ServiceAccount", "add its manifest"),
    ),
    Mistake(
        "a probe of a port that the container doesn't have",
        "deployment",
        "          env:",
        "          livenessProbe: {tcpSocket: {port: 80}}\n          env:",
        23,
        ("port is 80, and no container declares this port", "declared are 8080"),
    ),
    Mistake(
        "an autoscaler of a Deployment of another name",
        f"{FOLDER}/extra.yaml.j2",
        "",
        "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: {{ name }}\nspec:\n"
        "  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: '{{ name }}-web'}\n  maxReplicas: 3\n",
        6,
        ("is hello-web, and no template renders this Deployment", "did you mean hello?"),
    ),
    Mistake(
        "a template that ends in j2 alone",
        f"{FOLDER}/extra.j2",
        "",
        SETTINGS,
        1,
        ("extra.j2 is neither rendered nor read", "rename it to extra.yaml.j2"),
    ),
    Mistake(
        "a manifest whose name begins with an underscore",
        f"{FOLDER}/_extra.yaml.j2",
        "",
        SETTINGS,
        1,
        ("_extra.yaml.j2 is neither", "no file includes it", "rename it to extra.yaml.j2"),
    ),
    Mistake(
        "a file that no template reads",
        f"{FOLDER}/nginx.conf",
        "",
        "listen 80;",
        1,
        ("nginx.conf is not read", "files/"),
    ),
    Mistake(
        "an expression in plain JSON",
        f"{FOLDER}/extra.json",
        "",
        '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"},\n "data": {"a": "{{ spec.image }}"}}',
        2,
        ("extra.json is plain JSON", "rename it to extra.json.j2"),
    ),
    # Words and signs of other languages, and YAML that isn't one.
    Mistake("a tab before a dash", "deployment", "        - name: web", "\t- name: web", 18, ("a tab", "with spaces")),
    Mistake(
        "a key without a colon", "settings", "metadata:\n", "metadata\n", 4, ("expected ':'", "write `key: value`")
    ),
    Mistake(
        "a text that isn't indented",
        "settings",
        "  greeting: hello",
        "  greeting: |\nhello",
        7,
        ("hello", "indent the lines of a text"),
    ),
    Mistake("a value that begins with %", "settings", "hello", "%d", 6, ("the character %", "into quotes")),
    Mistake("a value that begins with @", "settings", "hello", "@x", 6, ("the character @", "into quotes")),
    Mistake("a value that begins with *", "settings", "hello", "*x", 6, ("*x", "into quotes")),
    Mistake("a quote that isn't closed", "settings", "hello", '"hello', 6, ("close the quote",)),
    Mistake("a bracket that isn't closed", "settings", "hello", "[x", 6, ("close the bracket",)),
    Mistake(
        "no blank behind a colon",
        "settings",
        "greeting: hello",
        "greeting:hello",
        5,
        ("data must be", "a blank behind"),
    ),
    Mistake(
        "a no-break space", "settings", "  greeting: hello", "\u00a0\u00a0greeting: hello", 6, ("remove", "U+00A0")
    ),
    Mistake(
        "a separator in a manifest",
        "settings",
        "data:\n  greeting",
        "---\ndata:\n  greeting",
        6,
        ("apiVersion is missing, and so is kind", "a --- too many"),
    ),
    Mistake(
        "a tag of another language",
        "service",
        "spec:\n",
        "{% if name %}\n{% elseif a %}\nspec:\n{% endif %}\n",
        6,
        ("{% elseif %}", "{% elif %}"),
    ),
    Mistake(
        "an end without the name of its block",
        "service",
        "spec:\n",
        "{% if name %}\nspec:\n{% end %}\n",
        7,
        ("{% end %}", "did you mean endif?"),
    ),
    Mistake(
        "else if", "service", "spec:\n", "{% if name %}\n{% else if a %}\nspec:\n{% endif %}\n", 6, ("{% elif ... %}",)
    ),
    Mistake(
        "one equals sign", "service", "spec:\n", "{% if name = 'a' %}{% endif %}\nspec:\n", 5, ("compare with ==",)
    ),
    Mistake("and as two signs", "service", "spec:\n", "{% if name && spec %}{% endif %}\nspec:\n", 5, ("'&'", "`and`")),
    Mistake("null", "service", "spec:\n", "{% if name == null %}{% endif %}\nspec:\n", 5, ("null", "write none")),
    Mistake(
        "a tag that is closed by a brace", "service", "spec:\n", "{% set a = 1 }\nspec:\n", 5, ("close a tag with %}",)
    ),
    Mistake("a comment that isn't closed", "service", "spec:\n", "{# note\nspec:\n", 5, ("#}",)),
    Mistake(
        "a quote that isn't closed in an expression",
        "deployment",
        "{{ spec.image }}",
        "{{ spec.image | default('a) }}",
        19,
        ("close the quote",),
    ),
    Mistake(
        "curly quotes",
        "deployment",
        "{{ spec.size }}",
        "{{ spec.size | default(\u201cs\u201d) }}",
        25,
        ("straight quotes",),
    ),
    Mistake(
        "Helm's default",
        "deployment",
        "{{ spec.image }}",
        '{{ default "nginx:1.27" spec.image }}',
        19,
        ("Go template", "value | default(other)"),
    ),
    Mistake(
        "the parent as a variable",
        "deployment",
        "{{ spec.size }}",
        "{{ parent.spec.size }}",
        25,
        ("parent", "use spec"),
    ),
    # Fields that people know from elsewhere.
    Mistake(
        "a field of a container in the pod",
        "deployment",
        "          env:\n            - name: SIZE\n              value: {{ spec.size }}\n",
        "      env:\n        - name: SIZE\n          value: {{ spec.size }}\n",
        23,
        ("no field spec.template.spec.env", "into an item of spec.template.spec.containers"),
    ),
    Mistake(
        "an environment as KEY=VALUE",
        "deployment",
        "- name: SIZE\n              value: {{ spec.size }}\n",
        "- SIZE=1\n",
        24,
        ("must be a mapping", "write name: and value:"),
    ),
    Mistake(
        "a command as a text",
        "deployment",
        "image: {{ spec.image }}\n",
        "image: {{ spec.image }}\n          command: nginx -g daemon\n",
        20,
        ("command must be a list", "in brackets"),
    ),
    Mistake(
        "seconds with a unit",
        "deployment",
        "image: {{ spec.image }}\n",
        "image: {{ spec.image }}\n          livenessProbe: {periodSeconds: 5s, httpGet: {path: /, port: http}}\n",
        20,
        ("periodSeconds must be a whole number", "without a unit"),
    ),
    Mistake(
        "a blank in an image", "deployment", "{{ spec.image }}", "'nginx: 1.27'", 19, ("a blank", "write nginx:1.27")
    ),
    Mistake(
        "a value that is there in two ways",
        "deployment",
        "value: {{ spec.size }}\n",
        "value: {{ spec.size }}\n              valueFrom: {configMapKeyRef: {name: hello, key: greeting}}\n",
        26,
        ("valueFrom must not be set", "`value` is not empty"),
    ),
    Mistake(
        "a selector without matchLabels",
        "deployment",
        "    matchLabels:\n      app: {{ name }}\n",
        "    app: {{ name }}\n",
        10,
        ("no field spec.selector.app", "it belongs into spec.selector.matchLabels"),
    ),
    Mistake(
        "a number in a Secret",
        f"{FOLDER}/extra.yaml.j2",
        "",
        secret("stringData:\n  port: 5432\n"),
        6,
        ("stringData.port must be a string", "in quotes"),
    ),
    Mistake(
        "a status below status",
        "status",
        STATUS,
        "status:\n  address: {{ name }}\n",
        1,
        ("status.status", "without the line status:"),
    ),
    # Files and folders.
    Mistake(
        "a file of Kustomize",
        f"{FOLDER}/kustomization.yaml",
        "",
        "resources: [a.yaml]\n",
        1,
        ("no manifest", "elsewhere"),
    ),
    Mistake(
        "a misspelt file of settings",
        f"{FOLDER}/_setings.yaml",
        "",
        "interval: 5m\n",
        1,
        ("is neither rendered nor read", "_settings.yaml"),
    ),
    Mistake(
        "a manifest in no folder", "templates/extra.yaml.j2", "", SERVICE, 1, ("in no resource's folder", "move it")
    ),
    Mistake(
        "a folder with the name of the kind",
        "templates/Site/a.yaml.j2",
        "",
        SERVICE,
        1,
        ("templates/Site", "sites.example.com"),
    ),
    Mistake(
        "a folder in a folder of the group",
        "templates/example.com/sites/a.yaml.j2",
        "",
        SERVICE,
        1,
        ("sites.example.com",),
    ),
    # CRDs of other times, and of other words.
    Mistake(
        "a CRD of an old version",
        "crd",
        "apiextensions.k8s.io/v1",
        "apiextensions.k8s.io/v1beta1",
        1,
        ("removed", "write apiextensions.k8s.io/v1"),
    ),
    Mistake(
        "the version of an old CRD",
        "crd",
        "  scope: Namespaced\n",
        "  scope: Namespaced\n  version: v1\n",
        11,
        ("no field spec.version", "versions"),
    ),
    Mistake(
        "no openAPIV3Schema",
        "crd",
        "        openAPIV3Schema:\n          type: object\n          properties:\n",
        "        properties:\n",
        20,
        ("no field spec.versions[0].schema.properties", "into spec.versions[0].schema.openAPIV3Schema"),
    ),
    Mistake(
        "a typo in a field of a schema",
        "crd",
        "                    x-kubernetes-preserve-unknown-fields",
        "                    x-kubernetes-preserve-unknown-field",
        47,
        ("did you mean x-kubernetes-preserve-unknown-fields?",),
    ),
    Mistake(
        "a rule with a typo",
        "crd",
        "required: [image]\n",
        "required: [image]\n              x-kubernetes-validations: [{ruel: 'true'}]\n",
        26,
        ("ruel", "did you mean rule?"),
    ),
    Mistake(
        "a column of a type that doesn't exist",
        "crd",
        "type: string, jsonPath",
        "type: str, jsonPath",
        18,
        ('"str"', "string"),
    ),
    Mistake(
        "a column whose path has no dot", "crd", "'.status.cond", "'status.cond", 18, ("jsonPath", "starting with .")
    ),
    Mistake(
        "no other fields",
        "crd",
        "required: [image]\n",
        "required: [image]\n              additionalProperties: false\n",
        26,
        ("additionalProperties of spec", "mutual exclusive"),
    ),
    Mistake(
        "a list without items",
        "crd",
        "                size:\n",
        "                hosts: {type: array}\n                size:\n",
        32,
        ("items of spec.hosts", "must be specified"),
    ),
    Mistake(
        "the metadata in a schema",
        "crd",
        "            spec:\n",
        "            metadata: {type: object, properties: {labels: {type: object}}}\n            spec:\n",
        23,
        ("metadata", "implicitly specified"),
    ),
    Mistake(
        "a definition elsewhere",
        "crd",
        "                size:\n",
        "                a: {$ref: '#/x'}\n                size:\n",
        32,
        ("$ref is not supported",),
    ),
    # Examples of something else.
    Mistake(
        "an example of another group",
        "example",
        "example.com/v1",
        "example.org/v1",
        1,
        ("Site", "write example.com/v1"),
    ),
    Mistake(
        "an example without version", "example", "example.com/v1", "example.com", 1, ("Site", "write example.com/v1")
    ),
    Mistake("an example with a tab", "example", "  image", "\timage", 6, ("a tab", "with spaces")),
)
"""Those of people who know other tools."""


@pytest.mark.parametrize(
    "mistake",
    [
        *(pytest.param(each, id=each.what) for each in MISTAKES),
        *(pytest.param(each, id=each.what, marks=pytest.mark.exhaustive) for each in MORE_MISTAKES),
    ],
)
def test_the_first_line_is_enough_to_correct_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mistake: Mistake
) -> None:
    make(mistake, tmp_path)
    lines = first_lines(tmp_path, capsys)
    assert lines
    place = f"{NAMES.get(mistake.file, mistake.file)}:{mistake.line}: " if mistake.line else ""
    assert lines[0].startswith(place)
    assert [each for each in mistake.words if each not in lines[0]] == []
    assert len(lines) == mistake.findings, lines


@pytest.mark.slow
def test_each_message_of_the_page_of_troubleshooting_is_that_of_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    section = page.partition("\n## Mistakes in templates\n")[2].partition("\n## ")[0]
    messages = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert len(messages) > 10
    lines = []
    for number, mistake in enumerate((*MISTAKES, *MORE_MISTAKES)):
        make(mistake, tmp_path / str(number))
        lines += first_lines(tmp_path / str(number), capsys)[:1]
    patterns = {each: "(?:^|: )" + ".*".join(map(re.escape, each.split("…"))) for each in messages}
    assert [each for each, pattern in patterns.items() if not any(re.search(pattern, line) for line in lines)] == []


RENDERED = {
    "a variable without spec": ("replicas is not defined", "did you mean spec.replicas?"),
    "a typo in a field of the parent": ("the CRD declares no spec.replcas", "did you mean spec.replicas?"),
    "a typo in a filter": ("No filter named 'defualt'", "did you mean default?"),
    "a filter of Helm": ("No filter named 'quote'", "is not needed"),
    "an if without end": ("{% if %} has no {% endif %}",),
    "an end of another block": ("{% endif %} is here before {% endfor %}", "{% for %} of line 6"),
    "an end of no block": ("{% endif %} closes nothing",),
    "one brace": ("metadata.name must be a string, and this is a mapping", "two braces: {{ name }}"),
    "braces that are not closed": ("unexpected '}'", "two braces"),
    "a tab in YAML": ("tab",),
    "a wrong indentation": ("ports:", "check the indentation"),
    "a field that is there twice": ("the key type is there twice", "service.yaml.j2:8"),
    "a colon in a value": (
        "mapping values are not allowed",
        "greeting: note: this",
        "put a value with a colon into quotes",
    ),
    "no separator between two manifests": ("the key kind is there twice", "write --- between two manifests"),
    "no apiVersion": ("apiVersion is missing",),
    "no name": ("metadata must be a mapping, and this is null", "name: below it"),
    "a label that is a number": ("metadata.labels.version must be a string", "write it in quotes"),
    "an annotation that is true": ("metadata.annotations.on must be a string", "write it in quotes"),
    "plain text in a Secret's data": ("data.token", "b64encode", "stringData"),
    "two manifests of one object": ("is rendered twice", "service.yaml.j2:1"),
    "a child of a name that no template renders, in a manifest": ("did you mean Service/hello?",),
    "an example without a required field": ("spec.image: Required value",),
    "an example with a string for a number": ("spec.replicas", "integer"),
    "an example with a value that isn't allowed": ("medium", '"small", "large"'),
    "an example of another version": ("doesn't serve version v2; served are v1",),
    "an example with a name in upper case": ("Hello", "lower case"),
}
"""What the first line of `render` must have, besides the file and the line, for mistakes because of which it fails."""


@pytest.mark.parametrize("what", RENDERED)
def test_the_first_line_of_a_render_is_enough_to_correct_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    (mistake,) = (each for each in MISTAKES if each.what == what)
    name = NAMES.get(mistake.file, mistake.file)
    text = FILES.get(name, "")
    changed = text.replace(mistake.before, mistake.after, 1) if mistake.before else text + mistake.after
    write(tmp_path, {**FILES, name: changed})
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(application_of(), ["render", "examples/site.yaml"])
    refused = str(result.exception) if isinstance(result.exception, CommandError) else result.stderr
    first = refused.splitlines()[0]
    assert result.exit_code
    assert first.startswith(f"{name.removeprefix('templates/')}:{mistake.line}: ")
    assert [each for each in RENDERED[what] if each not in first] == []
