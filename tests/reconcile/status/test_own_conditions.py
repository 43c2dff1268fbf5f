"""Conditions of the author's own types, beside those of the operator and of other controllers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.operator.harness import ECHOES, Desk, Operate, config_map, echo, is_ready, map_template, only

pytestmark = pytest.mark.cluster

STATUS = """\
{% set settings = lookup("v1", "ConfigMap", "settings", optional=true).data %}
url: x
readyReplicas: {{ spec.replicas }}
resources: []
conditions:
  - type: DatabaseAvailable
    status: {{ settings.up | default("Unknown") }}
    reason: {{ settings.reason | default("NoSettings") }}
    message: "said: {{ settings.message | default('nothing') }}"
  {% if settings.up is defined %}
  - {type: Configured, status: true}
  {% endif %}
  - {type: Ready, status: "True", reason: Mine, message: mine}
"""


def conditions(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["type"]: each for each in body.get("status", {}).get("conditions", [])}


async def test_conditions_of_the_author_come_change_and_go(
    desk: Desk, operate: Operate, caplog: pytest.LogCaptureFixture
) -> None:
    async with operate() as running:
        only(running.templates, a=map_template("a", x="'1'"), _status=STATUS)
        await desk.apply(config_map("settings", up="True", reason="Up", message="a"), echo("web", 1))
        first = await desk.until(ECHOES, "web", lambda body: is_ready(body) and "Configured" in conditions(body))
        available = conditions(first)["DatabaseAvailable"]
        assert available["lastTransitionTime"]
        assert (available["status"], available["reason"], available["message"]) == ("True", "Up", "said: a")
        assert available["observedGeneration"] == first["metadata"]["generation"]
        assert conditions(first)["Configured"]["status"] == "True"
        assert conditions(first)["Ready"]["reason"] == "Ready"

        theirs = {
            "type": "Theirs",
            "status": "True",
            "reason": "R",
            "message": "m",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        patch = json.dumps([{"op": "add", "path": "/status/conditions/-", "value": theirs}])
        await desk.kubectl("patch", "echo", "web", "--subresource=status", "--type=json", "-p", patch)
        await desk.apply(config_map("settings", up="True", reason="Up", message="b"))
        second = await desk.until(
            ECHOES, "web", lambda body: conditions(body)["DatabaseAvailable"]["message"] == "said: b"
        )
        assert conditions(second)["Theirs"] == theirs
        assert conditions(second)["DatabaseAvailable"]["lastTransitionTime"] == available["lastTransitionTime"]

        await desk.delete("configmap", "settings")
        third = await desk.until(
            ECHOES, "web", lambda body: conditions(body)["DatabaseAvailable"]["status"] == "Unknown"
        )
        assert "Configured" not in conditions(third)
        assert conditions(third)["Theirs"] == theirs

        running.write(f"{ECHOES}/_status.yaml.j2", "readyReplicas: 7\n")
        last = await desk.until(ECHOES, "web", lambda body: body["status"].get("readyReplicas") == 7)
        assert set(conditions(last)) == {"Ready", "Theirs"}
    lines = [line for line in caplog.messages if "is dropped" in line]
    place = f"{ECHOES}/_status.yaml.j2"
    for words in (
        f"{place}:2: status.url is dropped: the CRD doesn't declare this field",
        f"{place}:4: status.resources is dropped: the operator writes this field itself",
        f"{place}:13: status.conditions[2] is dropped: the operator writes the condition Ready itself",
    ):
        assert sum(words in line for line in lines) == 1, lines


async def test_hostile_conditions_never_keep_a_status_from_being_written(desk: Desk, operate: Operate) -> None:
    status = "conditions: {{ (lookup('v1', 'ConfigMap', 'hostile').data.x | from_json) | default([]) }}\n"
    hostile = [
        {"type": "Reconciling", "status": "True"},
        {"type": "x" * 400, "status": "True"},
        {"type": "Bad\nType", "status": "True"},
        {"type": "BadStatus", "status": {"a": "b"}},
        {"type": "BadReason", "status": "True", "reason": "{{ spec }} <script>"},
        {"type": "Fine", "status": "True", "reason": "R", "message": "{{ spec }}\n---\n\u0000💥" * 4000},
        {"type": "Fine", "status": "False"},
        "text",
        None,
    ]
    async with operate() as running:
        only(running.templates, a=map_template("a", x="'1'"), _status=status)
        await desk.apply(config_map("hostile", x=json.dumps(hostile)), echo("web", 1))
        found = await desk.until(ECHOES, "web", lambda body: "Fine" in conditions(body))
        assert set(conditions(found)) == {"Ready", "Fine"}
        assert len(conditions(found)["Fine"]["message"]) == 4096


async def test_conditions_stay_while_the_status_template_fails(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        only(running.templates, a=map_template("a", x="'1'"), _status="conditions: [{type: Mine, status: true}]\n")
        await desk.apply(echo("web", 1))
        first = await desk.until(ECHOES, "web", lambda body: "Mine" in conditions(body))
        running.write(f"{ECHOES}/_status.yaml.j2", "conditions: [{type: Mine, status: '{{ spec.nothing }}'}]\n")
        second = await desk.until(ECHOES, "web", lambda body: conditions(body)["Ready"]["reason"] == "RenderFailed")
        assert conditions(second)["Mine"] == conditions(first)["Mine"]


RESULT = """\
conditions:
  - type: Available
    status: {{ result.ready }}
    reason: {{ result.reason }}
    message: "{{ result.message }}"
"""


async def test_the_status_template_says_what_this_reconcile_found(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        only(running.templates, a=map_template("a", x="lookup('v1', 'ConfigMap', 'settings').data.x"), _status=RESULT)
        await desk.apply(echo("web", 1))
        waiting = await desk.until(ECHOES, "web", lambda body: "Available" in conditions(body))
        ready, own = conditions(waiting)["Ready"], conditions(waiting)["Available"]
        assert own["status"] == "False"
        assert own["reason"] == ready["reason"] == "WaitingForDependency"
        assert own["message"] == ready["message"]
        assert "ConfigMap default/settings".replace("default", desk.namespace) in own["message"]
        await desk.apply(config_map("settings", x="1"))
        done = await desk.until(ECHOES, "web", is_ready)
        assert conditions(done)["Available"]["status"] == "True"
        assert conditions(done)["Available"]["reason"] == "Ready"

        await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/suspend=true")
        await desk.until(ECHOES, "web", lambda body: "Suspended" in conditions(body))
