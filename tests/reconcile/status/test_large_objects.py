"""Objects and statuses that are larger than etcd or the API server takes."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.reconcile import observe
from ssa_operator.reconcile.field_conflicts.rules import observe_conflicts
from tests.devcluster.audit import own_requests
from tests.operator.harness import (
    ECHOES,
    Desk,
    Operate,
    definition,
    echo,
    holds,
    map_template,
    not_ready_because,
    only,
    ready_condition,
)

pytestmark = pytest.mark.cluster

BLOCK = 400_000
"""Bytes of one field."""


def blob(group: str) -> str:
    fields = "".join(
        f'{{% if spec.replicas > {number} %}}\n  f{number}: "{{{{ letter * {BLOCK} }}}}"\n{{% endif %}}\n'
        for number in range(6)
    )
    # In JSON for the API server, a letter beyond ASCII takes six bytes.
    letter = "{% set letter = 'é' if name == 'server' else 'x' %}"
    return f"{letter}\napiVersion: {group}/v1\nkind: Blob\nmetadata:\n  name: {{{{ name }}}}\nspec:\n  a: b\n{fields}"


@pytest.mark.exhaustive
async def test_an_object_that_is_too_large_is_sent_once_and_the_message_has_its_size(
    desk: Desk, operate: Operate, group: str, templates: Path, cluster: Cluster
) -> None:
    await desk.define(definition("blobs", group, "Blob"))
    refusals = {
        "etcd": (4, 4, "etcdserver: request is too large"),
        "client": (6, 6, "trying to send message larger than max"),
        "server": (2, 12, "Request entity too large"),
    }
    async with operate(templates=only(templates, a=blob(group))) as running:
        await desk.apply(*(echo(name, replicas) for name, (replicas, _, _) in refusals.items()))
        for name, (_, blocks, words) in refusals.items():
            found = await desk.until(ECHOES, name, not_ready_because("ApplyFailed", words))
            assert "Stalled" in {each["type"] for each in found["status"]["conditions"]}
            message = ready_condition(found)["message"]
            size = int(message.partition("the request has ")[2].partition(" bytes")[0])
            assert blocks * BLOCK < size < blocks * BLOCK + 1000
            assert "render less into the object" in message
        await desk.apply(echo("etcd", 3))
        await desk.ready(ECHOES, "etcd")
    sent = [each["objectRef"] for each in own_requests(cluster, desk.namespace) if each["verb"] == "patch"]
    applies = Counter(each["name"] for each in sent if each["resource"] == "blobs")
    reconciles = Counter(name for name, _ in running.reconciles)
    assert all(applies[name] <= reconciles[name] for name in refusals), "a request was repeated"


def entries_of(body: dict[str, Any]) -> int:
    return len(body.get("status", {}).get("resources", ()))


async def test_a_status_that_does_not_fit_is_written_without_resources_and_says_so(
    desk: Desk, operate: Operate, group: str, templates: Path
) -> None:
    await desk.define(definition("blobs", group, "Blob"))
    (templates / f"blobs.{group}").mkdir()
    name = "{{ name }}-{{ 'n' * 200 }}-{{ number }}"
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name"
    child = f"{{% for number in range(60) %}}\n---\n{head}: {name}\n{{% endfor %}}\n"
    (templates / f"blobs.{group}" / "a.yaml.j2").write_text(child)
    (templates / f"blobs.{group}" / "_status.yaml.j2").write_text("short: {{ spec.short }}\n")
    blobs = f"blobs.{group}"

    def parent(size: int, short: str = "a") -> dict[str, Any]:
        spec = {"data": "x" * size, "short": short}
        return {"apiVersion": f"{group}/v1", "kind": "Blob", "metadata": {"name": "web"}, "spec": spec}

    async with operate() as running:
        await desk.apply(parent(1_565_000))
        found = await desk.ready(blobs, "web")
        assert entries_of(found) == 0
        assert found["status"]["short"] == "a"
        condition = next(each for each in found["status"]["conditions"] if each["type"] == "StatusTruncated")
        assert condition["status"] == "True"
        assert "resources are left out" in condition["message"]
        # It is not sent again and again.
        before = found["metadata"]["resourceVersion"]
        running.forget()
        await desk.patch("configmap", f"web-{'n' * 200}-7", metadata={"labels": {"a": "b"}})
        await running.reconciled(1)
        assert (await desk.read(blobs, "web"))["metadata"]["resourceVersion"] == before
        await desk.apply(parent(1_000_000, "b"))
        whole = await desk.until(blobs, "web", lambda body: entries_of(body) == 60)
        assert "StatusTruncated" not in {each["type"] for each in whole["status"]["conditions"]}


async def test_a_status_that_does_not_fit_because_of_its_template_keeps_its_conditions(
    desk: Desk, operate: Operate, group: str, templates: Path
) -> None:
    await desk.define(definition("blobs", group, "Blob"))
    (templates / f"blobs.{group}").mkdir()
    (templates / f"blobs.{group}" / "a.yaml.j2").write_text(map_template("a", v="1"))
    (templates / f"blobs.{group}" / "_status.yaml.j2").write_text("large: {{ 'x' * spec.size }}\nother: 1\n")
    blobs = f"blobs.{group}"
    parent = {"apiVersion": f"{group}/v1", "kind": "Blob", "metadata": {"name": "web"}}
    async with operate():
        await desk.apply({**parent, "spec": {"size": 800_000, "data": "x" * 1_000_000}})
        found = await desk.ready(blobs, "web")
        assert set(found["status"]) == {"conditions", "observedGeneration", "appliedTemplates"}
        assert "fields of the status template" in str(found["status"]["conditions"])
        await desk.apply({**parent, "spec": {"size": 1000, "data": ""}})
        await desk.until(blobs, "web", lambda body: entries_of(body) == 1 and "large" in body["status"])


@pytest.mark.exhaustive
async def test_a_large_child_that_another_manager_changes_is_compared_beside_the_event_loop(
    desk: Desk, operate: Operate, templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"k{number:04}" for number in range(3000)]
    keys = "{% for number in range(3000) %}\n  k{{ '%04d' | format(number) }}: ours\n{% endfor %}\n"
    only(templates, map=f"{map_template('map')}{keys}")
    on_loop = list[bool]()

    def counted(*arguments: Any, **options: Any) -> Any:
        on_loop.append(threading.current_thread() is threading.main_thread())
        return observe_conflicts(*arguments, **options)

    monkeypatch.setattr(observe, "observe_conflicts", counted)
    async with operate():
        await desk.apply_until_ready(echo("web"))
        on_loop.clear()
        maps = await desk.mapper.resource_by_name("configmaps")
        await desk.update_as("rival", maps, "web-map", {"data": dict.fromkeys(names, "theirs")})
        reverted = await desk.until_event("Repaired", "rival (Update) changed data.k0000, ")
        assert "and 2996 more" in reverted["note"]
        await desk.until("configmaps", "web-map", holds(**dict.fromkeys(names, "ours")))
    assert on_loop[0] is False
