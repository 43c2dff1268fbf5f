"""Manifests that change each other, or themselves, without end: slowed down, named, and a burden to nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ssa_operator.controller.memory import Memory, Subject
from ssa_operator.controller.operator import Operator
from ssa_operator.controller.options import Options
from ssa_operator.controller.queue import Cause
from ssa_operator.core.report import Report
from ssa_operator.core.step import Action
from ssa_operator.kube.client import Client
from tests.controller.desk import Desk, echo, operating, ready_condition
from tests.controller.test_events import told

pytestmark = pytest.mark.cluster

MakeOptions = Callable[..., Options]

FOLDER = "echoes.example.com"


def made(name: str, value: str) -> str:
    """A template of a ConfigMap called after the parent and `name`; the value is an expression."""
    return (
        f'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{{{ name }}}}-{name}\ndata:\n  x: "{{{{ {value} }}}}"\n'
    )


def recorded(operator: Operator) -> list[str]:
    """The names of all that is applied from now on."""
    applied: list[str] = []
    reconcile = operator._reconciler.reconcile

    async def recording(subject: Subject, memory: Memory, causes: Cause) -> Report:
        report = await reconcile(subject, memory, causes)
        applied.extend(each.step.identity.name for each in report.outcomes if each.step.action is Action.APPLY)
        return report

    operator._reconciler.reconcile = recording  # type: ignore[method-assign]
    return applied


VERSIONS = "map(attribute='metadata.resourceVersion') | sort | join('-')"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (
            {
                "e": "child('ConfigMap', name ~ '-f').data.x | default('0')",
                "f": "(child('ConfigMap', name ~ '-e').data.x | default('0')) ~ '1'",
            },
            "for it reads ConfigMap/web-f, which follows from it",
        ),
        ({"e": "child('ConfigMap', name ~ '-e').metadata.resourceVersion | default('0')"}, "for it reads itself"),
        ({"e": "(child('ConfigMap', name ~ '-e').data.x | default('')) ~ 'x'"}, "for it reads itself"),
        ({"e": f"lookup_all('v1', 'ConfigMap') | {VERSIONS}"}, "for it reads every ConfigMap in "),
        (
            {
                "e": "lookup('v1', 'ConfigMap', name ~ '-e', optional=true).metadata.resourceVersion | default('0')",
                "f": "lookup_all('v1', 'ConfigMap') | length",
            },
            "for it reads itself",
        ),
    ],
    ids=["each other", "own version", "own data", "all", "looked up"],
)
async def test_what_changes_without_end_is_slowed_down_and_named_and_the_parents_changes_go_at_once(
    client: Client, desk: Desk, options: MakeOptions, files: dict[str, str], words: str
) -> None:
    async with operating(client, options()) as running:
        applied = recorded(running.operator)
        running.write(f"{FOLDER}/plain.yaml.j2", made("plain", "spec.replicas"))
        for name, value in files.items():
            running.write(f"{FOLDER}/{name}.yaml.j2", made(name, value))
        await desk.apply(echo("web", 0))
        # The status is written when nothing follows at once any more.
        named = f"ConfigMap {desk.namespace}/web-e changes each time it is applied, {words}"
        await desk.until(FOLDER, "web", lambda body: named in ready_condition(body).get("message", ""))
        await told(desk, "EndlessChange", named)
        assert applied.count("web-plain") <= 2
        assert applied.count("web-e") < 20

        await desk.apply(echo("web", 3))
        await desk.until("configmaps", "web-plain", lambda body: body["data"] == {"x": "3"})
        running.write(f"{FOLDER}/e.yaml.j2", made("e", "'still'"))
        running.write(f"{FOLDER}/f.yaml.j2", made("f", "'still'"))
        await desk.until("configmaps", "web-e", lambda body: body["data"] == {"x": "still"})
        await desk.until(FOLDER, "web", lambda body: ready_condition(body).get("message", "").endswith("ready"))
