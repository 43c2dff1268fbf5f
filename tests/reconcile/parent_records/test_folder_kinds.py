"""What was applied stands once for the folder, and in the status of each parent: a later process finds all kinds."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.api.transport import Response
from ssa_operator.operator.operator import Operator
from ssa_operator.reconcile.parent_records import folder_kinds
from ssa_operator.reconcile.parent_records.rules import APPLIED_ANNOTATION, FOLDER_KINDS
from tests.cli.change.test_apply import apply
from tests.operator.harness import (
    ECHOES,
    Desk,
    MakeOptions,
    Operate,
    administrator,
    echo,
    map_template,
    only,
    operating,
)
from tests.operator.limited_accounts import BASICS, acting_as, allowed, allowed_everywhere
from tests.reconcile.apply_once.test_once import MADE_ONCE, record
from tests.reconcile.test_restarts import MAPS, SECRET, SECRETS

pytestmark = pytest.mark.cluster

PLAIN = map_template("plain", x="1")


class DyingClient(Client):
    """A client whose process ends before it writes a status."""

    died: asyncio.Event

    async def send(self, request: Request) -> Response:
        if self.died.is_set() or request.path.endswith("/status"):
            self.died.set()
            await asyncio.Event().wait()
        return await super().send(request)


@asynccontextmanager
async def dying(cluster: Cluster, options: MakeOptions, templates: Path) -> AsyncIterator[asyncio.Event]:
    """An operator that dies after the applies and before the status; the event is set then."""
    async with DyingClient(await administrator(cluster)) as client:
        client.died = asyncio.Event()
        running = asyncio.create_task(
            Operator(client, RESTMapper(client), options(templates=templates)).run(asyncio.Event())
        )
        yield client.died
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def apply_and_die(desk: Desk, cluster: Cluster, options: MakeOptions, templates: Path) -> None:
    """Have an operator apply a ConfigMap and a Secret of a new parent, and die before the status."""
    only(templates, plain=PLAIN, more=SECRET)
    async with dying(cluster, options, templates) as died:
        await desk.apply(echo("web"))
        await died.wait()


async def applied(desk: Desk, name: str = "web") -> tuple[str, ...]:
    """The kinds in the status of a parent that has no annotation of the operator."""
    parent = await desk.ready(ECHOES, name)
    assert not parent["metadata"].get("annotations")
    return tuple(parent["status"]["appliedTemplates"].split()[1:])


async def test_a_kind_that_an_operator_applied_before_it_died_is_pruned_by_the_templates_of_the_next_one(
    desk: Desk, operate: Operate, cluster: Cluster, options: MakeOptions, templates: Path
) -> None:
    await apply_and_die(desk, cluster, options, templates)
    parent = await desk.read(ECHOES, "web")
    assert "annotations" not in parent["metadata"]
    assert "status" not in parent
    assert await desk.find(SECRETS, "web-more") is not None
    # The new set renders what counts as applied once only where records were lost.
    only(templates, plain=PLAIN, again=map_template("again", x="1"), third=map_template("third", x="1"), once=MADE_ONCE)
    async with operate(templates=templates):
        await desk.gone(SECRETS, "web-more")
        await desk.read(MAPS, "web-once")
        parent = await desk.ready(ECHOES, "web")
        assert "removed" not in str(parent["status"]["conditions"])


async def test_kinds_that_an_operator_recorded_before_it_died_are_still_known_after_an_apply_of_the_command(
    desk: Desk, operate: Operate, cluster: Cluster, options: MakeOptions, templates: Path
) -> None:
    await apply_and_die(desk, cluster, options, templates)
    assert await desk.find(SECRETS, "web-more") is not None
    only(templates, plain=PLAIN)
    assert (await apply(desk, templates, echo("web")))[0] == 0
    async with operate(templates=templates):
        await desk.gone(SECRETS, "web-more")
        await desk.until(ECHOES, "web", lambda body: "*" not in body["metadata"]["annotations"][APPLIED_ANNOTATION])


async def test_a_parent_that_gets_its_first_other_record_has_all_of_them_as_annotations(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, plain=PLAIN)
    async with operate(templates=templates) as running:
        await desk.apply(echo("web"))
        assert await applied(desk) == ("ConfigMap",)
        running.write(f"{ECHOES}/once.yaml.j2", MADE_ONCE)
        await desk.read(MAPS, "web-once")
        parent = await desk.until(ECHOES, "web", lambda body: record(body) and "appliedTemplates" not in body["status"])
        assert "ConfigMap" in parent["metadata"]["annotations"][APPLIED_ANNOTATION]
        await desk.delete("configmap", "web-once")
    await desk.patch("echo", "web", metadata={"annotations": None})
    async with operate(templates=templates):
        parent = await desk.until(ECHOES, "web", record)
        assert await desk.find(MAPS, "web-once") is None
        assert "unknown" in str(record(parent))


async def test_templates_that_add_a_kind_record_it_on_each_parent_that_exists(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, plain=PLAIN)
    async with operate(templates=templates) as running:
        await desk.apply(echo("web"))
        assert await applied(desk) == ("ConfigMap",)
        running.write(f"{ECHOES}/more.yaml.j2", SECRET)
        await desk.read(SECRETS, "web-more")
        parent = await desk.until(ECHOES, "web", lambda body: "appliedTemplates" not in body["status"])
        assert "Secret" in parent["metadata"]["annotations"][APPLIED_ANNOTATION]
    only(templates, plain=PLAIN)
    async with operate(templates=templates):
        await desk.gone(SECRETS, "web-more")


KINDS = {
    "apiGroups": [""],
    "resources": [MAPS],
    "resourceNames": [FOLDER_KINDS],
    "verbs": ["get", "create", "patch"],
}
CRDS = {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["*"]}


@pytest.mark.parametrize("may_record", [False, True])
async def test_without_the_permission_to_record_kinds_once_each_parent_has_the_record(
    desk: Desk, options: MakeOptions, tmp_path: Path, templates: Path, *, may_record: bool
) -> None:
    only(templates, more=SECRET)
    user = f"limited-{desk.namespace}"
    secrets = {"apiGroups": [""], "resources": [SECRETS], "verbs": ["*"]}
    await desk.apply(*allowed_everywhere(user, [CRDS]))
    await desk.apply(*allowed(user, [*BASICS, secrets, *([KINDS] if may_record else [])], "rules"))
    async with acting_as(user, desk, tmp_path) as limited, operating(limited, options(templates=templates)):
        await desk.apply(echo("web"), echo("other"))
        for name in ("web", "other"):
            parent = await desk.ready(ECHOES, name)
            assert (APPLIED_ANNOTATION in parent["metadata"].get("annotations", {})) is not may_record
            assert ("appliedTemplates" in parent["status"]) is may_record
    assert (await desk.find(MAPS, FOLDER_KINDS) is not None) is may_record


async def test_operators_of_one_folder_add_kinds_and_remove_none(
    desk: Desk, operate: Operate, templates: Path, tmp_path: Path
) -> None:
    more = tmp_path / "more"
    only(templates, plain=PLAIN)
    only(shutil.copytree(templates, more), more=SECRET)
    parents = {name: echo(name) for name in ("plain", "more")}
    for name, body in parents.items():
        body["metadata"]["labels"] = {"set": name}
    async with operate(templates=templates, selector="set=plain"), operate(templates=more, selector="set=more"):
        await desk.apply(*parents.values())
        assert [await applied(desk, name) for name in parents] == [("ConfigMap",), ("Secret",)]
    found = await desk.read(MAPS, FOLDER_KINDS)
    assert set(found["data"]) == {f"{ECHOES}_ConfigMap", f"{ECHOES}_Secret"}


async def test_kinds_that_may_not_be_read_are_unknown_until_an_operator_reads_them(
    desk: Desk, operate: Operate, cluster: Cluster, options: MakeOptions, tmp_path: Path, templates: Path
) -> None:
    await apply_and_die(desk, cluster, options, templates)
    only(templates, plain=PLAIN)
    user = f"limited-{desk.namespace}"
    # It may not name the ConfigMap of the kinds, which may be written with any other one.
    maps = {"apiGroups": [""], "resources": [MAPS], "verbs": ["list", "watch", "create", "patch", "delete"]}
    await desk.apply(*allowed_everywhere(user, [CRDS]))
    await desk.apply(*allowed(user, [*BASICS, maps], "rules"))
    async with acting_as(user, desk, tmp_path) as limited, operating(limited, options(templates=templates)):
        parent = await desk.ready(ECHOES, "web")
        assert "ConfigMap" in parent["metadata"]["annotations"][APPLIED_ANNOTATION]
        assert await desk.find(SECRETS, "web-more") is not None
    async with operate(templates=templates):
        await desk.gone(SECRETS, "web-more")
        await desk.until(ECHOES, "web", lambda body: "*" not in body["metadata"]["annotations"][APPLIED_ANNOTATION])


async def test_a_parent_that_is_created_after_the_start_does_not_wait_for_kinds_of_former_templates(
    desk: Desk,
    operate: Operate,
    options: MakeOptions,
    tmp_path: Path,
    templates: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only(templates, plain=PLAIN, more=SECRET)
    async with operate(templates=templates):
        await desk.apply(echo("web"))
        assert "Secret" in await applied(desk)
        await desk.delete("echo", "web")
        await desk.gone(ECHOES, "web")
    monkeypatch.setattr(folder_kinds, "SKEW", -3600)
    only(templates, plain=PLAIN, other=map_template("other", x="1"))
    user = f"limited-{desk.namespace}"
    maps = {"apiGroups": [""], "resources": [MAPS], "verbs": ["*"]}
    await desk.apply(*allowed_everywhere(user, [CRDS]))
    await desk.apply(*allowed(user, [*BASICS, maps], "rules"))
    async with acting_as(user, desk, tmp_path) as limited, operating(limited, options(templates=templates)) as running:
        await desk.apply(echo("later"))
        await desk.ready(ECHOES, "later")
        await desk.read(MAPS, "later-other")
        running.remove(f"{ECHOES}/other.yaml.j2")
        await desk.gone(MAPS, "later-other")
