"""An operator whose view of the cluster is old, or that missed states in between, deletes and recreates nothing by that
view, and comes to the same result as any other when it catches up.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.child import Action, Child
from ssa_operator.reconcile.settings import ApplyMode
from tests.devcluster.waiting import until
from tests.operator.harness import (
    ECHOES,
    PATIENCE,
    Desk,
    MakeOptions,
    config_map,
    echo,
    holds,
    map_template,
    only,
    operating,
    uid,
)
from tests.operator.lagging_client import Lag, LaggingClient
from tests.operator.test_burst import held
from tests.reconcile.apply_once.test_once import MADE_ONCE

pytestmark = pytest.mark.cluster

MAPS = "configmaps"

ROLES = "clusterroles.rbac.authorization.k8s.io"


@pytest.fixture
def versions(templates: Path) -> Path:
    """Templates with a child whose name has the version, and one that is recreated for each version."""
    named = map_template("named-{{ spec.replicas }}", x="spec.replicas")
    frozen = map_template("frozen", x="spec.replicas").replace(
        "metadata:", "immutable: true\nmetadata:\n  annotations: {ssa-operator.dev/recreate: Background}"
    )
    return only(templates, named=named, frozen=frozen, plain=map_template("plain", x="spec.replicas"))


def is_prune(outcome: Child) -> bool:
    return outcome.action is Action.PRUNE and outcome.identity.name == "web-named-1"


async def test_nothing_is_deleted_or_recreated_by_an_old_view_of_the_parent(
    desk: Desk, client: Client, lagging: LaggingClient, options: MakeOptions, versions: Path
) -> None:
    async with operating(lagging, options(templates=versions)) as behind:
        await desk.apply_until_ready(echo("web", 1))
        lagging.lag.begin()
        # The operator that is behind reconciles only after the other one has ended: both would revert each other.
        async with held(behind.operator), operating(client, options(templates=versions)):
            await desk.apply_until_ready(echo("web", 2))
            named = await desk.read(MAPS, "web-named-2")
            frozen = await desk.until(MAPS, "web-frozen", holds(x="2"))
        # What exists is applied by the old view. An apply that is on its way would create what is deleted meanwhile.
        await desk.until(MAPS, "web-plain", holds(x="1"))
        # A deletion requeues the parent that is behind, and it renders version 1. What was deleted waits.
        behind.forget()
        await desk.delete("configmap", "web-plain")
        # Its status is refused, so it is reconciled again.
        await until(lambda: len(behind.reconciles) > 1, PATIENCE)
        assert await desk.find(MAPS, "web-plain") is None
        assert lagging.lag.withheld
        assert uid(await desk.read(MAPS, "web-named-2")) == uid(named)
        assert uid(await desk.until(MAPS, "web-frozen", holds(x="2"))) == uid(frozen)

        lagging.lag.end()
        await desk.until(MAPS, "web-plain", holds(x="2"))
        await desk.gone(MAPS, "web-named-1")
        await desk.ready(ECHOES, "web")
        assert uid(await desk.read(MAPS, "web-named-2")) == uid(named)
        assert uid(await desk.read(MAPS, "web-frozen")) == uid(frozen)


RECORDED_ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ namespace }}-more
rules: []
"""


@pytest.mark.exhaustive
async def test_a_record_on_the_parent_does_not_make_an_old_view_of_it_a_current_one(
    desk: Desk, client: Client, lagging: LaggingClient, options: MakeOptions, versions: Path
) -> None:
    """The API server answers the write of the record with the parent as it is now."""
    (versions / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    async with operating(lagging, options(templates=versions)) as behind:
        await desk.apply_until_ready(echo("web", 1))
        lagging.lag.begin()
        async with held(behind.operator), operating(client, options(templates=versions)):
            await desk.apply_until_ready(echo("web", 2))
            named = await desk.read(MAPS, "web-named-2")
            frozen = await desk.until(MAPS, "web-frozen", holds(x="2"))
        behind.write(f"{ECHOES}/more.yaml.j2", RECORDED_ROLE)
        await desk.read(ROLES, f"{desk.namespace}-more")
        assert uid(await desk.read(MAPS, "web-named-2")) == uid(named)
        assert uid(await desk.until(MAPS, "web-frozen", holds(x="2"))) == uid(frozen)
        lagging.lag.end()
        await desk.gone(MAPS, "web-named-1")
        await desk.ready(ECHOES, "web")
        assert uid(await desk.read(MAPS, "web-named-2")) == uid(named)
        assert uid(await desk.read(MAPS, "web-frozen")) == uid(frozen)
        await desk.delete("echo", "web")


async def test_a_child_that_belongs_to_another_parent_by_now_is_not_pruned(
    desk: Desk, lagging: LaggingClient, options: MakeOptions, versions: Path
) -> None:
    lagging.lag = Lag(frozenset({MAPS}))
    lagging.lag.end()
    async with operating(lagging, options(templates=versions)) as behind:
        await desk.apply_until_ready(echo("web", 1))
        old = await desk.read(MAPS, "web-named-1")
        lagging.lag.begin()
        label = {"ssa-operator.dev/parent-uid": "another"}
        await desk.patch("configmap", "web-named-1", metadata={"labels": label})
        behind.forget()
        await desk.apply(echo("web", 2))
        await desk.read(MAPS, "web-named-2")
        await behind.reported(lambda report: any(map(is_prune, report.outcomes)))
        assert uid(await desk.read(MAPS, "web-named-1")) == uid(old)
        lagging.lag.end()
        await desk.ready(ECHOES, "web")
        assert uid(await desk.read(MAPS, "web-named-1")) == uid(old)


EXTRA = """\
apiVersion: v1
kind: Secret
metadata:
  name: {{{{ name }}}}-base
---
{{% if {condition} %}}
apiVersion: v1
kind: Secret
metadata:
  name: {{{{ name }}}}-extra
stringData:
  password: {{{{ generated(20) }}}}
{{% endif %}}
"""

PLAIN = map_template("plain", x="spec.replicas")


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "condition",
    [
        "lookup('v1', 'ConfigMap', 'switch', optional=true)",
        "lookup_all('v1', 'ConfigMap', labels={'switch': 'on'})",
    ],
    ids=["lookup", "lookup_all"],
)
async def test_nothing_is_deleted_by_an_old_view_of_a_looked_up_object(
    desk: Desk, client: Client, lagging: LaggingClient, options: MakeOptions, templates: Path, condition: str
) -> None:
    only(templates, plain=PLAIN, extra=EXTRA.format(condition=condition))
    lagging.lag = Lag(frozenset({MAPS}))
    lagging.lag.end()
    switch = config_map("switch") | {"metadata": {"name": "switch", "labels": {"switch": "on"}}}
    async with operating(lagging, options(templates=templates)) as behind:
        await desk.apply_until_ready(echo("web", 1))
        lagging.lag.begin()
        async with held(behind.operator), operating(client, options(templates=templates)):
            await desk.apply(switch)
            extra = await desk.read("secrets", "web-extra")
            await desk.ready(ECHOES, "web")
        behind.forget()
        await desk.patch("echo", "web", metadata={"annotations": {"reconcile": "again"}})
        await behind.reported(lambda report: any(map(is_kept_extra, report.outcomes)))
        assert uid(await desk.read("secrets", "web-extra")) == uid(extra)

        lagging.lag.end()
        await desk.apply(echo("web", 2))
        await desk.until(MAPS, "web-plain", holds(x="2"))
        await desk.ready(ECHOES, "web")
        assert uid(await desk.read("secrets", "web-extra")) == uid(extra)
        # What is true by now is honoured.
        await desk.delete("configmap", "switch")
        await desk.gone("secrets", "web-extra")


@pytest.mark.exhaustive
@pytest.mark.parametrize("apply", ApplyMode)
@pytest.mark.parametrize("function", ["child", "live"])
async def test_nothing_is_deleted_by_an_old_view_of_a_child_that_templates_read(
    desk: Desk,
    client: Client,
    lagging: LaggingClient,
    options: MakeOptions,
    templates: Path,
    function: str,
    apply: ApplyMode,
) -> None:
    """With `always`, the operator applies the child first, and the answer is newer than the render."""
    condition = f"{function}('ConfigMap', name ~ '-plain').metadata.labels.switch | default('off') == 'on'"
    only(templates, plain=PLAIN, extra=EXTRA.format(condition=condition))
    lagging.lag = Lag(frozenset({MAPS}))
    lagging.lag.end()
    async with operating(lagging, options(templates=templates, apply=apply)) as behind:
        await desk.apply_until_ready(echo("web", 1))
        lagging.lag.begin()
        async with held(behind.operator), operating(client, options(templates=templates)):
            await desk.patch("configmap", "web-plain", metadata={"labels": {"switch": "on"}})
            extra = await desk.read("secrets", "web-extra")
            await desk.ready(ECHOES, "web")
        behind.forget()
        await desk.patch("echo", "web", metadata={"annotations": {"reconcile": "again"}})
        await until(lambda: any(is_kept_extra(each) for report in behind.reports for each in report.outcomes), PATIENCE)
        assert uid(await desk.read("secrets", "web-extra")) == uid(extra)

        lagging.lag.end()
        await desk.apply(echo("web", 2))
        await desk.until(MAPS, "web-plain", holds(x="2"))
        await desk.ready(ECHOES, "web")
        assert uid(await desk.read("secrets", "web-extra")) == uid(extra)
        # What is true by now is honoured.
        await desk.patch("configmap", "web-plain", metadata={"labels": {"switch": None}})
        await desk.gone("secrets", "web-extra")


async def test_children_that_were_deleted_with_their_parent_are_not_created_again_by_an_old_view_of_it(
    desk: Desk, lagging: LaggingClient, options: MakeOptions, versions: Path
) -> None:
    """Kubernetes would delete them again, and the operator would create them again, for as long as its view is old."""
    created: list[str] = []
    async with operating(lagging, options(templates=versions)) as behind:
        await desk.apply_until_ready(echo("web", 1))
        lagging.lag.begin()
        (await desk.view(MAPS)).cache.listen(lambda _, new: created.append(new.identity.name) if new else None)
        behind.forget()
        await desk.delete("echo", "web")
        for name in ("web-plain", "web-frozen", "web-named-1"):
            await desk.gone(MAPS, name)
        queue = behind.operator.queue
        await until(lambda: bool(behind.reconciles) and not len(queue) and not queue.processing(), PATIENCE)
        assert created == []


async def test_an_old_view_of_an_object_that_is_gone_is_not_recorded_as_applied_once(
    desk: Desk, lagging: LaggingClient, options: MakeOptions, templates: Path
) -> None:
    """After a restore of etcd the object and its record are gone, and the watch of the object may be behind."""
    only(templates, once=MADE_ONCE)
    lagging.lag = Lag(frozenset({MAPS}))
    lagging.lag.end()
    async with operating(lagging, options(templates=templates)) as behind:
        await desk.apply_until_ready(echo("web", 1))
        first = uid(await desk.read(MAPS, "web-once"))
        lagging.lag.begin()
        behind.forget()
        async with held(behind.operator):
            await desk.delete("configmap", "web-once")
            await desk.patch("echo", "web", metadata={"annotations": {"ssa-operator.dev/once": None}})
        await behind.reconciled(1)
        lagging.lag.end()
        await desk.until(MAPS, "web-once", lambda body: uid(body) != first)


FOLLOWER = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-follower
data:
  switch: {{ child('ConfigMap', name ~ '-plain').metadata.labels.switch | default('off') }}
"""


async def test_a_foreign_change_that_the_answer_to_an_apply_shows_before_its_event_is_rendered(
    desk: Desk, lagging: LaggingClient, options: MakeOptions, templates: Path
) -> None:
    """The apply changes nothing, so the event of that version is no echo: nothing else would render the change."""
    only(templates, plain=PLAIN, follower=FOLLOWER)
    lagging.lag = Lag(frozenset({MAPS}))
    lagging.lag.end()
    async with operating(lagging, options(templates=templates)) as behind:
        await desk.apply_until_ready(echo("web", 1))
        lagging.lag.begin()
        async with held(behind.operator):
            await desk.patch("configmap", "web-plain", metadata={"labels": {"switch": "on"}})
            behind.forget()
            await desk.patch("echo", "web", metadata={"annotations": {"reconcile": "again"}})
        await behind.reconciled(1)
        lagging.lag.end()
        await desk.until(MAPS, "web-follower", holds(switch="on"))


@pytest.mark.exhaustive
async def test_nothing_is_deleted_by_an_old_view_in_which_a_child_is_absent(
    desk: Desk, client: Client, lagging: LaggingClient, options: MakeOptions, templates: Path
) -> None:
    only(templates, plain=PLAIN, extra=EXTRA.format(condition="live('ConfigMap', name ~ '-plain')"))
    lagging.lag = Lag(frozenset({MAPS}))
    lagging.lag.end()
    async with operating(lagging, options(templates=templates)) as behind:
        await desk.apply_until_ready(echo("web", 1))
        plain = LiveObject(encode(await desk.read(MAPS, "web-plain")))
        async with held(behind.operator):
            await desk.delete("configmap", "web-plain")
            await until(lambda: plain.identity not in behind.operator.controllers.children, PATIENCE)
            lagging.lag.begin()
            async with operating(client, options(templates=templates)):
                await desk.until(MAPS, "web-plain", lambda found: uid(found) != plain.uid)
                await desk.ready(ECHOES, "web")
            extra = await desk.read("secrets", "web-extra")
            behind.forget()
        # Its status may be refused, because the other operator has written one, and then there is no report.
        await until(lambda: bool(behind.reconciles) and not behind.operator.queue.processing(), PATIENCE)
        assert uid(await desk.read("secrets", "web-extra")) == uid(extra)
        lagging.lag.end()
        await desk.ready(ECHOES, "web")
        assert uid(await desk.read("secrets", "web-extra")) == uid(extra)


def is_kept_extra(outcome: Child) -> bool:
    step = outcome
    return step.action is Action.PRUNE and step.identity.name == "web-extra" and "has changed since" in outcome.message


ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ namespace }}-{{ spec.replicas }}
rules: []
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("deletes_parent", [False, True], ids=["the template renders another one", "the parent goes"])
async def test_a_child_that_only_the_inventory_names_is_deleted_although_its_watch_does_not_show_it(
    desk: Desk, lagging: LaggingClient, options: MakeOptions, templates: Path, *, deletes_parent: bool
) -> None:
    """As after a restore of etcd: the watch has shown the deletion, and not that the object is there again."""
    only(templates, role=ROLE)
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    lagging.lag = Lag(frozenset({"clusterroles"}))
    lagging.lag.end()
    name = f"{desk.namespace}-1"
    async with operating(lagging, options(templates=templates)) as behind:
        await desk.apply_until_ready(echo("web", 1))
        role = LiveObject(encode(await desk.read(ROLES, name)))
        async with held(behind.operator):
            if deletes_parent:
                await desk.delete("echo", "web", wait=False)
            else:
                await desk.apply(echo("web", 2))
            await until(lambda: behind.operator.queue.longest_running() > 0, PATIENCE)
            await desk.delete("clusterrole", name)
            await until(lambda: role.identity not in behind.operator.controllers.children, PATIENCE)
            lagging.lag.begin()
            metadata = {"name": name, "labels": dict(role.metadata.labels)}
            body = {"apiVersion": role.body["apiVersion"], "kind": "ClusterRole", "metadata": metadata, "rules": []}
            await lagging.apply(await desk.mapper.resource_by_name(ROLES), "", name, encode(body), ApplyOptions())
            await desk.until(ROLES, name, lambda found: uid(found) != role.uid)
        await desk.gone(ROLES, name)
        if deletes_parent:
            await desk.gone(ECHOES, "web")
        else:
            await desk.ready(ECHOES, "web")
            await desk.delete("echo", "web")


CONDITIONAL_ROLE = f"{{% if spec.replicas < 2 %}}\n{ROLE}{{% endif %}}\n"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("withheld", "deletes_parent"),
    [({"echoes"}, False), ({"echoes", "clusterroles"}, True)],
    ids=["the template renders it no more", "the parent goes"],
)
async def test_a_child_that_the_parent_cannot_own_is_not_created_again_by_an_old_view_of_the_parent(
    desk: Desk,
    client: Client,
    lagging: LaggingClient,
    options: MakeOptions,
    templates: Path,
    withheld: set[str],
    *,
    deletes_parent: bool,
) -> None:
    """The parent has no record of it any more, so nothing would delete it."""
    only(templates, role=CONDITIONAL_ROLE, plain=PLAIN)
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    lagging.lag = Lag(frozenset(withheld))
    lagging.lag.end()
    name = f"{desk.namespace}-1"
    async with operating(lagging, options(templates=templates)) as behind:
        await desk.apply_until_ready(echo("web", 1))
        lagging.lag.begin()
        async with held(behind.operator), operating(client, options(templates=templates)):
            await desk.apply(echo("web", 2))
            await desk.gone(ROLES, name)
            await desk.ready(ECHOES, "web")
            if deletes_parent:
                await desk.delete("echo", "web")
        behind.forget()
        # A changed template applies everything. A reconcile has ended when the next one begins.
        behind.write(f"{ECHOES}/more.yaml.j2", map_template("more", x="spec.replicas"))
        await until(lambda: any(Cause.TEMPLATE in causes for _, causes in behind.reconciles[:-1]), PATIENCE)
        assert await desk.find(ROLES, name) is None

        lagging.lag.end()
        if not deletes_parent:
            await desk.ready(ECHOES, "web")
            await desk.until(MAPS, "web-plain", holds(x="2"))
        await until(lambda: not len(behind.operator.queue) and not behind.operator.queue.processing(), PATIENCE)
        assert await desk.find(ROLES, name) is None


SHARED_ROLE = ROLE.replace("{{ spec.replicas }}\n", "shared\n  annotations: {ssa-operator.dev/apply: Shared}\n")


async def test_a_parent_that_is_gone_is_no_owner_of_a_shared_object_again_by_an_old_view_of_it(
    desk: Desk, client: Client, lagging: LaggingClient, options: MakeOptions, templates: Path
) -> None:
    """The other parents would wait for it, and it would keep the object for ever."""
    only(templates, role=SHARED_ROLE)
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    name, owners = f"{desk.namespace}-shared", "ssa-operator.dev/owners"
    async with operating(lagging, options(templates=templates)) as behind:
        gone, here = await desk.apply_until_ready(echo("gone", 1)), await desk.apply_until_ready(echo("here", 1))
        lagging.lag.begin()
        async with held(behind.operator), operating(client, options(templates=templates)) as ahead:
            await ahead.reconciled(2)
            await desk.delete("echo", "gone")
            await desk.until(ROLES, name, lambda body: uid(gone) not in body["metadata"]["annotations"][owners])
        behind.forget()
        # A changed template applies everything. A reconcile has ended when the next one begins.
        behind.write(f"{ECHOES}/more.yaml.j2", map_template("more", x="spec.replicas"))
        await desk.until(MAPS, "here-more", lambda _: True)
        await until(lambda: not len(behind.operator.queue) and not behind.operator.queue.processing(), PATIENCE)
        record = (await desk.read(ROLES, name))["metadata"]["annotations"][owners]
        assert uid(here) in record
        assert uid(gone) not in record
        lagging.lag.end()
        await desk.delete("echo", "here")
        await desk.gone(ROLES, name)


PASSWORD = """\
apiVersion: v1
kind: Secret
metadata:
  name: {{ name }}
  annotations: {replicas: "{{ spec.replicas }}"}
stringData:
  password: {{ generated(20) }}
"""


def password(body: dict[str, Any]) -> str:
    return base64.b64decode(body["data"]["password"]).decode()


def has_replicas(number: int) -> Callable[[dict[str, Any]], bool]:
    return lambda body: body["metadata"].get("annotations", {}).get("replicas") == str(number)


@pytest.mark.more_cases
@pytest.mark.parametrize("change", ["changed", "deleted", "recreated"])
async def test_an_old_view_of_an_object_does_not_give_it_its_former_generated_value_back(
    desk: Desk, lagging: LaggingClient, options: MakeOptions, templates: Path, change: str
) -> None:
    only(templates, secret=PASSWORD)
    lagging.lag = Lag(frozenset({"secrets"}))
    lagging.lag.end()
    async with operating(lagging, options(templates=templates)):
        await desk.apply_until_ready(echo("web", 1))
        old = await desk.read("secrets", "web")
        lagging.lag.begin()
        if change == "changed":
            await desk.patch("secret", "web", stringData={"password": "of the user"})
        else:
            await desk.delete("secret", "web")
        if change == "recreated":
            metadata = {field: old["metadata"][field] for field in ("name", "labels", "ownerReferences")}
            await desk.create({**old, "metadata": metadata, "data": {}, "stringData": {"password": "of the user"}})
        await desk.apply(echo("web", 2))
        new = await desk.until("secrets", "web", has_replicas(2))
        if change == "deleted":
            assert password(new) not in ("of the user", password(old))
        else:
            assert password(new) == "of the user"
        lagging.lag.end()
        # The parent is ready, and a later change of the template's input keeps the value.
        await desk.ready(ECHOES, "web")
        await desk.apply(echo("web", 3))
        last = await desk.until("secrets", "web", has_replicas(3))
        assert (uid(last), password(last)) == (uid(new), password(new))


@pytest.mark.slow
@pytest.mark.parametrize("withheld", ["echoes", "configmaps"])
async def test_states_that_were_not_observed_lead_to_the_same_result(
    desk: Desk, lagging: LaggingClient, options: MakeOptions, versions: Path, withheld: str
) -> None:
    lagging.lag = Lag(frozenset({withheld}))
    lagging.lag.end()
    async with operating(lagging, options(templates=versions)):
        await desk.apply_until_ready(echo("web", 1))
        old = await desk.read(ECHOES, "web")
        child = await desk.read(MAPS, "web-plain")

        # There and back again: the operator sees one change at most.
        lagging.lag.begin()
        for version in (2, 1):
            await desk.apply(echo("web", version))
        lagging.lag.end()
        await desk.ready(ECHOES, "web")
        assert uid(await desk.until(MAPS, "web-plain", holds(x="1"))) == uid(child)
        await desk.gone(MAPS, "web-named-2")

        if withheld == MAPS:
            # A child that is deleted, and created by another manager, is a change of its uid.
            lagging.lag.begin()
            await desk.delete("configmap", "web-plain")
            await desk.kubectl("create", "configmap", "web-plain", "--from-literal=y=theirs")
            lagging.lag.end()
        await desk.apply(echo("web", 3))
        await desk.until(MAPS, "web-plain", lambda body: body["data"].get("x") == "3")
        await desk.ready(ECHOES, "web")

        # A parent that is deleted and created again has another uid, and its children become those of the new one.
        lagging.lag.begin()
        await desk.delete("echo", "web")
        await desk.apply(echo("web", 4))
        lagging.lag.end()
        new = await desk.ready(ECHOES, "web")
        assert uid(new) != uid(old)
        for name in ("web-plain", "web-frozen", "web-named-4"):
            made = await desk.until(MAPS, name, lambda body: body["data"].get("x") == "4")
            owners = [owner["uid"] for owner in made["metadata"]["ownerReferences"]]
            assert owners == [uid(new)]
        await desk.gone(MAPS, "web-named-3")


SHARED = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: common
  annotations:
    ssa-operator.dev/apply: Shared
"""


async def test_a_parent_that_is_gone_owns_nothing_again_while_its_watch_is_behind(
    desk: Desk, lagging: LaggingClient, options: MakeOptions, templates: Path
) -> None:
    """The garbage collector would remove it again, which is the next event for it, and so on."""
    async with operating(lagging, options(templates=only(templates, shared=SHARED))) as behind:
        for name in ("web", "gone"):
            await desk.apply_until_ready(echo(name))
        owners = [
            each for each in (await desk.read(MAPS, "common"))["metadata"]["ownerReferences"] if each["name"] == "web"
        ]
        lagging.lag.begin()
        behind.forget()
        await desk.delete("echo", "gone")
        await desk.patch("configmap", "common", metadata={"ownerReferences": owners})
        await until(lambda: "gone" in dict(behind.reconciles), PATIENCE)
        await until(lambda: not behind.operator.queue.processing(), PATIENCE)
        assert (await desk.read(MAPS, "common"))["metadata"]["ownerReferences"] == owners
        assert lagging.lag.withheld
