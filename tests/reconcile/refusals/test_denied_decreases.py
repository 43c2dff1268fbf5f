"""Policies and webhooks that deny the way back of a value that others moved."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.json_codec import encode
from tests.operator.admission_policies import validating
from tests.operator.admission_webhook import ALLOWED, denied, webhook
from tests.operator.harness import PATIENCE, Desk, Operate, entries, not_ready_because
from tests.reconcile.recreate.test_recreate import box, deployment, manifest
from tests.reconcile.refusals.test_refusals import BOXES, SHAPES, again, boxes, says, shape, shown

__all__ = ["boxes"]

pytestmark = pytest.mark.cluster

Body = dict[str, Any]

UPDATES = ["UPDATE"]


def history(limit: int, **labels: str) -> Body:
    made = deployment(replicas=0, revisionHistoryLimit=limit)
    made["metadata"]["labels"] = labels
    return made


def quota(memory: str, **labels: str) -> Body:
    made = manifest("v1", "ResourceQuota", spec={"hard": {"limits.memory": memory, "pods": "9"}})
    made["metadata"]["labels"] = labels
    return made


def budget(unavailable: str, **labels: str) -> Body:
    selector = {"matchLabels": {"a": "b"}}
    made = manifest("policy/v1", "PodDisruptionBudget", spec={"maxUnavailable": unavailable, "selector": selector})
    made["metadata"]["labels"] = labels
    return made


HISTORY = "revisionHistoryLimit"
GROWS = f"object.spec.{HISTORY} >= oldObject.spec.{HISTORY}"
MEMORY = "spec.hard['limits.memory']"
PERCENT = "int(%s.spec.maxUnavailable.replace('%%', ''))"


class Case(NamedTuple):
    """A value that a policy lets move one way only."""

    make: Callable[..., Body]
    resource: str
    rule: str
    field: str
    wrong: Any
    """A value that the policy denies."""
    template: Any
    moved: Any
    further: Any
    words: str


CASES = {
    "number": Case(
        history, "deployments.apps", GROWS, f"spec.{HISTORY}", 1, 3, 8, 9, "8, larger than the template's 3, stays"
    ),
    "quantity": Case(
        quota,
        "resourcequotas",
        f"quantity(object.{MEMORY}).compareTo(quantity(oldObject.{MEMORY})) >= 0",
        "spec.hard[limits.memory]",
        "1Mi",
        "1Gi",
        "3Gi",
        "4Gi",
        "3Gi, larger than the template's 1Gi, stays",
    ),
    "percentage": Case(
        budget,
        "poddisruptionbudgets.policy",
        f"{PERCENT % 'object'} <= {PERCENT % 'oldObject'}",
        "spec.maxUnavailable",
        "60%",
        "50%",
        "20%",
        "10%",
        "20%, smaller than the template's 50%, stays",
    ),
}


def spec_of(body: Body) -> Body:
    """What a merge patch changes in the spec."""
    found: Body = body["spec"]
    return {key: found[key] for key in (HISTORY, "hard", "maxUnavailable") if key in found}


@pytest.mark.more_cases
@pytest.mark.parametrize("name", CASES)
async def test_a_value_whose_way_back_a_policy_denies_stays_and_the_rest_is_applied(
    desk: Desk, operate: Operate, boxes: Path, name: str
) -> None:
    case = CASES[name]
    kind, _, group = case.resource.partition(".")
    async with operate():
        await desk.apply_until_ready(box(case.make(case.template)))
        probe = {"spec": spec_of(case.make(case.wrong))}
        async with validating(desk, group, kind, case.rule, "'it goes one way'", operations=UPDATES, probe=probe):
            await desk.patch(case.resource, "web", spec=spec_of(case.make(case.moved)))
            parent = await desk.until(BOXES, "box", says(case.field, case.words, "it goes one way"))
            assert any(case.words in entry["message"] for entry in entries(parent).values())
            await desk.apply(box(case.make(case.template, team="a")))
            new = await desk.until(case.resource, "web", lambda body: body["metadata"]["labels"].get("team") == "a")
            await desk.until(BOXES, "box", says(case.words))
            assert spec_of(new) == spec_of(case.make(case.moved))
            assert case.words in await shown(desk, boxes, "diff", "box/box", code=0)
            assert case.words in await shown(desk, boxes, "plan", code=0)
            await desk.apply(box(case.make(case.further, team="a")))
            await desk.until(BOXES, "box", lambda body: "stays" not in str(body["status"]))
            await desk.ready(BOXES, "box")
            assert spec_of(await desk.read(case.resource, "web")) == spec_of(case.make(case.further))


@pytest.mark.exhaustive
async def test_without_the_policy_the_next_resync_restores_the_templates_value(
    desk: Desk, operate: Operate, boxes: Path
) -> None:
    async with operate():
        await desk.apply_until_ready(box(history(3)))
        probe = {"spec": {HISTORY: 1}}
        async with validating(desk, "apps", "deployments", GROWS, "'no'", operations=UPDATES, probe=probe):
            await desk.patch("deployments.apps", "web", spec={HISTORY: 8})
            await desk.until(BOXES, "box", says("8, larger than the template's 3, stays"))
        await until_allowed(desk, {"spec": {HISTORY: 1}})
        await again(desk)
        await desk.until("deployments.apps", "web", lambda body: body["spec"][HISTORY] == 3)
        await desk.until(BOXES, "box", lambda body: "stays" not in str(body["status"]))
        await desk.ready(BOXES, "box")


async def until_allowed(desk: Desk, probe: Body) -> None:
    """Return once no policy denies a merge patch of the Deployment."""
    resource = await desk.mapper.resource_by_name("deployments.apps")
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(ApiError):
                await desk.client.send(calls.merge_patch(resource, desk.namespace, "web", encode(probe), dry_run=True))
                return
            await asyncio.sleep(0.1)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("rule", "label"),
    [(f"object.spec.{HISTORY} >= 4", ""), ("object.metadata.?labels.team != optional.of('a')", "a")],
    ids=["limit", "label"],
)
async def test_a_denial_of_anything_else_is_not_hidden_by_a_value_that_others_moved(
    desk: Desk, operate: Operate, boxes: Path, rule: str, label: str
) -> None:
    probe = {"spec": {HISTORY: 2}, "metadata": {"labels": {"team": "a"}}}
    async with operate() as running:
        await desk.apply_until_ready(box(history(6)))
        async with validating(desk, "apps", "deployments", rule, "'not so'", operations=UPDATES, probe=probe):
            await desk.apply(box(history(3, **({"team": label} if label else {}))))
            await desk.until(BOXES, "box", not_ready_because("ApplyFailed", "not so"))
            await desk.patch("deployments.apps", "web", spec={HISTORY: 8})
            running.forget()
            await again(desk)
            await running.reconciled(2)
            found = await desk.until(BOXES, "box", not_ready_because("ApplyFailed", "not so"))
            assert "stays" not in str(found["status"])
            assert (await desk.read("deployments.apps", "web"))["spec"][HISTORY] == 8


async def test_a_decrease_of_the_templates_own_value_stays_denied(desk: Desk, operate: Operate, boxes: Path) -> None:
    async with operate():
        await desk.apply_until_ready(box(history(6)))
        probe = {"spec": {HISTORY: 1}}
        async with validating(desk, "apps", "deployments", GROWS, "'not so'", operations=UPDATES, probe=probe):
            await desk.apply(box(history(3)))
            await desk.until(BOXES, "box", not_ready_because("ApplyFailed", "not so"))


@pytest.mark.exhaustive
@pytest.mark.parametrize("code", [403, 400, 409])
async def test_a_value_whose_way_back_a_webhook_denies_stays(
    desk: Desk, operate: Operate, boxes: Path, tmp_path: Path, code: int
) -> None:
    def answer(request: Body) -> Body:
        old = (request.get("oldObject") or {}).get("spec", {}).get("plain", 0)
        return denied("it goes one way", code) if request["object"]["spec"].get("plain", 0) < old else ALLOWED

    async with operate():
        await desk.apply_until_ready(box(shape(plain=3, label="a")))
        async with webhook(desk, tmp_path, [SHAPES], answer, "Validating"):
            await desk.patch(SHAPES, "web", spec={"plain": 8})
            await desk.until(BOXES, "box", says("spec.plain: 8, larger than the template's 3, stays", "one way"))
            await desk.apply(box(shape(plain=3, label="b")))
            new = await desk.until(SHAPES, "web", lambda body: body["spec"]["label"] == "b")
            assert new["spec"]["plain"] == 8
