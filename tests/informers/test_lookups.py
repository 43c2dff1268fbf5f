"""Manifests that look up other objects: the operator waits for these objects, watches them and names them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Protocol

import pytest
from msgspec.structs import replace

from ssa_operator.informers import informer, lookups
from ssa_operator.informers.crds import RESOURCE, CRDInformer
from ssa_operator.informers.lookups import LookupInformers
from ssa_operator.informers.watch_scopes import NARROW_WATCHES_LIMIT
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.cluster_view import Lookup
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.operator import Operator
from tests.operator.harness import (
    ECHOES,
    PATIENCE,
    Desk,
    MakeOptions,
    Operate,
    Running,
    config_map,
    definition,
    echo,
    entries,
    holds,
    map_template,
    not_ready_because,
    only,
    operating,
    ready_condition,
)
from tests.operator.limited_accounts import BASICS, acting_as, allowed

pytestmark = pytest.mark.cluster


async def until_queue_is_done(desk: Desk, name: str) -> None:
    """Return when everything in the work queue is done, because one worker reconciles a new parent after that."""
    await desk.apply_until_ready(echo(name))


async def until_watched(operator: Operator, wanted: Callable[[set[tuple[str, str]]], bool]) -> None:
    """Return once the namespaces and names of the watches of lookups are as wanted."""
    async with asyncio.timeout(PATIENCE):
        while not wanted({(each.scope.namespace, each.scope.name) for each in operator.controllers.lookups.reflectors}):  # noqa: ASYNC110 - a grace period has no event
            await asyncio.sleep(0.02)


class Start(Protocol):
    """Starts an operator with one worker and these templates; it ends with the test."""

    async def __call__(self, client: Client | None = None, **templates: str) -> Running: ...


@pytest.fixture
async def start(client: Client, desk: Desk, options: MakeOptions, templates: Path) -> AsyncIterator[Start]:
    only(templates)
    async with contextlib.AsyncExitStack() as stack:
        administrator = client

        async def begin(client: Client | None = None, **texts: str) -> Running:
            for name, text in texts.items():
                (templates / ECHOES / f"{name}.yaml.j2").write_text(text)
            return await stack.enter_async_context(operating(client or administrator, options(workers=1)))

        yield begin


async def test_a_manifest_waits_for_an_object_and_for_its_field(start: Start, desk: Desk) -> None:
    url = "lookup('v1', 'ConfigMap', 'site').data.url"
    await start(a=map_template("url", url=url), b=map_template("plain", word="'here'"))
    await desk.apply(echo("web"))
    words = (f"waiting for ConfigMap {desk.namespace}/site .data.url",)
    waiting = await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", *words))
    assert entries(waiting)["ConfigMap/web-plain"]["state"] == "Current"
    url_entry = entries(waiting)["ConfigMap/web-url"]
    assert (url_entry["state"], url_entry["message"]) == ("Waiting", f"{words[0]} (there is no such ConfigMap)")

    await desk.apply(config_map("site", other="x"))
    await desk.apply(config_map("site", other="x", url="http://x"))
    await desk.until("configmaps", "web-url", holds(url="http://x"))
    await desk.ready(ECHOES, "web")
    await desk.apply(config_map("site", url="http://y"))
    await desk.until("configmaps", "web-url", holds(url="http://y"))


async def test_one_reconcile_is_enough_if_all_objects_exist(start: Start, desk: Desk) -> None:
    running = await start(a=map_template("url", url="lookup('v1', 'ConfigMap', 'site').data.url"))
    await desk.apply(config_map("site", url="http://x"))
    running.forget()
    await desk.apply(echo("web"))
    await desk.ready(ECHOES, "web")
    await until_queue_is_done(desk, "last")
    assert running.reconciles == [("web", Cause.PARENT), ("last", Cause.PARENT)]


async def test_a_change_requeues_the_parents_that_look_up_the_object_and_no_others(start: Start, desk: Desk) -> None:
    running = await start(a=map_template("out", v="lookup('v1', 'ConfigMap', name ~ '-in').data.v"))
    await desk.apply(*(config_map(f"{name}-in", v="1") for name in ("one", "two", "last", "unused")))
    await desk.apply(echo("one"), echo("two"))
    for name in ("one", "two"):
        await desk.ready(ECHOES, name)
    running.forget()
    await desk.apply(config_map("unused-in", v="2"), config_map("two-in", v="2"))
    await desk.until("configmaps", "two-out", holds(v="2"))
    await until_queue_is_done(desk, "last")
    assert running.reconciles[0] == ("two", Cause.TEMPLATE)
    assert {name for name, _ in running.reconciles} == {"two", "last"}


async def test_a_field_of_an_object_can_name_another_object_to_look_up(start: Start, desk: Desk) -> None:
    chain = "lookup('v1', 'ConfigMap', lookup('v1', 'ConfigMap', 'first').data.next)"
    await start(a=map_template("end", v=f"{chain}.data.v"))
    await desk.apply(config_map("first", next="second"), config_map("second", v="2"), config_map("third", v="3"))
    await desk.apply(echo("web"))
    await desk.until("configmaps", "web-end", holds(v="2"))
    await desk.apply(config_map("first", next="third"))
    await desk.until("configmaps", "web-end", holds(v="3"))


@pytest.mark.exhaustive
async def test_lookup_all_follows_objects_that_are_created_deleted_and_relabelled(start: Start, desk: Desk) -> None:
    listed = (
        "lookup_all('v1', 'ConfigMap', labels={'for': name, 'tier': 'a'}) | map(attribute='metadata.name') | join(' ')"
    )
    running = await start(
        a=map_template("list", names=listed), b=map_template("count", count="lookup_all('v1', 'Secret') | length")
    )
    await desk.apply(echo("web"))
    await desk.until("configmaps", "web-list", holds(names=""))
    for name in ("n2", "n1"):
        await desk.apply(config_map(name))
        await desk.kubectl("label", "configmap", name, "for=web", "tier=a")
    await desk.until("configmaps", "web-list", holds(names="n1 n2"))
    await desk.kubectl("label", "configmap", "n1", "for=other", "--overwrite")
    await desk.until("configmaps", "web-list", holds(names="n2"))
    await desk.delete("configmap", "n2")
    await desk.until("configmaps", "web-list", holds(names=""))
    await desk.until("configmaps", "web-count", holds(count="0"))

    await desk.ready(ECHOES, "web")
    running.forget()
    await desk.apply(config_map("n3"))
    await desk.kubectl("label", "configmap", "n3", "for=web")
    await until_queue_is_done(desk, "last")
    assert {name for name, _ in running.reconciles} == {"last"}


@pytest.mark.exhaustive
async def test_lookup_all_follows_the_labels_of_namespaces_and_of_objects(start: Start, desk: Desk) -> None:
    other, team = f"{desk.namespace}-other", desk.namespace
    selector = "{'matchExpressions': [{'key': 'tier', 'operator': 'In', 'values': ['a', 'b']}]}"
    listed = f"lookup_all('v1', 'ConfigMap', selector={selector}, namespaces={{'matchLabels': {{'team': '{team}'}} }})"
    await start(a=map_template("list", names=f"{listed} | map(attribute='metadata.name') | join(' ')"))
    await desk.apply(echo("web"))
    await desk.until("configmaps", "web-list", holds(names=""))

    await desk.apply(config_map("here"))
    await desk.kubectl("create", "namespace", other)
    try:
        await desk.kubectl("create", "configmap", "there", f"--namespace={other}")
        await desk.kubectl("label", "configmap", "there", "tier=b", f"--namespace={other}")
        await desk.kubectl("label", "namespace", other, f"team={team}")
        await desk.until("configmaps", "web-list", holds(names="there"))
        await desk.kubectl("label", "configmap", "here", "tier=a")
        await desk.kubectl("label", "namespace", desk.namespace, f"team={team}")
        await desk.until("configmaps", "web-list", holds(names="here there"))
        await desk.kubectl("label", "namespace", other, "team-")
        await desk.until("configmaps", "web-list", holds(names="here"))
    finally:
        await desk.kubectl("delete", "namespace", other, "--wait=false")


SELECTING = {
    "name": "lookup('v1', 'ConfigMap', 'in').data.v",
    "namespace": "lookup_all('v1', 'Secret') | length",
    "labels": "lookup_all('v1', 'ConfigMap', labels={'tier': 'a'}) | map(attribute='data.v') | join",
    "expressions": "lookup_all('v1', 'ConfigMap', selector={'matchExpressions': [{'key': 'tier', 'operator': 'In', "
    "'values': ['a']}]}) | map(attribute='data.v') | join",
    "namespaces": "lookup_all('v1', 'ConfigMap', labels={'tier': 'a'}, namespaces={'matchLabels': {'team': namespace}})"
    " | map(attribute='data.v') | join",
}
"""What looks up the ConfigMap `in` alone, or how many Secrets there are."""


@pytest.mark.parametrize("selecting", SELECTING)
async def test_a_change_reconciles_the_parents_whose_selectors_it_concerns_and_no_others(
    start: Start, desk: Desk, selecting: str
) -> None:
    def labelled(name: str, namespace: str, tier: str, v: str) -> dict[str, Any]:
        metadata = {"name": name, "namespace": namespace, "labels": {"tier": tier}}
        return {**config_map(name, v=v), "metadata": metadata}

    other = f"{desk.namespace}-other"
    await desk.kubectl("create", "namespace", other)
    try:
        await desk.kubectl("label", "namespace", desk.namespace, f"team={desk.namespace}")
        await desk.apply(labelled("in", desk.namespace, "a", "1"))
        running = await start(a=map_template("out", v=f"({SELECTING[selecting]}) | string"))
        await desk.apply_until_ready(echo("web"))
        running.forget()
        await desk.apply(
            labelled("out", desk.namespace, "b", "1"),
            labelled("out", desk.namespace, "b", "2"),
            labelled("in", other, "a" if selecting != "labels" else "b", "1"),
        )
        await desk.kubectl("label", "namespace", other, f"team={other}")
        await desk.delete("configmap", "out")
        await until_queue_is_done(desk, "last")
        assert running.reconciles == [("last", Cause.PARENT)]

        if selecting == "namespace":
            return
        await desk.apply(labelled("in", desk.namespace, "a", "2"))
        await desk.until("configmaps", "web-out", holds(v="2"))
        if selecting != "name":
            await desk.apply(labelled("in", desk.namespace, "b", "2"))
            await desk.until("configmaps", "web-out", holds(v=""))
    finally:
        await desk.kubectl("delete", "namespace", other, "--wait=false")


@pytest.mark.exhaustive
async def test_a_change_decodes_no_object_for_the_parents_that_count_them(
    start: Start, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = "lookup_all('v1', 'ConfigMap', labels={'of': 'many'}) | length"
    await start(a=map_template("count", count=counted))
    names = [f"n{at}" for at in range(20)]
    for name in names:
        await desk.apply({**config_map(name), "metadata": {"name": name, "labels": {"of": "many"}}})
    parents = ("web", "other", "last")
    for parent in parents:
        await desk.apply_until_ready(echo(parent))
    decoded: list[str] = []
    body = LiveObject.body

    def recorded(live: LiveObject) -> Any:
        decoded.append(live.identity.name)
        return body.fget(live)  # type: ignore[attr-defined]

    monkeypatch.setattr(LiveObject, "body", property(recorded))
    await desk.apply({**config_map("n20"), "metadata": {"name": "n20", "labels": {"of": "many"}}})
    for parent in parents:
        await desk.until("configmaps", f"{parent}-count", holds(count="21"))
    assert not set(decoded).intersection(names)


async def test_an_optional_object_is_none_before_its_creation_and_after_its_deletion(start: Start, desk: Desk) -> None:
    color = "lookup('v1', 'ConfigMap', 'theme', optional=true).data.color | default('plain')"
    await start(a=map_template("color", color=color))
    await desk.apply(echo("web"))
    await desk.until("configmaps", "web-color", holds(color="plain"))
    await desk.apply(config_map("theme", color="red"))
    await desk.until("configmaps", "web-color", holds(color="red"))
    await desk.delete("configmap", "theme")
    await desk.until("configmaps", "web-color", holds(color="plain"))


async def test_objects_of_other_namespaces_and_cluster_scoped_ones_are_looked_up(start: Start, desk: Desk) -> None:
    other = f"{desk.namespace}-other"
    there = f"lookup('v1', 'ConfigMap', 'site', namespace='{other}').data.url"
    label = "lookup('v1', 'Namespace', namespace ~ '-other').metadata.labels.color"
    await start(a=map_template("both", url=there, color=label))
    await desk.apply(echo("web"))
    site, color = f"ConfigMap {other}/site .data.url", f"Namespace {other} .metadata.labels.color"
    await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", site, color))
    await desk.kubectl("create", "namespace", other)
    try:
        async with desk.elsewhere(other) as neighbour:
            await neighbour.apply(config_map("site", url="http://x"))
        waits = not_ready_because("WaitingForDependency", color)
        await desk.until(ECHOES, "web", lambda body: waits(body) and site not in ready_condition(body)["message"])
        await desk.kubectl("label", "namespace", other, "color=red")
        await desk.until("configmaps", "web-both", holds(url="http://x", color="red"))
    finally:
        await desk.delete("namespace", other, wait=False)


async def test_a_child_of_another_parent_is_looked_up_like_any_object(start: Start, desk: Desk) -> None:
    others = "lookup('v1', 'ConfigMap', 'one-made').data.replicas if name == 'two' else 0"
    await start(a=map_template("made", replicas="spec.replicas"), b=map_template("copy", replicas=others))
    await desk.apply(echo("two", 5), echo("one", 1))
    await desk.until("configmaps", "two-copy", holds(replicas="1"))
    await desk.apply(echo("one", 2))
    await desk.until("configmaps", "two-copy", holds(replicas="2"))


@pytest.mark.exhaustive
async def test_a_pruned_child_of_another_parent_is_no_longer_looked_up(start: Start, desk: Desk) -> None:
    found = "lookup_all('v1', 'ConfigMap', labels={'ssa-operator.dev/parent-uid': uid}) | length"
    uid = "lookup('example.com/v1', 'Echo', 'one').metadata.uid"
    many = (
        "{% for number in range(spec.replicas) %}\n---\n"
        + map_template("x", v="1").replace("-x", "-{{ number }}")
        + "{% endfor %}"
    )
    await start(
        a=many,
        b=f"{{% if name == 'two' %}}\n{{% set uid = {uid} %}}\n{map_template('count', count=found)}{{% endif %}}\n",
    )
    await desk.apply(echo("one", 3), echo("two", 0))
    await desk.until("configmaps", "two-count", holds(count="3"))
    await desk.apply(echo("one", 1))
    await desk.until("configmaps", "two-count", holds(count="1"))


async def test_the_parent_and_its_children_can_be_looked_up(start: Start, desk: Desk) -> None:
    parent = "lookup('example.com/v1', 'Echo', name).spec.replicas"
    child = "lookup('v1', 'ConfigMap', name ~ '-own').data.replicas"
    running = await start(a=map_template("own", replicas=parent), b=map_template("copy", replicas=child))
    await desk.apply(echo("web", 3))
    await desk.until("configmaps", "web-copy", holds(replicas="3"))
    await desk.ready(ECHOES, "web")
    await desk.apply(echo("web", 4))
    await desk.until("configmaps", "web-copy", holds(replicas="4"))
    assert {each.scope.name for each in running.operator.controllers.lookups.reflectors} == {"web-own"}


async def test_ready_shows_whether_a_looked_up_object_is_ready_and_never_waits(start: Start, desk: Desk) -> None:
    ready = "ready(lookup('apps/v1', 'Deployment', 'other'))"
    await start(a=map_template("up", up=ready))
    await desk.apply(echo("web"))
    await desk.until("configmaps", "web-up", holds(up="false"))
    await desk.kubectl("create", "deployment", "other", "--image=nothing")
    await desk.until("configmaps", "web-up", holds(up="true"))
    await desk.delete("deployment", "other")
    await desk.until("configmaps", "web-up", holds(up="false"))


async def test_a_manifest_waits_for_a_kind_whose_crd_is_created_later(start: Start, desk: Desk) -> None:
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    lookup = f"lookup('{group}/v1', 'Gizmo', 'one'"
    optional = f"{lookup}, optional=true).spec.word | default('none')"
    await start(a=map_template("word", word=f"{lookup}).spec.word"), b=map_template("maybe", word=optional))
    await desk.apply(echo("web"))
    words = (f"waiting for Gizmo {desk.namespace}/one to exist: the cluster serves no Gizmo in {group}/v1",)
    await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", *words))
    await desk.until("configmaps", "web-maybe", holds(word="none"))

    crd = definition("gizmos", group, "Gizmo")
    await desk.define(crd)
    await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", "/one .spec.word"))
    gizmo = {"apiVersion": f"{group}/v1", "kind": "Gizmo", "metadata": {"name": "one"}, "spec": {"word": "w"}}
    await desk.apply(gizmo)
    for name in ("web-word", "web-maybe"):
        await desk.until("configmaps", name, holds(word="w"))

    await desk.delete("crd", f"gizmos.{group}")
    await desk.until("configmaps", "web-maybe", holds(word="none"))
    await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", *words))


@pytest.mark.exhaustive
async def test_a_waiting_parent_is_not_reconciled_for_crds_that_it_does_not_need(
    desk: Desk, operate: Operate, templates: Path, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(templates, word=map_template("word", word=f"lookup('{group}/v1', 'Gizmo', 'one').spec.word"))
    async with operate() as running:
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", "Gizmo"))
        # A folder that starts meanwhile has it reconciled once more, before the next parent.
        await desk.apply(echo("before"))
        await desk.until(ECHOES, "before", not_ready_because("WaitingForDependency", "Gizmo"))
        crds, known = running.operator.controllers.crds, asyncio.Event()
        changed = crds._on_change

        def noted(name: str, kind: GroupKind) -> None:
            changed(name, kind)
            if crds.serves(GroupKind(group, "Thing9"), "v1"):
                known.set()

        monkeypatch.setattr(crds, "_on_change", noted)
        running.forget()
        await desk.define(*(definition(f"thing{n}s", group, f"Thing{n}") for n in range(10)))
        async with asyncio.timeout(PATIENCE):
            await known.wait()
        await desk.apply(echo("fence"))
        await desk.until(ECHOES, "fence", not_ready_because("WaitingForDependency", "Gizmo"))
        names = {name for name, _ in running.reconciles}
        assert "fence" in names
        assert "web" not in names

        await desk.define(definition("gizmos", group, "Gizmo"))
        await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", "/one .spec.word"))


async def test_a_kind_that_cannot_be_watched_is_reported(start: Start, desk: Desk) -> None:
    await start(
        a=map_template("word", word="lookup('v1', 'ComponentStatus', 'etcd-0').kind"), b=map_template("plain", word="1")
    )
    await desk.apply(echo("web"))
    words = (f"{ECHOES}/a.yaml.j2:6", "the API server offers no watch of componentstatuses")
    found = await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", *words))
    assert "Stalled" in {each["type"] for each in found["status"]["conditions"]}
    await desk.read("configmaps", "web-plain")


@pytest.mark.exhaustive
async def test_a_missing_permission_is_named_with_its_line_and_used_once_it_is_granted(
    start: Start, desk: Desk, tmp_path: Path
) -> None:
    user = f"limited-{desk.namespace}"
    maps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
    await desk.apply(*allowed(user, [*BASICS, maps], "basics"))
    async with acting_as(user, desk, tmp_path) as client:
        secret = "lookup('v1', 'Secret', 'db').data.password | b64decode | length"
        running = await start(client, a=map_template("size", size=secret), b=map_template("plain", word="'here'"))
        await desk.apply(echo("web"))
        words = (
            f"{ECHOES}/a.yaml.j2:6",
            f"Secret {desk.namespace}/db",
            f'"{user}" cannot watch',
            "list and watch secrets",
        )
        found = await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", *words))
        assert "Stalled" in {each["type"] for each in found["status"]["conditions"]}
        await desk.until("configmaps", "web-plain", holds(word="here"))
        running.operator.measure()
        assert (
            f'restarts{{namespace="{desk.namespace}",resource="secrets"}}' in running.operator.metrics.text().decode()
        )
        assert running.operator.ready

        await desk.kubectl("create", "secret", "generic", "db", "--from-literal=password=hunter2")
        rule = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["db"], "verbs": ["list", "watch"]}
        await desk.apply(*allowed(user, [rule], "one-secret"))
        await desk.until("configmaps", "web-size", holds(size="7"))
        await desk.ready(ECHOES, "web")


@pytest.mark.exhaustive
async def test_many_objects_share_one_watch_if_the_permissions_allow_it(start: Start, desk: Desk) -> None:
    running = await start(a=map_template("out", v="lookup('v1', 'ConfigMap', name ~ '-in').data.v"))
    names = [f"n{number}" for number in range(NARROW_WATCHES_LIMIT + 2)]
    await desk.apply(*(config_map(f"{name}-in", v="1") for name in (*names, "last")))
    await desk.apply(*(echo(name) for name in names))
    for name in names:
        await desk.until("configmaps", f"{name}-out", holds(v="1"))
    await until_watched(running.operator, lambda watched: watched == {(desk.namespace, "")})
    running.forget()
    await desk.apply(config_map("n1-in", v="2"))
    await desk.until("configmaps", "n1-out", holds(v="2"))
    await until_queue_is_done(desk, "last")
    assert {name for name, _ in running.reconciles} == {"n1", "last"}


@pytest.mark.exhaustive
async def test_many_objects_are_watched_one_by_one_if_the_permissions_name_them(
    start: Start, desk: Desk, tmp_path: Path
) -> None:
    user = f"limited-{desk.namespace}"
    names = [f"n{number}" for number in range(NARROW_WATCHES_LIMIT + 2)]
    maps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch", "delete"]}
    each = {**maps, "resourceNames": [f"{name}-in" for name in names], "verbs": ["list", "watch"]}
    secrets = {**maps, "resources": ["secrets"], "verbs": ["*"]}
    await desk.apply(*allowed(user, [*BASICS, maps, each, secrets], "basics"))
    out = map_template("out", v="lookup('v1', 'ConfigMap', name ~ '-in').data.v").replace("ConfigMap", "Secret", 1)
    async with acting_as(user, desk, tmp_path) as client:
        running = await start(client, a=out.replace("\ndata:", "\nstringData:"))
        await desk.apply(*(config_map(f"{name}-in", v="1") for name in names))
        await desk.apply(*(echo(name) for name in names))
        for name in names:
            await desk.until("secrets", f"{name}-out", holds(v="MQ=="))
        await until_watched(running.operator, lambda watched: watched == {(desk.namespace, f"{n}-in") for n in names})


@pytest.mark.exhaustive
async def test_a_wider_watch_that_was_forbidden_is_used_once_it_is_allowed(
    start: Start, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ssa_operator")
    monkeypatch.setattr(lookups, "WIDER_RETRY", 0.5)
    user = f"limited-{desk.namespace}"
    names = [f"n{number}" for number in range(NARROW_WATCHES_LIMIT + 2)]
    maps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "patch", "delete"]}
    each = {**maps, "resourceNames": [f"{name}-in" for name in names], "verbs": ["list", "watch"]}
    secrets = {**maps, "resources": ["secrets"], "verbs": ["*"]}
    await desk.apply(*allowed(user, [*BASICS, maps, each, secrets], "basics"))
    out = map_template("out", v="lookup('v1', 'ConfigMap', name ~ '-in').data.v").replace("ConfigMap", "Secret", 1)
    async with acting_as(user, desk, tmp_path) as client:
        running = await start(client, a=out.replace("\ndata:", "\nstringData:"))
        await desk.apply(*(config_map(f"{name}-in", v="1") for name in names))
        await desk.apply(*(echo(name) for name in names))
        for name in names:
            await desk.until("secrets", f"{name}-out", holds(v="MQ=="))
            await desk.ready(ECHOES, name)
        one_by_one = {(desk.namespace, f"{name}-in") for name in names}
        await until_watched(running.operator, lambda watched: watched == one_by_one)
        running.forget()
        tried = caplog.text.count("watched one by one")
        # The operator tries the wider watch again, in vain, and requeues no parent.
        await until_watched(running.operator, lambda _: caplog.text.count("watched one by one") > tried + 1)
        await until_watched(running.operator, lambda watched: watched == one_by_one)
        assert running.reconciles == []
        await desk.apply(*allowed(user, [{**maps, "verbs": ["list", "watch"]}], "all"))
        await until_watched(running.operator, lambda watched: watched == {(desk.namespace, "")})
        await desk.apply(config_map("n1-in", v="2"))
        await desk.until("secrets", "n1-out", holds(v="Mg=="))


@pytest.mark.exhaustive
async def test_an_unused_watch_is_stopped(start: Start, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(informer, "GRACE_PERIOD", 0.1)
    running = await start(a=map_template("out", v="lookup('v1', 'ConfigMap', name ~ '-in').data.v"))
    await desk.apply(*(config_map(f"{name}-in", v="1") for name in ("one", "two")), echo("one"), echo("two"))
    for name in ("one", "two"):
        await desk.until("configmaps", f"{name}-out", holds(v="1"))
    assert {each.scope.name for each in running.operator.controllers.lookups.reflectors} == {"one-in", "two-in"}
    await desk.delete("echo", "one")
    await until_watched(running.operator, lambda watched: watched == {(desk.namespace, "two-in")})
    running.write(f"{ECHOES}/a.yaml.j2", map_template("out", v="'2'"))
    await until_watched(running.operator, lambda watched: watched == set())
    await desk.until("configmaps", "two-out", holds(v="2"))
    running.write(f"{ECHOES}/a.yaml.j2", map_template("out", v="lookup('v1', 'ConfigMap', name ~ '-in').data.v"))
    await desk.until("configmaps", "two-out", holds(v="1"))


async def test_a_secrets_content_stays_out_of_status_and_log(
    start: Start, desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    password = "lookup('v1', 'Secret', 'db').data.password | b64decode"
    label = map_template("label", v="1").replace("\ndata:", f"\n  labels:\n    l: {{{{ {password} }}}}\ndata:")
    port = (
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ name }}\nspec:\n  ports:\n"
        f"  - port: {{{{ {password} }}}}\n"
    )
    number = map_template("number", v=f"{password} | b64decode")
    running = await start(a=label, b=port, c=number)
    await desk.kubectl("create", "secret", "generic", "db", "--from-literal=password=hunter2 is secret")
    await desk.apply(echo("web"))
    failed = await desk.until(ECHOES, "web", not_ready_because("RenderFailed", "c.yaml.j2", "a.yaml.j2", "b.yaml.j2"))
    assert "hunter2" not in json.dumps(failed)
    assert "hunter2" not in caplog.text
    assert "hunter2" not in running.operator.metrics.text().decode()


async def test_a_change_while_no_operator_runs_is_applied_at_the_next_start(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, a=map_template("out", v="lookup('v1', 'ConfigMap', 'in').data.v"))
    await desk.apply(config_map("in", v="1"), echo("web"))
    async with operate():
        await desk.until("configmaps", "web-out", holds(v="1"))
        await desk.ready(ECHOES, "web")
    await desk.apply(config_map("in", v="2"))
    async with operate():
        await desk.until("configmaps", "web-out", holds(v="2"))
        await desk.apply(config_map("in", v="3"))
        await desk.until("configmaps", "web-out", holds(v="3"))


async def test_status_fields_follow_what_they_look_up_without_any_apply(start: Start, desk: Desk) -> None:
    replicas = "readyReplicas: {{ lookup('v1', 'ConfigMap', 'in').data.n | int }}\n"
    running = await start(a=map_template("out", v="'1'"), _status=replicas)
    await desk.apply(echo("web"))
    found = await desk.ready(ECHOES, "web")
    assert "readyReplicas" not in found["status"]
    running.forget()
    await desk.apply(config_map("in", n="3"))
    await desk.until(ECHOES, "web", lambda body: body["status"].get("readyReplicas") == 3)
    assert running.reconciles == [("web", Cause.CHILD)]
    steps = running.operator.metrics.children
    assert steps.labels(ECHOES, "ConfigMap", "configured")._value.get() == 0


async def test_a_kind_is_not_absent_while_discovery_lags_behind_its_crd(client: Client, desk: Desk) -> None:
    """As when an API server starts: an optional object must not be taken for deleted."""
    crd = (await client.get(RESOURCE, ECHOES)).body
    crds = CRDInformer(client, lambda _name, _kind: None)
    empty_mapper = RESTMapper(client)
    informers = LookupInformers(client, empty_mapper, crds, lambda *_: None, limited_to_namespaces=True)
    query = Lookup(api_version="example.com/v1", kind="Echo", namespace=desk.namespace, name="web")
    assert informers.answer(query).absent
    crds.reflector.cache.upsert(LiveObject.of(crd))
    assert "has not yet begun to serve Echo" in informers.answer(query).unknown
    other = replace(query, api_version="example.com/v7")
    assert informers.answer(other).unknown.endswith("serves Echo in v1, not in v7; write example.com/v1")
