"""CRDs of an operator's folders that the API server refuses, or that can't be read."""

from __future__ import annotations

import asyncio
import copy
import itertools
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.auth import credentials
from ssa_operator.operator import stored_objects
from ssa_operator.operator.crd_installation import CRDInstaller
from ssa_operator.operator.http import Server
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.process.session import install
from ssa_operator.operator.stored_objects import CRDPlan
from ssa_operator.reconcile import long_steps
from tests.cli.process import run
from tests.devcluster.waiting import until
from tests.operator.harness import Desk, MakeOptions, definition, map_template, ready_condition

pytestmark = pytest.mark.cluster


def only_v2(crd: dict[str, Any]) -> dict[str, Any]:
    """A CRD without the version in which objects are stored."""
    changed = copy.deepcopy(crd)
    changed["spec"]["versions"][0]["name"] = "v2"
    return changed


def save(folder: Path, *crds: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    for crd in crds:
        (folder / f"{crd['metadata']['name']}.yaml").write_text(yaml.safe_dump(crd))


async def test_one_refused_crd_stops_one_folder_and_is_applied_once_it_can_be(
    desk: Desk, client: Client, group: str, options: MakeOptions, templates: Path, tmp_path: Path
) -> None:
    good, old = definition("goods", group, "Good"), definition("olds", group, "Old")
    missing, broken = definition("bads", group, "Bad", scope="Nowhere"), f"brokens.{group}"
    await desk.define(old)
    save(tmp_path / "crds", good, only_v2(old), missing)
    (tmp_path / "crds" / f"{broken}.yaml").write_text("a: [")
    for plural in ("goods", "olds", "bads"):
        (templates / f"{plural}.{group}").mkdir()
        (templates / f"{plural}.{group}" / "a.yaml.j2").write_text(map_template(plural, v="1"))
    installer = await install(client, [tmp_path / "crds"])
    assert set(installer.refused) == {f"olds.{group}", f"bads.{group}", broken}
    await desk.define(good)  # until discovery knows it
    operator, stop = Operator(client, RESTMapper(client), options(), crds=installer), asyncio.Event()
    task = asyncio.create_task(operator.run(stop))
    try:
        for kind in ("Good", "Old"):
            await desk.apply({"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "web"}, "spec": {}})
        await desk.ready(f"goods.{group}", "web")
        found = await desk.ready(f"olds.{group}", "web")
        message = ready_condition(found)["message"]
        assert "its CRD is not applied" in message
        assert "storedVersions" in message
        async with Server(operator, "127.0.0.1", 0) as server, aiohttp.ClientSession() as http:
            answer = await http.get(f"http://127.0.0.1:{server.port}/readyz")
            text = await answer.text()
            assert answer.status == 200
        assert [line.split(" (")[0] for line in text.splitlines() if "CRD not applied" in line] == [
            f"CRD not applied: {name}" for name in installer.refused
        ]
        # The user migrates the stored version: the operator need not be told. An object that stays stored in a version
        # that is not served can't be listed, and would hold up the end of every namespace.
        await desk.kubectl("delete", f"olds.{group}", "web")
        both = copy.deepcopy(old)
        both["spec"]["versions"].append(only_v2(old)["spec"]["versions"][0])
        both["spec"]["versions"][0]["storage"] = False
        await desk.apply(both)
        patch = '{"status": {"storedVersions": ["v2"]}}'
        name = old["metadata"]["name"]
        await desk.kubectl("patch", "crd", name, "--subresource=status", "--type=merge", "-p", patch)
        save(tmp_path / "crds", definition("bads", group, "Bad"))
        await until(lambda: set(installer.refused) == {broken}, 90)
        await desk.define(definition("bads", group, "Bad"))
        await desk.apply({"apiVersion": f"{group}/v1", "kind": "Bad", "metadata": {"name": "web"}, "spec": {}})
        await desk.ready(f"bads.{group}", "web")
    finally:
        stop.set()
        await task


async def test_crds_apply_reports_all_refusals_at_once_and_applies_the_others(
    desk: Desk, group: str, tmp_path: Path
) -> None:
    good, old = definition("goods", group, "Good"), definition("olds", group, "Old")
    await desk.define(old)
    save(tmp_path / "crds", good, only_v2(old), definition("bads", group, "Bad", scope="Nowhere"))
    code, out, err = await run("crds", "apply", f"--crds={tmp_path / 'crds'}", f"--kubeconfig={desk.kubeconfig}")
    assert code == 1
    assert f"goods.{group} established" in out
    assert "storedVersions" in err
    assert "Nowhere" in err


async def test_an_applied_crd_that_changes_and_is_refused_stays_refused_until_it_is_applied(
    client: Client, group: str, tmp_path: Path
) -> None:
    good, name = definition("goods", group, "Good"), f"goods.{group}"
    folder = tmp_path / "crds"
    save(folder, good)
    installer = CRDInstaller(client, [folder], keep_data=False)
    await installer.install()
    before = installer.applied[name]
    save(folder, definition("goods", group, "Good", scope="Cluster"))
    for changed in (True, False):
        await installer.install(changed=changed)
        assert "scope" in installer.refused[name]
        assert installer.applied[name] == before
    good["spec"]["versions"][0]["additionalPrinterColumns"] = [{"name": "A", "type": "string", "jsonPath": ".spec.a"}]
    save(folder, good)
    await installer.install()
    assert installer.refused == {}
    assert installer.applied[name] != before


class ReadsCounted(Client):
    """A client that counts the lists of objects."""

    lists = 0

    async def list_scope(self, scope: Scope, *arguments: Any, **named: Any) -> Any:
        self.lists += 1
        return await super().list_scope(scope, *arguments, **named)


def sized(group: str, **limits: Any) -> dict[str, Any]:
    crd = definition("sizes", group, "Size")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = {"type": "object", "properties": {"size": {"type": "integer", **limits}}}
    return crd


async def test_the_stored_objects_are_read_again_when_one_of_those_changes_for_which_a_crd_is_refused(
    desk: Desk, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def size(name: str, number: int) -> dict[str, Any]:
        return {"apiVersion": f"{group}/v1", "kind": "Size", "metadata": {"name": name}, "spec": {"size": number}}

    await desk.define(sized(group))
    await desk.apply(*(size(f"fit{number}", 1) for number in range(5)), size("large", 9), size("huge", 10))
    save(tmp_path / "crds", sized(group, maximum=5))
    monkeypatch.setattr(long_steps, "LONG", 0.0)
    steps: list[str] = []
    plan = stored_objects._plan_object

    def judged(*given: Any) -> CRDPlan:
        steps.append("judged")
        return plan(*given)

    monkeypatch.setattr(stored_objects, "_plan_object", judged)

    async def others() -> None:
        while True:
            steps.append("others")
            await asyncio.sleep(0)

    async with ReadsCounted(await credentials.load(str(desk.kubeconfig), None)) as client:
        task = asyncio.create_task(others())
        installer = await install(client, [tmp_path / "crds"])
        task.cancel()
        # Between two objects, the event loop serves others.
        assert steps.count("judged") == 7
        assert all("others" in each for each in itertools.pairwise(steps))
        for _ in range(3):
            await installer.install()
        assert "2 of 7 stored objects would be refused" in installer.refused[f"sizes.{group}"]
        assert client.lists == 1
        await desk.apply(size("large", 4))
        await installer.install()
        assert "1 of 7 stored objects would be refused" in installer.refused[f"sizes.{group}"]
        save(tmp_path / "crds", sized(group, maximum=9))
        await installer.install()
        assert client.lists == 3
        await desk.delete("size." + group, "huge")
        await installer.install()
        assert installer.refused == {}
        assert client.lists == 4
