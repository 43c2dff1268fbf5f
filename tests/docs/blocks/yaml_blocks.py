"""Checks the YAML of pages: manifests, parts of manifests, kustomizations, values, settings and workflows.

Promises:
- A manifest passes the schemas of `ssa-operator check`: those of Kubernetes, and of the CRDs of the repository.
- A part of a manifest is checked in the place where it belongs.
- kubectl builds a kustomization beside deploy/base, and each of its patches changes the result.
- The readers of the project read its settings and values; the schema of the chart allows the chart's values.
- YAML of no known form is a mistake.
"""

from __future__ import annotations

import functools
import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from msgspec.structs import replace

from ssa_operator.objects.render_result import Document
from ssa_operator.rendering.folder.folder_settings import _KEYS as SETTINGS
from ssa_operator.rendering.folder.folder_settings import parse_settings
from ssa_operator.rendering.folder.installation import read_overrides
from ssa_operator.rendering.folder.object_files import FileError, objects
from ssa_operator.rendering.yaml.nodes import DocumentError
from ssa_operator.tools.checks.manifest_rules import check_manifests
from ssa_operator.tools.schema_rules import check_schemas
from tests.docs.blocks import programs
from tests.docs.blocks.pages import Block, blocks, yaml_values
from tests.docs.blocks.programs import BIN
from tests.docs.blocks.schemas import schemas
from tests.docs.blocks.typed_commands import Invocation
from tests.packaging.checkout import ROOT

Mistakes = Iterator[str]

BASE = {"resources": ["deploy/base"]}
"""What a page adds to."""


def mistakes(block: Block) -> list[str]:
    """What is wrong with a YAML block."""
    try:
        values = yaml_values(block)
    except DocumentError as error:
        return [f"{error.location}: {error}"]
    found: list[str] = []
    for value in values:
        check = _check_of(block, value)
        found += ["it has no form that the tests know"] if check is None else check(block, value)
    return found


def is_whole(block: Block) -> bool:
    """Whether a block has whole manifests."""
    return re.search(r"^kind:", block.text, re.MULTILINE) is not None


def manifests(block: Block) -> list[Document]:
    """The whole manifests of a block, or those that kubectl builds from a kustomization. Raises FileError."""
    if is_whole(block):
        return objects(block.text, str(block))
    if _check_of(block, block.value) is _kustomization:
        return objects(_built({**BASE, **block.value}), str(block))
    return []


def _check_of(block: Block, value: Any) -> Callable[[Block, Any], Iterable[str]] | None:
    if not isinstance(value, Mapping):
        return None
    heading = block.text.partition("\n")[0]
    for start, check in _HEADINGS.items():
        if heading.startswith(start):
            return check
    if {"apiVersion", "kind"} <= value.keys():
        return _manifest
    for name, check in _FIRST_KEYS.items():
        if next(iter(value)) == name:
            return check
    return _settings if value.keys() & set(SETTINGS) else None


def _findings(documents: Iterable[Document]) -> Mistakes:
    for document in documents:
        if schemas().schema(document.body["apiVersion"], document.body["kind"]) is None:
            yield f"there is no schema of {document.body['kind']} in {document.body['apiVersion']}"
    yield from (finding.text for finding in check_schemas(documents, schemas()))
    yield from (finding.text for finding in check_manifests(list(documents)) if finding.code != "latest-image")


def _manifest(block: Block, _: Any) -> Mistakes:
    try:
        yield from _findings(manifests(block))
    except FileError as error:
        yield from map(str, error.problems)


def _part_of_parent(block: Block, value: Any) -> Mistakes:
    """The spec of the kind of the page's first manifest."""
    first = next((each for each in blocks(block.page) if each.text.startswith("apiVersion:")), None)
    if first is None:
        yield "the page has no manifest that it could be a part of"
        return
    (whole,) = yaml_values(first)
    yield from _findings(_documents({**whole, **value}, block))


def _part_of_container(block: Block, value: Any) -> Mistakes:
    yield from _findings(_documents(_deployment({"name": "main", "image": "main:1", **value}, {}), block))


def _part_of_pod(block: Block, value: Any) -> Mistakes:
    yield from _findings(_documents(_deployment({"name": "main", "image": "main:1"}, value), block))


def _part_of_config_map(block: Block, value: Any) -> Mistakes:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "part"}, **value}
    yield from _findings(_documents(body, block))


def _deployment(container: Mapping[str, Any], pod: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"app": "part"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **pod}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "part"}, "spec": spec}


def _documents(body: Mapping[str, Any], block: Block) -> list[Document]:
    return objects(json.dumps(body), str(block))


def _settings(block: Block, _: Any) -> Mistakes:
    try:
        parse_settings(str(block), block.text)
    except DocumentError as error:
        yield str(error)


def _values(block: Block, value: Any) -> Mistakes:
    """A file of `--values`, for folders of the repository."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.yaml"
        path.write_text(block.text, encoding="utf-8")
        found = read_overrides([path])
    problems = [
        *found.problems,
        *(each for folder_problems in found.folder_problems.values() for each in folder_problems),
    ]
    yield from map(str, problems)
    yield from (f"there is no templates/{name}" for name in value if not (ROOT / "templates" / name).is_dir())


def _values_of_the_chart(block: Block, value: Any) -> Mistakes:
    """Values of the chart, as the spec of a kind whose schema is that of the chart."""
    schema = json.loads((ROOT / "deploy" / "chart" / "values.schema.json").read_text(encoding="utf-8"))
    kind = {"properties": {name: {} for name in ("apiVersion", "kind", "metadata")} | {"spec": schema}}
    chart = replace(schemas(), kinds={"v1": {"Values": kind}})
    body = {"apiVersion": "v1", "kind": "Values", "metadata": {"name": "values"}, "spec": value}
    yield from (finding.text for finding in check_schemas(_documents(body, block), chart))


def _kustomization(block: Block, value: Any) -> Mistakes:
    """A kustomization beside `deploy`, or what to add to one. What it builds is checked, too."""
    whole = {**BASE, **value}
    try:
        built = _built(whole)
    except subprocess.CalledProcessError as error:
        yield error.stderr.strip()
        return
    yield from _findings(objects(built, str(block)))
    for at, patch in enumerate(whole.get("patches", ())):
        others = [other for place, other in enumerate(whole["patches"]) if place != at]
        if _built({**whole, "patches": others}) == built:
            yield f"this patch changes nothing: {patch}"


def _built(kustomization: Mapping[str, Any]) -> str:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in ("deploy/base", "templates", "crds"):
            shutil.copytree(ROOT / name, folder / name)
        (folder / "kustomization.yaml").write_text(yaml.safe_dump(dict(kustomization)), encoding="utf-8")
        command = (BIN / "kubectl", "kustomize", folder)
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _workflow(_: Block, value: Any) -> Mistakes:
    """A workflow of GitHub with the action of this repository."""
    action = yaml.safe_load((ROOT / "action.yaml").read_text(encoding="utf-8"))
    for job in value["jobs"].values():
        for step in job["steps"]:
            name, _, version = step["uses"].partition("@")
            if name == "OWNER/ssa-operator":
                yield from (f"the action has no input {each}" for each in step["with"].keys() - action["inputs"].keys())
            elif not re.search(rf"{re.escape(name)}@\w+ # {re.escape(version)}\.", _workflows()):
                yield f"the workflows of the repository use another version of {name} than {version}"


@functools.cache
def _workflows() -> str:
    return "".join(path.read_text(encoding="utf-8") for path in (ROOT / ".github" / "workflows").glob("*.yaml"))


def _hooks(_: Block, value: Any) -> Mistakes:
    """The configuration of pre-commit with the hooks of this repository."""
    known = {each["id"]: each for each in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))}
    for hook in (hook for repository in value["repos"] for hook in repository["hooks"]):
        if hook["id"] not in known:
            yield f"there is no hook {hook['id']}"
            continue
        words = (*known[hook["id"]]["entry"].split(), *hook.get("args", ()))
        yield from programs.PROGRAMS[words[0]](Invocation(words, PurePosixPath()))


_HEADINGS: Mapping[str, Callable[[Block, Any], Iterable[str]]] = {
    "# --values": _values,
    "# values.yaml": _values_of_the_chart,
    "# kustomization.yaml": _kustomization,
}
"""What checks a block that begins with the name of a file."""

_FIRST_KEYS: Mapping[str, Callable[[Block, Any], Iterable[str]]] = {
    "data": _part_of_config_map,
    "env": _part_of_container,
    "on": _workflow,
    "patches": _kustomization,
    "repos": _hooks,
    "spec": _part_of_parent,
    "volumes": _part_of_pod,
}
"""What checks a mapping without a kind, by its first key."""
