"""The workload of the benchmarks: Echos, and the Deployment and Service that the templates render for each.

Promises:
- The templates are the project's own for Echo, with a Service beside the Deployment.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Rules, group_kind, manifest
from ssa_operator.rendering.folder.loaded_folders import Folder, load
from ssa_operator.rendering.render import render

ROOT = Path(__file__).parents[2]
CRDS = ROOT / "crds"
FOLDER = "echoes.example.com"
API_VERSION = "example.com/v1"
ECHO = GroupKind("example.com", "Echo")

_RULES = Rules(namespaced=True)

_SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: {{ name }}
  labels:
    app.kubernetes.io/name: echo
    app.kubernetes.io/instance: {{ name }}
spec:
  selector:
    app.kubernetes.io/name: echo
    app.kubernetes.io/instance: {{ name }}
  ports:
    - name: http
      port: 80
      targetPort: http
"""


def write_templates(folder: Path) -> Path:
    """Write a templates folder with the benchmarks' Echo to `folder`; returns it."""
    shutil.copytree(ROOT / "templates" / FOLDER, folder / FOLDER)
    (folder / FOLDER / "service.yaml.j2").write_text(_SERVICE)
    return folder


def load_folder(templates: Path) -> Folder:
    """The Echo folder of `write_templates`, loaded as the operator loads it. Raises ValueError if it has errors."""
    folder = load(templates).folders[FOLDER]
    if folder.problems:
        raise ValueError("; ".join(map(str, folder.problems)))
    return folder


def echo(name: str, namespace: str, replicas: int) -> dict[str, Any]:
    """A parent as a user writes it."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": ECHO.kind, "metadata": metadata, "spec": {"replicas": replicas}}


def children(folder: Folder) -> Counter[GroupKind]:
    """The number of manifests that the folder renders, by kind."""
    rendered = render(folder, echo("any", "any", 1))
    return Counter(group_kind(document) for document in rendered.documents)


def applies(folder: Folder, parent: LiveObject, resources: Mapping[GroupKind, Resource]) -> list[Request]:
    """The applies of a parent's children, with the bodies that ssa-operator sends."""
    manifests = [manifest(document, parent, _RULES) for document in render(folder, parent.body).documents]
    return [
        calls.apply(resources[made.identity.group_kind], made.identity.namespace, made.identity.name, made.encoded)
        for made in manifests
    ]
