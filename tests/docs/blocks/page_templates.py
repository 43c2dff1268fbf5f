"""Renders the templates of pages that show no result, as `ssa-operator check` renders the templates of a folder.

Promises:
- The templates of a page are one folder, for the parent of examples/echo.yaml. Fields of `spec` that only the
  templates have are texts.
- Everything that a template waits for comes into being, so each document is rendered.
- A manifest passes the operator's rules and the schemas of `check`. A part of a manifest is rendered in a ConfigMap.
"""

from __future__ import annotations

import copy
import functools
import re
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ssa_operator.objects.annotations import Reference
from ssa_operator.objects.cluster_view import Lookup
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Document, WaitTarget
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.reconcile.step import Action
from ssa_operator.rendering.folder.loaded_folders import Folder, Sources, load
from ssa_operator.rendering.folder.object_files import load_objects
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.tools.checks.manifest_rules import check_manifests
from ssa_operator.tools.checks.ready_objects import ready_object
from ssa_operator.tools.offline.offline_cluster import OfflineCluster, OfflineParent, live_objects
from ssa_operator.tools.offline.template_folders import cluster_scoped
from ssa_operator.tools.schema_rules import check_schemas
from tests.docs.blocks.pages import Block, blocks
from tests.docs.blocks.schemas import schemas
from tests.docs.blocks.yaml_blocks import is_whole
from tests.packaging.checkout import ROOT

FOLDER = "echoes.example.com"
INSTRUCTION = re.compile(r"ssa-operator\.dev/(recreate|prune|apply|after|on|wait|ready-when):")
"""The annotations of a manifest that are instructions to the operator."""

_JINJA = re.compile(r"(?<!\$)\{\{|\{%")
"""`${{` is an expression of a workflow of GitHub."""

_COMPANIONS = {
    "Service": (
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ name }}\nspec:\n  ports: [{port: 80}]\n"
        '  selector: {app: "{{ name }}"}\n'
    ),
    "StatefulSet": (
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: {{ name }}\nspec:\n"
        '  selector: {matchLabels: {app: "{{ name }}"}}\n  serviceName: {{ name }}\n  template:\n'
        '    metadata: {labels: {app: "{{ name }}"}}\n    spec: {containers: [{name: main, image: "main:1"}]}\n'
    ),
}
"""The manifests that templates of pages read with `child` and that their page doesn't show."""

_ROUNDS = 10


def is_template(block: Block) -> bool:
    """Whether a block is a template or a static manifest of a template folder."""
    if block.language not in ("jinja", "yaml"):
        return False
    return block.language == "jinja" or bool(_JINJA.search(block.text) or INSTRUCTION.search(block.text))


@dataclass(frozen=True, slots=True)
class RenderedPage:
    """The templates of a page, rendered."""

    mistakes: Mapping[Block, tuple[str, ...]]
    manifests: tuple[Document, ...]
    """The whole manifests that the blocks render, without the instructions to the operator."""


@functools.cache
def rendered_page(page: str, read_elsewhere: frozenset[Block] = frozenset()) -> RenderedPage:
    """The templates of a page that no other test reads, rendered."""
    found = [block for block in blocks(page) if is_template(block) and block not in read_elsewhere]
    wide = "`clusterScope: true`" in (ROOT / page).read_text(encoding="utf-8")
    return render_blocks(found, cluster_scope=wide)


def render_blocks(templates: Iterable[Block], *, cluster_scope: bool = False) -> RenderedPage:
    """These templates, rendered as the files of one folder."""
    names = {f"{_kind(block)}-{block.line}.yaml.j2": block for block in templates}
    files = {name: _file(name, block.text) for name, block in names.items()}
    text = "".join(files.values())
    read = set(re.findall(r"""(?:child|live)\(["'](\w+)["']""", text)) - set(re.findall(r"kind: (\w+)", text))
    files |= {f"companion-{kind}.yaml.j2": _COMPANIONS[kind] for kind in sorted(read & _COMPANIONS.keys())}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / FOLDER
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_text(content, encoding="utf-8")
        (folder / "_settings.yaml").write_text(f"clusterScope: {str(cluster_scope).lower()}\n", encoding="utf-8")
        sources = load(Path(temporary))
    found = _findings(sources)
    manifests = [document for document in found.documents if _file_of(document).startswith("whole-")]
    return RenderedPage(
        {block: tuple(each for name, each in found.messages if name in ("", file)) for file, block in names.items()},
        tuple(map(_as_applied, manifests)),
    )


def _kind(block: Block) -> str:
    return "whole" if is_whole(block) else "part"


def _file(name: str, text: str) -> str:
    if name.startswith("whole-"):
        return text
    head = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name.partition('.')[0]}\n"
    return head + text.removeprefix("metadata:\n")


def _file_of(document: Document) -> str:
    return document.location.file.partition("/")[2]


@dataclass(frozen=True, slots=True)
class _Found:
    messages: tuple[tuple[str, str], ...]
    """Each with its file, '' for none."""
    documents: tuple[Document, ...] = ()


def _findings(sources: Sources) -> _Found:
    """What is wrong with the templates, and what they render."""
    folder = sources.folders[FOLDER]
    problems = [*sources.problems, *folder.problems]
    if problems or folder.templates is None:
        return _Found(
            tuple((each.location.file.partition("/")[2] if each.location else "", str(each)) for each in problems)
        )
    parent = _parent(folder)
    found = _complete(OfflineCluster(sources=sources, kinds={}, now=0.0, built_in_readiness=True), parent)
    documents = found.rendered.documents
    wholes = [document for document in documents if _file_of(document).startswith("whole-")]
    wrong = [
        *((each.location, str(each)) for each in found.problems),
        *((each.location, str(each)) for each in found.rendered.waits),
        *((step.location, f"{step.identity} {step.reason}") for step in found.steps if step.action is Action.REFUSE),
        *((each.location, each.text) for each in check_schemas(map(_as_applied, wholes), schemas())),
        *((each.location, each.text) for each in check_manifests(wholes)),
    ]
    return _Found(tuple((at.file.partition("/")[2] if at else "", f"{at}: {text}") for at, text in wrong), documents)


def _parent(folder: Folder) -> Document:
    """The Echo of the examples, with each field of `spec` that the templates read."""
    (parent,) = load_objects([ROOT / "examples" / "echo.yaml"])
    spec: dict[str, Any] = copy.deepcopy(dict(parent.body["spec"]))
    read = {field.path for field in template_contents(folder).fields if field.path[0] == "spec"}
    for path in read:
        if not any(other[: len(path)] == path and other != path for other in read):
            _set(spec, path[1:], "text")
    return replace(parent, body={**parent.body, "spec": spec})


def _complete(cluster: OfflineCluster, parent: Document) -> OfflineParent:
    """The parent when all of its children are ready, and everything that its templates wait for is there."""
    wanted: dict[Identity, dict[FieldPath, None]] = {}
    others: dict[Identity, dict[str, Any]] = {}
    found = cluster.render(parent)
    for _ in range(_ROUNDS):
        manifests = {step.identity: step.manifest.body for step in found.steps if step.manifest is not None}
        for target in (target for wait in found.rendered.waits for target in wait.awaited):
            identity = _awaited(target, manifests)
            if isinstance(target.query, Lookup) and identity is not None:
                others[identity] = _object(target.query)
            if identity is not None and target.field:
                wanted.setdefault(identity, {})[target.field] = None
        bodies = {**others, **{identity: ready_object(body) for identity, body in manifests.items()}}
        for identity, fields in wanted.items():
            for field in fields:
                _set(bodies[identity], field, "text")
        cluster.objects = {identity: LiveObject.of(body) for identity, body in bodies.items()}
        before, found = found, cluster.render(parent)
        if found.rendered.documents and len(found.rendered.waits) == len(before.rendered.waits) == 0:
            break
    return found


def _awaited(target: WaitTarget, manifests: Mapping[Identity, Any]) -> Identity | None:
    if isinstance(target.query, Lookup):
        return target.query.identity
    if isinstance(target.query, Reference):
        named = (target.query.kind, target.query.name)
        return next((identity for identity in manifests if (identity.kind, identity.name) == named), None)
    return None


def _object(query: Lookup) -> dict[str, Any]:
    namespace = {"namespace": query.namespace} if query.namespace else {}
    return {"apiVersion": query.api_version, "kind": query.kind, "metadata": {"name": query.name, **namespace}}


def _set(body: dict[str, Any], path: FieldPath, value: str) -> None:
    """Set a field of a body unless it has one."""
    for name in path[:-1]:
        body = body.setdefault(str(name), {})
    body.setdefault(str(path[-1]), value)


def _as_applied(document: Document) -> Document:
    """The manifest as the API server gets it: without instructions, and in the namespace of the parent."""
    metadata = dict(document.body["metadata"])
    annotations = {
        name: value
        for name, value in (metadata.pop("annotations", None) or {}).items()
        if not INSTRUCTION.match(f"{name}:")
    }
    (identity,) = live_objects([document], cluster_scoped({}), "default")
    metadata |= {"annotations": annotations} if annotations else {}
    metadata |= {"namespace": identity.namespace} if identity.namespace else {}
    return replace(document, body={**document.body, "metadata": metadata})
