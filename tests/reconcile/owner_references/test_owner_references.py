"""The owner references of objects that are not applied again name a version of the parent that the cluster serves."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from tests.cli.process import run
from tests.devcluster.waiting import stop_process
from tests.operator.harness import Desk, Operate, definition, map_template, uid, with_versions

pytestmark = pytest.mark.cluster

MAPS = "configmaps"

KEPT = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{{{ name }}}}-{name}
  annotations: {{ssa-operator.dev/apply: {apply}}}
"""

SHARED = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: common
  annotations: {ssa-operator.dev/apply: Shared}
"""


@pytest.mark.more_cases
@pytest.mark.parametrize("served", [{"v1": True, "v2": True}, {"v1": False, "v2": True}], ids=["both", "the new one"])
async def test_kept_objects_name_the_version_in_which_the_operator_reads_the_parent(
    desk: Desk, cluster: Cluster, operate: Operate, templates: Path, group: str, served: dict[str, bool]
) -> None:
    folder = templates / f"outs.{group}"
    folder.mkdir()
    (folder / "plain.yaml.j2").write_text(map_template("plain", x="1"))
    for name, apply in (("once", "Once"), ("absent", "IfNotPresent")):
        (folder / f"{name}.yaml.j2").write_text(KEPT.format(name=name, apply=apply))
    await desk.define(definition("outs", group, "Out"))
    names = ("web-once", "web-absent", "web-plain")
    async with operate(templates=templates):
        await desk.apply({"apiVersion": f"{group}/v1", "kind": "Out", "metadata": {"name": "web"}, "spec": {}})
        before = [await desk.until(MAPS, name, is_owned_in(f"{group}/v1")) for name in names]
        async with _without_garbage_collector(cluster):
            await desk.apply(with_versions(definition("outs", group, "Out"), "v1", **served))
            after = [await desk.until(MAPS, name, is_owned_in(f"{group}/v2")) for name in names]
    assert list(map(uid, after)) == list(map(uid, before))
    assert [body["metadata"]["ownerReferences"][0]["uid"] for body in after] == [
        body["metadata"]["ownerReferences"][0]["uid"] for body in before
    ]


async def test_the_children_of_a_suspended_or_broken_parent_name_a_served_version_and_commands_tell_what_is_left(
    desk: Desk, cluster: Cluster, operate: Operate, templates: Path, group: str, tmp_path: Path
) -> None:
    folder = templates / f"outs.{group}"
    folder.mkdir()
    (folder / "plain.yaml.j2").write_text(map_template("plain", x="1"))
    (folder / "shared.yaml.j2").write_text(SHARED)
    crd = tmp_path / "outs.yaml"
    # Both versions are served, and the operator reads the first one.
    both = with_versions(definition("outs", group, "Out"), "v1", v1=True, v2=True)
    await desk.define(both)
    (folder / "_settings.yaml").write_text("version: v1\n")
    names = ("web-plain", "common")
    owners = [
        {"apiVersion": f"{group}/v1", "kind": "Out", "metadata": {"name": name}, "spec": {}} for name in ("web", "web2")
    ]
    async with operate(templates=templates):
        for body in owners:
            await desk.apply(body)
        for name in (*names, "web2-plain"):
            await desk.until(MAPS, name, is_owned_in(f"{group}/v1"))
        await desk.until(MAPS, "common", lambda body: len(body["metadata"]["ownerReferences"]) == 2)
    await desk.patch("out", "web", metadata={"annotations": {"ssa-operator.dev/suspend": "true"}})
    # The templates fail for all of them.
    (folder / "plain.yaml.j2").write_text("{{ fail('broken') }}")
    (folder / "_settings.yaml").write_text("version: v2\n")
    crd.write_text(json.dumps(with_versions(definition("outs", group, "Out"), "v2", v1=False, v2=True)))
    command = ("crds", "apply", "-f", str(crd), f"--kubeconfig={desk.kubeconfig}", "--allow-data-loss")
    async with _without_garbage_collector(cluster):
        code, _, err = await run(*command)
        assert code == 0, err
        for told in ("would outlive their parents", "web-plain (v1)", "web2-plain (v1)", "common (v1)"):
            assert told in err
        async with operate(templates=templates):
            for name in (*names, "web2-plain"):
                await desk.until(MAPS, name, is_owned_in(f"{group}/v2"))
    code, _, err = await run("crds", "migrate", f"outs.{group}", f"--kubeconfig={desk.kubeconfig}")
    assert (code, "outlive" in err) == (0, False), err


def is_owned_in(api_version: str) -> Any:
    return lambda body: {owner["apiVersion"] for owner in body["metadata"]["ownerReferences"]} == {api_version}


@contextlib.asynccontextmanager
async def _without_garbage_collector(cluster: Cluster) -> AsyncIterator[None]:
    """Kubernetes' controllers stand still while a version goes and the operator renews the references to it.

    Until the garbage collector has discovered the change, which takes it up to half a minute, it asks for the owner in
    the version that is gone. It takes the API server's 404 for the end of the owner, and deletes the children that name
    this version. It asks if it looks at an owner or at a child, for example because it did not know the owner's kind
    before. No operator is faster in any case, so no promise is about that.
    """
    pid = cluster.pids["kube-controller-manager"]
    await stop_process(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
