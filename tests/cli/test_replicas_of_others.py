"""What `diff`, `plan` and `blame` show of a number of replicas that a template leaves to others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.operator.operator_options import Options
from tests.cli.process import run
from tests.operator.harness import ECHOES, Desk, echo, operating, other_than

pytestmark = pytest.mark.cluster

NOTE = "spec.replicas is no longer rendered and stays 3: it is handed to handover-from-ssa-operator (Update), until "


async def command(desk: Desk, templates: Path, *arguments: str) -> tuple[int, str]:
    where = (f"--templates={templates}", f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}")
    code, out, err = await run(*arguments, *where)
    assert err == ""
    return code, out


async def roll_out(desk: Desk, client: Client, templates: Path, parent: dict[str, Any]) -> None:
    async with operating(client, Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)):
        await desk.apply_until_ready(parent)


def edit(templates: Path, old: str, new: str) -> None:
    path = templates / ECHOES / "deployment.yaml.j2"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def of_deployment(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return next(each for each in objects if each["kind"] == "Deployment")


def changed_lines(out: str) -> list[str]:
    """The lines of a diff that remove or add a number of replicas."""
    return [line for line in out.splitlines() if line.strip()[:1] in ("-", "+") and "replicas" in line]


async def test_a_number_that_a_template_stops_writing_is_shown_to_stay_with_another_owner(
    desk: Desk, client: Client, templates: Path, tmp_path: Path
) -> None:
    await roll_out(desk, client, templates, echo("web", 3))
    edit(templates, "  replicas: {{ spec.replicas }}\n", "")
    before = await desk.read("deployments.apps", "web")

    code, out = await command(desk, templates, "diff", "echo/web")
    assert (code, NOTE in out, changed_lines(out)) == (1, True, [])
    _, out = await command(desk, templates, "diff", "echo/web", "--output=json")
    (left,) = of_deployment(json.loads(out)["parents"][0]["objects"])["left"]
    assert (left["field"], left["value"], left["handedOver"]) == ("spec.replicas", 3, True)
    _, out = await command(desk, templates, "plan")
    assert NOTE in out
    file = tmp_path / "snapshot.json"
    await command(desk, templates, "plan", f"--save={file}")
    ended, out, _ = await run("plan", f"--against={file}", f"--templates={templates}", KUBECONFIG="nowhere")
    assert (ended, NOTE in out, "spec.replicas: 3 ->" in out) == (0, True, False)
    assert await desk.read("deployments.apps", "web") == before

    await roll_out(desk, client, templates, echo("web", 4))
    assert (await desk.read("deployments.apps", "web"))["spec"]["replicas"] == 3
    assert await command(desk, templates, "diff", "echo/web") == (0, "")
    code, out = await command(desk, templates, "blame", "echo/web", "deployment/web")
    line = next(each for each in out.splitlines() if "replicas: 3" in each)
    assert "handover-from-ssa-operator" in line
    assert "stays until another manager writes it" in line


async def test_the_diff_of_a_recreation_has_the_number_that_others_set(
    desk: Desk, client: Client, templates: Path
) -> None:
    edit(templates, "  replicas: {{ spec.replicas }}\n", "")
    edit(templates, "metadata:\n  name", "metadata:\n  annotations: {ssa-operator.dev/recreate: Background}\n  name")
    await roll_out(desk, client, templates, echo("web"))
    await desk.scale("deployment", "web", 5)
    await desk.until("deployments.apps", "web", lambda body: body["spec"]["replicas"] == 5)
    edit(templates, "app.kubernetes.io/name: echo", "app.kubernetes.io/name: other")
    _, out = await command(desk, templates, "diff", "echo/web")
    assert f"recreate Deployment {desk.namespace}/web" in out
    assert changed_lines(out) == []
    old = await desk.read("deployments.apps", "web")
    await roll_out(desk, client, templates, echo("web", 2))
    new = await desk.until("deployments.apps", "web", other_than(old))
    assert new["spec"]["replicas"] == 5
