"""Feedback loops: manifests that change each other or themselves are slowed down and named, and disturb no other."""

from __future__ import annotations

import pytest

from ssa_operator.core.planning.outcome import Outcome
from ssa_operator.core.planning.step import Action
from tests.controller.harness import ECHOES, Desk, Operate, Running, echo, holds, map_template, ready_condition

pytestmark = pytest.mark.cluster


def outcomes(running: Running) -> list[Outcome]:
    return [each for report in running.reports for each in report.outcomes]


VERSIONS = "map(attribute='metadata.resourceVersion') | sort | join('-')"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {
                "e": "child('ConfigMap', name ~ '-f').data.x | default('0')",
                "f": "(child('ConfigMap', name ~ '-e').data.x | default('0')) ~ '1'",
            },
            "because it reads ConfigMap/web-f, which is derived from it",
        ),
        ({"e": "child('ConfigMap', name ~ '-e').metadata.resourceVersion | default('0')"}, "because it reads itself"),
        ({"e": "(child('ConfigMap', name ~ '-e').data.x | default('')) ~ 'x'"}, "because it reads itself"),
        ({"e": f"lookup_all('v1', 'ConfigMap') | {VERSIONS}"}, "because it reads every ConfigMap in "),
        (
            {
                "e": "lookup('v1', 'ConfigMap', name ~ '-e', optional=true).metadata.resourceVersion | default('0')",
                "f": "lookup_all('v1', 'ConfigMap') | length",
            },
            "because it reads itself",
        ),
    ],
    ids=["each other", "own version", "own data", "all", "looked up"],
)
async def test_a_feedback_loop_is_slowed_down_and_named_and_the_parents_changes_are_applied_at_once(
    desk: Desk, operate: Operate, files: dict[str, str], words: str
) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/plain.yaml.j2", map_template("plain", x="spec.replicas"))
        for name, value in files.items():
            running.write(f"{ECHOES}/{name}.yaml.j2", map_template(name, x=value))
        await desk.apply(echo("web", 0))
        # The status is written when nothing follows at once any more.
        named = f"ConfigMap {desk.namespace}/web-e changes each time it is applied, {words}"
        await desk.until(ECHOES, "web", lambda body: named in ready_condition(body).get("message", ""))
        await desk.until_event("EndlessChange", named)
        applied = [each.step.identity.name for each in outcomes(running) if each.step.action is Action.APPLY]
        assert "web-plain" in applied
        assert applied.count("web-plain") <= 2
        assert applied.count("web-e") < 20

        await desk.apply(echo("web", 3))
        await desk.until("configmaps", "web-plain", holds(x="3"))
        running.write(f"{ECHOES}/e.yaml.j2", map_template("e", x="'still'"))
        running.write(f"{ECHOES}/f.yaml.j2", map_template("f", x="'still'"))
        await desk.until("configmaps", "web-e", holds(x="still"))
        await desk.until(ECHOES, "web", lambda body: ready_condition(body).get("message", "").endswith("ready"))
