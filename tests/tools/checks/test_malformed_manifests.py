"""A malformed manifest is a finding of `check`, and never ends the command."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.rendering.folder.loaded_folders import load_all
from ssa_operator.rendering.folder.object_files import objects
from ssa_operator.tools.checks.checked_project import CheckedProject
from ssa_operator.tools.checks.template_checks import check_templates
from ssa_operator.tools.findings import Finding, Severity
from tests.cli.write.test_check import project
from tests.schema.built_in_objects import OBJECTS
from tests.tools.checks.test_template_checks import project_in

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "nginx:1.27"}]}
"""
BODIES = [dict(each.body) for each in objects(OBJECTS, "all.yaml")]
TEMPLATE = Path("templates") / "echoes.example.com" / "fuzzed.yaml"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("fuzzed"), fuzzed=DEPLOYMENT)


@pytest.fixture(scope="module")
def checked(folder: Path) -> CheckedProject:
    (folder / TEMPLATE.with_suffix(".yaml.j2")).unlink()
    (folder / TEMPLATE).write_text(DEPLOYMENT)
    (folder / TEMPLATE.with_name("_settings.yaml")).write_text("clusterScope: true\n")
    return project_in(folder, folder / "examples")


def check(folder: Path, checked: CheckedProject, *bodies: Any) -> list[Finding]:
    """The findings of a folder that renders some manifests."""
    (folder / TEMPLATE).write_text("\n---\n".join(map(json.dumps, bodies)))
    sources = load_all([folder / "templates"])
    found = check_templates([folder / "templates"], replace(checked, sources=sources))
    return [each for each in found if each.severity is Severity.ERROR]


def changed(body: Any, path: FieldPath, value: Any) -> Any:
    if not path:
        return value
    found = copy.deepcopy(body)
    value_at(found, path[:-1])[path[-1]] = value
    return found


def paths(value: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from paths(item, (*path, key))


POD = ("spec", "template", "spec")


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        ((*POD, "volumes"), [{"name": ["a"]}], "spec.template.spec.volumes[0].name must be a string"),
        (("spec", "selector", "matchExpressions"), ["x"], "spec.selector.matchExpressions[0] must be a mapping"),
        (("metadata", "finalizers"), {}, "metadata.finalizers must be a list"),
        (("metadata",), [], "metadata must be a mapping"),
        (("spec",), 3, "spec must be a mapping"),
        ((*POD, "containers"), [None], "spec.template.spec.containers[0] must be a mapping, and this is null"),
        ((*POD, "containers"), {"name": "web"}, "spec.template.spec.containers must be a list"),
    ],
)
def test_a_malformed_manifest_is_a_finding(
    folder: Path, checked: CheckedProject, path: FieldPath, value: Any, shown: str
) -> None:
    [deployment] = objects(DEPLOYMENT, "all.yaml")
    found = check(folder, checked, changed(dict(deployment.body), path, value))
    assert [each for each in found if shown in each.text], found


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["", "None", "..", "1Gi", "50%", "a/b", "http", "10.0.0.0/8"])
)
KEYS = st.text(max_size=4) | st.sampled_from(["name", "type", "spec", "matchLabels", "values", "operator"])
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def malformed(draw: st.DrawFn) -> Any:
    """An object of a built-in kind with arbitrary JSON at some paths."""
    body = draw(st.sampled_from(BODIES))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from([each for each in paths(body) if each]))
        body = changed(body, path, draw(JSON))
    return body


QUIET = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=10, suppress_health_check=QUIET)
@given(bodies=st.lists(malformed(), min_size=1, max_size=3))
def test_arbitrary_json_in_manifests_never_ends_check(folder: Path, checked: CheckedProject, bodies: list[Any]) -> None:
    check(folder, checked, *bodies)


@pytest.mark.exhaustive
@settings(max_examples=500, suppress_health_check=QUIET)
@given(bodies=st.lists(malformed(), min_size=1, max_size=3))
def test_much_arbitrary_json_in_manifests_never_ends_check(
    folder: Path, checked: CheckedProject, bodies: list[Any]
) -> None:
    check(folder, checked, *bodies)
