"""The main task, on a real API server with its controllers: an Echo has a Deployment, and keeps it."""

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
    entries,
    is_ready,
    not_ready_because,
    other_than,
    plain_template,
    ready_saying,
    uid,
    version,
)

pytestmark = pytest.mark.cluster

SERVICE = """\
apiVersion: v1
kind: Service
metadata:
  name: {{ name }}
spec:
  selector:
    app.kubernetes.io/instance: {{ name }}
  ports:
    - port: 80
      targetPort: http
"""

TEMPLATE = f"{ECHOES}/deployment.yaml.j2"
EXTRA = f"{ECHOES}/extra.yaml.j2"

PLAIN = plain_template("ConfigMap")
SHARED = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shared\n"


def has_replicas(count: int) -> Callable[[dict[str, Any]], bool]:
    return lambda body: body["status"].get("availableReplicas") == count


def has_port(port: int) -> Callable[[dict[str, Any]], bool]:
    return lambda body: body["spec"]["ports"][0]["port"] == port


def conditions(parent: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The conditions of a parent by type, without the moment of their last transition."""
    found = parent.get("status", {}).get("conditions", [])
    return {each["type"]: {key: value for key, value in each.items() if key != "lastTransitionTime"} for each in found}


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
        # The parent goes on with the last good templates, and its message says so.
        broken = await desk.until(ECHOES, "web", ready_saying("last good templates", "service.yaml.j2:5"))
        assert entries(broken).keys() == {"Deployment/web", "Service/web"}

        running.write(service, SERVICE.replace("port: 80", "port: 82"))
        await desk.until("services", "web", has_port(82))
        await desk.ready(ECHOES, "web")

        running.remove(service)
        await desk.gone("services", "web")
        await desk.until(ECHOES, "web", lambda body: is_ready(body) and list(entries(body)) == ["Deployment/web"])


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


@pytest.mark.exhaustive
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
            ("extra.yaml.j2:2", "no kind Thing.nowhere.example.com"),
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
