"""Applies that the API server refuses, although the manifest is valid: what others set, defaults, admission, and values
that only go one way.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.api import request as calls
from tests.cli.process import run
from tests.operator.admission_policies import mutating
from tests.operator.harness import (
    Desk,
    Operate,
    definition,
    entries,
    is_ready,
    not_ready_because,
    other_than,
    ready_condition,
    uid,
    version,
)
from tests.reconcile.recreate.test_recreate import box, deployment, is_bound, job, manifest, stateful_set

pytestmark = pytest.mark.cluster

Body = dict[str, Any]

GROUP = "recreate.example.com"
BOXES = f"boxes.{GROUP}"
SHAPES = f"shapes.{GROUP}"

TEMPLATE = """\
{% for manifest in spec.manifests %}
---
{{ manifest | to_yaml }}
{% endfor %}
"""

UNION: Body = {
    "type": "object",
    "default": {"type": "Rolling", "rolling": {"max": 1}},
    "properties": {
        "type": {"type": "string"},
        "rolling": {"type": "object", "properties": {"max": {"type": "integer"}}},
    },
    "x-kubernetes-validations": [{"rule": "self.type == 'Rolling' || !has(self.rolling)", "message": "not both"}],
}
"""A union with a default for the whole of it."""

SHAPE: Body = {
    "type": "object",
    "properties": {
        "strategy": UNION,
        "source": {
            "type": "object",
            "properties": {"git": {"type": "string"}, "oci": {"type": "string"}},
            "oneOf": [{"required": ["git"]}, {"required": ["oci"]}],
        },
        "engine": {
            "type": "object",
            "default": {"slow": "x"},
            "properties": {"slow": {"type": "string"}, "fast": {"type": "string"}},
            "oneOf": [{"required": ["slow"]}, {"required": ["fast"]}],
        },
        "size": {"type": "integer", "maximum": 100, "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]},
        "frozen": {"type": "integer", "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
        "image": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "immutable"}]},
        "label": {"type": "string"},
        "plain": {"type": "integer"},
    },
}


@pytest.fixture
async def boxes(desk: Desk, templates: Path) -> Path:
    """The templates of Boxes, whose CRD is installed; and of Shapes, which are their children."""
    (templates / BOXES).mkdir()
    (templates / BOXES / "any.yaml.j2").write_text(TEMPLATE)
    shapes = definition("shapes", GROUP, "Shape")
    shapes["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = SHAPE
    await desk.define(definition("boxes", GROUP, "Box"), shapes)
    return templates


def shape(recreate: str = "", **spec: Any) -> Body:
    return manifest(f"{GROUP}/v1", "Shape", recreate, spec=spec)


def claim(size: str, storage_class: str, **labels: str) -> Body:
    made = manifest(
        "v1",
        "PersistentVolumeClaim",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        },
    )
    made["metadata"]["labels"] = labels
    return made


def with_env(**entry: Any) -> Body:
    made = deployment(replicas=0)
    if entry:
        made["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "TOKEN", **entry}]
    return made


FROM_SECRET = {"valueFrom": {"secretKeyRef": {"name": "token", "key": "token", "optional": True}}}


def env_of(body: Body) -> list[Body]:
    found: list[Body] = body["spec"]["template"]["spec"]["containers"][0].get("env", [])
    return found


async def shown(desk: Desk, templates: Path, command: str, *arguments: str, code: int | None = None) -> str:
    """What `diff` or `plan` prints."""
    place = (f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}", f"--templates={templates}")
    found, out, err = await run(command, *arguments, *place)
    assert err == ""
    assert code is None or found == code, out
    return out


OTHER_IMAGE = (
    "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{"
    "containers: [Object.spec.template.spec.containers{name: 'main', image: 'mirror.example.com/one'}]}}}}"
)


def says(*words: str) -> Callable[[Body], bool]:
    """Whether a parent is ready, with these words in its message."""
    return lambda body: is_ready(body) and all(word in ready_condition(body)["message"] for word in words)


async def again(desk: Desk) -> None:
    """Have every manifest of the box applied again, as a resync does."""
    found = await desk.read(BOXES, "box")
    last = found["metadata"].get("annotations", {}).get("ssa-operator.dev/reconcile-at", "0")
    await desk.patch(BOXES, "box", metadata={"annotations": {"ssa-operator.dev/reconcile-at": f"{int(last) + 1}"}})


# Admission.


@pytest.mark.more_cases
@pytest.mark.parametrize("operations", [["CREATE", "UPDATE"], ["UPDATE"]])
async def test_a_policy_that_came_later_deletes_no_finished_job(
    desk: Desk, operate: Operate, boxes: Path, operations: list[str]
) -> None:
    async with operate():
        await desk.apply_until_ready(box(job("Background")))
        old = await desk.read("jobs.batch", "web")
        async with mutating(desk, "batch", "jobs", OTHER_IMAGE, operations=operations):
            await again(desk)
            words = ["admission", "spec.template"]
            if "CREATE" in operations:
                words += ["containers[name=main].image", "mirror.example.com/one"]
            parent = await desk.until(BOXES, "box", says(*words))
            entry = entries(parent)["Job/web"]
            assert entry["state"] == "Current"
            assert "admission" in entry["message"]
            await again(desk)
            await desk.until(BOXES, "box", says(*words))
            assert uid(await desk.read("jobs.batch", "web")) == uid(old)
            assert "admission" in await shown(desk, boxes, "diff", "box/box", code=0)
            assert "admission" in await shown(desk, boxes, "plan", code=0)

            # A change elsewhere in the manifest can't be applied, and deletes nothing either.
            changed = job("Background")
            changed["metadata"]["labels"] = {"team": "a"}
            await desk.apply(box(changed))
            await desk.until(BOXES, "box", not_ready_because("ApplyFailed", "admission", "spec.template"))
            assert uid(await desk.read("jobs.batch", "web")) == uid(old)
        await again(desk)
        await desk.until("jobs.batch", "web", lambda body: body["metadata"]["labels"].get("team") == "a")
        parent = await desk.ready(BOXES, "box")
        assert "admission" not in json.dumps(parent["status"])


@pytest.mark.exhaustive
async def test_under_such_a_policy_a_changed_job_is_recreated_as_before(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    async with operate():
        await desk.apply_until_ready(box(job("Background")))
        old = await desk.read("jobs.batch", "web")
        async with mutating(desk, "batch", "jobs", OTHER_IMAGE):
            changed = job("Background")
            changed["spec"]["template"]["spec"]["containers"][0]["args"] = ["two"]
            await desk.apply(box(changed))
            new = await desk.until("jobs.batch", "web", other_than(old))
            assert new["spec"]["template"]["spec"]["containers"][0]["args"] == ["two"]
            removed = job("Background")
            await desk.apply(box(removed))
            await desk.until("jobs.batch", "web", other_than(new))


@pytest.mark.exhaustive
async def test_a_policy_on_a_custom_resource_deletes_nothing(desk: Desk, operate: Operate, boxes: Path) -> None:
    async with operate():
        await desk.apply_until_ready(box(shape("Background", image="one")))
        old = await desk.read(SHAPES, "web")
        expression = "Object{spec: Object.spec{image: 'mirror.example.com/one'}}"
        async with mutating(desk, GROUP, "shapes", expression):
            await again(desk)
            await desk.until(BOXES, "box", says("admission", "spec.image", "mirror.example.com/one"))
            assert uid(await desk.read(SHAPES, "web")) == uid(old)


@pytest.mark.exhaustive
async def test_an_object_that_admission_changes_at_its_creation_only_is_not_recreated_for_that(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    expression = "Object{spec: Object.spec{image: 'mirror.example.com/one'}}"
    async with mutating(desk, GROUP, "shapes", expression, operations=["CREATE"], sample=shape(image="one")):
        async with operate():
            await desk.apply_until_ready(box(shape("Background", image="one")))
            first = await desk.read(SHAPES, "web")
        async with operate():
            await desk.until(BOXES, "box", says("admission", "spec.image"))
            assert uid(await desk.read(SHAPES, "web")) == uid(first)
            await desk.apply(box(shape("Background", image="one", frozen=1)))
            await desk.until(BOXES, "box", not_ready_because("ApplyFailed", "admission", "spec.image"))
            assert uid(await desk.read(SHAPES, "web")) == uid(first)


WITH_SECRET = f"""\
apiVersion: {GROUP}/v1
kind: Shape
metadata:
  name: web
  annotations: {{ssa-operator.dev/recreate: Background}}
spec:
  image: one
  label: {{{{ lookup("v1", "Secret", "pass").data.word | b64decode }}}}
"""


@pytest.mark.exhaustive
async def test_what_admission_changes_is_not_quoted_beside_a_secrets_content(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    """A policy may copy the content into another field."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "pass"},
        "stringData": {"word": "hush-hush-word"},
    }
    await desk.apply(secret)
    (boxes / BOXES / "any.yaml.j2").write_text(WITH_SECRET)
    expression = "Object{spec: Object.spec{image: object.spec.label}}"
    async with operate():
        await desk.apply_until_ready(box())
        old = await desk.read(SHAPES, "web")
        assert old["spec"]["label"] == "hush-hush-word"
        async with mutating(desk, GROUP, "shapes", expression):
            await again(desk)
            parent = await desk.until(BOXES, "box", says("admission", "spec.image"))
            assert "hush" not in json.dumps(parent["status"])
            assert uid(await desk.read(SHAPES, "web")) == uid(old)


# Defaults.

ON_DELETE: Body = {"updateStrategy": {"type": "OnDelete"}}


def volume(**source: Any) -> Body:
    made = deployment(replicas=0)
    made["spec"]["template"]["spec"]["volumes"] = [{"name": "data", **source}]
    return made


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        (
            deployment(replicas=0),
            deployment(replicas=0, strategy={"type": "Recreate"}),
            "spec.strategy.rollingUpdate",
        ),
        (
            deployment(replicas=0, strategy={"type": "RollingUpdate"}),
            deployment(replicas=0, strategy={"type": "Recreate"}),
            "spec.strategy.rollingUpdate",
        ),
        (stateful_set(replicas=0), stateful_set(replicas=0, **ON_DELETE), "spec.updateStrategy.rollingUpdate"),
        (volume(), volume(configMap={"name": "data", "optional": True}), "emptyDir"),
        (shape(label="a"), shape(label="a", strategy={"type": "Recreate"}), "spec.strategy.rolling"),
    ],
    ids=["Deployment", "partly-ours", "StatefulSet", "volume", "Shape"],
)
async def test_a_default_that_nobody_owns_makes_way_for_the_manifest(
    desk: Desk, operate: Operate, boxes: Path, before: Body, after: Body, gone: str
) -> None:
    resource = f"{before['kind'].lower()}s.{before['apiVersion'].partition('/')[0]}"
    async with operate():
        await desk.apply_until_ready(box(before))
    old = await desk.read(resource, "web")
    await desk.apply(box(after))
    diff = await shown(desk, boxes, "diff", "box/box", code=1)
    assert gone in diff
    assert "fail" not in diff
    assert '"failed": 0' in await shown(desk, boxes, "plan", "--output=json", code=0)
    assert (await desk.read(resource, "web"))["metadata"]["resourceVersion"] == old["metadata"]["resourceVersion"]
    async with operate():
        await desk.ready(BOXES, "box")
        new = await desk.read(resource, "web")
        assert (uid(new), gone.rpartition(".")[2] in json.dumps(new["spec"])) == (uid(old), False)
        # One change of the object for its controller, and none later.
        assert new["metadata"]["generation"] == old["metadata"]["generation"] + 1
        await again(desk)
        await desk.ready(BOXES, "box")
        assert version(await desk.read(resource, "web")) == version(new)
        # The way back.
        await desk.apply_until_ready(box(before))
        back = await desk.read(resource, "web")
        assert gone.rpartition(".")[2] in json.dumps(back["spec"])


def owners(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The owners of fields, without Kubernetes' controller, which goes on with its status."""
    return [each for each in body["metadata"]["managedFields"] if each["manager"] != "kube-controller-manager"]


async def test_a_manifest_that_is_refused_by_itself_takes_nothing(desk: Desk, operate: Operate, boxes: Path) -> None:
    async with operate():
        await desk.apply_until_ready(box(with_env()))
        await desk.kubectl("set", "env", "deployment/web", "TOKEN=abc")
        before = await desk.read("deployments.apps", "web")
        await desk.apply(box(with_env(valueFrom={"secretKeyRef": {"name": "Not A Name", "key": "token"}})))
        await desk.until(BOXES, "box", not_ready_because("ApplyFailed", "secretKeyRef"))
        now = await desk.read("deployments.apps", "web")
        assert env_of(now) == [{"name": "TOKEN", "value": "abc"}]
        assert owners(now) == owners(before)


# Other managers.


@pytest.mark.exhaustive
async def test_what_kubectl_set_beside_a_field_is_taken_over(desk: Desk, operate: Operate, boxes: Path) -> None:
    async with operate():
        await desk.apply_until_ready(box(with_env()))
        await desk.kubectl("set", "env", "deployment/web", "TOKEN=abc", "OTHER=kept")
    await desk.apply(box(with_env(**FROM_SECRET)))
    diff = await shown(desk, boxes, "diff", "box/box", code=1)
    assert "kubectl-set" in diff
    assert "fail" not in diff
    async with operate():
        await desk.ready(BOXES, "box")
        env = {each["name"]: each for each in env_of(await desk.read("deployments.apps", "web"))}
        assert env == {"TOKEN": {"name": "TOKEN", **FROM_SECRET}, "OTHER": {"name": "OTHER", "value": "kept"}}
        # What was taken over goes with the template's line.
        await desk.apply_until_ready(box(with_env()))
        assert env_of(await desk.read("deployments.apps", "web")) == [{"name": "OTHER", "value": "kept"}]


@pytest.mark.exhaustive
async def test_what_kubectl_set_in_a_union_of_a_custom_resource_is_taken_over_alone(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    async with operate():
        await desk.apply_until_ready(box(shape(image="a")))
        await desk.patch(SHAPES, "web", spec={"source": {"git": "one"}, "label": "kept"})
        await desk.apply_until_ready(box(shape(image="a", source={"oci": "two"})))
        spec = (await desk.read(SHAPES, "web"))["spec"]
        assert (spec["source"], spec["label"]) == ({"oci": "two"}, "kept")


@pytest.mark.exhaustive
async def test_another_managers_field_stays_and_the_message_names_it(desk: Desk, operate: Operate, boxes: Path) -> None:
    async with operate():
        await desk.apply_until_ready(box(with_env()))
        resource = await desk.mapper.resource_by_name("deployments.apps")
        entry = {"name": "main", "env": [{"name": "TOKEN", "value": "a-secret-word"}]}
        await desk.client.send(
            calls.json_patch(
                resource,
                desk.namespace,
                "web",
                json.dumps(
                    [{"op": "add", "path": "/spec/template/spec/containers/0/env", "value": entry["env"]}]
                ).encode(),
                manager="injector",
            )
        )
        await desk.apply(box(with_env(**FROM_SECRET)))
        words = ("env[name=TOKEN].value", "injector (Update)", "formerManagers", "20")
        parent = await desk.until(BOXES, "box", not_ready_because("ApplyFailed", *words))
        assert "a-secret-word" not in json.dumps(parent["status"])
        assert env_of(await desk.read("deployments.apps", "web")) == entry["env"]
        assert "injector (Update)" in await shown(desk, boxes, "diff", "box/box", code=2)
    (boxes / BOXES / "_settings.yaml").write_text("formerManagers: [injector]\n")
    async with operate():
        await desk.ready(BOXES, "box")
        assert env_of(await desk.read("deployments.apps", "web")) == [{"name": "TOKEN", **FROM_SECRET}]


# Values that only go one way.


@pytest.fixture
async def expandable(desk: Desk) -> AsyncIterator[str]:
    """A StorageClass whose volumes can grow."""
    name = f"{desk.namespace}-growing"
    standard = await desk.read("storageclasses.storage.k8s.io", "standard")
    kept = {key: standard[key] for key in ("apiVersion", "kind", "provisioner", "volumeBindingMode")}
    await desk.apply({**kept, "metadata": {"name": name}, "allowVolumeExpansion": True})
    yield name
    await desk.delete("storageclass", name)


STAYS = "3Gi, larger than the template's 1Gi, stays"


async def test_a_grown_volume_stays_and_the_rest_of_its_manifest_is_applied(
    desk: Desk, operate: Operate, boxes: Path, expandable: str
) -> None:
    claims = "persistentvolumeclaims"
    async with operate(resync_rate=20.0, interval=0.1) as running:
        await desk.apply_until_ready(box(claim("1Gi", expandable)))
        old = await desk.until(claims, "web", is_bound)
        await desk.patch("pvc", "web", spec={"resources": {"requests": {"storage": "3Gi"}}})
        parent = await desk.until(BOXES, "box", says(STAYS))
        assert STAYS in entries(parent)["PersistentVolumeClaim/web"]["message"]
        await desk.apply(box(claim("1Gi", expandable, team="a")))
        new = await desk.until(claims, "web", lambda body: body["metadata"]["labels"].get("team") == "a")
        await desk.until(BOXES, "box", says(STAYS))
        assert new["spec"]["resources"]["requests"]["storage"] == "3Gi"
        assert uid(new) == uid(old)
        running.forget()
        await running.reconciled(3)
        await desk.until(BOXES, "box", says(STAYS))
        assert version(await desk.read(claims, "web")) == version(new)
        assert STAYS in await shown(desk, boxes, "diff", "box/box", code=0)
        assert STAYS in await shown(desk, boxes, "plan", code=0)
        await desk.apply(box(claim("4Gi", expandable, team="a")))
        await desk.until(claims, "web", lambda body: body["spec"]["resources"]["requests"]["storage"] == "4Gi")
        parent = await desk.ready(BOXES, "box")
        assert "stays" not in json.dumps(parent["status"])
    async with operate():
        await desk.ready(BOXES, "box")


@pytest.mark.exhaustive
async def test_a_number_that_a_rule_lets_only_grow_stays_and_nothing_is_recreated(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    async with operate():
        await desk.apply_until_ready(box(shape("Background", size=3, label="a")))
        old = await desk.read(SHAPES, "web")
        await desk.patch(SHAPES, "web", spec={"size": 8})
        await desk.until(BOXES, "box", says("spec.size: 8, larger than the template's 3, stays"))
        await desk.apply(box(shape("Background", size=3, label="b")))
        new = await desk.until(SHAPES, "web", lambda body: body["spec"]["label"] == "b")
        await desk.ready(BOXES, "box")
        assert (uid(new), new["spec"]["size"]) == (uid(old), 8)
    async with operate():
        await desk.until(BOXES, "box", says("spec.size: 8, larger than the template's 3, stays"))


async def test_a_value_that_is_wrong_by_itself_is_no_value_that_stays(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    async with operate():
        await desk.apply_until_ready(box(deployment(replicas=0)))
        await desk.patch("deployment", "web", spec={"revisionHistoryLimit": 4})
        await desk.apply(box(deployment(replicas=0, revisionHistoryLimit=-1)))
        await desk.until(BOXES, "box", not_ready_because("ApplyFailed", "spec.revisionHistoryLimit"))
        assert (await desk.read("deployments.apps", "web"))["spec"]["revisionHistoryLimit"] == 4


async def test_a_decrease_by_the_template_itself_is_refused(
    desk: Desk, operate: Operate, boxes: Path, expandable: str
) -> None:
    async with operate():
        await desk.apply_until_ready(box(claim("3Gi", expandable)))
        await desk.until("persistentvolumeclaims", "web", is_bound)
        await desk.apply(box(claim("1Gi", expandable)))
        await desk.until(BOXES, "box", not_ready_because("ApplyFailed", "spec.resources.requests.storage"))
