"""Children whose CRD has versions of different shapes, which a webhook converts. The manifests are in the version that
the API server neither prefers nor stores.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.objects.identity import GroupKind
from ssa_operator.operator.operator_options import Options
from tests.cli.process import run
from tests.operator.conversion_webhook import ConversionWebhook, conversion_webhook
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
    operating,
    ready_condition,
)

pytestmark = pytest.mark.cluster

METER = """\
apiVersion: {group}/v1
kind: Meter
metadata:
  name: {{{{ name }}}}
spec:
  size: "{{{{ spec.replicas }}}} bytes"
"""


@pytest.fixture
async def webhook(desk: Desk, group: str, tmp_path: Path) -> AsyncIterator[ConversionWebhook]:
    async with conversion_webhook(group, tmp_path) as webhook:
        await desk.define(webhook.crd)
        yield webhook
        await webhook.stop()
        # Without a webhook nothing could delete the objects, and while they are stored, no namespace of the cluster.
        await webhook.start()
        await desk.delete("crd", f"meters.{group}")


async def write_ready(desk: Desk, group: str, name: str, ready: str) -> None:
    """Write the status of a Meter, as its controller does, in v2."""
    resource = await desk.mapper.resource(GroupKind(group, "Meter"), "v2")
    await desk.update_as("controller", resource, name, {"status": {"ready": ready}}, "status")


async def command(desk: Desk, templates: Path, *arguments: str) -> tuple[int, str, str]:
    return await run(
        *arguments, f"--templates={templates}", f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}"
    )


async def test_a_converted_child_stays_calm_and_is_shown_in_its_version(
    desk: Desk, operate: Operate, templates: Path, webhook: ConversionWebhook
) -> None:
    read = map_template("read", size="child('Meter', name).spec.size")
    only(templates, meter=METER.format(group=webhook.group), read=read)
    async with operate() as running:
        await desk.apply(echo("web", 3))
        await desk.until(f"meters.{webhook.group}", "web", lambda body: body["spec"] == {"count": 3, "unit": "bytes"})
        for ready in ["False", "Unknown"] * 4:
            running.forget()
            await write_ready(desk, webhook.group, "web", ready)
            await running.reconciled(1)
            assert not any(report.verdict.stalled for report in running.reports)
        await write_ready(desk, webhook.group, "web", "True")
        await desk.ready(ECHOES, "web")
        assert holds(size="3 bytes")(await desk.read("configmaps", "web-read"))
        assert ready_condition(await desk.read(ECHOES, "web"))["reason"] == "Ready"
        assert await command(desk, templates, "diff", "echo/web") == (0, "", "")
        code, out, err = await command(desk, templates, "plan")
        assert (code, err) == (0, "")
        assert "changed" not in out.replace("unchanged", ""), out


async def test_without_its_webhook_one_parent_says_so_and_others_go_on(
    desk: Desk, operate: Operate, templates: Path, webhook: ConversionWebhook
) -> None:
    meter = "{% if spec.replicas > 1 %}\n" + METER.format(group=webhook.group) + "{% endif %}\n"
    only(templates, meter=meter, map=map_template("map", x="spec.replicas"))
    async with operate():
        await desk.apply(echo("web", 2), echo("other", 0))
        await desk.until(f"meters.{webhook.group}", "web", lambda body: body["spec"]["count"] == 2)
        await write_ready(desk, webhook.group, "web", "True")
        await desk.ready(ECHOES, "web")
        await webhook.stop()
        await desk.apply(echo("web", 3), echo("other", 1))
        await desk.until("configmaps", "other-map", holds(x="1"))
        await desk.ready(ECHOES, "other")
        await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", "conversion webhook", "Meter"))
        await desk.until("configmaps", "web-map", holds(x="3"))
        await webhook.start()
        await desk.until(f"meters.{webhook.group}", "web", lambda body: body["spec"]["count"] == 3)
        await desk.ready(ECHOES, "web")


@pytest.mark.exhaustive
async def test_tree_and_status_show_a_child_that_no_status_lists_in_the_version_of_its_manifest(
    desk: Desk, client: Client, templates: Path, webhook: ConversionWebhook
) -> None:
    """v2 has no conditions, by which the child would be ready."""
    group = webhook.group
    crd = definition("sites", group, "Site")
    del crd["spec"]["versions"][0]["subresources"]
    await desk.define(crd)
    folder = templates / f"sites.{group}"
    folder.mkdir()
    (folder / "meter.yaml.j2").write_text(METER.format(group=group))
    site: dict[str, Any] = {"apiVersion": f"{group}/v1", "kind": "Site", "metadata": {"name": "web"}}
    async with operating(client, Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)):
        await desk.apply(site | {"spec": {"replicas": 3}})
        await desk.read(f"meters.{group}", "web")
    await write_ready(desk, group, "web", "False")
    for arguments in (("tree", "site/web"), ("status", "site/web")):
        code, out, err = await command(desk, templates, *arguments, "--output=json")
        assert '"state": "InProgress"' in out, (code, out, err)
    await write_ready(desk, group, "web", "True")
    code, out, err = await command(desk, templates, "status", "site/web", "--output=json")
    assert '"state": "Current"' in out, (code, out, err)
