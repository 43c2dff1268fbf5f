"""Feedback loops: manifests that change each other or themselves are slowed down and named, and disturb no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.reconcile.feedback_loops.change_bucket import CAPACITY
from tests.operator.harness import (
    ECHOES,
    Desk,
    Operate,
    Running,
    config_map,
    echo,
    holds,
    map_template,
    not_ready_because,
    ready_condition,
)

pytestmark = pytest.mark.cluster


def outcomes(running: Running) -> list[Child]:
    return [each for report in running.reports for each in report.outcomes]


def says(words: str) -> Callable[[dict[str, Any]], bool]:
    """Whether the message of a parent's Ready has these words."""
    return lambda body: words in ready_condition(body).get("message", "")


def changes_each_time(desk: Desk, child: str, reads: str) -> str:
    """The message about a ConfigMap whose template reads this."""
    often = "at least 10 times in 10 minutes without a change of the parent or its templates"
    return f"ConfigMap {desk.namespace}/{child} changes each time it is applied, {often}; its template reads {reads}"


VERSIONS = "map(attribute='metadata.resourceVersion') | sort | join('-')"


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("files", "reads"),
    [
        (
            {
                "e": "child('ConfigMap', name ~ '-f').data.x | default('0')",
                "f": "(child('ConfigMap', name ~ '-e').data.x | default('0')) ~ '1'",
            },
            "ConfigMap/web-f",
        ),
        ({"e": "child('ConfigMap', name ~ '-e').metadata.resourceVersion | default('0')"}, "ConfigMap/web-e"),
        ({"e": "(child('ConfigMap', name ~ '-e').data.x | default('')) ~ 'x'"}, "ConfigMap/web-e"),
        ({"e": f"lookup_all('v1', 'ConfigMap') | {VERSIONS}"}, "every ConfigMap in "),
        (
            {
                "e": "lookup('v1', 'ConfigMap', name ~ '-e', optional=true).metadata.resourceVersion | default('0')",
                "f": "lookup_all('v1', 'ConfigMap') | length",
            },
            "ConfigMap {namespace}/web-e",
        ),
    ],
    ids=["each other", "own version", "own data", "all", "looked up"],
)
async def test_a_feedback_loop_is_slowed_down_and_named_and_the_parents_changes_are_applied_at_once(
    desk: Desk, operate: Operate, files: dict[str, str], reads: str
) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/plain.yaml.j2", map_template("plain", x="spec.replicas"))
        for name, value in files.items():
            running.write(f"{ECHOES}/{name}.yaml.j2", map_template(name, x=value))
        await desk.apply(echo("web", 0))
        # The status is written when nothing follows at once any more.
        named = changes_each_time(desk, "web-e", reads.format(namespace=desk.namespace))
        await desk.until(ECHOES, "web", says(named))
        await desk.until_event("EndlessChange", named)
        applied = [each.identity.name for each in outcomes(running) if each.action is Action.APPLY]
        assert "web-plain" in applied
        assert applied.count("web-plain") <= 2
        assert applied.count("web-e") < 20

        await desk.apply(echo("web", 3))
        await desk.until("configmaps", "web-plain", holds(x="3"))
        running.write(f"{ECHOES}/e.yaml.j2", map_template("e", x="'still'"))
        running.write(f"{ECHOES}/f.yaml.j2", map_template("f", x="'still'"))
        await desk.until("configmaps", "web-e", holds(x="still"))
        await desk.until(ECHOES, "web", lambda body: ready_condition(body).get("message", "").endswith("ready"))


GROWING = """\
{% set current = live("Deployment", name).spec.replicas | default(0) %}
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ name }}", annotations: {example.com/seen: "{{ SEEN }}"}}
spec:
  replicas: {{ [spec.replicas, current] | max }}
  selector: {matchLabels: {app: "{{ name }}"}}
  template:
    metadata: {labels: {app: "{{ name }}"}}
    spec: {containers: [{name: main, image: example.com/echo:1}]}
"""


def follows(replicas: int) -> Callable[[dict[str, Any]], bool]:
    """Whether a Deployment has this number of replicas, the operator applies it, and has seen it."""

    def judge(body: dict[str, Any]) -> bool:
        ours = [each for each in body["metadata"]["managedFields"] if each["manager"] == "ssa-operator"]
        if body["metadata"]["annotations"]["example.com/seen"] not in ("constant", str(replicas)):
            return False
        return body["spec"]["replicas"] == replicas and any("f:replicas" in each["fieldsV1"]["f:spec"] for each in ours)

    return judge


@pytest.mark.exhaustive
@pytest.mark.parametrize("seen", ["constant", "{{ current }}"], ids=["alone", "with a field that follows from it"])
@pytest.mark.parametrize("scaled", [True, False], ids=["scaled", "patched"])
async def test_a_growth_by_others_that_a_template_follows_is_no_loop(
    desk: Desk, operate: Operate, seen: str, *, scaled: bool
) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/deployment.yaml.j2", GROWING.replace("{{ SEEN }}", seen))
        await desk.apply(echo("web", 2))
        await desk.until("deployments.apps", "web", follows(2))
        for replicas in range(3, 3 + 2 * CAPACITY):
            if scaled:
                await desk.scale("deployments", "web", replicas)
            else:
                await desk.patch("deployments", "web", spec={"replicas": replicas})
            await desk.until("deployments.apps", "web", follows(replicas))
        await desk.apply(echo("web", 30))
        await desk.until("deployments.apps", "web", follows(30))
        assert not [each for each in outcomes(running) if each.feedback_loop]
        assert not [each for each in outcomes(running) if each.conflict]


async def test_a_template_that_follows_an_object_of_others_is_no_loop(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/e.yaml.j2", map_template("e", x="lookup('v1', 'ConfigMap', 'settings').data.x"))
        await desk.create(config_map("settings", x="0"))
        await desk.apply(echo("web", 0))
        for number in range(2 * CAPACITY):
            await desk.patch("configmaps", "settings", data={"x": str(number)})
            await desk.until("configmaps", "web-e", holds(x=str(number)))
        assert not [each for each in outcomes(running) if each.feedback_loop]


def exceeds(number: int) -> Callable[[dict[str, Any]], bool]:
    """Whether the number in a ConfigMap is greater."""
    return lambda body: int(body["data"]["x"]) > number


@pytest.mark.exhaustive
async def test_a_growth_by_others_hides_no_loop(desk: Desk, operate: Operate) -> None:
    async with operate() as running:
        running.write(
            f"{ECHOES}/e.yaml.j2", map_template("e", x="(live('ConfigMap', name ~ '-e').data.x | default(0) | int) + 1")
        )
        await desk.apply(echo("web", 0))
        named = changes_each_time(desk, "web-e", "ConfigMap/web-e")
        for number in range(1, 3):
            await desk.until(ECHOES, "web", says(named))
            await desk.patch("configmaps", "web-e", data={"x": str(1000 * number)})
            await desk.until("configmaps", "web-e", exceeds(1000 * number))
        await desk.until(ECHOES, "web", says(named))
        applied = [each.identity.name for each in outcomes(running) if each.action is Action.APPLY]
        assert applied.count("web-e") < 20


OTHER = "('web-b' if name == 'web-a' else 'web-a') ~ '-e'"


async def test_a_loop_through_the_children_of_two_parents_is_slowed_down_and_named(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        running.write(f"{ECHOES}/plain.yaml.j2", map_template("plain", x="spec.replicas"))
        read = f"lookup('v1', 'ConfigMap', {OTHER}, optional=true).data.x"
        running.write(f"{ECHOES}/e.yaml.j2", map_template("e", x=f"({read} | default('')) ~ 'x'"))
        await desk.apply(echo("web-a", 0), echo("web-b", 0))
        for one, other in (("web-a", "web-b"), ("web-b", "web-a")):
            named = changes_each_time(desk, f"{one}-e", f"ConfigMap {desk.namespace}/{other}-e")
            await desk.until(ECHOES, one, says(named))
            await desk.until_event("EndlessChange", named)
        applied = [each.identity.name for each in outcomes(running) if each.action is Action.APPLY]
        assert applied.count("web-a-e") < 20

        await desk.apply(echo("web-a", 3))
        await desk.until("configmaps", "web-a-plain", holds(x="3"))


@pytest.mark.exhaustive
async def test_a_loop_through_the_statuses_of_two_parents_is_slowed_down_and_named(
    desk: Desk, operate: Operate
) -> None:
    async with operate() as running:
        running.remove(f"{ECHOES}/deployment.yaml.j2")
        running.write(f"{ECHOES}/plain.yaml.j2", map_template("plain", x="spec.replicas"))
        other = "'web-b' if name == 'web-a' else 'web-a'"
        read = f"lookup('example.com/v1', 'Echo', {other}, optional=true).status.readyReplicas"
        running.write(f"{ECHOES}/e.yaml.j2", map_template("e", x=f"({read} | default(0)) + 1"))
        count = "child('ConfigMap', name ~ '-e').data.x | default('0') | int"
        running.write(f"{ECHOES}/_status.yaml.j2", f"readyReplicas: {{{{ {count} }}}}\n")
        await desk.apply(echo("web-a", 0), echo("web-b", 0))
        for one, reads in (("web-a", "web-b"), ("web-b", "web-a")):
            named = changes_each_time(desk, f"{one}-e", f"Echo {desk.namespace}/{reads}")
            await desk.until(ECHOES, one, says(named))
        applied = [each.identity.name for each in outcomes(running) if each.result is Result.CONFIGURED]
        assert applied.count("web-a-e") < 20

        await desk.apply(echo("web-a", 3))
        await desk.until("configmaps", "web-a-plain", holds(x="3"))


def versioned(name: str, annotations: str = "{}") -> str:
    """A template of a ConfigMap whose name changes with each change of a ConfigMap of the parent's namespace."""
    lines = ("apiVersion: v1", "kind: ConfigMap", "metadata:", f"  name: {name}", f"  annotations: {annotations}")
    return "\n".join(lines) + "\n"


@pytest.mark.exhaustive
@pytest.mark.parametrize("annotations", ["{}", '{ssa-operator.dev/prune: "false"}'], ids=["pruned", "kept"])
async def test_ever_new_names_are_slowed_down_and_named(desk: Desk, operate: Operate, annotations: str) -> None:
    latest = "lookup_all('v1', 'ConfigMap') | map(attribute='metadata.resourceVersion') | map('int') | max"
    async with operate() as running:
        running.write(f"{ECHOES}/plain.yaml.j2", map_template("plain", x="spec.replicas"))
        running.write(f"{ECHOES}/e.yaml.j2", versioned(f"{{{{ name }}}}-e-{{{{ {latest} }}}}", annotations))
        await desk.apply(echo("web", 0))
        named = "the templates give a ConfigMap a new name each time"
        await desk.until(ECHOES, "web", lambda body: named in ready_condition(body).get("message", ""))
        await desk.until_event("EndlessChange", named)
        created = [each.identity.name for each in outcomes(running) if each.result is Result.CREATED]
        assert len(created) < 20

        await desk.apply(echo("web", 3))
        await desk.until("configmaps", "web-plain", holds(x="3"))
        await desk.delete("configmap", "web-plain")
        await desk.until("configmaps", "web-plain", holds(x="3"))
        running.write(f"{ECHOES}/e.yaml.j2", map_template("e", x="'still'"))
        await desk.until("configmaps", "web-e", holds(x="still"))
        await desk.until(ECHOES, "web", lambda body: ready_condition(body).get("message", "").endswith("ready"))


async def test_a_parent_gets_no_more_children_than_its_folder_allows(desk: Desk, operate: Operate) -> None:
    count = "lookup_all('v1', 'ConfigMap', labels={'app': 'many'}) | length + 1"
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}-{{ number }}\n  labels: {app: many}\n"
    async with operate() as running:
        running.write(f"{ECHOES}/_settings.yaml", "maxChildren: 5\n")
        text = f"{{% for number in range({count}) %}}\n---\n{head}{{% endfor %}}\n"
        running.write(f"{ECHOES}/deployment.yaml.j2", text)
        await desk.apply(echo("web", 0))
        words = ("web-5 is not created", "6 children, and 5 are allowed", "maxChildren")
        await desk.until(ECHOES, "web", not_ready_because("InvalidManifest", *words))
        await desk.read("configmaps", "web-4")
        assert await desk.find("configmaps", "web-5") is None
        running.write(f"{ECHOES}/_settings.yaml", "maxChildren: 7\n")
        await desk.until(ECHOES, "web", not_ready_because("InvalidManifest", "web-7 is not created"))
