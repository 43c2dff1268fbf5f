"""What templates read of children is read again before a deletion, and no such read prevents a deletion for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from tests.operator.harness import (
    ECHOES,
    Desk,
    MakeOptions,
    Operate,
    definition,
    echo,
    map_template,
    not_ready_because,
    only,
    operating,
    requests_for,
    uid,
)
from tests.operator.limited_accounts import BASICS, Rules, acting_as, allowed

pytestmark = pytest.mark.cluster

MAPS = "configmaps"

NAMED = map_template("named-{{ spec.replicas }}", x="spec.replicas")


@pytest.mark.more_cases
@pytest.mark.parametrize("name", ["none", "not/a-name"])
async def test_a_child_is_pruned_although_templates_read_one_that_never_existed(
    desk: Desk, operate: Operate, templates: Path, name: str
) -> None:
    only(templates, named=NAMED, plain=map_template("plain", x=f"live('ConfigMap', '{name}') is none"))
    async with operate():
        await desk.apply_until_ready(echo("web", 1))
        await desk.apply(echo("web", 2))
        await desk.gone(MAPS, "web-named-1")
        await desk.ready(ECHOES, "web")


GADGET = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: gadget-{{ spec.size }}
  namespace: {{ spec.namespace }}
data:
  absent: "{{ live('ConfigMap', 'none') is none }}"
"""


async def test_a_child_of_a_cluster_scoped_parent_is_pruned_although_templates_read_one_that_does_not_exist(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    group = f"{desk.namespace}.example.org"
    await desk.define(definition("gadgets", group, "Gadget", scope="Cluster"))
    folder = templates / f"gadgets.{group}"
    folder.mkdir()
    (folder / "map.yaml.j2").write_text(GADGET)

    def gadget(size: int) -> dict[str, object]:
        spec = {"size": size, "namespace": desk.namespace}
        return {"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": {"name": desk.namespace}, "spec": spec}

    async with operate():
        await desk.apply_until_ready(gadget(1))
        await desk.apply(gadget(2))
        await desk.read(MAPS, "gadget-2")
        await desk.gone(MAPS, "gadget-1")


PRESENT = """\
apiVersion: v1
kind: Secret
metadata:
  name: {{ name }}
  annotations: {ssa-operator.dev/apply: IfNotPresent}
stringData:
  password: {{ generated(20) }}
  absent: "{{ live('Secret', name) is none }}"
"""


async def test_a_child_is_pruned_although_templates_read_the_name_of_an_object_that_is_not_the_parents(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    """The user created the Secret, and IfNotPresent leaves it to the user."""
    only(templates, named=NAMED, secret=PRESENT)
    await desk.kubectl("create", "secret", "generic", "web", "--from-literal=password=first")
    old = await desk.read("secrets", "web")
    async with operate():
        await desk.apply_until_ready(echo("web", 1))
        await desk.apply(echo("web", 2))
        await desk.gone(MAPS, "web-named-1")
        assert uid(await desk.read("secrets", "web")) == uid(old)


MANY = """\
{% for number in range(5) %}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-{{ spec.replicas }}-{{ number }}
  annotations: {absent: "{{ live('ConfigMap', 'none') is none }}"}
{% endfor %}
"""


async def test_a_reconcile_reads_again_once_for_all_deletions_also_where_it_may_not(
    desk: Desk, cluster: Cluster, options: MakeOptions, templates: Path, tmp_path: Path
) -> None:
    only(templates, many=MANY)
    user = f"limited-{desk.namespace}"
    verbs = ["list", "watch", "create", "patch", "delete"]
    rules: Rules = [*BASICS, {"apiGroups": [""], "resources": ["configmaps"], "verbs": verbs}]
    await desk.apply(*allowed(user, rules, "limited"))
    async with acting_as(user, desk, tmp_path) as client, operating(client, options()) as running:
        await desk.apply_until_ready(echo("web", 1))
        running.forget()
        await desk.apply(echo("web", 2))
        await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", "web-1-0 is kept", "cannot get resource"))
        reads = requests_for(cluster, desk.namespace, "none")
        assert 0 < len(reads) <= len(running.reconciles)
        await desk.apply(*allowed(user, [*rules, {**rules[-1], "verbs": ["get"]}], "limited"))
        await desk.apply_until_ready(echo("web", 3))
        await desk.gone(MAPS, "web-1-0")
