"""Checks the YAML of pages: templates, manifests and parts of them, kustomizations, values and settings.

Promises:
- The templates of a page are one folder, checked as `ssa-operator check` does for the parent of examples/echo.yaml.
  Fields of `spec` that only they have are texts. A part of a manifest is a part of a ConfigMap.
- A manifest passes the schemas of `ssa-operator check`, and so does a part of one in the place where it belongs.
- kubectl builds a kustomization beside deploy/base. YAML of no known form is a mistake.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.render_result import Document
from ssa_operator.operator.process.option_values import installation_of
from ssa_operator.rendering.folder.folder_settings import parse_settings
from ssa_operator.rendering.folder.object_files import FileError, objects
from ssa_operator.rendering.yaml.nodes import DocumentError
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.tools.checks.manifest_rules import check_manifests
from ssa_operator.tools.checks.project_checks import CheckedFiles, find_problems
from ssa_operator.tools.offline.project import read_crds
from ssa_operator.tools.schema_rules import bundled_schemas, check_schemas
from tests.docs.blocks.pages import Block, blocks, is_whole, yaml_values
from tests.packaging.checkout import ROOT

BIN = Path(sys.executable).parent
CRD_FOLDERS = [ROOT / "crds", *sorted(ROOT.glob("examples/*/crds"))]

_MARKS = re.compile(r"(?<!\$)\{\{|\{%|ssa-operator\.dev/(recreate|prune|apply|after|on|wait|ready-when):")
"""What only a template has: Jinja (not `${{` of GitHub's workflows), and instructions to the operator."""

_SERVICE = 'apiVersion: v1\nkind: Service\nmetadata: {name: "{{ name }}"}\nspec: {ports: [{port: 80}]}\n'
"""What templates of pages read with `child` and their page doesn't show."""


@functools.cache
def schemas() -> KubernetesSchemas:
    """The schemas that `ssa-operator check` uses for the repository. Reading them takes a moment."""
    return bundled_schemas(KUBERNETES_VERSION).with_crds([each.body for each in read_crds(CRD_FOLDERS)])


def is_template(block: Block) -> bool:
    """Whether a block is a template or a static manifest of a template folder."""
    return block.language == "jinja" or (block.language == "yaml" and bool(_MARKS.search(block.text)))


def wrong_templates(block: Block, others: Iterable[Block] = ()) -> list[str]:
    """What is wrong with a template, beside the other templates of its page."""
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: block-{}\n"
    texts = {each: "" if is_whole(each) else head.format(each.line) for each in (block, *others)}
    texts = {each: text + each.text.removeprefix("metadata:\n" if text else "") for each, text in texts.items()}
    text = "".join(texts.values())
    files = {f"{each.line}.yaml.j2": text for each, text in texts.items()} | {"_settings.yaml": "clusterScope: true\n"}
    files |= {} if "kind: Service\n" in text else {"a.yaml.j2": _SERVICE}
    with tempfile.TemporaryDirectory() as temporary:
        folder, example = Path(temporary) / "templates" / "echoes.example.com", Path(temporary) / "echo.yaml"
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_text(content, encoding="utf-8")
        example.write_text(yaml.safe_dump(_parent(text)), encoding="utf-8")
        paths: dict[str, Any] = {"templates": [folder.parent], "crds": [], "examples": [example]}
        installation = installation_of(None, namespace="")
        findings = find_problems(CheckedFiles(**paths, installation=installation, schemas=schemas()))
        # The kind of a part of a manifest is not known, and a page may show how a parent decides what is looked up.
        accepted = {"lookup-by-parent", *(() if is_whole(block) else ("unknown-field",))}
        found = [each for each in findings if each.code not in accepted]
    return [each.text for each in found if not each.location or each.location.file.endswith(f"/{block.line}.yaml.j2")]


def _parent(text: str) -> dict[str, Any]:
    """The Echo of the examples, with each field of `spec` that a text reads."""
    parent: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "echo.yaml").read_text(encoding="utf-8"))
    for path in sorted(set(re.findall(r"\bspec((?:\.[a-zA-Z_]+)+)", text)), key=len, reverse=True):
        body, names = parent["spec"], path.split(".")[1:]
        for name in names[:-1]:
            body = body.setdefault(name, {})
        body.setdefault(names[-1], "text")
    return parent


def wrong_yaml(block: Block) -> list[str]:
    """What is wrong with a YAML block that is no template."""
    try:
        return [each for value in yaml_values(block) for each in _mistakes(block, value)]
    except (DocumentError, FileError, subprocess.CalledProcessError) as error:
        return [str(getattr(error, "stderr", "") or error)]


def documents(block: Block, value: Any) -> Sequence[Document]:
    """The manifests that a value of a block is, is a part of, or makes. Raises FileError and CalledProcessError."""
    first = next(iter(value), "") if isinstance(value, Mapping) else ""
    if first == "spec":
        parent = next(each for each in blocks(block.page) if each.text.startswith("apiVersion:"))
        value = {**yaml_values(parent)[0], **value}
    elif first == "env":
        labels, container = {"app": "part"}, {"name": "part", "image": "part:1", **value}
        pods = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"selector": {"matchLabels": labels}, "template": pods}
        value = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "part"}, "spec": spec}
    elif first == "patches" or "# kustomization" in block.text:
        return objects(_built(value), str(block))
    return objects(json.dumps(value), str(block)) if first and {"apiVersion", "kind"} <= value.keys() else ()


def _mistakes(block: Block, value: Any) -> Iterator[str]:
    found, known = documents(block, value), schemas()
    heading = block.text.partition("\n")[0]
    if heading == "# values.yaml":
        # Values of the chart are checked as the spec of a kind whose schema is that of the chart.
        schema = json.loads((ROOT / "deploy" / "chart" / "values.schema.json").read_text(encoding="utf-8"))
        kind = {"properties": {name: {} for name in ("apiVersion", "kind", "metadata")} | {"spec": schema}}
        known = replace(known, kinds={"v1": {"Values": kind}})
        body = {"apiVersion": "v1", "kind": "Values", "metadata": {"name": "a"}, "spec": value}
        found = objects(json.dumps(body), str(block))
    elif heading.startswith("# --values "):
        yield from (f"there is no templates/{name}" for name in value if not (ROOT / "templates" / name).is_dir())
    elif heading == "repos:":
        hooks = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
        used = (hook["id"] for repository in value["repos"] for hook in repository["hooks"])
        yield from (f"there is no hook {each}" for each in used if f"id: {each}\n" not in hooks)
    elif not found:
        parse_settings(str(block), block.text)
    for each in found:
        if known.schema(each.body["apiVersion"], each.body["kind"]) is None:
            yield f"there is no schema of {each.body['kind']} in {each.body['apiVersion']}"
    findings = [*check_schemas(found, known), *check_manifests(list(found))]
    yield from (each.text for each in findings if each.code != "latest-image")


def _built(kustomization: Mapping[str, Any]) -> str:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("deploy/base", "templates", "crds"):
            shutil.copytree(ROOT / name, Path(folder) / name)
        whole = {"resources": ["deploy/base"], **kustomization}
        (Path(folder) / "kustomization.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")
        return subprocess.run([BIN / "kubectl", "kustomize", folder], capture_output=True, text=True, check=True).stdout
