"""The workload of the benchmarks: Echos, and the Deployment and Service that the templates render for each.

Promises:
- The templates are the project's own for Echo, with a Service beside the Deployment.
- `writes` returns the requests that every operator needs, with the bodies that ssa-operator sends: one apply a child
  and one write of the status.
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
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Rules, group_kind, manifest
from ssa_operator.rendering.folder.loaded_folders import Folder, load
from ssa_operator.rendering.render import render

ROOT = Path(__file__).parent.parent
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

_MORE = """\
{% for number in range(MORE) %}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-{{ number }}
data:
  replicas: "{{ spec.replicas }}"
  number: "{{ number }}"
{% endfor %}
"""


def write_templates(folder: Path, children: int = 2) -> Path:
    """Write a templates folder with the benchmarks' Echo to `folder`; returns it. Further children are ConfigMaps."""
    shutil.copytree(ROOT / "templates" / FOLDER, folder / FOLDER)
    (folder / FOLDER / "service.yaml.j2").write_text(_SERVICE)
    if children > 2:
        (folder / FOLDER / "more.yaml.j2").write_text(_MORE.replace("MORE", str(children - 2)))
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


def writes(
    folder: Folder, parent: LiveObject, resources: Mapping[GroupKind, Resource], sample: LiveObject
) -> list[Request]:
    """The minimum of requests for a parent: its children's applies, then its status.

    `resources` has the kind of the parent and those of `children`; `sample` is an Echo whose status the operator has
    written: the parent gets the same one, with its own names. (The children's uids in it stay the sample's.)
    """
    manifests = [manifest(document, parent, _RULES) for document in render(folder, parent.body).documents]
    applies = [
        calls.apply(resources[made.identity.group_kind], made.identity.namespace, made.identity.name, made.encoded)
        for made in manifests
    ]
    namespace, name = parent.identity.namespace, parent.identity.name
    body = {
        "apiVersion": API_VERSION,
        "kind": ECHO.kind,
        "metadata": {"name": name, "resourceVersion": parent.resource_version},
        "status": _renamed(sample.body["status"], sample, parent),
    }
    status = calls.ApplyOptions(subresource="status")
    return [*applies, calls.apply(resources[ECHO], namespace, name, encode(body), status)]


def _renamed(value: Any, sample: LiveObject, parent: LiveObject) -> Any:
    """The sample's status for another parent: texts name the sample as `namespace/name`."""
    if isinstance(value, dict):
        return {key: _renamed(item, sample, parent) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, sample, parent) for item in value]
    one, other = sample.identity, parent.identity
    names = {one.namespace: other.namespace, one.name: other.name}
    if isinstance(value, str):
        pair = f"{one.namespace}/{one.name}"
        return names.get(value, value.replace(pair, f"{other.namespace}/{other.name}"))
    return value
