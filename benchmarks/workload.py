"""What every benchmark works on: Echos, and the Deployment and Service that each of them is rendered into.

Promises:
- The templates are the project's own for Echo, with a Service beside the Deployment.
- `writes` gives the requests that an operator can't do without, with the bodies that ours sends: one apply a child and
  one write of the status.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ssa_operator.core.encoding import encode
from ssa_operator.core.identity import GroupKind
from ssa_operator.core.live import Live
from ssa_operator.core.manifest import Manifest, Rules, group_kind, manifest
from ssa_operator.core.plan import Action, Plan, Step
from ssa_operator.core.status import Outcome, Result, make_report
from ssa_operator.kube import request as calls
from ssa_operator.kube.request import Request
from ssa_operator.kube.resource import Resource
from ssa_operator.rendering.render import render
from ssa_operator.rendering.sources import Folder, load

ROOT = Path(__file__).parent.parent
CRDS = ROOT / "crds"
FOLDER = "echoes.example.com"
API_VERSION = "example.com/v1"
ECHO = GroupKind("example.com", "Echo")

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
    """Make a templates folder with the benchmarks' Echo in `folder`; returns it."""
    shutil.copytree(ROOT / "templates", folder)
    (folder / FOLDER / "service.yaml.j2").write_text(_SERVICE)
    return folder


def load_folder(templates: Path) -> Folder:
    """The Echo folder of `write_templates`, loaded as the operator loads it. Raises ValueError where it has faults."""
    folder = load(templates).folders[FOLDER]
    if folder.problems:
        raise ValueError("; ".join(map(str, folder.problems)))
    return folder


def echo(name: str, namespace: str, replicas: int) -> dict[str, Any]:
    """A parent as a user writes it."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": API_VERSION, "kind": ECHO.kind, "metadata": metadata, "spec": {"replicas": replicas}}


def child_kinds(folder: Folder) -> set[GroupKind]:
    """The kinds that the folder renders."""
    rendered = render(folder, echo("any", "any", 1))
    return {group_kind(document) for document in rendered.documents}


def writes(folder: Folder, parent: Live, resources: Mapping[GroupKind, Resource], now: float) -> list[Request]:
    """The least that has to be sent for a parent: its children's applies, then its status.

    `resources` has the kind of the parent and those of `child_kinds`; `now` is in seconds since the epoch.
    """
    rendered = render(folder, parent.body)
    manifests = [manifest(document, parent, Rules(namespaced=True)) for document in rendered.documents]
    applies = [
        calls.apply(resources[made.identity.group_kind], made.identity.namespace, made.identity.name, made.encoded)
        for made in manifests
    ]
    steps = tuple(Step(action=Action.APPLY, identity=made.identity, manifest=made) for made in manifests)
    outcomes = [
        Outcome(step=step, result=Result.CREATED, live=_as_created(made))
        for step, made in zip(steps, manifests, strict=True)
    ]
    report = make_report(parent, Plan(steps=steps, rendered=rendered), outcomes, now)
    body = {
        "apiVersion": API_VERSION,
        "kind": ECHO.kind,
        "metadata": {"name": parent.identity.name, "resourceVersion": parent.resource_version},
        "status": report.status,
    }
    identity = parent.identity
    status = calls.apply(resources[ECHO], identity.namespace, identity.name, encode(body), subresource="status")
    return [*applies, status]


def _as_created(made: Manifest) -> Live:
    """A child as an answer of the API server would show it, with a uid of the usual length."""
    added = {"uid": "00000000-0000-4000-8000-000000000000", "resourceVersion": "1", "generation": 1}
    return Live.of({**made.body, "metadata": {**made.body["metadata"], **added}})
