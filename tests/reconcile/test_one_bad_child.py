"""What is wrong with one child concerns that child alone: the others are applied, and the status names it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.api import request as calls
from ssa_operator.reconcile import reconciler
from ssa_operator.reconcile.parent_records.rules import INVENTORY_ANNOTATION
from tests.operator.harness import (
    ECHOES,
    Desk,
    Operate,
    config_map,
    echo,
    holds,
    map_template,
    not_ready_because,
    only,
)

pytestmark = pytest.mark.cluster

NO_SEGMENTS = ["a/b", "..", ".", "a%b", "../../secrets/x"]
"""Names that would lead to another object's path."""

NAMED = 'name: "{{ annotations.named }}"'

SECRET = f"""\
apiVersion: v1
kind: Secret
metadata:
  {NAMED}
stringData:
  word: "{{{{ generated() }}}}"
"""

ELSEWHERE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: elsewhere
  namespace: "{{ annotations.named }}"
data: {word: "{{ generated() }}"}
"""

ONCE = f"""\
apiVersion: v1
kind: ConfigMap
metadata:
  {NAMED}
  annotations:
    ssa-operator.dev/apply: Once
"""

WAITS = f"""\
apiVersion: v1
kind: ConfigMap
metadata:
  {NAMED}
data: {{v: "{{{{ child('ConfigMap', 'missing').data.v }}}}"}}
"""

CASES = {"generated": SECRET, "namespace": ELSEWHERE, "once": ONCE, "waits": WAITS}


def chosen(name: str, **annotations: str) -> dict[str, Any]:
    """A parent with annotations of its author's choice."""
    body = echo(name)
    body["metadata"]["annotations"] = annotations
    return body


@pytest.mark.more_cases
@pytest.mark.parametrize("case", CASES)
async def test_a_name_that_is_no_segment_of_a_path_is_refused_with_its_line(
    case: str, desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, bad=CASES[case], good=map_template("good", v="annotations.v"))
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    line = CASES[case].splitlines().index(next(each for each in CASES[case].splitlines() if "named" in each)) + 1
    field = "metadata.namespace" if case == "namespace" else "metadata.name"
    async with operate():
        for number, name in enumerate(NO_SEGMENTS):
            await desk.apply(chosen("web", named=name, v=str(number)))
            await desk.until("configmaps", "web-good", holds(v=str(number)))
            words = (f"{ECHOES}/bad.yaml.j2:{line}", field, f'"{name}"')
            await desk.until(ECHOES, "web", not_ready_because("RenderFailed", *words))


async def test_a_name_that_is_no_segment_of_a_path_is_looked_up_in_vain(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    asked = (
        "lookup('v1', 'Secret', annotations.named) is defined",
        "lookup('v1', 'Namespace', annotations.named) is defined",
    )
    only(templates, good=map_template("good", v="annotations.v", **{f"a{n}": each for n, each in enumerate(asked)}))
    async with operate():
        for number, name in enumerate(NO_SEGMENTS):
            await desk.apply(chosen("web", named=name, v=str(number)))
            await desk.until("configmaps", "web-good", holds(v=str(number), a0="false", a1="false"))
            await desk.ready(ECHOES, "web")


@pytest.mark.parametrize("api_version", ["a/b/c", "v1/../../v2"])
async def test_a_kind_that_is_no_segment_of_a_path_holds_up_no_other_child(
    api_version: str, desk: Desk, operate: Operate, templates: Path
) -> None:
    bad = SECRET.replace("apiVersion: v1", f'apiVersion: "{api_version}"').replace("Secret", '"{{ annotations.kind }}"')
    only(templates, bad=bad, good=map_template("good", v="'1'"))
    async with operate():
        await desk.apply(chosen("web", named="x", kind="../Secret"))
        await desk.until("configmaps", "web-good", holds(v="1"))
        await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", "../Secret"))


@pytest.mark.more_cases
@pytest.mark.parametrize("place", ["name", "namespace"])
async def test_a_record_of_a_name_that_is_no_segment_names_nothing(
    place: str, desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, good=map_template("good", v="annotations.v"))
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    async with operate():
        for number, name in enumerate(NO_SEGMENTS):
            entry = {"kind": "Secret", "namespace": desk.namespace, "name": "x", place: name}
            records = {INVENTORY_ANNOTATION: json.dumps([entry])}
            await desk.apply(chosen("web", v=str(number), **records))
            await desk.until("configmaps", "web-good", holds(v=str(number)))
            await desk.ready(ECHOES, "web")


# managedFields.


def deep(manager: str, operation: str, levels: int) -> str:
    """An entry of managedFields, encoded: Python's encoder is recursive."""
    head = {"manager": manager, "operation": operation, "apiVersion": "v1", "time": "2026-01-01T00:00:00Z"}
    tree = '{"f:data":' + '{"f:a":' * levels + "{}" + "}" * levels + "}"
    return json.dumps({**head, "fieldsType": "FieldsV1", "fieldsV1": "@"}).replace('"@"', tree)


async def write_managed_fields(desk: Desk, name: str, *entries: str, **data: str) -> None:
    """Write the managedFields of a ConfigMap, as anyone may who may update it."""
    resource = await desk.mapper.resource_by_name("configmaps")
    body = json.dumps({"data": data, "metadata": {"managedFields": "@"}}).replace('"@"', f"[{','.join(entries)}]")
    request = calls.merge_patch(resource, desk.namespace, name, body.encode())
    await desk.client.send(replace(request, query=(("fieldManager", "stranger"),)))


@pytest.mark.exhaustive
async def test_a_bug_is_named_by_the_status(
    desk: Desk, operate: Operate, templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(templates, good=map_template("good", v="annotations.v"))
    async with operate():
        await desk.apply(chosen("web", v="1"))
        await desk.ready(ECHOES, "web")
        with monkeypatch.context() as patch:
            patch.setattr(reconciler, "make_report", lambda *_: dict[str, int]()["canary-7d2f"])
            await desk.apply(chosen("web", v="2"))
            found = await desk.until(ECHOES, "web", not_ready_because("InternalError", "(KeyError)", "traceback"))
            assert "canary-7d2f" not in json.dumps(found)
            assert holds(v="2")(await desk.read("configmaps", "web-good"))
        await desk.ready(ECHOES, "web")


@pytest.mark.more_cases
@pytest.mark.parametrize("levels", [200, 3000])
async def test_managed_fields_of_thousands_of_levels_hold_up_no_child(
    levels: int, desk: Desk, operate: Operate, templates: Path
) -> None:
    texts = {name: map_template(name, v="annotations.v") for name in ("bad", "adopted", "good")}
    only(templates, **texts)
    kubectl = deep("kubectl-client-side-apply", "Update", levels)
    await desk.apply(config_map("web-adopted", v="theirs"))
    await write_managed_fields(desk, "web-adopted", kubectl, v="theirs")
    async with operate():
        for number in range(3):
            await desk.apply(chosen("web", v=str(number)))
            for name in texts:
                await desk.until("configmaps", f"web-{name}", holds(v=str(number)))
            await desk.ready(ECHOES, "web")
            ours = deep("ssa-operator", "Apply", levels)
            await write_managed_fields(desk, "web-bad", ours, deep("stranger", "Update", levels), v="theirs")
            await desk.until("configmaps", "web-bad", holds(v=str(number)))
    for name in texts:
        await desk.delete("configmap", f"web-{name}")
