"""Checks the templates of pages that show no result, as `ssa-operator check` does.

Promises:
- The templates of a page are one folder, for the parent of examples/echo.yaml. Fields of `spec` that only the
  templates have are texts. A part of a manifest is a part of a ConfigMap.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.operator.process.option_values import installation_of
from ssa_operator.rendering.folder.loaded_folders import Folder, load
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.tools.checks.project_checks import CheckedFiles, find_problems
from tests.docs.blocks.pages import Block, is_whole
from tests.docs.blocks.schemas import schemas
from tests.packaging.checkout import ROOT

FOLDER = "echoes.example.com"

_MARKS = re.compile(r"(?<!\$)\{\{|\{%|ssa-operator\.dev/(recreate|prune|apply|after|on|wait|ready-when|merge):")
"""What only a template has: Jinja (`${{` is an expression of a workflow of GitHub), and instructions to the operator."""

_COMPANIONS = {
    "Service": "apiVersion: v1\nkind: Service\nmetadata: {name: '{{ name }}'}\nspec: {ports: [{port: 80}]}\n",
    "StatefulSet": (
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: '{{ name }}'}\nspec:\n  selector: &a {matchLabels: {a: b}}\n"
        "  serviceName: a\n  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: 'a:1'}]}}\n"
    ),
}
"""Manifests that templates of pages read with `child` and that their page doesn't show."""

_NO_MISTAKES = {"lookup-by-parent", "folder-without-example"}
"""Codes of what a page may show."""


def is_template(block: Block) -> bool:
    """Whether a block is a template or a static manifest of a template folder."""
    return block.language == "jinja" or (block.language == "yaml" and bool(_MARKS.search(block.text)))


def mistakes(block: Block, others: Iterable[Block] = ()) -> list[str]:
    """What is wrong with a template, beside the other templates of its page."""
    files = {_name(each): _text(each) for each in (block, *others)}
    text = "".join(files.values())
    read = set(re.findall(r"""(?:child|live)\(["'](\w+)["']""", text)) - set(re.findall(r"kind: (\w+)", text))
    files |= {f"{kind}.yaml.j2": _COMPANIONS[kind] for kind in read & _COMPANIONS.keys()}
    files["_settings.yaml"] = "clusterScope: true\n"
    with tempfile.TemporaryDirectory() as temporary:
        folder, example = Path(temporary) / "templates" / FOLDER, Path(temporary) / "echo.yaml"
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_text(content, encoding="utf-8")
        example.write_text(yaml.safe_dump(_parent(load(folder.parent).folders[FOLDER])), encoding="utf-8")
        installation = installation_of(None, namespace="")
        paths = {"templates": [folder.parent], "crds": [], "examples": [example]}
        findings = find_problems(CheckedFiles(**paths, installation=installation, schemas=schemas()))
    return [
        each.text
        for each in findings
        if each.code not in (_NO_MISTAKES if is_whole(block) else {*_NO_MISTAKES, "unknown-field"})
        and (each.location is None or each.location.file.endswith(_name(block)))
    ]


def _name(block: Block) -> str:
    return f"block-{block.line}.yaml.j2"


def _text(block: Block) -> str:
    if is_whole(block):
        return block.text
    head = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: block-{block.line}\n"
    return head + block.text.removeprefix("metadata:\n")


def _parent(folder: Folder) -> dict[str, Any]:
    """The Echo of the examples, with each field of `spec` that the templates read."""
    parent: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "echo.yaml").read_text(encoding="utf-8"))
    read = {each.path for each in template_contents(folder).fields} if folder.templates is not None else set()
    for path in sorted((path for path in read if path[0] == "spec"), key=len, reverse=True):
        _set(parent, path)
    return parent


def _set(body: dict[str, Any], path: FieldPath) -> None:
    """Set a field of a body unless it has one."""
    for name in path[:-1]:
        body = body.setdefault(str(name), {})
    body.setdefault(str(path[-1]), "text")
