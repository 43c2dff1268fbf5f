"""Whoever may edit parents of one namespace, and nothing else, gets nothing there that the templates don't give, and
nothing elsewhere: neither by names, nor by annotations of the operator, nor by labels.

`annotations` stand for whatever fields of a parent its author chooses.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.live_object import PARENT_UID_LABEL
from ssa_operator.reconcile.parent_records.rules import (
    FOLDER_KINDS,
    GENERATED_VALUES_ANNOTATION,
    HELD_PRUNE_ANNOTATION,
    INVENTORY_ANNOTATION,
    ONCE_ANNOTATION,
)
from tests.devcluster.audit import own_requests
from tests.operator.harness import (
    ECHOES,
    ROLE,
    ROLES,
    Desk,
    Operate,
    config_map,
    echo,
    entries,
    holds,
    is_ready,
    map_template,
    not_ready_because,
    only,
    requests_for,
    uid,
    version,
)

pytestmark = pytest.mark.cluster

WIDE = "clusterScope: true\n"

NAMESPACE = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {{ annotations.named }}\n"
ROLE_OF_SPEC = ROLE.replace("{{ namespace }}-{{ name }}", "{{ annotations.named }}")
MAP_ELSEWHERE = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: taken\n  namespace: {{ annotations.named }}\ndata: {v: ours}\n"
)


def chosen(name: str, **annotations: str) -> dict[str, Any]:
    """A parent with annotations of its author's choice."""
    body = echo(name)
    body["metadata"]["annotations"] = annotations
    return body


def written(body: dict[str, Any]) -> tuple[str, int]:
    """What changes with every write of an object."""
    return uid(body), version(body)


@pytest.fixture
async def other(desk: Desk) -> AsyncIterator[Desk]:
    """Another tenant's namespace."""
    name = f"other-{uuid.uuid4().hex[:8]}"
    await desk.kubectl("create", "namespace", name)
    async with desk.elsewhere(name) as elsewhere:
        yield elsewhere
    await desk.kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")


# Adoption.


@pytest.mark.more_cases
@pytest.mark.parametrize("template", [NAMESPACE, MAP_ELSEWHERE], ids=["Namespace", "ConfigMap"])
async def test_an_object_outside_of_the_parents_namespace_is_neither_changed_nor_deleted(
    template: str, desk: Desk, other: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, a=template)
    (templates / ECHOES / "_settings.yaml").write_text(WIDE)
    await other.create(config_map("taken", v="theirs"))
    before = {resource: await other.read(resource, name) for resource, name in _targets(other)}
    async with operate():
        await desk.apply(chosen("web", named=other.namespace))
        words = ("exists, and the operator did not create it", "`adopt: Always`", f"{ECHOES}/a.yaml.j2:1")
        await desk.until(ECHOES, "web", not_ready_because("Conflict", *words[:2]))
        await desk.delete("echo", "web")
        await desk.gone(ECHOES, "web")
    for resource, name in _targets(other):
        assert written(await other.read(resource, name)) == written(before[resource])


def _targets(other: Desk) -> list[tuple[str, str]]:
    return [("namespaces", other.namespace), ("configmaps", "taken")]


@pytest.mark.exhaustive
async def test_a_cluster_role_is_adopted_only_if_the_folder_says_so(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, a=ROLE_OF_SPEC)
    settings = templates / ECHOES / "_settings.yaml"
    settings.write_text(WIDE)
    name = f"role-{desk.namespace}"
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}}
    await desk.create({**role, "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]})
    async with operate() as running:
        await desk.apply(chosen("web", named=name))
        await desk.until(ECHOES, "web", not_ready_because("Conflict", f"ClusterRole {name} exists"))
        assert (await desk.read(ROLES, name))["rules"]
        running.write(f"{ECHOES}/_settings.yaml", WIDE + "adopt: Always\n")
        await desk.ready(ECHOES, "web")
        assert not (await desk.read(ROLES, name))["rules"]
        await desk.delete("echo", "web")
        await desk.gone(ROLES, name)


async def test_a_cluster_role_whose_label_was_removed_is_still_the_parents(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, a=ROLE)
    (templates / ECHOES / "_settings.yaml").write_text(WIDE)
    name = f"{desk.namespace}-web"
    async with operate():
        await desk.apply_until_ready(echo("web"))
        await desk.kubectl("label", "clusterrole", name, f"{PARENT_UID_LABEL}-")
        owner = uid(await desk.read(ECHOES, "web"))
        await desk.until(ROLES, name, lambda body: body["metadata"]["labels"].get(PARENT_UID_LABEL) == owner)
        await desk.delete("echo", "web")
        await desk.gone(ROLES, name)


async def test_with_adopt_never_a_parent_gets_only_what_the_operator_created(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    """Neither the object nor the values in it, which another manifest of the file would show."""
    secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ annotations.named }}\nstringData:\n"
    shown = "{% set word = generated() %}" + secret + "  word: {{ word }}\n---\n" + map_template("shown", v="word")
    only(templates, a=shown)
    (templates / ECHOES / "_settings.yaml").write_text("adopt: Never\n")
    await desk.kubectl("create", "secret", "generic", "theirs", "--from-literal=word=canary-5a1d")
    before = await desk.read("secrets", "theirs")
    async with operate():
        await desk.apply(chosen("web", named="theirs"))
        await desk.until(
            ECHOES, "web", not_ready_because("Conflict", "Secret", "theirs exists", "`adopt: InNamespace`")
        )
        found = await desk.find("configmaps", "web-shown")
        assert found is None or found["data"]["v"] != "canary-5a1d"
        await desk.apply(chosen("own", named="ours"))
        await desk.ready(ECHOES, "own")
        await desk.delete("echo", "web")
        await desk.gone(ECHOES, "web")
    assert written(await desk.read("secrets", "theirs")) == written(before)


# Labels: objects that pose as another parent's children.


def posing(name: str, parent: dict[str, Any], **data: str) -> dict[str, Any]:
    """A ConfigMap with the label of a parent."""
    body = config_map(name, **data)
    body["metadata"]["labels"] = {PARENT_UID_LABEL: uid(parent)}
    return body


@pytest.mark.exhaustive
async def test_an_object_in_another_namespace_that_poses_as_a_child_is_not_read(
    desk: Desk, other: Desk, operate: Operate, templates: Path
) -> None:
    source = map_template("source", v="lookup('v1', 'ConfigMap', 'wanted').data.v")
    only(templates, source=source, copy=map_template("copy", v="child('ConfigMap', name ~ '-source').data.v"))
    async with operate(namespaces=(desk.namespace, other.namespace)):
        await desk.apply(echo("web"))
        parent = await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", "wanted"))
        await other.apply(posing("web-source", parent, v="forged"))
        # A parent of that namespace shows that the operator has seen its ConfigMaps.
        await other.apply(config_map("wanted", v="theirs"), echo("theirs"))
        await other.ready(ECHOES, "theirs")
        await desk.apply(config_map("wanted", v="true"))
        await desk.ready(ECHOES, "web")
        assert holds(v="true")(await desk.read("configmaps", "web-copy"))
        await desk.apply(config_map("wanted", v="newer"))
        await desk.until("configmaps", "web-copy", holds(v="newer"))


@pytest.mark.exhaustive
async def test_objects_in_another_namespace_that_pose_as_children_do_not_count(
    desk: Desk, other: Desk, operate: Operate, templates: Path, cluster: Cluster
) -> None:
    """Neither for `maxChildren`, nor for a prune: they are not deleted, and hold none."""
    only(templates, a=map_template("a", v="'a'"))
    (templates / ECHOES / "_settings.yaml").write_text("maxChildren: 2\n")
    async with operate(namespaces=(desk.namespace, other.namespace)) as running:
        parent = await desk.apply_until_ready(echo("web"))
        for number in range(12):
            body = posing(f"pose-{number}", parent)
            owner = {"apiVersion": "example.com/v1", "kind": "Echo", "name": "web", "uid": uid(parent)}
            body["metadata"]["ownerReferences"] = [{**owner, "controller": True}] if number % 2 else []
            await other.kubectl(
                "apply", "--server-side", "--field-manager=ssa-operator", "-f", "-", stdin=json.dumps(body)
            )
        await other.apply(echo("web"))
        await other.ready(ECHOES, "web")
        running.write(f"{ECHOES}/b.yaml.j2", map_template("b", v="'b'"))
        await desk.read("configmaps", "web-b")
        both = {"ConfigMap/web-a", "ConfigMap/web-b"}
        await desk.until(ECHOES, "web", lambda body: is_ready(body) and set(entries(body)) == both)
        assert not [verb for number in range(12) for verb in requests_for(cluster, other.namespace, f"pose-{number}")]


# Annotations: records of the operator that the author of a parent writes.


async def test_forged_records_of_a_parent_touch_no_other_object(
    desk: Desk, other: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, a=map_template("a", v="'a'"))
    await other.create(config_map("taken", v="theirs"))
    await other.kubectl("create", "secret", "generic", "taken", "--from-literal=word=canary-7c2f")
    async with operate(namespaces=(desk.namespace, other.namespace)):
        await other.apply_until_ready(echo("web"))
        victims = [
            ("configmaps", "web-a"),
            ("configmaps", "taken"),
            ("secrets", "taken"),
            ("namespaces", other.namespace),
        ]
        before = [written(await other.read(*victim)) for victim in victims]
        forged = [
            {"kind": kind, "name": name, "namespace": other.namespace, "wave": 1}
            for kind, name in (("ConfigMap", "web-a"), ("ConfigMap", "taken"), ("Secret", "taken"))
        ]
        forged.append({"kind": "Namespace", "name": other.namespace, "wave": 2})
        records = {
            INVENTORY_ANNOTATION: json.dumps(forged),
            GENERATED_VALUES_ANNOTATION: json.dumps(forged),
            ONCE_ANNOTATION: json.dumps({f"ConfigMap/{other.namespace}/web-a": "0000"}),
            HELD_PRUNE_ANNOTATION: json.dumps({"reconcileAt": "", "children": [f"ConfigMap/{other.namespace}/web-a"]}),
        }
        body = chosen("forged", **records)
        body["metadata"]["finalizers"] = [FINALIZER]
        await desk.apply(body)
        found = await desk.ready(ECHOES, "forged")
        # The operator doesn't write whether another parent's object is ready.
        assert found["metadata"]["annotations"].get(ONCE_ANNOTATION, "0000").count("ready") == 0
        await desk.apply(body)
        await desk.delete("echo", "forged")
        await desk.gone(ECHOES, "forged")
        assert [written(await other.read(*victim)) for victim in victims] == before
        assert is_ready(await other.read(ECHOES, "web"))


@pytest.mark.parametrize("annotation", [INVENTORY_ANNOTATION, GENERATED_VALUES_ANNOTATION])
async def test_forged_records_cost_no_more_requests_than_a_parent_may_have_children(
    annotation: str, desk: Desk, operate: Operate, templates: Path, cluster: Cluster
) -> None:
    """A parent whose templates wait keeps its records: the operator reads them in each reconcile."""
    only(templates, a=map_template("a", v="lookup('v1', 'ConfigMap', 'wanted').data.v"))
    (templates / ECHOES / "_settings.yaml").write_text("maxChildren: 5\n")
    names = [f"forged-{number}" for number in range(50)]
    forged = [{"kind": "ConfigMap", "namespace": desk.namespace, "name": name} for name in names]
    async with operate() as running:
        await desk.apply(chosen("web", **{annotation: json.dumps(forged)}))
        await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", "wanted"))
    reads = [
        event
        for event in own_requests(cluster, desk.namespace)
        if event["verb"] == "get"
        and event["objectRef"]["resource"] in ("configmaps", "secrets")
        and event["objectRef"]["name"] != FOLDER_KINDS
    ]
    assert 0 < len(reads) <= 5 * len(running.reconciles)
