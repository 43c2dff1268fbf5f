"""The main task, on a real API server with its controllers: an Echo has a Deployment, and keeps it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.operator.harness import (
    DEPLOYMENT,
    ECHOES,
    ROOT,
    Desk,
    Operate,
    echo,
    entries,
    is_ready,
    not_ready_because,
    other_than,
    plain_template,
    uid,
    version,
)

pytestmark = pytest.mark.cluster

SERVICE = re.findall(r"(?s)`templates/\S+`:\n\n```yaml\n(.*?)```", (ROOT / "README.md").read_text())[0]
"""The template that the README has its reader drop in."""

TEMPLATE = f"{ECHOES}/deployment.yaml.j2"
EXTRA = f"{ECHOES}/extra.yaml.j2"

PLAIN = plain_template("ConfigMap")
SHARED = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shared\n"


def has_replicas(count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda body: body["status"].get("availableReplicas") == count


def has_port(port: int) -> Callable[[dict[str, Any]], bool]:
    return lambda body: body["spec"]["ports"][0]["port"] == port


def stays(body: dict[str, Any]) -> bool:
    return "deletionTimestamp" not in body["metadata"]


SUSPENDED = {"name": "web", "annotations": {"ssa-operator.dev/suspend": "true"}}


def conditions(parent: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The conditions of a parent by type, without the moment of their last transition."""
    found = parent.get("status", {}).get("conditions", [])
    return {each["type"]: {key: value for key, value in each.items() if key != "lastTransitionTime"} for each in found}


def is_suspended(parent: dict[str, Any]) -> bool:
    found = conditions(parent).get("Suspended", {})
    return found.get("status") == "True" and found["observedGeneration"] == parent["metadata"]["generation"]


def owners(child: dict[str, Any]) -> list[str]:
    """The uids of the parents that a child has."""
    return [each["uid"] for each in child["metadata"]["ownerReferences"]]


async def test_an_echo_gets_its_deployment_and_becomes_ready(desk: Desk, operate: Operate) -> None:
    async with operate():
        parent = await desk.apply_until_ready(echo("web", 2))
        deployment = await desk.until("deployments.apps", "web", has_replicas(2))
    assert deployment["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "example.com/v1",
            "kind": "Echo",
            "name": "web",
            "uid": uid(parent),
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert deployment["metadata"]["labels"]["ssa-operator.dev/parent-uid"] == uid(parent)
    ours = deployment["metadata"]["managedFields"][0]
    assert (ours["manager"], ours["operation"]) == ("ssa-operator", "Apply")
    assert "2         2           True" in await desk.kubectl("get", "echo", "web")
    assert parent["status"]["resources"] == [
        {
            "group": "apps",
            "kind": "Deployment",
            "namespace": desk.namespace,
            "name": "web",
            "uid": uid(deployment),
            "state": "Current",
        }
    ]


async def test_a_change_of_replicas_reaches_the_deployment(desk: Desk, operate: Operate) -> None:
    async with operate():
        await desk.apply_until_ready(echo("web", 1))
        parent = await desk.apply_until_ready(echo("web", 3))
        assert has_replicas(3)(await desk.read("deployments.apps", "web"))
    assert parent["status"]["observedGeneration"] == parent["metadata"]["generation"] == 2


async def test_a_deleted_deployment_is_recreated(desk: Desk, operate: Operate) -> None:
    async with operate():
        await desk.apply_until_ready(echo("web"))
        first = await desk.read("deployments.apps", "web")
        await desk.delete("deployment", "web", wait=False)
        second = await desk.until("deployments.apps", "web", other_than(first))
        await desk.until(
            ECHOES, "web", lambda body: is_ready(body) and entries(body)["Deployment/web"]["uid"] == uid(second)
        )


async def test_a_rendered_field_that_another_manager_changes_is_reverted(desk: Desk, operate: Operate) -> None:
    async with operate():
        await desk.apply_until_ready(echo("web", 2))
        await desk.kubectl("scale", "deployment", "web", "--replicas=5")
        await desk.until(
            "deployments.apps",
            "web",
            lambda body: body["spec"]["replicas"] == 2 and body["metadata"]["generation"] >= 3,
        )


async def test_fields_that_no_template_renders_belong_to_other_managers(desk: Desk, operate: Operate) -> None:
    """As a HorizontalPodAutoscaler's replicas, where the template has none."""
    async with operate(resync_rate=1000.0, interval=0.5) as running:
        running.write(TEMPLATE, DEPLOYMENT.replace("  replicas: {{ spec.replicas }}\n", ""))
        await desk.apply_until_ready(echo("web", 2))
        await desk.kubectl("scale", "deployment", "web", "--replicas=4")
        await desk.kubectl("annotate", "deployment", "web", "note=theirs")
        before = await desk.until("deployments.apps", "web", has_replicas(4))
        # Each resync applies everything, and the fields of other managers stay.
        running.forget()
        await running.reconciled(3)
        after = await desk.read("deployments.apps", "web")
    assert after["metadata"]["annotations"]["note"] == "theirs"
    # Not its version: the Deployment controller goes on writing the status.
    assert after["metadata"]["generation"] == before["metadata"]["generation"]
    assert after["spec"] == before["spec"]


async def test_all_children_are_deleted_with_the_echo(desk: Desk, operate: Operate) -> None:
    async with operate():
        await desk.apply_until_ready(echo("web"))
        await desk.read("deployments.apps", "web")
        await desk.delete("echo", "web", wait=False)
        await desk.gone(ECHOES, "web")
        await desk.gone("deployments.apps", "web")


async def test_a_recreated_echo_starts_without_a_state(desk: Desk, operate: Operate) -> None:
    async with operate():
        first = await desk.apply_until_ready(echo("web"))
        await desk.delete("echo", "web")
        second = await desk.apply_until_ready(echo("web", 2))
        await desk.until("deployments.apps", "web", lambda body: owners(body) == [uid(second)])
        await desk.until("deployments.apps", "web", has_replicas(2))
    assert uid(second) != uid(first)


async def test_saved_templates_are_rendered_without_a_restart(desk: Desk, operate: Operate) -> None:
    """Added, changed, broken, repaired, removed: without a restart, and the other children stay as they are."""
    async with operate() as running:
        await desk.apply_until_ready(echo("web"))
        service = f"{ECHOES}/service.yaml.j2"

        running.write(service, SERVICE)
        await desk.until("services", "web", has_port(80))

        running.write(service, SERVICE.replace("port: 80", "port: 81"))
        await desk.until("services", "web", has_port(81))

        # Jinja notices the missing braces on the next line.
        running.write(service, SERVICE.replace("name: {{ name }}\nspec", "name: {{ name\nspec"))
        broken = await desk.until(ECHOES, "web", not_ready_because("RenderFailed", "service.yaml.j2:5"))
        assert entries(broken).keys() == {"Deployment/web", "Service/web"}

        running.write(service, SERVICE.replace("port: 80", "port: 82"))
        await desk.until("services", "web", has_port(82))
        await desk.ready(ECHOES, "web")

        running.remove(service)
        await desk.gone("services", "web")
        await desk.until(ECHOES, "web", lambda body: is_ready(body) and list(entries(body)) == ["Deployment/web"])


async def test_a_template_folder_that_vanishes_deletes_nothing(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        await desk.apply_until_ready(echo("web"))
        running.remove(TEMPLATE)
        await desk.until(ECHOES, "web", not_ready_because("RenderFailed", "no templates"))
        assert stays(await desk.read("deployments.apps", "web"))


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


def is_held_in(generation: int) -> Callable[[dict[str, Any]], bool]:
    """Whether a prune is held for that generation of a parent."""
    held = not_ready_because("PruneHeld", "reconcile-at")
    return lambda body: held(body) and body["status"]["observedGeneration"] == generation


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


@pytest.mark.exhaustive
async def test_a_template_that_fails_for_one_echo_disturbs_none_of_twenty_others(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(EXTRA, "{% if name == 'bad' %}{{ spec.missing }}{% endif %}\n" + PLAIN)
        await desk.apply(echo("bad"), *(echo(f"good-{number}") for number in range(20)))
        for number in range(20):
            await desk.ready(ECHOES, f"good-{number}")
        bad = await desk.until(ECHOES, "bad", not_ready_because("RenderFailed", f"{EXTRA}:1", "spec.missing"))
        # What does not depend on the failure is applied.
        await desk.read("deployments.apps", "bad")
    assert {each["type"] for each in bad["status"]["conditions"]} == {"Ready", "Stalled"}


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("template", "reason", "words"),
    [
        pytest.param(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: x\nspec:\n  selector: {}\n  replicas: 1\n",
            "ApplyFailed",
            ("extra.yaml.j2:6", "selector"),
            id="refused by validation",
        ),
        pytest.param(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  a: b\nmore: c\n",
            "ApplyFailed",
            ("extra.yaml.j2:7", "more"),
            id="a field that doesn't exist",
        ),
        pytest.param(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\ndata:\n  a: 1\n",
            "ApplyFailed",
            ("extra.yaml.j2:", "data"),
            id="a wrong type",
        ),
        pytest.param(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: Not_A_Name\n",
            "ApplyFailed",
            ("extra.yaml.j2:4", "Not_A_Name"),
            id="a name that is none",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: x\n",
            "InvalidManifest",
            ("extra.yaml.j2:1", "clusterScope: true"),
            id="an illegal owner",
        ),
        pytest.param(
            "apiVersion: nowhere.example.com/v1\nkind: Thing\nmetadata:\n  name: x\n",
            "ApplyFailed",
            ("extra.yaml.j2:1", "no kind Thing.nowhere.example.com"),
            id="a kind that doesn't exist",
        ),
    ],
)
async def test_a_manifest_that_is_refused_names_the_template_line(
    desk: Desk, operate: Operate, template: str, reason: str, words: tuple[str, ...]
) -> None:
    async with operate() as running:
        running.write(EXTRA, template)
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", not_ready_because(reason, *words))
        await desk.read("deployments.apps", "web")


async def test_an_object_that_the_crds_schema_refuses_has_the_api_servers_message(desk: Desk, operate: Operate) -> None:
    async with operate():
        with pytest.raises(AssertionError, match=r"spec\.replicas.*should be greater than or equal to 0"):
            await desk.apply(echo("web", -1))


@pytest.mark.exhaustive
async def test_the_status_is_not_written_again_while_nothing_changes(desk: Desk, operate: Operate) -> None:
    async with operate(resync_rate=1000.0, interval=0.2) as running:
        before = await desk.apply_until_ready(echo("web", 2))
        deployment = await desk.until("deployments.apps", "web", has_replicas(2))
        running.forget()
        await running.reconciled(5)
    assert version(await desk.read(ECHOES, "web")) == version(before)
    assert version(await desk.read("deployments.apps", "web")) == version(deployment)


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


@pytest.mark.exhaustive
async def test_of_two_parents_that_render_one_object_only_the_first_applies_it(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(EXTRA, SHARED)
        first = await desk.apply_until_ready(echo("a"))
        await desk.apply(echo("b"))
        refused = not_ready_because("InvalidManifest", f"belongs to Echo {desk.namespace}/a already")
        await desk.until(ECHOES, "b", refused)
        shared = await desk.read("configmaps", "shared")
        assert owners(shared) == [uid(first)]
        # There are no resyncs: the deletion of the first parent's object requeues the second one.
        await desk.delete("echo", "a")
        second = await desk.ready(ECHOES, "b")
        shared = await desk.read("configmaps", "shared")
    assert owners(shared) == [uid(second)]


@pytest.mark.exhaustive
async def test_an_object_that_its_parent_no_longer_renders_can_belong_to_another(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(EXTRA, f"{{% if spec.replicas %}}\n{SHARED}{{% endif %}}\n")
        await desk.apply_until_ready(echo("a"))
        await desk.apply(echo("b"))
        await desk.until(ECHOES, "b", not_ready_because("InvalidManifest"))
        await desk.apply(echo("a", 0))
        second = await desk.ready(ECHOES, "b")
        shared = await desk.read("configmaps", "shared")
    assert owners(shared) == [uid(second)]
