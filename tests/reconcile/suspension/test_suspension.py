"""Suspended parents: nothing is applied, and the status follows their live children."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.operator.harness import (
    ECHOES,
    Desk,
    Operate,
    echo,
    entries,
    is_ready,
    not_ready_because,
)

pytestmark = pytest.mark.cluster

SUSPENDED = {"name": "web", "annotations": {"ssa-operator.dev/suspend": "true"}}


def has_replicas(count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda body: body["status"].get("availableReplicas") == count


def conditions(parent: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The conditions of a parent by type, without the moment of their last transition."""
    found = parent.get("status", {}).get("conditions", [])
    return {each["type"]: {key: value for key, value in each.items() if key != "lastTransitionTime"} for each in found}


def is_suspended(parent: dict[str, Any]) -> bool:
    found = conditions(parent).get("Suspended", {})
    return found.get("status") == "True" and found["observedGeneration"] == parent["metadata"]["generation"]


@pytest.mark.exhaustive
async def test_a_suspended_echo_stays_ready_and_nothing_is_applied_until_it_is_resumed(
    desk: Desk, operate: Operate
) -> None:
    async with operate():
        before = await desk.apply_until_ready(echo("web"))
        await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/suspend=true")
        suspended = await desk.until(ECHOES, "web", is_suspended)
        assert conditions(suspended).keys() == {"Ready", "Suspended"}
        assert conditions(suspended)["Ready"] == conditions(before)["Ready"]

        await desk.patch("echo", "web", spec={"replicas": 2})
        changed = await desk.until(
            ECHOES, "web", lambda body: is_suspended(body) and body["metadata"]["generation"] == 2
        )
        assert changed["status"]["observedGeneration"] == 1
        assert has_replicas(1)(await desk.read("deployments.apps", "web"))

        await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/suspend-")
        await desk.until("deployments.apps", "web", has_replicas(2))
        resumed = await desk.ready(ECHOES, "web")
        assert conditions(resumed).keys() == {"Ready"}
        assert resumed["status"]["observedGeneration"] == 2


@pytest.mark.exhaustive
async def test_the_expression_of_the_folder_suspends_an_echo(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/_settings.yaml", "suspendWhen: \"labels['pause'] == 'true' or spec.replicas > 9\"\n")
        # Without the label the expression has no value, and nothing is suspended.
        await desk.apply_until_ready(echo("web"))
        await desk.kubectl("label", "echo", "web", "pause=true")
        suspended = await desk.until(ECHOES, "web", is_suspended)
        message = conditions(suspended)["Suspended"]["message"]
        assert message == (
            "nothing is applied while suspendWhen in _settings.yaml holds: "
            "labels['pause'] == 'true' or spec.replicas > 9"
        )
        await desk.patch("echo", "web", spec={"replicas": 2})
        await desk.until(ECHOES, "web", lambda body: is_suspended(body) and body["metadata"]["generation"] == 2)
        assert has_replicas(1)(await desk.read("deployments.apps", "web"))
        await desk.kubectl("label", "echo", "web", "pause=false", "--overwrite")
        await desk.until("deployments.apps", "web", has_replicas(2))
        await desk.ready(ECHOES, "web")
        await desk.kubectl("label", "echo", "web", "pause=true", "--overwrite")
        await desk.until(ECHOES, "web", is_suspended)
        running.write(f"{ECHOES}/_settings.yaml", "interval: 1h\n")
        await desk.until(ECHOES, "web", lambda body: not is_suspended(body))


async def test_ready_of_a_suspended_echo_follows_its_live_children(desk: Desk, operate: Operate) -> None:
    async with operate():
        await desk.apply(suspended_echo := echo("web") | {"metadata": SUSPENDED})
        fresh = await desk.until(ECHOES, "web", is_suspended)
        assert conditions(fresh)["Ready"]["status"] == "False"
        assert "observedGeneration" not in fresh["status"]
        assert await desk.find("deployments.apps", "web") is None

        await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/suspend-")
        await desk.ready(ECHOES, "web")
        await desk.apply(suspended_echo)
        await desk.until(ECHOES, "web", lambda body: is_suspended(body) and is_ready(body))

        await desk.delete("deployment", "web")
        gone = await desk.until(ECHOES, "web", not_ready_because("Progressing", "Deployment", "does not exist"))
        assert conditions(gone).keys() == {"Ready", "Suspended"}
        assert entries(gone)["Deployment/web"]["state"] == "NotFound"
        assert await desk.find("deployments.apps", "web") is None


async def test_a_value_of_suspend_that_this_version_does_not_know_suspends(desk: Desk, operate: Operate) -> None:
    body = echo("web")
    body["metadata"]["annotations"] = {"ssa-operator.dev/suspend": "until-monday"}
    async with operate():
        await desk.apply(body)
        parent = await desk.until(ECHOES, "web", lambda body: "status" in body)
        (condition,) = [each for each in parent["status"]["conditions"] if each["type"] == "Suspended"]
        assert "'until-monday'" in condition["message"]
        assert await desk.find("deployments.apps", "web") is None
        await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/suspend=false", "--overwrite")
        await desk.ready(ECHOES, "web")
