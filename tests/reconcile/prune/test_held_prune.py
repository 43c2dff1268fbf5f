"""Which prunes are held until a user confirms them, and which are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.operator.harness import (
    DEPLOYMENT,
    ECHOES,
    Desk,
    Operate,
    echo,
    not_ready_because,
    plain_template,
    ready_saying,
)

pytestmark = pytest.mark.cluster

TEMPLATE = f"{ECHOES}/deployment.yaml.j2"

PLAIN = plain_template("ConfigMap")


def stays(body: dict[str, Any]) -> bool:
    return "deletionTimestamp" not in body["metadata"]


async def test_a_template_folder_that_vanishes_deletes_nothing(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        await desk.apply_until_ready(echo("web"))
        running.remove(TEMPLATE)
        await desk.until(ECHOES, "web", ready_saying("last good templates", "no templates"))
        assert stays(await desk.read("deployments.apps", "web"))


def is_held_in(generation: int) -> Callable[[dict[str, Any]], bool]:
    """Whether a prune is held for that generation of a parent."""
    held = not_ready_because("PruneHeld", "reconcile-at")
    return lambda body: held(body) and body["status"]["observedGeneration"] == generation


async def test_a_prune_by_new_templates_that_render_nothing_is_held_until_a_user_confirms(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        await desk.apply_until_ready(echo("web"))
        running.write(TEMPLATE, "{# nothing #}\n")
        await desk.until(ECHOES, "web", not_ready_because("PruneHeld", "reconcile-at"))
        assert stays(await desk.read("deployments.apps", "web"))
        await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/reconcile-at=now")
        await desk.gone("deployments.apps", "web")
        await desk.ready(ECHOES, "web")


async def test_a_held_prune_stays_held_after_a_restart_and_a_change_of_the_spec(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        await desk.apply_until_ready(echo("web"))
        running.write(TEMPLATE, PLAIN)
        await desk.until(ECHOES, "web", not_ready_because("PruneHeld"))
    await desk.apply(echo("web", 2))
    async with operate() as running:
        await desk.until(ECHOES, "web", is_held_in(2))
        running.write(TEMPLATE, "{# nothing #}\n")
        await desk.apply(echo("web", 3))
        await desk.until(ECHOES, "web", is_held_in(3))
    # Confirmed while no operator runs.
    await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/reconcile-at=now")
    assert stays(await desk.read("deployments.apps", "web"))
    async with operate():
        await desk.gone("deployments.apps", "web")
        parent = await desk.ready(ECHOES, "web")
    assert "ssa-operator.dev/held" not in parent["metadata"]["annotations"]


@pytest.mark.exhaustive
async def test_templates_that_were_emptied_while_no_operator_ran_delete_nothing(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        await desk.apply_until_ready(echo("web"))
    running.write(TEMPLATE, "{# nothing #}\n")
    await desk.apply(echo("web", 2))
    async with operate():
        await desk.until(ECHOES, "web", is_held_in(2))
    assert stays(await desk.read("deployments.apps", "web"))


@pytest.mark.exhaustive
async def test_children_that_a_condition_on_the_spec_no_longer_renders_are_pruned_at_once(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        running.write(TEMPLATE, f"{{% if spec.replicas %}}\n{DEPLOYMENT}{{% endif %}}\n")
        await desk.apply_until_ready(echo("web"))
        await desk.read("deployments.apps", "web")
        await desk.apply(echo("web", 0))
        await desk.gone("deployments.apps", "web")
        await desk.ready(ECHOES, "web")
