"""`ssa-operator new --from-crd`, for CRDs of the shapes that public ones have."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from ssa_operator.informers.crds import RESOURCE
from ssa_operator.kube.api import request
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import DeleteOptions
from ssa_operator.objects.json_codec import encode
from ssa_operator.operator import crd_installation
from tests.object_comparison import served_resource
from tests.schema.crd_shapes import BEYOND, NUMBER, OPEN_SHAPES, SHAPES, TEXT, fields, shape, version
from tests.tools.scaffold.projects import findings, invoke, rendered

WARNINGS = {"crd-without-report"}
"""What a CRD of others often lacks, with which its operator works."""


def made(folder: Path, *definitions: Mapping[str, Any]) -> Any:
    """The result of `new` for the first of some CRDs in one file."""
    path = folder / "given.yaml"
    path.write_text("---\n".join(map(yaml.safe_dump, definitions)))
    return invoke(folder, "new", definitions[0]["spec"]["names"]["kind"], f"--from-crd={path}")


def example_of(folder: Path) -> tuple[str, Any]:
    """The text and the object of the example."""
    (path,) = (folder / "examples").iterdir()
    return path.read_text(), yaml.safe_load(path.read_text())


def test_a_cluster_scoped_parent_of_a_kubernetes_group_gets_a_namespace_for_its_children(tmp_path: Path) -> None:
    gate = shape(
        "Gate", fields("controller", controller=TEXT, port=NUMBER), group="gate.networking.k8s.io", cluster=True
    )
    other = shape("Other", fields(a=TEXT))
    result = made(tmp_path, gate, other)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [path.name for path in (tmp_path / "crds").iterdir()] == ["gates.gate.networking.k8s.io.yaml"]
    assert example_of(tmp_path)[1] == {
        "apiVersion": "gate.networking.k8s.io/v1",
        "kind": "Gate",
        "metadata": {"name": "gate"},
        "spec": {"controller": "example"},
    }
    assert {each["code"] for each in findings(tmp_path)} <= WARNINGS
    namespaces = {each["kind"]: each["metadata"].get("namespace") for each in rendered(tmp_path, "gate")}
    assert namespaces == {"Namespace": None, "Deployment": "gate", "Service": "gate"}
    assert invoke(tmp_path, "test").exit_code == 0


def test_a_place_without_a_known_value_is_marked_in_the_example_which_is_no_golden_case(tmp_path: Path) -> None:
    spec = fields("host", "number", "inner", host=TEXT, number=BEYOND, inner=fields("deep", deep=BEYOND))
    result = made(tmp_path, shape("Beyond", spec))
    assert result.exit_code == 0
    assert "note: no value is known that the API server accepts for spec.inner.deep, spec.number" in result.stderr
    text, body = example_of(tmp_path)
    assert body["spec"] == {"host": "www.example.com", "inner": {}}
    reason = 'Invalid value: "": Maximum boundary value must be of type integer with format int32 in'
    assert text.endswith(
        "spec:\n"
        "  host: www.example.com\n"
        "  inner: {}\n"
        f"    # to fill in: spec.inner.deep: {reason} spec.inner.deep\n"
        "    # deep:\n"
        f"  # to fill in: spec.number: {reason} spec.number\n"
        "  # number:\n"
    )
    assert not (tmp_path / "tests").exists()
    errors = " ".join(each["message"] for each in findings(tmp_path) if each["severity"] == "error")
    assert "spec.inner.deep: Required value" in errors
    assert "spec.number: Required value" in errors


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scope": "Everywhere"}, "spec.scope"),
        ({"versions": [{**version("v1", fields(a={"type": "text"}))}]}, "type"),
        ({"versions": []}, "serves no version"),
    ],
)
def test_a_crd_that_the_api_server_refuses_is_named_by_the_users_file(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    definition = shape("Thing", fields(a=TEXT))
    definition["spec"] |= changes
    result = made(tmp_path, definition)
    assert result.exit_code in (1, 2)
    message = str(result.exception)
    assert message.startswith(str(tmp_path / "given.yaml"))
    assert words in message
    assert "ssa-operator-new-" not in message


def test_the_version_that_the_operator_reads_is_that_of_the_example_or_is_in_the_settings(tmp_path: Path) -> None:
    old, new = version("v1beta1", fields("a", a=TEXT)), version("v1", fields("b", b=TEXT), storage=False)
    definition = shape("Thing", None, old, new)
    assert made(tmp_path, definition).exit_code == 0
    assert example_of(tmp_path)[1]["spec"] == {"b": "example"}
    folder = tmp_path / "old"
    arguments = ("new", "Thing", f"--from-crd={tmp_path / 'given.yaml'}", "--api-version=v1beta1")
    assert invoke(folder, *arguments).exit_code == 0
    assert example_of(folder)[1]["spec"] == {"a": "example"}
    assert (folder / "templates" / "things.shapes.example.com" / "_settings.yaml").read_text() == "version: v1beta1\n"
    assert {each["code"] for each in findings(folder)} <= WARNINGS


@pytest.mark.cluster
@pytest.mark.exhaustive
@pytest.mark.parametrize("at", range(len(SHAPES) + len(OPEN_SHAPES)))
async def test_the_api_server_accepts_the_example_of_each_shape(client: Client, tmp_path: Path, at: int) -> None:
    definition, places = [*((each, ()) for each in SHAPES), *OPEN_SHAPES][at]
    assert (result := made(tmp_path, definition)).exit_code == 0, (result.output, result.exception)
    text, body = example_of(tmp_path)
    codes = {each["code"] for each in findings(tmp_path)}
    assert codes - WARNINGS == ({"invalid-example"} if places else set())
    assert all(f"# to fill in: {place}: " in text for place in places)
    assert (tmp_path / "tests").exists() is not bool(places)
    applied = await client.apply(RESOURCE, "", definition["metadata"]["name"], encode(definition))
    try:
        await crd_installation.established(client, [definition["metadata"]["name"]])
        resource = replace(await served_resource(client, definition), version=body["apiVersion"].partition("/")[2])
        create = request.create(resource, body["metadata"].get("namespace", ""), encode(body))
        query = (("dryRun", "All"), ("fieldManager", "test"), ("fieldValidation", "Strict"))
        sent = client.send(dataclasses.replace(create, query=query, dry_run=True))
        if places:
            with pytest.raises(ApiError) as caught:
                await sent
            assert all(place in str(caught.value) for place in places)
        else:
            assert json.loads((await sent).body)["kind"] == body["kind"]
    finally:
        await client.delete(RESOURCE, "", definition["metadata"]["name"], DeleteOptions(uid=applied.live.uid))
