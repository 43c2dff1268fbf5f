"""What one parent's texts hold up: nothing but this parent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.operator.harness import Desk, Operate, echo, holds, is_ready, not_ready_because, only

pytestmark = pytest.mark.cluster

TEMPLATE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
data: {{ metadata.annotations.data | from_json }}
"""


async def test_a_key_of_quotation_marks_holds_up_no_other_parent(desk: Desk, operate: Operate, templates: Path) -> None:
    hostile, other = echo("hostile"), echo("other")
    key = '"' * 65
    hostile["metadata"]["annotations"] = {"data": json.dumps({key: "x"})}
    other["metadata"]["annotations"] = {"data": json.dumps({"key": "x"})}
    only(templates, map=TEMPLATE)
    async with operate():
        await desk.apply(hostile)
        refused = await desk.until(
            "echoes.example.com", "hostile", not_ready_because("ApplyFailed", key, "map.yaml.j2")
        )
        await desk.apply(other)
        await desk.until("configmaps", "other", holds(key="x"))
    assert not is_ready(refused)
