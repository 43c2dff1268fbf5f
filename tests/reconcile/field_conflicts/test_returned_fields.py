"""Fields that a template stops writing, and that the API server has by another name too."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.api import request as calls
from ssa_operator.objects.json_codec import encode
from tests.operator.admission_webhook import ALLOWED, denied, webhook
from tests.operator.harness import Desk, Operate, definition, uid, version
from tests.reconcile.recreate.test_recreate import box, deployment, job, manifest, stateful_set
from tests.reconcile.refusals.test_refusals import BOXES, GROUP, TEMPLATE, again, says, shown

pytestmark = pytest.mark.cluster

Body = dict[str, Any]


@pytest.fixture
async def boxes(desk: Desk, templates: Path) -> Path:
    """The templates of Boxes, whose CRD is installed."""
    (templates / BOXES).mkdir()
    (templates / BOXES / "any.yaml.j2").write_text(TEMPLATE)
    await desk.define(definition("boxes", GROUP, "Box"))
    return templates


def of_account(made: Body, **fields: Any) -> Body:
    """A workload whose pods have a service account, or none."""
    template = (
        made["spec"]["template"] if "template" in made["spec"] else made["spec"]["jobTemplate"]["spec"]["template"]
    )
    template["spec"].update(fields)
    return made


def cron_job() -> Body:
    return manifest("batch/v1", "CronJob", spec={"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job()["spec"]}})


@pytest.mark.more_cases
@pytest.mark.parametrize(
    "make",
    [lambda: deployment(replicas=0), lambda: stateful_set(replicas=0), cron_job],
    ids=["Deployment", "StatefulSet", "CronJob"],
)
async def test_a_field_that_would_come_back_by_its_other_name_goes_with_the_templates_line(
    desk: Desk, operate: Operate, boxes: Path, make: Callable[[], Body]
) -> None:
    """The API server writes `serviceAccountName` as `serviceAccount` too, which nobody owns, and reads one where the
    other is missing (kubernetes/kubernetes#108208).
    """
    before, after = of_account(make(), serviceAccountName="powerful"), make()
    after["metadata"]["labels"] = {"team": "a"}
    resource = f"{before['kind'].lower()}s.{before['apiVersion'].partition('/')[0]}"
    async with operate():
        await desk.apply_until_ready(box(before))
    old = await desk.read(resource, "web")
    await desk.apply(box(after))
    diff = await shown(desk, boxes, "diff", "box/box", code=1)
    assert "serviceAccountName" in diff
    assert "fail" not in diff
    assert version(await desk.read(resource, "web")) == version(old)
    async with operate():
        await desk.ready(BOXES, "box")
        new = await desk.read(resource, "web")
        assert new["metadata"]["labels"]["team"] == "a"
        assert (uid(new), "powerful" in json.dumps(new["spec"])) == (uid(old), False)
        # One change of the object for its controller, and none later.
        assert new["metadata"]["generation"] == old["metadata"]["generation"] + 1
        await again(desk)
        await desk.ready(BOXES, "box")
        assert version(await desk.read(resource, "web")) == version(new)


@pytest.mark.exhaustive
async def test_a_field_of_a_former_manager_goes_at_the_adoption_though_it_has_another_name(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    await desk.kubectl_apply(of_account(deployment(replicas=0), serviceAccountName="powerful"))
    async with operate():
        await desk.apply_until_ready(box(deployment(replicas=0)))
        assert "powerful" not in json.dumps((await desk.read("deployments.apps", "web"))["spec"])


async def test_what_another_manager_writes_by_the_other_name_stays(desk: Desk, operate: Operate, boxes: Path) -> None:
    async with operate():
        await desk.apply_until_ready(box(of_account(deployment(replicas=0), serviceAccountName="powerful")))
        other = of_account(deployment(replicas=0), serviceAccount="powerful")
        resource = await desk.mapper.resource_by_name("deployments.apps")
        options = calls.ApplyOptions(manager="someone")
        await desk.client.apply(resource, desk.namespace, "web", encode(other), options)
        await desk.apply_until_ready(box(deployment(replicas=0)))
        found = await desk.read("deployments.apps", "web")
        assert found["spec"]["template"]["spec"]["serviceAccount"] == "powerful"


async def test_a_field_whose_default_is_what_the_template_wrote_costs_no_second_change(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    async with operate():
        await desk.apply_until_ready(box(deployment(replicas=0, minReadySeconds=7, revisionHistoryLimit=10)))
        old = await desk.read("deployments.apps", "web")
        await desk.apply_until_ready(box(deployment(replicas=0)))
        new = await desk.read("deployments.apps", "web")
        assert new["spec"]["revisionHistoryLimit"] == 10
        assert new["metadata"]["generation"] == old["metadata"]["generation"] + 1


async def test_rules_of_another_type_are_in_force_in_a_network_policy_that_names_no_types(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    def policy(**rules: Any) -> Body:
        return manifest("networking.k8s.io/v1", "NetworkPolicy", spec={"podSelector": {}, **rules})

    async with operate():
        await desk.apply_until_ready(box(policy(ingress=[{}])))
        await desk.apply_until_ready(box(policy(egress=[{}])))
        found = await desk.read("networkpolicies.networking.k8s.io", "web")
        assert found["spec"]["policyTypes"] == ["Ingress", "Egress"]
        await desk.apply_until_ready(box(policy(ingress=[{}])))
        found = await desk.read("networkpolicies.networking.k8s.io", "web")
        assert found["spec"]["policyTypes"] == ["Ingress"]


async def test_a_denied_dry_run_that_decides_what_stays_is_named(
    desk: Desk, operate: Operate, boxes: Path, tmp_path: Path
) -> None:
    def answer(request: Body) -> Body:
        return denied("names are registered") if request["operation"] == "CREATE" else ALLOWED

    async with operate():
        await desk.apply_until_ready(box(of_account(deployment(replicas=0), serviceAccountName="powerful")))
        async with webhook(desk, tmp_path, ["deployments.apps"], answer, "Validating"):
            await desk.apply(box(deployment(replicas=0)))
            stays = "serviceAccountName is no longer in the template, and stays"
            await desk.until(BOXES, "box", says(stays, "names are registered"))
