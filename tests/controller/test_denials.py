"""Quotas and admission policies, which refuse an object for a while."""

from __future__ import annotations

import pytest

from tests.controller.harness import ECHOES, Desk, MakeOptions, Operate, echo, not_ready_because, only

pytestmark = pytest.mark.cluster

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\n"
SECRET = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ name }}\nstringData: {a: hunter2}\n"


@pytest.mark.parametrize(
    ("template", "resource"), [(MAP, "configmaps"), (SECRET, "secrets")], ids=["ConfigMap", "Secret"]
)
async def test_a_child_that_a_quota_refuses_is_stalled_and_is_created_when_the_quota_is_gone_without_a_resync(
    desk: Desk, operate: Operate, options: MakeOptions, template: str, resource: str
) -> None:
    hard = {f"count/{resource}": "0"}
    await desk.apply(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": hard}}
    )
    await desk.until("resourcequotas", "none", lambda body: body.get("status", {}).get("hard") == hard)
    async with operate(templates=only(options().templates[0], child=template)):
        await desk.apply(echo("web"))
        parent = await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", "exceeded quota: none"))
        assert any(each["type"] == "Stalled" for each in parent["status"]["conditions"])
        await desk.delete("resourcequota", "none")
        await desk.read(resource, "web")
        await desk.ready(ECHOES, "web")
