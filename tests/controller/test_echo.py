"""The main job, on a real API server with its controllers: an Echo becomes a Deployment, and stays one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from ssa_operator.controller.options import Options
from ssa_operator.kube.client import Client
from tests.controller.desk import ROOT, Desk, echo, is_ready, not_ready_because, operating

pytestmark = pytest.mark.cluster

MakeOptions = Callable[..., Options]

SERVICE = re.findall(r"(?s)```yaml\n(.*?)```", (ROOT / "README.md").read_text())[0]
"""The template that the README has its reader drop in."""

EXTRA = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\n"


async def test_an_echo_gets_its_deployment_and_becomes_ready(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with operating(client, options()):
        await desk.apply(echo("web", 2))
        parent = await desk.ready("echoes.example.com", "web")
        deployment = await desk.until(
            "deployments.apps", "web", lambda body: body["status"].get("availableReplicas") == 2
        )
    assert deployment["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "example.com/v1",
            "kind": "Echo",
            "name": "web",
            "uid": parent["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert deployment["metadata"]["labels"]["ssa-operator.dev/parent-uid"] == parent["metadata"]["uid"]
    ours = deployment["metadata"]["managedFields"][0]
    assert (ours["manager"], ours["operation"]) == ("ssa-operator", "Apply")
    assert "2         2           True" in await desk.kubectl("get", "echo", "web")
    assert parent["status"]["resources"] == [
        {
            "group": "apps",
            "kind": "Deployment",
            "namespace": desk.namespace,
            "name": "web",
            "uid": deployment["metadata"]["uid"],
            "state": "Current",
        }
    ]


async def test_a_change_of_replicas_reaches_the_deployment(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with operating(client, options()):
        await desk.apply(echo("web", 1))
        await desk.ready("echoes.example.com", "web")
        await desk.apply(echo("web", 3))
        await desk.until("deployments.apps", "web", lambda body: body["status"].get("availableReplicas") == 3)
        parent = await desk.ready("echoes.example.com", "web")
    assert parent["status"]["observedGeneration"] == parent["metadata"]["generation"] == 2


async def test_a_deployment_that_somebody_deletes_comes_back(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with operating(client, options()):
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        first = await desk.until("deployments.apps", "web", lambda _: True)
        await desk.kubectl("delete", "deployment", "web", "--wait=false")
        uid = first["metadata"]["uid"]
        await desk.until("deployments.apps", "web", lambda body: body["metadata"]["uid"] != uid)
        await desk.until(
            "echoes.example.com", "web", lambda body: is_ready(body) and body["status"]["resources"][0]["uid"] != uid
        )


async def test_a_field_of_ours_that_another_manager_changes_is_put_back(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()):
        await desk.apply(echo("web", 2))
        await desk.ready("echoes.example.com", "web")
        await desk.kubectl("scale", "deployment", "web", "--replicas=5")
        await desk.until(
            "deployments.apps",
            "web",
            lambda body: body["spec"]["replicas"] == 2 and body["metadata"]["generation"] >= 3,
        )


async def test_fields_that_we_do_not_render_are_left_to_others(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    """As a HorizontalPodAutoscaler's replicas, where the template has none."""
    async with operating(client, options(tick_rate=1000.0, interval=0.5)) as running:
        text = (running.templates / "echoes.example.com/deployment.yaml.j2").read_text()
        running.write("echoes.example.com/deployment.yaml.j2", text.replace("  replicas: {{ spec.replicas }}\n", ""))
        await desk.apply(echo("web", 2))
        await desk.ready("echoes.example.com", "web")
        await desk.kubectl("scale", "deployment", "web", "--replicas=4")
        await desk.kubectl("annotate", "deployment", "web", "note=theirs")
        before = await desk.until("deployments.apps", "web", lambda body: body["status"].get("availableReplicas") == 4)
        # A change of the parent makes the operator apply everything again, after which the others' fields are still
        # there.
        await desk.kubectl("label", "echo", "web", "look=again")
        await desk.apply(echo("other"))
        await desk.ready("echoes.example.com", "other")
        after = await desk.until("deployments.apps", "web", lambda _: True)
    assert after["spec"]["replicas"] == 4
    assert after["metadata"]["annotations"]["note"] == "theirs"
    assert after["metadata"]["generation"] == before["metadata"]["generation"]


async def test_everything_goes_with_the_echo(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with operating(client, options()):
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        await desk.until("deployments.apps", "web", lambda _: True)
        await desk.kubectl("delete", "echo", "web", "--wait=false")
        await desk.gone("echoes.example.com", "web")
        await desk.gone("deployments.apps", "web")


async def test_an_echo_made_again_under_its_name_starts_anew(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with operating(client, options()):
        await desk.apply(echo("web"))
        first = await desk.ready("echoes.example.com", "web")
        await desk.kubectl("delete", "echo", "web")
        await desk.apply(echo("web", 2))
        second = await desk.until(
            "echoes.example.com",
            "web",
            lambda body: body["metadata"]["uid"] != first["metadata"]["uid"] and is_ready(body),
        )
        await desk.until(
            "deployments.apps",
            "web",
            lambda body: (
                body["metadata"]["ownerReferences"][0]["uid"] == second["metadata"]["uid"]
                and body["spec"]["replicas"] == 2
            ),
        )


async def test_templates_count_as_they_are_saved(client: Client, desk: Desk, options: MakeOptions) -> None:
    """Dropped in, changed, broken, repaired, removed: without a restart, and the rest stays as it is."""
    async with operating(client, options()) as running:
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        service = "echoes.example.com/service.yaml.j2"

        running.write(service, SERVICE)
        await desk.until("services", "web", lambda body: body["spec"]["ports"][0]["port"] == 80)

        running.write(service, SERVICE.replace("port: 80", "port: 81"))
        await desk.until("services", "web", lambda body: body["spec"]["ports"][0]["port"] == 81)

        # Jinja notices the missing braces on the next line.
        running.write(service, SERVICE.replace("name: {{ name }}\nspec", "name: {{ name\nspec"))
        broken = await desk.until("echoes.example.com", "web", not_ready_because("RenderFailed", "service.yaml.j2:5"))
        assert {entry["kind"] for entry in broken["status"]["resources"]} == {"Deployment", "Service"}

        running.write(service, SERVICE.replace("port: 80", "port: 82"))
        await desk.until("services", "web", lambda body: body["spec"]["ports"][0]["port"] == 82)
        await desk.ready("echoes.example.com", "web")

        running.remove(service)
        await desk.gone("services", "web")
        await desk.until(
            "echoes.example.com", "web", lambda body: is_ready(body) and len(body["status"]["resources"]) == 1
        )


async def test_templates_that_vanish_altogether_delete_nothing(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        running.remove("echoes.example.com/deployment.yaml.j2")
        await desk.until("echoes.example.com", "web", not_ready_because("RenderFailed", "no templates"))
        await desk.until("deployments.apps", "web", lambda body: "deletionTimestamp" not in body["metadata"])


async def test_new_templates_that_leave_nothing_are_held_until_somebody_confirms(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        running.write("echoes.example.com/deployment.yaml.j2", "{# nothing #}\n")
        await desk.until("echoes.example.com", "web", not_ready_because("PruneHeld", "reconcile-at"))
        await desk.until("deployments.apps", "web", lambda body: "deletionTimestamp" not in body["metadata"])
        await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/reconcile-at=now")
        await desk.gone("deployments.apps", "web")
        await desk.ready("echoes.example.com", "web")


async def test_what_is_held_stays_so_after_a_restart_and_a_change_of_the_spec(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        running.write("echoes.example.com/deployment.yaml.j2", EXTRA)
        await desk.until("echoes.example.com", "web", not_ready_because("PruneHeld"))
    await desk.apply(echo("web", 2))
    async with operating(client, options()) as running:
        await desk.until("echoes.example.com", "web", is_held_in(2))
        running.write("echoes.example.com/deployment.yaml.j2", "{# nothing #}\n")
        await desk.apply(echo("web", 3))
        await desk.until("echoes.example.com", "web", is_held_in(3))
    # Confirmed while nobody looks.
    await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/reconcile-at=now")
    await desk.until("deployments.apps", "web", lambda body: "deletionTimestamp" not in body["metadata"])
    async with operating(client, options()):
        await desk.gone("deployments.apps", "web")
        await desk.until(
            "echoes.example.com",
            "web",
            lambda body: is_ready(body) and "ssa-operator.dev/held" not in body["metadata"]["annotations"],
        )


async def test_templates_that_were_emptied_while_no_operator_ran_delete_nothing(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
    running.write("echoes.example.com/deployment.yaml.j2", "{# nothing #}\n")
    await desk.apply(echo("web", 2))
    async with operating(client, options()):
        await desk.until("echoes.example.com", "web", is_held_in(2))
    await desk.until("deployments.apps", "web", lambda body: "deletionTimestamp" not in body["metadata"])


def is_held_in(generation: int) -> Callable[[dict[str, Any]], bool]:
    """Whether a prune is held for that generation of a parent."""
    held = not_ready_because("PruneHeld", "reconcile-at")
    return lambda body: held(body) and body["status"]["observedGeneration"] == generation


async def test_what_the_data_decides_is_pruned_at_once(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with operating(client, options()) as running:
        text = (running.templates / "echoes.example.com/deployment.yaml.j2").read_text()
        running.write("echoes.example.com/deployment.yaml.j2", f"{{% if spec.replicas %}}\n{text}{{% endif %}}\n")
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        await desk.until("deployments.apps", "web", lambda _: True)
        await desk.apply(echo("web", 0))
        await desk.gone("deployments.apps", "web")
        await desk.ready("echoes.example.com", "web")


async def test_a_template_that_fails_for_one_echo_leaves_twenty_others_alone(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(
            "echoes.example.com/extra.yaml.j2",
            "{% if name == 'bad' %}{{ spec.missing }}{% endif %}\n" + EXTRA,
        )
        await desk.apply(echo("bad"), *(echo(f"good-{number}") for number in range(20)))
        for number in range(20):
            await desk.ready("echoes.example.com", f"good-{number}")
        bad = await desk.until(
            "echoes.example.com",
            "bad",
            not_ready_because("RenderFailed", "echoes.example.com/extra.yaml.j2:1", "spec.missing"),
        )
        # What does not depend on the failure is applied.
        await desk.until("deployments.apps", "bad", lambda _: True)
    assert {each["type"] for each in bad["status"]["conditions"]} == {"Ready", "Stalled"}


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
    client: Client, desk: Desk, options: MakeOptions, template: str, reason: str, words: tuple[str, ...]
) -> None:
    async with operating(client, options()) as running:
        running.write("echoes.example.com/extra.yaml.j2", template)
        await desk.apply(echo("web"))
        await desk.until("echoes.example.com", "web", not_ready_because(reason, *words))
        await desk.until("deployments.apps", "web", lambda _: True)


async def test_an_object_that_the_crds_schema_refuses_gets_the_api_servers_words(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()):
        with pytest.raises(AssertionError, match=r"spec\.replicas.*should be greater than or equal to 0"):
            await desk.apply(echo("web", -1))


async def test_the_status_is_not_written_again_while_nothing_changes(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options(tick_rate=1000.0, interval=0.2)) as running:
        await desk.apply(echo("web", 2))
        before = await desk.ready("echoes.example.com", "web")
        deployment = await desk.until(
            "deployments.apps", "web", lambda body: body["status"].get("availableReplicas") == 2
        )
        view = await desk.view("echoes.example.com")
        ticks = running.operator.metrics.passes.labels("echoes.example.com", "ok")
        done = ticks._value.get()
        while ticks._value.get() < done + 5:
            await desk.kubectl("get", "echoes")
        after = view.find("web")
        assert after is not None
        assert after.resource_version == before["metadata"]["resourceVersion"]
        same = await desk.until("deployments.apps", "web", lambda _: True)
    assert same["metadata"]["resourceVersion"] == deployment["metadata"]["resourceVersion"]


async def test_a_suspended_echo_is_left_as_it_is(client: Client, desk: Desk, options: MakeOptions) -> None:
    async with operating(client, options()):
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/suspend=true")
        await desk.until("echoes.example.com", "web", not_ready_because("Suspended"))
        await desk.kubectl("delete", "deployment", "web")
        await desk.apply(echo("witness"))
        await desk.ready("echoes.example.com", "witness")
        await desk.gone("deployments.apps", "web")
        await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/suspend-")
        await desk.until("deployments.apps", "web", lambda _: True)
        await desk.ready("echoes.example.com", "web")


async def test_two_parents_that_render_one_object_do_not_fight_over_it(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(
            "echoes.example.com/extra.yaml.j2", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shared\n"
        )
        await desk.apply(echo("a"))
        first = await desk.ready("echoes.example.com", "a")
        await desk.apply(echo("b"))
        refused = not_ready_because("InvalidManifest", f"belongs to Echo {desk.namespace}/a already")
        await desk.until("echoes.example.com", "b", refused)
        shared = await desk.until("configmaps", "shared", lambda _: True)
        assert shared["metadata"]["ownerReferences"][0]["uid"] == first["metadata"]["uid"]
        # Nothing ticks: the end of the first one's object is what the second one waits for.
        await desk.kubectl("delete", "echo", "a")
        second = await desk.ready("echoes.example.com", "b")
        shared = await desk.until("configmaps", "shared", lambda _: True)
    assert shared["metadata"]["ownerReferences"][0]["uid"] == second["metadata"]["uid"]


async def test_an_object_that_its_parent_no_longer_renders_is_free_for_another(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(
            "echoes.example.com/extra.yaml.j2",
            "{% if spec.replicas %}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shared\n{% endif %}\n",
        )
        await desk.apply(echo("a"))
        await desk.ready("echoes.example.com", "a")
        await desk.apply(echo("b"))
        await desk.until("echoes.example.com", "b", not_ready_because("InvalidManifest"))
        await desk.apply(echo("a", 0))
        second = await desk.ready("echoes.example.com", "b")
        shared = await desk.until("configmaps", "shared", lambda _: True)
    assert shared["metadata"]["ownerReferences"][0]["uid"] == second["metadata"]["uid"]
