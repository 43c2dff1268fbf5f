"""Objects that exist already: not changed, refused, or adopted with the fields of their former managers."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Applied
from ssa_operator.kube.api.errors import ApiError, ErrorStatus
from ssa_operator.kube.api.request import DEFAULT_APPLY, ApplyOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.reconcile.settings import ApplyMode
from tests.operator.harness import (
    DEPLOYMENT,
    ECHOES,
    CountingClient,
    Desk,
    MakeOptions,
    Operate,
    administrator,
    config_map,
    definition,
    echo,
    entries,
    holds,
    is_ready,
    map_template,
    not_ready_because,
    operating,
    requests_for,
    uid,
    version,
)

pytestmark = pytest.mark.cluster

EXTRA = f"{ECHOES}/extra.yaml.j2"

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


def managers(body: dict[str, Any]) -> set[tuple[str, str]]:
    return {(entry["manager"], entry["operation"]) for entry in body["metadata"]["managedFields"]}


def is_adopted(body: dict[str, Any]) -> bool:
    return "ownerReferences" in body["metadata"]


def secret(**texts: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "web"}, "stringData": texts}


@pytest.mark.exhaustive
async def test_an_if_not_present_object_is_not_changed_later_and_recreated_after_its_deletion(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        running.write(EXTRA, IF_NOT_PRESENT)
        parent = await desk.apply_until_ready(echo("web"))
        made = await desk.until("configmaps", "web-defaults", holds(word="one"))
        assert made["metadata"]["ownerReferences"][0]["uid"] == uid(parent)
        assert "annotations" not in made["metadata"]
        assert entries(parent)["ConfigMap/web-defaults"]["state"] == "Current"

        await desk.patch("configmap", "web-defaults", data={"word": "theirs"})
        running.write(EXTRA, IF_NOT_PRESENT.replace("one", "two"))
        # The template of this ConfigMap was loaded together with the other file.
        running.write(f"{ECHOES}/more.yaml.j2", map_template("more", a="1"))
        await desk.read("configmaps", "web-more")
        await desk.apply_until_ready(echo("web", 2))
        assert holds(word="theirs")(await desk.read("configmaps", "web-defaults"))

        await desk.delete("configmap", "web-defaults")
        await desk.until("configmaps", "web-defaults", holds(word="two"))
        await desk.ready(ECHOES, "web")

        running.remove(EXTRA)
        await desk.gone("configmaps", "web-defaults")


async def test_an_if_not_present_object_that_existed_is_neither_changed_nor_deleted(
    desk: Desk, operate: Operate
) -> None:
    await desk.create(config_map("web-defaults", word="theirs"))
    before = await desk.read("configmaps", "web-defaults")
    async with operate() as running:
        running.write(EXTRA, IF_NOT_PRESENT)
        parent = await desk.apply_until_ready(echo("web"))
        entry = entries(parent)["ConfigMap/web-defaults"]
        assert (entry["state"], entry["uid"]) == ("Current", uid(before))
        running.remove(EXTRA)
        await desk.until(ECHOES, "web", lambda body: is_ready(body) and list(entries(body)) == ["Deployment/web"])
        await desk.delete("echo", "web")
        await desk.gone("deployments.apps", "web")
    after = await desk.read("configmaps", "web-defaults")
    assert version(after) == version(before)


@pytest.mark.exhaustive
async def test_an_if_not_present_object_that_existed_is_created_after_its_deletion_also_with_apply_changed(
    desk: Desk, operate: Operate
) -> None:
    await desk.create(config_map("web-defaults", word="theirs"))
    async with operate(apply=ApplyMode.CHANGED, resync_rate=1000.0, interval=0.2) as running:
        running.write(EXTRA, IF_NOT_PRESENT)
        await desk.apply_until_ready(echo("web"))
        await desk.delete("configmap", "web-defaults")
        await desk.until("configmaps", "web-defaults", holds(word="one"))


@pytest.mark.exhaustive
async def test_two_parents_may_share_an_if_not_present_object(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(EXTRA, IF_NOT_PRESENT.replace("{{ name }}-defaults", "shared"))
        await desk.apply(echo("a"), echo("b"))
        first, second = [await desk.ready(ECHOES, name) for name in ("a", "b")]
        shared = await desk.read("configmaps", "shared")
    (owner,) = shared["metadata"]["ownerReferences"]
    assert owner["uid"] in (uid(first), uid(second))


@pytest.mark.exhaustive
async def test_a_generated_value_that_existed_before_the_operator_is_kept(desk: Desk, operate: Operate) -> None:
    await desk.create(secret(password="made-by-hand", also="this"))
    async with operate() as running:
        running.write(f"{ECHOES}/secret.yaml.j2", SECRET)
        parent = await desk.apply_until_ready(echo("web"))
        kept = await desk.read("secrets", "web")
    assert kept["metadata"]["ownerReferences"][0]["uid"] == uid(parent)
    # `kubectl create` made it: what the template doesn't have goes, as from anything that is taken over.
    assert {key: base64.b64decode(value) for key, value in kept["data"].items()} == {"password": b"made-by-hand"}


@pytest.mark.exhaustive
async def test_an_object_in_the_same_file_as_a_generated_value_is_adopted_too(desk: Desk, operate: Operate) -> None:
    await desk.create(config_map("web", q="1"))
    async with operate() as running:
        running.write(EXTRA, f"{PLAIN}---\n{SECRET}")
        await desk.apply_until_ready(echo("web"))
        taken = await desk.until("configmaps", "web", is_adopted)
    assert holds(ours="a")(taken)


class Latecomer(CountingClient):
    """A client before whose first apply of a Secret another manager creates it."""

    meddle: Callable[[], Awaitable[None]]

    async def apply(
        self, resource: Resource, namespace: str, name: str, body: bytes, options: ApplyOptions = DEFAULT_APPLY
    ) -> Applied:
        if resource.kind == "Secret" and not self.met["first apply"]:
            self.met["first apply"] += 1
            await self.meddle()
        return await super().apply(resource, namespace, name, body, options)


@pytest.mark.exhaustive
async def test_a_generated_value_that_appears_just_before_its_creation_is_kept(
    cluster: Cluster, desk: Desk, options: MakeOptions
) -> None:
    async with Latecomer(await administrator(cluster)) as client:
        client.meddle = lambda: desk.create(secret(password="by-hand"))
        async with operating(client, options()) as running:
            running.write(f"{ECHOES}/secret.yaml.j2", SECRET)
            await desk.apply_until_ready(echo("web"))
            kept = await desk.until("secrets", "web", is_adopted)
        assert client.met["first apply"]
    assert base64.b64decode(kept["data"]["password"]) == b"by-hand"


class Strict(CountingClient):
    """A client of a server to which a resourceVersion is a conflict also where there is no object."""

    async def apply(
        self, resource: Resource, namespace: str, name: str, body: bytes, options: ApplyOptions = DEFAULT_APPLY
    ) -> Applied:
        if json.loads(body)["metadata"].get("resourceVersion") == "1":
            self.met["refusal"] += 1
            raise ApiError(f"apply of {name}", ErrorStatus(code=409, reason="Conflict", message="was modified"))
        return await super().apply(resource, namespace, name, body, options)


async def test_a_server_that_refuses_the_precondition_of_an_absent_object_is_no_obstacle(
    cluster: Cluster, desk: Desk, options: MakeOptions
) -> None:
    async with Strict(await administrator(cluster)) as client, operating(client, options()):
        await desk.apply_until_ready(echo("web"))
    assert client.met["refusal"] == 1


async def test_only_objects_with_generated_values_are_read_before_their_creation(
    desk: Desk, operate: Operate, cluster: Cluster
) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/secret.yaml.j2", SECRET.replace("name: {{ name }}", "name: with-value"))
        running.write(EXTRA, PLAIN.replace("name: {{ name }}", "name: without-value"))
        await desk.apply_until_ready(echo("web"))
    assert requests_for(cluster, desk.namespace, "without-value") == ["patch"]
    assert requests_for(cluster, desk.namespace, "with-value") == ["get", "patch"]


@pytest.mark.exhaustive
async def test_fields_that_only_kubectl_apply_had_set_are_removed_and_an_autoscalers_replicas_stay(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        path = f"{ECHOES}/deployment.yaml.j2"
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
        await desk.kubectl_apply(old)
        await desk.kubectl("scale", "deployment", "web", "--replicas=3")
        await desk.kubectl("annotate", "deployment", "web", "theirs=stays")
        await desk.until("deployments.apps", "web", lambda body: body["status"].get("availableReplicas") == 3)

        running.write(path, DEPLOYMENT.replace("  replicas: {{ spec.replicas }}\n", ""))
        await desk.apply_until_ready(echo("web"))
        taken = await desk.until("deployments.apps", "web", is_adopted)
    annotations = taken["metadata"]["annotations"]
    assert annotations["theirs"] == "stays"
    assert "note" not in annotations
    assert LAST_APPLIED not in annotations
    assert taken["spec"]["replicas"] == 3
    assert "minReadySeconds" not in taken["spec"]
    (container,) = taken["spec"]["template"]["spec"]["containers"]
    assert [each["name"] for each in container["env"]] == ["PORT"]
    assert ("kubectl-client-side-apply", "Update") not in managers(taken)


async def test_fields_that_kubectl_apply_adds_to_a_child_later_stay(desk: Desk, operate: Operate) -> None:
    """The operator adopts fields once. Afterwards, a field that no template renders belongs to its manager."""
    async with operate() as running:
        running.write(EXTRA, PLAIN)
        await desk.apply_until_ready(echo("web"))
        await desk.apply(config_map("web", theirs="b"))
        await desk.apply_until_ready(echo("web", 2))
        assert holds(ours="a", theirs="b")(await desk.read("configmaps", "web"))


@pytest.mark.more_cases
@pytest.mark.parametrize(
    "how", [("apply", "--server-side", "--field-manager=my-old"), ("create", "--field-manager=my-old")]
)
async def test_fields_of_a_former_manager_in_the_settings_are_removed_too(
    desk: Desk, operate: Operate, how: tuple[str, ...]
) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/_settings.yaml", "formerManagers: [my-old]\n")
        running.write(EXTRA, PLAIN)
        await desk.kubectl(*how, "-f", "-", stdin=json.dumps(config_map("web", ours="x", old="y")))
        await desk.apply_until_ready(echo("web"))
        found = await desk.until("configmaps", "web", is_adopted)
    assert holds(ours="a")(found)
    assert managers(found) == {("ssa-operator", "Apply")}


@pytest.mark.exhaustive
async def test_of_an_object_without_managers_only_fields_that_kubectl_apply_recorded_are_removed(
    desk: Desk, operate: Operate
) -> None:
    """As one from before Kubernetes kept them; a controller may have written the rest."""
    await desk.kubectl_apply(config_map("web", ours="x", old="y"))
    await desk.patch("configmap", "web", data={"written-by": "a controller"})
    await desk.kubectl("patch", "configmap", "web", "-p", '{"metadata": {"managedFields": [{}]}}')
    cleared = await desk.until("configmaps", "web", lambda body: "managedFields" not in body["metadata"])
    assert LAST_APPLIED in cleared["metadata"]["annotations"]
    async with operate() as running:
        running.write(EXTRA, PLAIN)
        await desk.apply_until_ready(echo("web"))
        found = await desk.until("configmaps", "web", is_adopted)
    assert found["data"] == {"ours": "a", "written-by": "a controller"}
    assert "annotations" not in found["metadata"]


@pytest.mark.exhaustive
@pytest.mark.parametrize("prune", ["true", "false"])
async def test_an_object_of_another_controller_is_refused_and_not_changed(
    desk: Desk, operate: Operate, prune: str
) -> None:
    await desk.create(config_map("boss"))
    boss = await desk.read("configmaps", "boss")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": uid(boss), "controller": True}
    await desk.create({**config_map("web"), "metadata": {"name": "web", "ownerReferences": [owner]}})
    before = await desk.read("configmaps", "web")
    async with operate() as running:
        text = PLAIN.replace("\ndata", f'\n  annotations:\n    ssa-operator.dev/prune: "{prune}"\ndata')
        running.write(EXTRA, text)
        await desk.apply(echo("web"))
        words = ("extra.yaml.j2:1", "ConfigMap", "/web is controlled by ConfigMap boss")
        await desk.until(ECHOES, "web", not_ready_because("Conflict", *words))
        await desk.read("deployments.apps", "web")
        assert version(await desk.read("configmaps", "web")) == version(before)

        running.write(EXTRA, IF_NOT_PRESENT.replace("{{ name }}-defaults", "{{ name }}"))
        await desk.ready(ECHOES, "web")
        assert version(await desk.read("configmaps", "web")) == version(before)


@pytest.mark.exhaustive
async def test_the_children_of_a_deleted_parent_are_adopted_and_those_of_an_existing_one_are_not(
    desk: Desk, operate: Operate
) -> None:
    """Also after a restart, which knows of the other parent by its watch only."""
    keep = PLAIN.replace("name: {{ name }}", 'name: shared\n  annotations:\n    ssa-operator.dev/prune: "false"')
    async with operate() as running:
        running.write(EXTRA, keep)
        first = await desk.apply_until_ready(echo("a"))
        await desk.apply(echo("b"))
        refused = not_ready_because("InvalidManifest", f"belongs to Echo {desk.namespace}/a already")
        await desk.until(ECHOES, "b", refused)
    async with operate():
        await desk.apply(echo("b", 2))
        await desk.until(ECHOES, "b", lambda body: refused(body) and body["status"]["observedGeneration"] == 2)
        shared = await desk.read("configmaps", "shared")
        assert shared["metadata"]["labels"]["ssa-operator.dev/parent-uid"] == uid(first)
        await desk.delete("echo", "a")
    async with operate():
        second = await desk.ready(ECHOES, "b")
        shared = await desk.read("configmaps", "shared")
    assert shared["metadata"]["labels"]["ssa-operator.dev/parent-uid"] == uid(second)


@pytest.mark.exhaustive
async def test_fields_that_were_written_in_a_removed_version_do_no_harm(desk: Desk, operate: Operate) -> None:
    """The entries of managedFields that name it stay (kubernetes/kubernetes#111937)."""
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    crd = definition("gadgets", group, "Gadget")
    (v1,) = crd["spec"]["versions"]
    both = [v1, {**v1, "name": "v1beta1", "storage": False}]
    await desk.define({**crd, "spec": {**crd["spec"], "versions": both}})
    template = f"apiVersion: {group}/v1beta1\nkind: Gadget\nmetadata:\n  name: {{{{ name }}}}\nspec:\n  word: a\n"
    try:
        async with operate() as running:
            running.write(EXTRA, template)
            await desk.apply_until_ready(echo("web"))
            theirs = {"apiVersion": f"{group}/v1beta1", "kind": "Gadget", "metadata": {"name": "web"}}
            patch = json.dumps({**theirs, "spec": {"theirs": "b"}})
            await desk.kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=patch)

            await desk.apply(crd)
            running.write(EXTRA, template.replace("v1beta1", "v1").replace("word: a", "word: b\n  more: c"))
            spec = {"word": "b", "more": "c", "theirs": "b"}
            await desk.until(f"gadgets.{group}", "web", lambda body: body["spec"] == spec)
            await desk.ready(ECHOES, "web")
    finally:
        await desk.delete("crd", f"gadgets.{group}", wait=False)
