"""The commands of docs/upgrading.md, and those to uninstall of docs/install.md: each way ends as the page says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ssa_operator.devcluster import components
from ssa_operator.devcluster.cluster import Cluster, ClusterSpec, start
from tests.operator.fixtures import client, desk, operate, options, templates
from tests.operator.harness import ECHOES, ROLE, ROLES, ROOT, Desk, Operate, echo, uid

__all__ = ["client", "desk", "operate", "options", "templates"]

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PAGE = (ROOT / "docs" / "install.md").read_text()
UPGRADING = (ROOT / "docs" / "upgrading.md").read_text()
CLEANUP = "ssa-operator.dev/cleanup"
CRDS = "customresourcedefinitions.apiextensions.k8s.io"
RELEASE = "kubectl replace"
LIMIT = 120
"""Seconds after which a command of the page that has not ended hangs."""
HOOK = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-bye
  annotations:
    ssa-operator.dev/on: finalize
    ssa-operator.dev/prune: "false"
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane of this module's own: the commands are for the parents of all namespaces."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSA_OPERATOR_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        patch.setattr(components, "AUDIT_POLICY", ROOT / "tests" / "devcluster" / "audit-policy.yaml")
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            running = runner.run(start(ClusterSpec(name="lifecycle", audit=True)))
            try:
                yield running
            finally:
                runner.run(running.stop())


@pytest.fixture
def wide(templates: Path) -> Path:
    """The Echo templates with a cluster-scoped child and a finalize hook."""
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    (templates / ECHOES / "role.yaml.j2").write_text(ROLE)
    (templates / ECHOES / "bye.yaml.j2").write_text(HOOK)
    return templates


def commands(heading: str) -> list[str]:
    """The commands below a heading."""
    (section,) = re.findall(rf"^##+ {heading}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall(r"^```sh\n(.*?)\n```$", section, re.MULTILINE | re.DOTALL)


async def type_in(desk: Desk, command: str, *, may_fail: bool = False) -> str:
    """Run a command of the page in a shell; its output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    process = await asyncio.create_subprocess_exec(
        *("bash", "-o", "pipefail", "-c", command),
        cwd=ROOT,
        env={**os.environ, "PATH": path, "KUBECONFIG": str(desk.kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(LIMIT):
        output, _ = await process.communicate()
    assert may_fail or process.returncode == 0, output.decode()
    return output.decode()


async def release(desk: Desk) -> None:
    """Remove the finalizers as the page says: again while kubectl reports a conflict."""
    (command,) = [each for each in commands("The operator is gone") if RELEASE in each]
    async with asyncio.timeout(LIMIT):
        while "object has been modified" in await type_in(desk, command, may_fail=True):
            pass


@contextlib.asynccontextmanager
async def installed(desk: Desk) -> AsyncIterator[None]:
    """`deploy/base` in the cluster. The operator itself runs in this process."""
    await type_in(desk, "kubectl apply -k deploy/base")
    try:
        yield
    finally:
        await type_in(desk, "kubectl delete -k deploy/base --ignore-not-found")


async def test_a_plan_of_unchanged_templates_shows_no_change_and_applied_crds_keep_their_objects(
    desk: Desk, operate: Operate
) -> None:
    plan, apply_crds = re.findall(r"^ *```sh\n +?(\S.*?)\n *```$|^```sh\n(.*?)\n```$", UPGRADING, re.MULTILINE)
    async with operate():
        before = await desk.apply_until_ready(echo("web"))
    await type_in(desk, apply_crds[1])
    found = json.loads(await type_in(desk, f"{plan[0]} --namespace {desk.namespace} --output json"))
    assert {name: found[name] for name in ("created", "changed", "recreated", "pruned")} == dict.fromkeys(
        ("created", "changed", "recreated", "pruned"), 0
    )
    assert uid(await desk.read(ECHOES, "web")) == uid(before)
    await desk.kubectl("delete", "echo", "web")


@pytest.mark.exhaustive
async def test_everything_goes_while_the_operator_runs(desk: Desk, operate: Operate, wide: Path) -> None:
    delete_parents, await_children, delete_crds, delete_operator = commands("Everything")
    async with installed(desk):
        async with operate(templates=wide):
            await desk.apply_until_ready(echo("web"))
            assert CLEANUP in await type_in(desk, *commands("Uninstall"))
            await type_in(desk, delete_parents)
            assert await desk.find(ROLES, f"{desk.namespace}-web") is None
            assert await desk.find("configmaps", "web-bye") is not None
            # The garbage collector knows a new CRD within 30 s only.
            await type_in(desk, await_children)
            assert await desk.find("deployments.apps", "web") is None
            await type_in(desk, delete_crds)
        await type_in(desk, delete_operator)
    assert await desk.find(CRDS, ECHOES) is None


@pytest.mark.exhaustive
async def test_parents_and_children_stay_without_the_operator(desk: Desk, operate: Operate, wide: Path) -> None:
    (delete_operator,) = commands("Keep parents and children")
    async with installed(desk):
        async with operate(templates=wide):
            before = await desk.apply_until_ready(echo("web"))
            child = await desk.read("deployments.apps", "web")
        await type_in(desk, delete_operator)
    assert uid(await desk.read(ECHOES, "web")) == uid(before)
    async with operate(templates=wide) as running:
        await running.reconciled(1)
        assert uid(await desk.read("deployments.apps", "web")) == uid(child)
        await desk.kubectl("delete", "echo", "web")


async def test_children_stay_and_parents_go(desk: Desk, operate: Operate, wide: Path) -> None:
    delete_parents, delete_operator, delete_crds = commands("Keep children, delete parents")
    async with installed(desk):
        async with operate(templates=wide):
            await desk.apply_until_ready(echo("web"))
            child = await desk.read("deployments.apps", "web")
            role = await desk.read(ROLES, f"{desk.namespace}-web")
            await type_in(desk, delete_parents)
            await desk.gone(ECHOES, "web")
        await type_in(desk, delete_operator)
    await type_in(desk, delete_crds)
    found = await desk.until("deployments.apps", "web", lambda body: "ownerReferences" not in body["metadata"])
    assert uid(found) == uid(child)
    assert "deletionTimestamp" not in found["metadata"]
    assert uid(await desk.read(ROLES, f"{desk.namespace}-web")) == uid(role)
    assert await desk.find("configmaps", "web-bye") is None


async def test_what_hangs_because_the_operator_is_gone_is_released(desk: Desk, operate: Operate, wide: Path) -> None:
    role = f"{desk.namespace}-web"
    async with operate(templates=wide):
        await desk.apply_until_ready(echo("web"))
        await desk.patch("echo", "web", metadata={"finalizers": [CLEANUP, "example.com/other"]})
    await desk.kubectl("delete", "namespace", desk.namespace, "--wait=false")
    await desk.kubectl("delete", "crd", ECHOES, "--wait=false")
    await desk.until(ECHOES, "web", lambda body: "deletionTimestamp" in body["metadata"])
    await release(desk)
    parent = await desk.until(ECHOES, "web", lambda body: CLEANUP not in body["metadata"]["finalizers"])
    assert parent["metadata"]["finalizers"] == ["example.com/other"]
    await desk.release("echo", "web")
    await desk.gone(CRDS, ECHOES)
    await desk.gone("namespaces", desk.namespace)
    _, list_rest = commands("The operator is gone")
    assert role in await type_in(desk, list_rest)


async def test_an_operator_that_is_installed_again_goes_on_with_the_deletion(
    desk: Desk, operate: Operate, wide: Path
) -> None:
    async with operate(templates=wide):
        await desk.apply_until_ready(echo("web"))
    await desk.kubectl("delete", "echo", "web", "--wait=false")
    async with operate(templates=wide):
        await desk.gone(ECHOES, "web")
    assert await desk.find("configmaps", "web-bye") is not None
    assert await desk.find(ROLES, f"{desk.namespace}-web") is None


async def test_a_dry_run_of_the_release_changes_nothing(desk: Desk, operate: Operate, wide: Path) -> None:
    async with operate(templates=wide):
        before = await desk.apply_until_ready(echo("web"))
    (command,) = [each for each in commands("The operator is gone") if RELEASE in each]
    await type_in(desk, f"{command} --dry-run=server")
    assert (await desk.read(ECHOES, "web"))["metadata"]["finalizers"] == before["metadata"]["finalizers"]
    async with operate(templates=wide):
        await desk.kubectl("delete", "echo", "web")
