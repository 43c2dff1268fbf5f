"""A CRD whose two versions have different fields, and the templates that convert between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ssa_operator.operator.conversion.folder_converters import converter
from ssa_operator.operator.conversion.rules import Converter
from ssa_operator.operator.crd_files import load_crds, schema_files
from ssa_operator.rendering.folder.loaded_folders import load

Body = dict[str, Any]

SITES = "sites.example.com"

SCHEMA = """\
kind: Site
version: v1
spec:
  image: string | required
  replicas:
    min: integer | default=1 minimum=0 maximum=9
    max: integer | minimum=0 maximum=9
  zone: string | immutable
  ports:
    - ignored
  notes: "map[string]string"
status:
  address: string
  pods: integer
versions:
  v1alpha1:
    deprecated: write v1
    spec:
      image: string | required
      count: integer | default=1 minimum=0 maximum=9
      size: string | enum=small,large
      ports: "[]Port"
      notes: "map[string]string"
    status:
      address: string
types:
  Port:
    name: string | required
    number: integer
  PortOfV1:
    name: string | required
    number: integer
    protocol: string
""".replace("  ports:\n    - ignored\n", '  ports: "[]PortOfV1"\n')

TO_V1 = """\
spec:
  image: {{ spec.image }}
  replicas:
    min: {{ spec.count | default(1) }}
  {% if spec.ports is defined %}
  ports: {{ spec.ports }}
  {% endif %}
  {% if spec.notes is defined %}
  notes: {{ spec.notes }}
  {% endif %}
"""

TO_V1ALPHA1 = """\
spec:
  image: {{ spec.image }}
  count: {{ spec.replicas.min | default(1) }}
  {% if spec.ports is defined %}
  ports: {{ spec.ports }}
  {% endif %}
  {% if spec.notes is defined %}
  notes: {{ spec.notes }}
  {% endif %}
"""


OLD_SCHEMA = """\
kind: Site
version: v1alpha1
spec:
  image: string | required
  count: integer | default=1 minimum=0 maximum=9
  size: string | enum=small,large
status:
  address: string
"""
"""The schema before there was a v1."""


def write(
    folder: Path, schema: str = SCHEMA, to_v1: str = TO_V1, to_v1alpha1: str = TO_V1ALPHA1, name: str = SITES
) -> Path:
    """The templates folder with the folder of Sites."""
    convert = folder / "templates" / name / "_convert"
    convert.mkdir(parents=True, exist_ok=True)
    (convert.parent / "_schema.yaml").write_text(schema)
    (convert / "v1alpha1-to-v1.yaml.j2").write_text(to_v1)
    (convert / "v1-to-v1alpha1.yaml.j2").write_text(to_v1alpha1)
    (convert.parent / "map.yaml.j2").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ name }}'}\ndata: {image: '{{ spec.image }}'}\n"
    )
    return folder / "templates"


def sites(templates: Path, key: bytes = b"key") -> Converter:
    """Converts Sites by the templates of a folder."""
    folder = load(templates).folders[SITES]
    assert folder.templates is not None, folder.problems
    (document,) = load_crds(*schema_files([templates]))
    return converter(folder.templates, document.body, key)


def site(version: str, spec: Body, status: Body | None = None, **metadata: Any) -> Body:
    """A Site as the API server stores it."""
    owners = [{"manager": "kubectl", "operation": "Apply", "apiVersion": f"example.com/{version}"}]
    return {
        "apiVersion": f"example.com/{version}",
        "kind": "Site",
        "metadata": {"name": "web", "namespace": "a", "uid": "u1", "managedFields": owners, **metadata},
        "spec": spec,
        **({} if status is None else {"status": status}),
    }


def kept(body: Body) -> Any:
    """The content of the annotation, None without it."""
    text = (body["metadata"].get("annotations") or {}).get("ssa-operator.dev/unconverted")
    return None if text is None else json.loads(text)
