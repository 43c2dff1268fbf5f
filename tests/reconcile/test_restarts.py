"""What changes while no operator runs: a data change is honoured, a template that is gone leaves no objects."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    uid,
    with_versions,
)
from tests.operator.limited_accounts import BASICS, acting_as, allowed

pytestmark = pytest.mark.cluster

MAPS, SECRETS = "configmaps", "secrets"

PER_REPLICA = """\
{% for i in range(spec.replicas) %}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-{{ i }}
{% endfor %}
"""

SECRET = """\
apiVersion: v1
kind: Secret
metadata:
  name: {{ name }}-more
"""


def folder_of(templates: Path, name: str, **files: str) -> Path:
    folder = templates / name
    folder.mkdir()
    for stem, text in files.items():
        (folder / f"{stem}.yaml.j2").write_text(text)
    return folder


async def test_what_the_data_no_longer_asks_for_is_deleted_also_if_it_changed_while_no_operator_ran(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, maps=PER_REPLICA)
    async with operate(templates=templates):
        await desk.apply_until_ready(echo("web", 3))
    await desk.apply(echo("web", 0))
    async with operate(templates=templates):
        for i in range(3):
            await desk.gone(MAPS, f"web-{i}")
        await desk.ready(ECHOES, "web")


async def test_what_changed_templates_no_longer_render_is_held_also_if_the_data_changed_with_them(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, maps=PER_REPLICA)
    async with operate(templates=templates):
        await desk.apply_until_ready(echo("web", 3))
    await desk.apply(echo("web", 2))
    only(templates, maps="{# nothing #}")
    async with operate(templates=templates):
        await desk.until(ECHOES, "web", not_ready_because("PruneHeld", "the templates changed"))
        assert await desk.find(MAPS, "web-2") is not None
    # It stays held: what was never applied completely is no proof.
    await desk.apply(echo("web", 1))
    async with operate(templates=templates):
        await desk.until(
            ECHOES, "web", lambda body: body["status"]["observedGeneration"] == body["metadata"]["generation"]
        )
        await desk.until(ECHOES, "web", not_ready_because("PruneHeld"))
        assert await desk.find(MAPS, "web-2") is not None


async def test_a_template_that_is_gone_after_a_restart_leaves_no_objects_of_a_built_in_parent(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    folder_of(templates, "services", plain=map_template("plain", x="1"), more=SECRET)
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "labels": {"test": desk.namespace}},
        "spec": {"ports": [{"port": 80}]},
    }
    selector = {"templates": templates, "selector": f"test={desk.namespace}"}
    async with operate(**selector):
        await desk.apply(service)
        await desk.read(SECRETS, "web-more")
        await desk.read(MAPS, "web-plain")
    (templates / "services" / "more.yaml.j2").unlink()
    async with operate(**selector):
        await desk.gone(SECRETS, "web-more")
        assert await desk.find(MAPS, "web-plain") is not None


@pytest.mark.exhaustive
@pytest.mark.parametrize("also", ["", "-parent"], ids=["elsewhere", "within"])
async def test_a_limited_operator_that_restarts_leaves_no_objects_of_a_cluster_scoped_parent(
    desk: Desk, operate: Operate, templates: Path, also: str
) -> None:
    parent = f"{desk.namespace}-parent"
    plain, more = (
        f"apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n  namespace: {{{{ name }}}}\n"
        for kind, name in (("ConfigMap", "plain"), ("Secret", "more"))
    )
    folder_of(templates, "namespaces", plain=plain, more=more)
    labels = {"test": desk.namespace}
    options = {
        "templates": templates,
        "selector": f"test={desk.namespace}",
        "namespaces": (f"{desk.namespace}{also}",),
    }
    async with desk.elsewhere(parent) as inner:
        await desk.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": parent, "labels": labels}})
        async with operate(**options):
            await inner.read(SECRETS, "more")
            await inner.read(MAPS, "plain")
        (templates / "namespaces" / "more.yaml.j2").unlink()
        async with operate(**options):
            await inner.gone(SECRETS, "more")
            assert await inner.find(MAPS, "plain") is not None
    await desk.delete("namespace", parent, wait=False)


async def test_a_template_that_is_gone_after_a_restart_leaves_no_objects_of_a_parent_without_a_status(
    desk: Desk, operate: Operate, templates: Path, group: str
) -> None:
    folder_of(templates, f"ins.{group}", plain=map_template("plain", x="1"), more=SECRET)
    crd = definition("ins", group, "In")
    del crd["spec"]["versions"][0]["subresources"]
    await desk.define(crd)
    async with operate(templates=templates):
        await desk.apply({"apiVersion": f"{group}/v1", "kind": "In", "metadata": {"name": "web"}, "spec": {}})
        await desk.read(SECRETS, "web-more")
        await desk.read(MAPS, "web-plain")
    (templates / f"ins.{group}" / "more.yaml.j2").unlink()
    async with operate(templates=templates):
        await desk.gone(SECRETS, "web-more")


@pytest.mark.exhaustive
async def test_a_held_prune_of_a_kind_stays_held_when_its_crd_prefers_another_version(
    desk: Desk, operate: Operate, templates: Path, group: str
) -> None:
    out = f"apiVersion: {group}/v1\nkind: Out\nmetadata:\n  name: {{{{ name }}}}\n"
    only(templates, out=out)
    await desk.define(definition("outs", group, "Out"))
    async with operate(templates=templates):
        await desk.apply_until_ready(echo("web", 1))
        made = await desk.read(f"outs.{group}", "web")
        only(templates, out="{# nothing #}")
        await desk.until(ECHOES, "web", not_ready_because("PruneHeld"))
        await desk.apply(with_versions(definition("outs", group, "Out"), "v1", v1=True, v2=True))
        await desk.apply(echo("web", 2))
        await desk.until(
            ECHOES, "web", lambda body: body["status"]["observedGeneration"] == body["metadata"]["generation"]
        )
        await desk.until(ECHOES, "web", not_ready_because("PruneHeld"))
        assert uid(await desk.read(f"outs.{group}", "web")) == uid(made)
        await desk.patch("echo", "web", metadata={"annotations": {"ssa-operator.dev/reconcile-at": "now"}})
        await desk.gone(f"outs.{group}", "web")
        await desk.ready(ECHOES, "web")


@pytest.mark.exhaustive
async def test_a_kind_of_former_children_that_the_operator_may_no_longer_list_is_named(
    desk: Desk, options: MakeOptions, tmp_path: Path, templates: Path
) -> None:
    only(templates, plain=map_template("plain", x="1"), more=SECRET)
    user = f"limited-{desk.namespace}"
    maps = {"apiGroups": [""], "resources": [MAPS], "verbs": ["*"]}
    secrets = {"apiGroups": [""], "resources": [SECRETS], "verbs": ["*"]}
    await desk.apply(*allowed(user, [*BASICS, maps], "maps"), *allowed(user, [secrets], "secrets"))
    async with acting_as(user, desk, tmp_path) as limited:
        async with operating(limited, options(templates=templates)):
            await desk.apply_until_ready(echo("web"))
        only(templates, plain=map_template("plain", x="1"))
        await desk.delete("rolebinding", "secrets")
        async with operating(limited, options(templates=templates)):
            words = ("children of kind Secret", "which no template renders any more", "forbidden")
            await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", *words))
            await desk.apply(*allowed(user, [secrets], "secrets"))
            await desk.gone(SECRETS, "web-more")
            await desk.ready(ECHOES, "web")
