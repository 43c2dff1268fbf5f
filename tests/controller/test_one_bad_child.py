"""What is wrong with one child concerns that child alone: the others are applied, and the status names it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ssa_operator.core.objects.json_encoding import encode
from ssa_operator.core.policies.parent_records import INVENTORY_ANNOTATION
from ssa_operator.kube.api import request as calls
from tests.controller.harness import (
    ECHOES,
    Desk,
    Operate,
    echo,
    entries,
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


def deep_entry(levels: int, manager: str = "stranger") -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for _ in range(levels):
        fields = {"f:a": fields}
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": fields},
    }


async def with_managed_fields(desk: Desk, name: str, entries: list[dict[str, Any]], **data: str) -> None:
    """Write managedFields of an object as anyone may who may update it."""
    live = await desk.read("configmaps", name)
    resource = await desk.mapper.resource_by_name("configmaps")
    kept = [each for each in live["metadata"]["managedFields"] if each["manager"] == "ssa-operator"]
    text = json.dumps({"data": data, "metadata": {"managedFields": "@"}})
    # The encoder of Python is recursive.
    fields = ",".join([*map(json.dumps, kept), *map(_dump, entries)])
    body = text.replace('"@"', f"[{fields}]").encode()
    request = calls.merge_patch(resource, desk.namespace, name, body)
    await desk.client.send(replace_query(request))


def _dump(entry: dict[str, Any]) -> str:
    levels, inner = 0, entry["fieldsV1"]["f:data"]
    while inner:
        levels, inner = levels + 1, inner["f:a"]
    shown = json.dumps({**entry, "fieldsV1": "@"})
    return shown.replace('"@"', '{"f:data":' + '{"f:a":' * levels + "{}" + "}" * levels + "}")


def replace_query(request: calls.Request) -> calls.Request:
    import dataclasses

    return dataclasses.replace(request, query=(("fieldManager", "stranger"),))


@pytest.mark.parametrize("levels", [200, 900, 3000])
async def test_managed_fields_of_thousands_of_levels_hold_up_no_child(
    levels: int, desk: Desk, operate: Operate, templates: Path
) -> None:
    only(
        templates,
        bad=map_template("bad", v="annotations.v"),
        good=map_template("good", v="annotations.v"),
    )
    async with operate():
        await desk.apply(chosen("web", v="1"))
        await desk.ready(ECHOES, "web")
        await with_managed_fields(desk, "web-bad", [deep_entry(levels)], v="theirs")
        await desk.until("configmaps", "web-bad", holds(v="1"))
        await desk.apply(chosen("web", v="2"))
        await desk.until("configmaps", "web-good", holds(v="2"))
        await desk.until("configmaps", "web-bad", holds(v="2"))
        await desk.ready(ECHOES, "web")
