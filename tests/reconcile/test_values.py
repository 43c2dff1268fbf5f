"""Values that break operators which paste text, sent through a real API server: what comes back is what the parent
holds.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from tests.operator.harness import Desk, Operate, definition
from tests.rendering.hostile_values import HOSTILE_VALUES

pytestmark = pytest.mark.cluster

POSITIONS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
  annotations:
    note: {{ spec.value }}
    quoted: "{{ spec.value }}"
data:
  plain: {{ spec.value }}
  double: "{{ spec.value }}"
  single: '{{ spec.value }}'
  mixed: a{{ spec.value }}z
  around: "a {{ spec.value }} z"
  literal: |-
    {{ spec.value }}
  folded: >-
    {{ spec.value }}
  kept: |+
    a{{ spec.value }}z
  flow: {{ {"x": spec.value}.x }}
"""

TYPES = """\
apiVersion: {{ object.apiVersion }}
kind: Copy
metadata:
  name: {{ name }}
spec:
  whole: {{ spec }}
  {% for key, value in spec.items() %}
  {{ key }}: {{ value }}
  {% endfor %}
  on: on
  traps: [yes, off, 010, 1:30, 1_000, 2001-01-01, 0.10, 1e3, 0x1F, ~, "null", No]
"""

SPEC: dict[str, Any] = {
    "integer": 3,
    "large": 2**53 + 1,
    "negative": -1,
    "zero": 0,
    "fraction": 0.5,
    "truth": True,
    "falsehood": False,
    "number-like": "010",
    "word-like": "yes",
    "empty": "",
    "list": [1, "1", [2], {"a": []}],
    "mapping": {"a": {"b": "c: d"}, "e": {}},
}


async def test_every_hostile_value_comes_back_exactly_in_every_position(
    client: Client, desk: Desk, operate: Operate
) -> None:
    assert len(HOSTILE_VALUES) >= 50
    group = f"v{uuid.uuid4().hex[:8]}.example.com"
    await desk.define(definition("values", group, "Value"))
    resource = await desk.mapper.resource(GroupKind(group, "Value"))
    async with operate() as running:
        running.write(f"values.{group}/map.yaml.j2", POSITIONS)
        names = {f"v{number}": value for number, value in enumerate(HOSTILE_VALUES.values())}
        for name, value in names.items():
            body = {
                "apiVersion": f"{group}/v1",
                "kind": "Value",
                "metadata": {"name": name, "namespace": desk.namespace},
                "spec": {"value": value},
            }
            await client.create(resource, desk.namespace, encode(body))
        for name, value in names.items():
            found = await desk.read("configmaps", name)
            annotations = {
                key: text for key, text in found["metadata"]["annotations"].items() if key in ("note", "quoted")
            }
            assert annotations == {"note": value, "quoted": value}
            assert found["data"] == {
                "plain": value,
                "double": value,
                "single": value,
                "mixed": f"a{value}z",
                "around": f"a {value} z",
                "literal": value,
                "folded": value,
                "kept": f"a{value}z\n",
                "flow": value,
            }


async def test_types_are_kept_and_words_of_yaml_1_1_stay_strings(desk: Desk, operate: Operate) -> None:
    group = f"t{uuid.uuid4().hex[:8]}.example.com"
    await desk.define(definition("types", group, "Type"), definition("copies", group, "Copy"))
    async with operate() as running:
        running.write(f"types.{group}/copy.yaml.j2", TYPES)
        await desk.apply({"apiVersion": f"{group}/v1", "kind": "Type", "metadata": {"name": "x"}, "spec": SPEC})
        found = await desk.read(f"copies.{group}", "x")
    spec = found["spec"]
    assert spec.pop("whole") == SPEC
    assert spec.pop("on") == "on"
    assert spec.pop("traps") == [
        "yes",
        "off",
        "010",
        "1:30",
        "1_000",
        "2001-01-01",
        0.1,
        1000.0,
        31,
        None,
        "null",
        "No",
    ]
    assert spec == SPEC
    assert all(type(spec[key]) is type(value) for key, value in SPEC.items())
