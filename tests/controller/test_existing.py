"""Objects that exist already: left alone, refused, or taken over with what others left in them."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ssa_operator.controller.options import Options
from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube import credentials
from ssa_operator.kube.client import Applied, Client
from ssa_operator.kube.errors import ApiError, Refusal
from ssa_operator.kube.resource import Resource
from tests.controller.desk import Desk, definition, echo, is_ready, not_ready_because, operating, requests_for

pytestmark = pytest.mark.cluster

MakeOptions = Callable[..., Options]

EXTRA = "echoes.example.com/extra.yaml.j2"

IF_NOT_PRESENT = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-defaults
  annotations:
    ssa-operator.dev/apply: IfNotPresent
data:
  word: one
"""

SECRET = """\
apiVersion: v1
kind: Secret
metadata:
  name: {{ name }}
stringData:
  password: {{ generated(20) }}
"""

PLAIN = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\ndata:\n  ours: a\n"

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def managers(body: dict[str, Any]) -> set[tuple[str, str]]:
    return {(entry["manager"], entry["operation"]) for entry in body["metadata"]["managedFields"]}


async def created(desk: Desk, *bodies: dict[str, Any]) -> None:
    for body in bodies:
        await desk.kubectl("create", "-f", "-", stdin=json.dumps(body))


async def test_what_is_made_if_not_present_is_left_alone_afterwards_and_made_again_when_it_goes(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(EXTRA, IF_NOT_PRESENT)
        await desk.apply(echo("web"))
        parent = await desk.ready("echoes.example.com", "web")
        made = await desk.until("configmaps", "web-defaults", lambda body: body["data"] == {"word": "one"})
        assert made["metadata"]["ownerReferences"][0]["uid"] == parent["metadata"]["uid"]
        assert "annotations" not in made["metadata"]
        states = {entry["name"]: entry["state"] for entry in parent["status"]["resources"]}
        assert states["web-defaults"] == "Current"

        await desk.kubectl("patch", "configmap", "web-defaults", "-p", '{"data": {"word": "theirs"}}')
        running.write(EXTRA, IF_NOT_PRESENT.replace("one", "two"))
        await desk.apply(echo("web", 2))
        await desk.ready("echoes.example.com", "web")
        await desk.until("configmaps", "web-defaults", lambda body: body["data"] == {"word": "theirs"})

        await desk.kubectl("delete", "configmap", "web-defaults")
        await desk.until("configmaps", "web-defaults", lambda body: body["data"] == {"word": "two"})
        await desk.ready("echoes.example.com", "web")

        running.remove(EXTRA)
        await desk.gone("configmaps", "web-defaults")


async def test_what_somebody_else_made_is_neither_changed_nor_deleted_if_not_present(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    await created(desk, config_map("web-defaults", word="theirs"))
    before = await desk.until("configmaps", "web-defaults", lambda _: True)
    async with operating(client, options()) as running:
        running.write(EXTRA, IF_NOT_PRESENT)
        await desk.apply(echo("web"))
        parent = await desk.ready("echoes.example.com", "web")
        entry = next(each for each in parent["status"]["resources"] if each["name"] == "web-defaults")
        assert (entry["state"], entry["uid"]) == ("Current", before["metadata"]["uid"])
        running.remove(EXTRA)
        await desk.until(
            "echoes.example.com", "web", lambda body: is_ready(body) and len(body["status"]["resources"]) == 1
        )
        await desk.kubectl("delete", "echo", "web")
        await desk.gone("deployments.apps", "web")
    after = await desk.until("configmaps", "web-defaults", lambda _: True)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_two_parents_may_share_what_is_made_if_not_present(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        running.write(EXTRA, IF_NOT_PRESENT.replace("{{ name }}-defaults", "shared"))
        await desk.apply(echo("a"), echo("b"))
        first, second = [await desk.ready("echoes.example.com", name) for name in ("a", "b")]
        shared = await desk.until("configmaps", "shared", lambda _: True)
    (owner,) = shared["metadata"]["ownerReferences"]
    assert owner["uid"] in (first["metadata"]["uid"], second["metadata"]["uid"])


async def test_a_generated_value_that_existed_before_the_operator_is_kept(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    old = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "web"},
        "stringData": {"password": "made-by-hand", "also": "this"},
    }
    await created(desk, old)
    async with operating(client, options()) as running:
        running.write("echoes.example.com/secret.yaml.j2", SECRET)
        await desk.apply(echo("web"))
        parent = await desk.ready("echoes.example.com", "web")
        secret = await desk.until("secrets", "web", lambda _: True)
    assert secret["metadata"]["ownerReferences"][0]["uid"] == parent["metadata"]["uid"]
    # `kubectl create` made it: what the template doesn't have goes, as from anything that is taken over.
    assert {key: base64.b64decode(value) for key, value in secret["data"].items()} == {"password": b"made-by-hand"}


async def test_what_stands_in_one_file_with_a_generated_value_is_taken_over_too(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    await created(desk, config_map("web", q="1"))
    async with operating(client, options()) as running:
        running.write(EXTRA, f"{PLAIN}---\n{SECRET}")
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        taken = await desk.until("configmaps", "web", lambda body: "ownerReferences" in body["metadata"])
    assert taken["data"] == {"ours": "a"}


class Latecomer(Client):
    """A client before whose first apply of a Secret somebody else makes it."""

    meddle: Callable[[], Awaitable[None]] | None = None
    met = False

    async def apply(self, resource: Resource, namespace: str, name: str, body: bytes, **more: Any) -> Applied:
        if resource.kind == "Secret" and self.meddle is not None:
            meddle, self.meddle, self.met = self.meddle, None, True
            await meddle()
        return await super().apply(resource, namespace, name, body, **more)


async def test_a_generated_value_that_appears_just_before_it_would_be_made_is_kept(
    cluster: Cluster, desk: Desk, options: MakeOptions
) -> None:
    old = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}, "stringData": {"password": "by-hand"}}
    async with Latecomer(await credentials.load(str(cluster.kubeconfig), None)) as client:
        client.meddle = lambda: created(desk, old)
        async with operating(client, options()) as running:
            running.write("echoes.example.com/secret.yaml.j2", SECRET)
            await desk.apply(echo("web"))
            await desk.ready("echoes.example.com", "web")
            secret = await desk.until("secrets", "web", lambda body: "ownerReferences" in body["metadata"])
        assert client.met
    assert base64.b64decode(secret["data"]["password"]) == b"by-hand"


class Strict(Client):
    """A client of a server to which a resourceVersion is a conflict also where there is no object."""

    async def apply(self, resource: Resource, namespace: str, name: str, body: bytes, **more: Any) -> Applied:
        if json.loads(body)["metadata"].get("resourceVersion") == "1":
            raise ApiError(f"apply of {name}", Refusal(code=409, reason="Conflict", message="was modified"))
        return await super().apply(resource, namespace, name, body, **more)


async def test_a_server_that_refuses_the_precondition_of_an_absent_object_is_no_obstacle(
    cluster: Cluster, desk: Desk, options: MakeOptions
) -> None:
    async with Strict(await credentials.load(str(cluster.kubeconfig), None)) as client, operating(client, options()):
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")


async def test_only_what_holds_generated_values_is_looked_at_before_it_is_made(
    client: Client, desk: Desk, options: MakeOptions, cluster: Cluster
) -> None:
    async with operating(client, options()) as running:
        running.write("echoes.example.com/secret.yaml.j2", SECRET.replace("name: {{ name }}", "name: with-value"))
        running.write(EXTRA, PLAIN.replace("name: {{ name }}", "name: without-value"))
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
    assert requests_for(cluster, desk.namespace, "without-value") == ["patch"]
    assert requests_for(cluster, desk.namespace, "with-value") == ["get", "patch"]


async def test_fields_that_only_kubectl_apply_had_set_go_and_an_autoscalers_replicas_stay(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    async with operating(client, options()) as running:
        path = "echoes.example.com/deployment.yaml.j2"
        text = (running.templates / path).read_text().replace("  replicas: {{ spec.replicas }}\n", "")
        running.write(path, "")
        running.write(EXTRA, PLAIN)
        old = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "annotations": {"note": "old"}, "labels": {"app.kubernetes.io/name": "echo"}},
            "spec": {
                "replicas": 1,
                "minReadySeconds": 1,
                "selector": {
                    "matchLabels": {"app.kubernetes.io/name": "echo", "app.kubernetes.io/instance": "web"},
                },
                "template": {
                    "metadata": {"labels": {"app.kubernetes.io/name": "echo", "app.kubernetes.io/instance": "web"}},
                    "spec": {
                        "containers": [
                            {"name": "echo", "image": "old", "env": [{"name": "OLD", "value": "1"}]},
                            {"name": "sidecar", "image": "old"},
                        ]
                    },
                },
            },
        }
        await desk.apply(old)
        await desk.kubectl("scale", "deployment", "web", "--replicas=3")
        await desk.kubectl("annotate", "deployment", "web", "theirs=stays")
        await desk.until("deployments.apps", "web", lambda body: body["status"].get("availableReplicas") == 3)

        running.write(path, text)
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        taken = await desk.until("deployments.apps", "web", lambda body: "ownerReferences" in body["metadata"])
    annotations = taken["metadata"]["annotations"]
    assert annotations["theirs"] == "stays"
    assert "note" not in annotations
    assert LAST_APPLIED not in annotations
    assert taken["spec"]["replicas"] == 3
    assert "minReadySeconds" not in taken["spec"]
    (container,) = taken["spec"]["template"]["spec"]["containers"]
    assert [each["name"] for each in container["env"]] == ["PORT"]
    assert ("kubectl-client-side-apply", "Update") not in managers(taken)


async def test_what_kubectl_apply_writes_into_our_object_later_is_left_alone(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    """Taking over happens once: afterwards a field that no template writes is its writer's."""
    async with operating(client, options()) as running:
        running.write(EXTRA, PLAIN)
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        await desk.apply(config_map("web", theirs="b"))
        await desk.apply(echo("web", 2))
        await desk.ready("echoes.example.com", "web")
        found = await desk.until("configmaps", "web", lambda body: "theirs" in body["data"])
    assert found["data"] == {"ours": "a", "theirs": "b"}


@pytest.mark.parametrize(
    "how", [("apply", "--server-side", "--field-manager=my-old"), ("create", "--field-manager=my-old")]
)
async def test_fields_of_a_former_manager_that_the_settings_name_go_too(
    client: Client, desk: Desk, options: MakeOptions, how: tuple[str, ...]
) -> None:
    async with operating(client, options()) as running:
        running.write("echoes.example.com/_settings.yaml", "formerManagers: [my-old]\n")
        running.write(EXTRA, PLAIN)
        await desk.kubectl(*how, "-f", "-", stdin=json.dumps(config_map("web", ours="x", old="y")))
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        found = await desk.until("configmaps", "web", lambda body: "ownerReferences" in body["metadata"])
    assert found["data"] == {"ours": "a"}
    assert managers(found) == {("ssa-operator", "Apply")}


async def test_of_an_object_without_managers_only_what_kubectl_apply_recorded_goes(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    """As one from before Kubernetes kept them; a controller may have written the rest."""
    await desk.apply(config_map("web", ours="x", old="y"))
    await desk.kubectl("patch", "configmap", "web", "-p", '{"data": {"written-by": "a controller"}}')
    await desk.kubectl("patch", "configmap", "web", "-p", '{"metadata": {"managedFields": [{}]}}')
    cleared = await desk.until("configmaps", "web", lambda body: "managedFields" not in body["metadata"])
    assert LAST_APPLIED in cleared["metadata"]["annotations"]
    async with operating(client, options()) as running:
        running.write(EXTRA, PLAIN)
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
        found = await desk.until("configmaps", "web", lambda body: "ownerReferences" in body["metadata"])
    assert found["data"] == {"ours": "a", "written-by": "a controller"}
    assert "annotations" not in found["metadata"]


@pytest.mark.parametrize("prune", ["true", "false"])
async def test_an_object_that_another_controller_owns_is_refused_untouched(
    client: Client, desk: Desk, options: MakeOptions, prune: str
) -> None:
    await created(desk, config_map("boss"))
    boss = await desk.until("configmaps", "boss", lambda _: True)
    owner = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "boss",
        "uid": boss["metadata"]["uid"],
        "controller": True,
    }
    await created(desk, {**config_map("web"), "metadata": {"name": "web", "ownerReferences": [owner]}})
    before = await desk.until("configmaps", "web", lambda _: True)
    async with operating(client, options()) as running:
        text = PLAIN.replace("\ndata", f'\n  annotations:\n    ssa-operator.dev/prune: "{prune}"\ndata')
        running.write(EXTRA, text)
        await desk.apply(echo("web"))
        words = ("extra.yaml.j2:1", "ConfigMap", "/web is controlled by ConfigMap boss")
        await desk.until("echoes.example.com", "web", not_ready_because("Conflict", *words))
        await desk.until("deployments.apps", "web", lambda _: True)
        after = await desk.until("configmaps", "web", lambda _: True)
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]

        running.write(EXTRA, IF_NOT_PRESENT.replace("{{ name }}-defaults", "{{ name }}"))
        await desk.ready("echoes.example.com", "web")
        after = await desk.until("configmaps", "web", lambda _: True)
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]


async def test_what_a_parent_that_is_gone_left_behind_is_taken_over_and_what_a_living_one_has_is_not(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    """Also after a restart, which knows of the other parent by its watch only."""
    keep = PLAIN.replace("name: {{ name }}", 'name: shared\n  annotations:\n    ssa-operator.dev/prune: "false"')
    async with operating(client, options()) as running:
        running.write(EXTRA, keep)
        await desk.apply(echo("a"))
        first = await desk.ready("echoes.example.com", "a")
        await desk.apply(echo("b"))
        words = (f"belongs to Echo {desk.namespace}/a already",)
        await desk.until("echoes.example.com", "b", not_ready_because("InvalidManifest", *words))
    async with operating(client, options()):
        await desk.apply(echo("b", 2))
        await desk.until(
            "echoes.example.com",
            "b",
            lambda body: (
                not_ready_because("InvalidManifest", *words)(body) and body["status"]["observedGeneration"] == 2
            ),
        )
        shared = await desk.until("configmaps", "shared", lambda _: True)
        assert shared["metadata"]["labels"]["ssa-operator.dev/parent-uid"] == first["metadata"]["uid"]
        await desk.kubectl("delete", "echo", "a")
    async with operating(client, options()):
        second = await desk.ready("echoes.example.com", "b")
        shared = await desk.until("configmaps", "shared", lambda _: True)
    assert shared["metadata"]["labels"]["ssa-operator.dev/parent-uid"] == second["metadata"]["uid"]


async def test_fields_that_were_written_in_a_version_that_is_gone_hurt_nobody(
    client: Client, desk: Desk, options: MakeOptions
) -> None:
    """The entries of managedFields that name it stay (kubernetes/kubernetes#111937)."""
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    crd = definition("gadgets", group, "Gadget")
    (version,) = crd["spec"]["versions"]
    both = [version, {**version, "name": "v1beta1", "storage": False}]
    await desk.apply({**crd, "spec": {**crd["spec"], "versions": both}})
    await desk.kubectl("wait", "--for=condition=Established", f"crd/gadgets.{group}")
    template = f"apiVersion: {group}/v1beta1\nkind: Gadget\nmetadata:\n  name: {{{{ name }}}}\nspec:\n  word: a\n"
    try:
        async with operating(client, options()) as running:
            running.write(EXTRA, template)
            await desk.apply(echo("web"))
            await desk.until(f"gadgets.{group}", "web", lambda _: True)
            await desk.ready("echoes.example.com", "web")
            theirs = {"apiVersion": f"{group}/v1beta1", "kind": "Gadget", "metadata": {"name": "web"}}
            patch = json.dumps({**theirs, "spec": {"theirs": "b"}})
            await desk.kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=patch)

            await desk.apply(crd)
            running.write(EXTRA, template.replace("v1beta1", "v1").replace("word: a", "word: b\n  more: c"))
            await desk.until(
                f"gadgets.{group}", "web", lambda body: body["spec"] == {"word": "b", "more": "c", "theirs": "b"}
            )
            await desk.ready("echoes.example.com", "web")
    finally:
        await desk.kubectl("delete", "crd", f"gadgets.{group}", "--wait=false")
