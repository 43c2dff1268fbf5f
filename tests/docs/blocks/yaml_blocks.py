"""Checks the YAML of pages: manifests, parts of manifests, kustomizations, values, settings and configurations of CI.

Promises:
- A manifest passes the schemas of `ssa-operator check`, and so does a part of one in the place where it belongs.
- kubectl builds a kustomization beside deploy/base, and each of its patches changes the result.
- YAML of no known form is a mistake.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from ssa_operator.objects.render_result import Document
from ssa_operator.rendering.folder.folder_settings import _KEYS as SETTINGS
from ssa_operator.rendering.folder.folder_settings import parse_settings
from ssa_operator.rendering.folder.object_files import FileError, objects
from ssa_operator.rendering.yaml.nodes import DocumentError
from ssa_operator.tools.checks.manifest_rules import check_manifests
from ssa_operator.tools.schema_rules import check_schemas
from tests.docs.blocks.pages import Block, blocks, is_whole, yaml_values
from tests.docs.blocks.schemas import schemas
from tests.packaging.checkout import ROOT

BIN = ROOT / ".venv" / "bin"

Check = Callable[[Block, Any], Iterable[str]]


def mistakes(block: Block) -> list[str]:
    """What is wrong with a YAML block."""
    try:
        return [each for value in yaml_values(block) for each in _check_of(block, value)(block, value)]
    except (DocumentError, FileError, subprocess.CalledProcessError) as error:
        return [str(getattr(error, "stderr", "") or error)]


def manifests(block: Block) -> list[Document]:
    """The whole manifests of a block, or those that kubectl builds from a kustomization. Raises FileError."""
    text = _built(block.value) if _check_of(block, yaml_values(block)[0]) is _kustomization else block.text
    return objects(text, str(block)) if is_whole(block) or text != block.text else []


def _check_of(block: Block, value: Any) -> Check:
    heading, keys = block.text.partition("\n")[0], list(value) if isinstance(value, Mapping) else []
    if {"apiVersion", "kind"} <= set(keys):
        return lambda block, value: _findings(objects(json.dumps(value), str(block)))
    by_heading = (check for start, check in _FORMS.items() if heading.startswith(start))
    settings = _settings if set(keys) & set(SETTINGS) else None
    return next(by_heading, _FORMS.get(f"{keys[0]}:" if keys else "", settings or _unknown))


def _unknown(_: Block, value: Any) -> Iterator[str]:
    yield f"the tests know no form of this YAML: {value}"


def _findings(documents: Iterable[Document]) -> Iterator[str]:
    for each in documents:
        if schemas().schema(each.body["apiVersion"], each.body["kind"]) is None:
            yield f"there is no schema of {each.body['kind']} in {each.body['apiVersion']}"
    found = [*check_schemas(documents, schemas()), *check_manifests(list(documents))]
    yield from (finding.text for finding in found if finding.code != "latest-image")


def _part(whole: Callable[[Mapping[str, Any]], Mapping[str, Any]]) -> Check:
    return lambda block, value: _findings(objects(json.dumps(whole(value)), str(block)))


def _config_map(part: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "part"}, **part}


def _deployment(container: Mapping[str, Any], pod: Mapping[str, Any]) -> Mapping[str, Any]:
    labels = {"app": "part"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "a:1", **container}], **pod}}
    spec = {"selector": {"matchLabels": labels}, "template": pods}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "part"}, "spec": spec}


def _part_of_parent(block: Block, value: Any) -> Iterator[str]:
    """The spec of the kind of the page's first manifest."""
    first = next(each for each in blocks(block.page) if each.text.startswith("apiVersion:"))
    yield from _findings(objects(json.dumps({**yaml_values(first)[0], **value}), str(block)))


def _settings(block: Block, _: Any) -> Iterator[str]:
    parse_settings(str(block), block.text)
    yield from ()


def _values(_: Block, value: Any) -> Iterator[str]:
    """A file of `--values`, for folders of the repository."""
    yield from (f"there is no templates/{name}" for name in value if not (ROOT / "templates" / name).is_dir())


def _values_of_the_chart(block: Block, value: Any) -> Iterator[str]:
    """Values of the chart, as the spec of a kind whose schema is that of the chart."""
    schema = json.loads((ROOT / "deploy" / "chart" / "values.schema.json").read_text(encoding="utf-8"))
    kind = {"properties": {name: {} for name in ("apiVersion", "kind", "metadata")} | {"spec": schema}}
    body = {"apiVersion": "v1", "kind": "Values", "metadata": {"name": "values"}, "spec": value}
    chart = replace(schemas(), kinds={"v1": {"Values": kind}})
    yield from (finding.text for finding in check_schemas(objects(json.dumps(body), str(block)), chart))


def _kustomization(block: Block, value: Any) -> Iterator[str]:
    """A kustomization beside `deploy`, or what to add to one. What it builds is checked, too."""
    built = _built(value)
    yield from _findings(objects(built, str(block)))
    for patch in value.get("patches", ()):
        if _built({**value, "patches": [each for each in value["patches"] if each != patch]}) == built:
            yield f"this patch changes nothing: {patch}"


def _built(kustomization: Mapping[str, Any]) -> str:
    with tempfile.TemporaryDirectory() as temporary:
        for name in ("deploy/base", "templates", "crds"):
            shutil.copytree(ROOT / name, Path(temporary) / name)
        whole = {"resources": ["deploy/base"], **kustomization}
        (Path(temporary) / "kustomization.yaml").write_text(yaml.safe_dump(whole), encoding="utf-8")
        return subprocess.run(
            [BIN / "kubectl", "kustomize", temporary], capture_output=True, text=True, check=True
        ).stdout


@functools.cache
def _configuration(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def _workflow(_: Block, value: Any) -> Iterator[str]:
    """A workflow of GitHub with the action of this repository."""
    for step in (step for job in value["jobs"].values() for step in job["steps"]):
        if step.get("uses", "").startswith("OWNER/ssa-operator"):
            unknown = step["with"].keys() - _configuration("action.yaml")["inputs"].keys()
            yield from (f"the action has no input {each}" for each in unknown)


def _hooks(_: Block, value: Any) -> Iterator[str]:
    """The configuration of pre-commit with the hooks of this repository."""
    known = {each["id"] for each in _configuration(".pre-commit-hooks.yaml")}
    used = {hook["id"] for repository in value["repos"] for hook in repository["hooks"]}
    yield from (f"there is no hook {each}" for each in used - known)


_FORMS: Mapping[str, Check] = {
    "# --values": _values,
    "# values.yaml": _values_of_the_chart,
    "# kustomization.yaml": _kustomization,
    "data:": _part(_config_map),
    "env:": _part(lambda container: _deployment(container, {})),
    "on:": _workflow,
    "patches:": _kustomization,
    "repos:": _hooks,
    "spec:": _part_of_parent,
    "volumes:": _part(lambda pod: _deployment({}, pod)),
}
"""What checks a block without a kind, by its first line or key."""
