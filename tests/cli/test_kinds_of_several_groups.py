"""Commands that name an object whose kind two groups serve, each with a template folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.operator.operator_options import Options
from tests.cli.process import run
from tests.operator.harness import Desk, definition, map_template, operating

GROUPS = ("a.example.com", "b.example.org")
FOLDERS = [f"backups.{group}" for group in GROUPS]


@pytest.mark.slow
@pytest.mark.cluster
async def test_every_command_asks_which_object_is_meant(desk: Desk, client: Client, tmp_path: Path) -> None:
    await desk.define(*(definition("backups", group, "Backup") for group in GROUPS))
    templates = tmp_path / "templates"
    for folder, group in zip(FOLDERS, GROUPS, strict=True):
        (templates / folder).mkdir(parents=True)
        (templates / folder / "map.yaml.j2").write_text(map_template(group[0]))
    target = (f"--kubeconfig={desk.kubeconfig}", f"--namespace={desk.namespace}", f"--templates={templates}")
    async with operating(client, Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)):
        for folder, group in zip(FOLDERS, GROUPS, strict=True):
            await desk.apply(
                {"apiVersion": f"{group}/v1", "kind": "Backup", "metadata": {"name": "x"}, "spec": {"n": 1}}
            )
            await desk.ready(folder, "x")
    both = f"ssa-operator: backup is a kind of several groups; write {' or '.join(FOLDERS)} instead\n"
    for command in ("tree", "diff", "blame", "capture", "graph"):
        code, out, err = await run(command, "backup/x", *target)
        assert (command, code, out, err) == (command, 2, "", both)
        code, out, err = await run(command, f"{FOLDERS[1]}/x", *target)
        assert (command, code, err) == (command, 0, "")
    code, out, err = await run("status", "backup/x", *target)
    assert (code, err) == (0, "")
    assert [out.count(f"x-{group[0]}") for group in GROUPS] == [1, 1]
    code, out, err = await run("blame", f"{FOLDERS[0]}/x", "configmap/x-a", *target)
    assert (code, err) == (0, "")
