"""Templates that read kinds which the cluster stops serving: what can't be read is unknown, and never empty."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ssa_operator.operator import folder_controllers
from tests.operator.aggregated_api import aggregated_api
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
    with_versions,
)

pytestmark = pytest.mark.cluster


def crd(group: str, **served: bool) -> dict[str, Any]:
    """A CRD of the kind Item with these versions, of which the last one is stored."""
    return with_versions(definition("items", group, "Item"), [*served][-1], **served)


def item(group: str, name: str, version: str = "v1") -> dict[str, Any]:
    return {"apiVersion": f"{group}/{version}", "kind": "Item", "metadata": {"name": name}, "spec": {}}


FROM_ITEMS = """\
{% for item in lookup_all("API", "Item") %}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-{{ item.metadata.name }}
data: {kept: "yes"}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ name }}-{{ item.metadata.name }}
  annotations: {ssa-operator.dev/wait: "false"}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Mi}}
{% endfor %}
"""

FROM_ONE = """\
{% if lookup("API", "Item", "one", optional=true) %}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-optional
data: {kept: "yes"}
{% endif %}
"""

IF_AVAILABLE = """\
{% if api_available("API", "Item") %}
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-available
data: {kept: "yes"}
{% endif %}
"""

DERIVED = ("configmaps", "web-one"), ("configmaps", "web-two"), ("persistentvolumeclaims", "web-one")


async def uids(desk: Desk, *objects: tuple[str, str]) -> list[str]:
    """The uids of some objects, which have to exist and not to be in deletion."""
    found = [await desk.read(resource, name) for resource, name in objects]
    assert not [each for each in found if each["metadata"].get("deletionTimestamp")]
    return [each["metadata"]["uid"] for each in found]


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("texts", "derived"),
    [
        ({"a": FROM_ITEMS}, DERIVED),
        ({"a": FROM_ONE}, (("configmaps", "web-optional"),)),
        ({"a": IF_AVAILABLE}, (("configmaps", "web-available"),)),
    ],
    ids=["lookup_all", "optional", "api_available"],
)
async def test_a_version_that_is_no_longer_served_is_unknown_and_nothing_is_pruned(
    desk: Desk, operate: Operate, group: str, texts: dict[str, str], derived: tuple[tuple[str, str], ...]
) -> None:
    await desk.define(crd(group, v1beta1=True, v1=True))
    await desk.apply(item(group, "one"), item(group, "two"))
    unknown = not_ready_because("WaitingForDependency", f"write {group}/v1")
    async with operate() as running:
        only(running.templates, **{name: text.replace("API", f"{group}/v1beta1") for name, text in texts.items()})
        await desk.apply_until_ready(echo("web"))
        before = await uids(desk, *derived)
        await desk.apply(crd(group, v1beta1=False, v1=True))
        await desk.until(ECHOES, "web", unknown)
        assert await uids(desk, *derived) == before
    async with operate():
        # A process that never saw the version served.
        await desk.apply(echo("web", 2))
        await desk.until(ECHOES, "web", lambda body: unknown(body) and observed(body))
        assert await uids(desk, *derived) == before
        await desk.apply(crd(group, v1beta1=True, v1=True))
        await desk.ready(ECHOES, "web")
        assert await uids(desk, *derived) == before


def observed(body: dict[str, Any]) -> bool:
    """Whether the status is about the newest generation."""
    return bool(body["status"]["observedGeneration"] == body["metadata"]["generation"])


@pytest.mark.exhaustive
async def test_a_version_that_the_crd_no_longer_has_is_unknown(desk: Desk, operate: Operate, group: str) -> None:
    await desk.define(crd(group, v1beta1=True, v1=True))
    await desk.apply(item(group, "one"))
    derived = ("configmaps", "web-one"), ("configmaps", "web-available")
    async with operate() as running:
        texts = {"a": FROM_ITEMS, "b": IF_AVAILABLE}
        only(running.templates, **{name: text.replace("API", f"{group}/v1beta1") for name, text in texts.items()})
        await desk.apply_until_ready(echo("web"))
        before = await uids(desk, *derived)
        await desk.apply(crd(group, v1=True))
        await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", f"write {group}/v1"))
        assert await uids(desk, *derived) == before
    async with operate():
        await desk.apply(echo("web", 2))
        unknown = not_ready_because("WaitingForDependency", f"write {group}/v1")
        await desk.until(ECHOES, "web", lambda body: unknown(body) and observed(body))
        assert await uids(desk, *derived) == before


async def test_a_crd_that_is_deleted_with_its_objects_is_absent_at_once(
    desk: Desk, operate: Operate, group: str
) -> None:
    await desk.define(crd(group, v1beta1=True, v1=True))
    await desk.apply(item(group, "one"))
    derived = ("configmaps", "web-one"), ("configmaps", "web-optional"), ("configmaps", "web-available")
    async with operate() as running:
        texts = {"a": FROM_ITEMS, "b": FROM_ONE, "c": IF_AVAILABLE, "d": map_template("plain", x="1")}
        only(running.templates, **{name: text.replace("API", f"{group}/v1") for name, text in texts.items()})
        await desk.apply_until_ready(echo("web"))
        await uids(desk, *derived)
        await desk.delete("crd", f"items.{group}")
        for resource, name in derived:
            await desk.gone(resource, name)
        await desk.ready(ECHOES, "web")


@pytest.mark.exhaustive
async def test_a_version_that_was_unknown_is_absent_once_the_crd_is_deleted(
    desk: Desk, operate: Operate, group: str
) -> None:
    await desk.define(crd(group, v1beta1=True, v1=True))
    await desk.apply(item(group, "one"))
    derived = ("configmaps", "web-one"), ("configmaps", "web-available")
    async with operate() as running:
        texts = {"a": FROM_ITEMS, "b": IF_AVAILABLE, "c": map_template("plain", x="1")}
        only(running.templates, **{name: text.replace("API", f"{group}/v1beta1") for name, text in texts.items()})
        await desk.apply_until_ready(echo("web"))
        await uids(desk, *derived)
        await desk.apply(crd(group, v1beta1=False, v1=True))
        await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", f"write {group}/v1"))
        await desk.delete("crd", f"items.{group}")
        for resource, name in derived:
            await desk.gone(resource, name)
        await desk.ready(ECHOES, "web")


async def test_a_newer_version_than_the_served_ones_is_not_available(desk: Desk, operate: Operate, group: str) -> None:
    await desk.define(crd(group, v1=True))
    async with operate() as running:
        new = f"api_available('{group}/v2', 'Item')"
        only(running.templates, a=map_template("out", new=new))
        await desk.apply_until_ready(echo("web"))
        await desk.until("configmaps", "web-out", holds(new="false"))
        await desk.apply(crd(group, v1=True, v2=True))
        await desk.until("configmaps", "web-out", holds(new="true"))


FROM_GADGETS = FROM_ITEMS.replace("Item", "Gadget").partition("---\napiVersion: v1\nkind: Pers")[0] + "{% endfor %}\n"


@pytest.mark.exhaustive
async def test_an_aggregated_api_in_its_upgrade_is_unknown(
    desk: Desk, operate: Operate, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_controllers, "REDISCOVERY", 0.2)
    texts = {"a": FROM_GADGETS, "b": FROM_ONE.replace("Item", "Gadget"), "c": IF_AVAILABLE.replace("Item", "Gadget")}
    derived = ("configmaps", "web-one"), ("configmaps", "web-optional"), ("configmaps", "web-available")
    async with aggregated_api(desk, group, tmp_path) as api:
        api.gadget("one")
        await api.register()
        await api.until_discovered("Current")
        async with operate() as running:
            only(running.templates, **{name: text.replace("API", f"{group}/v1") for name, text in texts.items()})
            await desk.apply_until_ready(echo("web"))
            before = await uids(desk, *derived)
            await api.unregister()
            await api.until_discovered("")
            what = ("every Gadget", "Gadget in", "the cluster served it and no longer does")
            await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", *what))
            assert await uids(desk, *derived) == before
            await api.register()
            await api.until_discovered("Current")
            await desk.ready(ECHOES, "web")
            assert await uids(desk, *derived) == before


async def test_a_version_of_a_built_in_kind_that_is_not_served_is_unknown(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        count = "lookup_all('networking.k8s.io/v1beta1', 'Ingress') | length"
        only(running.templates, a=map_template("count", count=count), b=map_template("plain", word="'here'"))
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", "write networking.k8s.io/v1"))
        await desk.until("configmaps", "web-plain", holds(word="here"))
        assert await desk.find("configmaps", "web-count") is None


@pytest.mark.exhaustive
async def test_an_aggregated_api_that_does_not_answer_is_unknown_to_a_new_process(
    desk: Desk, operate: Operate, group: str, tmp_path: Path
) -> None:
    texts = {"a": FROM_GADGETS, "b": FROM_ONE.replace("Item", "Gadget"), "c": IF_AVAILABLE.replace("Item", "Gadget")}
    derived = ("configmaps", "web-one"), ("configmaps", "web-optional"), ("configmaps", "web-available")
    async with aggregated_api(desk, group, tmp_path) as api:
        await api.register(port=1)
        await api.until_discovered("Stale")
        async with operate() as running:
            only(running.templates, **{name: text.replace("API", f"{group}/v1") for name, text in texts.items()})
            await desk.apply(echo("web"))
            await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", "is stale"))
        api.gadget("one")
        await api.register()
        await api.until_discovered("Current")
        async with operate():
            await desk.ready(ECHOES, "web")
            before = await uids(desk, *derived)
        # Now the API server remembers what it discovered before.
        await api.register(port=1)
        await api.until_discovered("Stale")
        await desk.apply(echo("web", 2))
        async with operate():
            unknown = not_ready_because("WaitingForDependency", "every Gadget")
            await desk.until(ECHOES, "web", lambda body: unknown(body) and observed(body))
            assert await uids(desk, *derived) == before
