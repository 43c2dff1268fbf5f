"""`run --install-crds` and `dev` as processes, with a CRD among three that the API server refuses."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from msgspec import Struct

from tests.cli.process import Command, started
from tests.operator.harness import PATIENCE, Desk, definition, map_template, ready_condition
from tests.operator.limited_accounts import allowed, allowed_everywhere, limited
from tests.operator.test_refused_crds import only_v2, save

pytestmark = pytest.mark.cluster

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
EVERYTHING = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
TIMING = ("--lease-duration=9s", "--lease-renew-deadline=7s", "--lease-retry-period=500ms")


class Project(Struct, frozen=True, kw_only=True):
    """Three folders, of which the cluster has an older CRD of `olds` and none of the others; that of `olds` in the
    project has not the version in which the cluster stores objects.
    """

    desk: Desk
    group: str
    folder: Path

    def name(self, plural: str) -> str:
        return f"{plural}.{self.group}"

    def crd(self, plural: str, **spec: Any) -> dict[str, Any]:
        return definition(plural, self.group, plural.removesuffix("s").capitalize(), **spec)

    def parent(self, plural: str) -> dict[str, Any]:
        kind = self.crd(plural)["spec"]["names"]["kind"]
        return {"apiVersion": f"{self.group}/v1", "kind": kind, "metadata": {"name": "web"}, "spec": {}}

    def arguments(self, *more: str, command: str = "run") -> tuple[str, ...]:
        folders = (f"--templates={self.folder / 'templates'}", f"--crds={self.folder / 'crds'}")
        return (command, *folders, "--listen=127.0.0.1:0", *more)

    async def until_applied(self, plural: str) -> None:
        """Return once the cluster has the CRD, and the desk knows it."""
        await self.desk.read(CRDS, self.name(plural))
        await self.desk.define(self.crd(plural))

    async def until_ready(self, plural: str) -> str:
        """The message of the folder's parent, once that is Ready."""
        await self.desk.apply(self.parent(plural))
        found = await self.desk.ready(self.name(plural), "web")
        return str(ready_condition(found)["message"])

    async def end_cause(self) -> None:
        """Have the cluster store nothing but the version that the project's CRD has."""
        await self.desk.delete(self.name("olds"), "web")
        both = self.crd("olds")
        both["spec"]["versions"].append(only_v2(both)["spec"]["versions"][0])
        both["spec"]["versions"][0]["storage"] = False
        await self.desk.apply(both)
        patch = '{"status": {"storedVersions": ["v2"]}}'
        await self.desk.kubectl(
            "patch", "crd", self.name("olds"), "--subresource=status", "--type=merge", "--patch", patch
        )


@pytest.fixture
async def project(desk: Desk, group: str, tmp_path: Path) -> Project:
    project = Project(desk=desk, group=group, folder=tmp_path)
    await desk.define(project.crd("olds"))
    save(tmp_path / "crds", only_v2(project.crd("olds")), project.crd("goods"), project.crd("mores"))
    for plural in ("olds", "goods", "mores"):
        folder = tmp_path / "templates" / project.name(plural)
        folder.mkdir(parents=True)
        (folder / "a.yaml.j2").write_text(map_template(plural, v="1"))
    return project


async def address(command: Command) -> str:
    return (await command.says("listening on ")).split("listening on ")[1].strip()


async def text_at(url: str) -> str:
    """What an URL answers, once that has code 200."""
    async with asyncio.timeout(PATIENCE), aiohttp.ClientSession() as http:
        while True:
            async with http.get(url) as answer:
                if answer.status == 200:
                    return await answer.text()
            await asyncio.sleep(0.1)


async def until_answer(url: str, *words: str, without: str = "\0") -> None:
    """Return once an URL answers with these words, and not with the last."""
    async with asyncio.timeout(PATIENCE):
        while True:
            text = await text_at(url)
            if all(word in text for word in words) and without not in text:
                return
            await asyncio.sleep(0.1)


async def ends_in_order(command: Command) -> None:
    command.process.send_signal(signal.SIGTERM)
    assert await command.ended() == 0
    assert not any("Traceback" in line for line in command.lines)


@pytest.mark.exhaustive
async def test_one_refused_crd_of_three_is_reported_everywhere_and_applied_once_its_cause_is_gone(
    project: Project,
) -> None:
    desk, old = project.desk, project.name("olds")
    more = ("--install-crds", f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}")
    async with started(*project.arguments(*more)) as command:
        line = await command.says(f"the CRD {old} is not applied, and is tried again: ")
        assert f"crds/{old}.yaml:" in line
        assert "storedVersions" in line
        for plural in ("goods", "mores"):
            await project.until_applied(plural)
            assert "CRD" not in await project.until_ready(plural)
        message = await project.until_ready("olds")
        assert "its CRD is not applied" in message
        assert "storedVersions" in message
        url = await address(command)
        assert f"CRD not applied: {old} (" in await text_at(f"{url}/readyz")
        metrics = await text_at(f"{url}/metrics")
        applied = {name: f'ssa_operator_crd_applied{{crd="{project.name(name)}"}}' for name in ("olds", "goods")}
        assert f"{applied['olds']} 0.0" in metrics
        assert f"{applied['goods']} 1.0" in metrics

        await project.end_cause()
        await command.says(f"the CRD {old} is applied")
        async with desk.elsewhere(desk.namespace) as fresh:  # it discovers the new version
            await fresh.apply(project.parent("olds") | {"apiVersion": f"{project.group}/v2"})
            assert "CRD" not in ready_condition(await fresh.ready(old, "web"))["message"]
        assert "CRD not applied" not in await text_at(f"{url}/readyz")
        assert f"{applied['olds']} 1.0" in await text_at(f"{url}/metrics")
        await ends_in_order(command)


@pytest.mark.exhaustive
async def test_a_refused_crd_whose_file_is_removed_is_no_longer_reported(project: Project) -> None:
    desk, broken = project.desk, project.name("brokens")
    file = project.folder / "crds" / f"{broken}.yaml"
    file.write_text("a: [")
    more = ("--install-crds", f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}")
    async with started(*project.arguments(*more)) as command:
        await command.says(f"the CRD {broken} is not applied")
        file.unlink()
        await command.says(f"the CRD {broken} is no longer in a file")
        url = await address(command)
        await until_answer(f"{url}/metrics", f'"{project.name("goods")}"', without=broken)
        assert broken not in await text_at(f"{url}/readyz")


@pytest.mark.slow
async def test_with_leader_election_a_refused_crd_ends_neither_the_leader_nor_the_replica_that_takes_over(
    project: Project,
) -> None:
    desk, old = project.desk, project.name("olds")
    more = ("--install-crds", "--leader-elect", *TIMING, f"--namespace={desk.namespace}")
    arguments = project.arguments(*more, f"--kubeconfig={desk.kubeconfig}")
    refused, metric = f"CRD not applied: {old} (", f'ssa_operator_crd_applied{{crd="{old}"}}'
    async with started(*arguments, POD_NAMESPACE=desk.namespace) as first:
        await first.says(f"the CRD {old} is not applied, and is tried again: ")
        await project.until_applied("goods")
        await project.until_ready("goods")
        assert refused in await text_at(f"{await address(first)}/readyz")
        async with started(*arguments, POD_NAMESPACE=desk.namespace) as second:
            await second.says("this replica is a standby")
            url = await address(second)
            assert metric not in await text_at(f"{url}/metrics")
            assert "its CRD is not applied" in await project.until_ready("olds")
            await ends_in_order(first)
            await second.says(f"the CRD {old} is not applied, and is tried again: ")
            await until_answer(f"{url}/readyz", refused)
            await until_answer(f"{url}/metrics", f"{metric} 0.0")
            await project.until_applied("mores")
            await project.until_ready("mores")
            await project.end_cause()
            await second.says(f"the CRD {old} is applied")
            await until_answer(f"{url}/readyz", "ok", without="CRD not applied")
            await ends_in_order(second)


@pytest.mark.exhaustive
async def test_without_permissions_on_crds_the_folders_run_with_those_that_the_cluster_has(
    project: Project, tmp_path: Path
) -> None:
    desk = project.desk
    user = f"limited-{desk.namespace}"
    await desk.define(project.crd("goods"))
    await desk.apply(*allowed(user, EVERYTHING, "everything"))
    kubeconfig = limited(desk.kubeconfig, tmp_path, user)
    more = ("--install-crds", f"--namespace={desk.namespace}", f"--kubeconfig={kubeconfig}")
    async with started(*project.arguments(*more)) as command:
        for plural in ("goods", "olds", "mores"):
            line = await command.says(f"the CRD {project.name(plural)} is not applied, and is tried again: ")
            assert "forbidden" in line
        for plural in ("goods", "olds"):
            assert "its CRD is not applied" in await project.until_ready(plural)
        await command.says(f"{project.name('mores')}: waits: ")
        # An administrator applies the CRD, and grants the permission.
        await desk.define(project.crd("mores"))
        await project.until_ready("mores")
        await desk.apply(*allowed_everywhere(user, EVERYTHING))
        await command.says(f"the CRD {project.name('goods')} is applied")
        await desk.until(f"goods.{project.group}", "web", lambda body: "CRD" not in ready_condition(body)["message"])
        await ends_in_order(command)
    await desk.delete("clusterrole", user, wait=False)
    await desk.delete("clusterrolebinding", user, wait=False)


def examples(project: Project, *plurals: str) -> str:
    """The argument with a folder of one parent a folder."""
    folder = project.folder / "examples"
    folder.mkdir()
    for plural in plurals:
        parent = {**project.parent(plural), "metadata": {"name": plural.removesuffix("s")}}
        (folder / f"{plural}.yaml").write_text(yaml.safe_dump(parent))
    return f"--examples={folder}"


@pytest.mark.exhaustive
async def test_dev_runs_the_other_folders_and_applies_a_refused_crd_once_its_file_is_right(
    project: Project,
) -> None:
    save(project.folder / "crds", project.crd("olds", scope="Nowhere"))
    more = ("--name=refused", examples(project, "goods", "mores", "olds"))
    arguments = project.arguments(*more, command="dev")
    old = project.name("olds")
    async with started(*arguments, SSA_OPERATOR_STATE_DIR=str(project.folder / "state")) as command:
        await command.says(f"the CRD {old} is not applied, and is tried again: ")
        for plural in ("good", "more"):
            await command.says(f"default/{plural}: Ready=True")
        save(project.folder / "crds", project.crd("olds"))
        await command.says(f"the CRD {old} is applied")
        await command.says(f"{old}: starts with {project.group}/v1")
        await ends_in_order(command)
