"""Children that are custom resources are ready when their controller reports it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.operator.harness import (
    ECHOES,
    Desk,
    MakeOptions,
    Operate,
    config_map,
    definition,
    echo,
    holds,
    map_template,
    not_ready_because,
    only,
    operating,
    ready_condition,
    version,
)
from tests.operator.limited_accounts import BASICS, acting_as, allowed
from tests.operator.wall_clock import SteppingClock

pytestmark = pytest.mark.cluster


async def define(desk: Desk, group: str, status: dict[str, Any] | None = None) -> None:
    crd = definition("ins", group, "In")
    if status is not None:
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"] = status
    await desk.define(crd)


def child_of(group: str) -> str:
    return (
        f"apiVersion: {group}/v1\nkind: In\nmetadata:\n  name: {{{{ name }}}}\nspec: {{x: '{{{{ spec.replicas }}}}'}}\n"
    )


AFTER = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-after
  annotations:
    ssa-operator.dev/after: In/{{ name }}
"""


async def test_a_manifest_after_a_custom_resource_of_another_folder_waits_until_that_is_ready(
    desk: Desk, operate: Operate, group: str, templates: Path
) -> None:
    (templates / f"ins.{group}").mkdir()
    seeded = map_template("seeded", v="lookup('v1', 'ConfigMap', 'seed').data.v")
    (templates / f"ins.{group}" / "a.yaml.j2").write_text(seeded)
    (templates / ECHOES / "in.yaml.j2").write_text(child_of(group))
    (templates / ECHOES / "after.yaml.j2").write_text(AFTER)
    await define(desk, group)
    verdicts = set[str]()
    async with operate():
        view = await desk.view(ECHOES)
        view.cache.listen(lambda _, new: verdicts.add(ready_condition(new.body).get("status", "")) if new else None)
        await desk.apply(echo("web", 0))
        await desk.until(f"ins.{group}", "web", not_ready_because("WaitingForDependency", "seed"))
        words = ("web-after", "waiting for In/web to be ready (WaitingForDependency: ")
        await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", *words))
        assert "True" not in verdicts
        assert await desk.find("configmaps", "web-after") is None
        await desk.apply(config_map("seed", v="1"))
        await desk.ready(ECHOES, "web")
        inner = await desk.ready(f"ins.{group}", "web")
        after = await desk.read("configmaps", "web-after")
    assert version(inner) < version(after)


@pytest.mark.exhaustive
async def test_a_custom_resource_whose_crd_declares_no_status_is_ready_at_once(
    desk: Desk, operate: Operate, group: str, templates: Path
) -> None:
    (templates / ECHOES / "in.yaml.j2").write_text(child_of(group))
    (templates / ECHOES / "after.yaml.j2").write_text(AFTER)
    await define(desk, group)
    async with operate():
        await desk.apply_until_ready(echo("web", 0))


@pytest.mark.exhaustive
async def test_a_custom_resource_whose_crd_declares_conditions_is_waited_for(
    desk: Desk, operate: Operate, group: str, templates: Path
) -> None:
    (templates / ECHOES / "in.yaml.j2").write_text(child_of(group))
    (templates / ECHOES / "up.yaml.j2").write_text(map_template("up", up="ready(child('In', name))"))
    item = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await define(desk, group, {"type": "object", "properties": {"conditions": {"type": "array", "items": item}}})
    async with operate():
        await desk.apply(echo("web", 0))
        words = ("In ", "its controller has not written its status yet")
        await desk.until(ECHOES, "web", not_ready_because("Progressing", *words))
        await desk.until("configmaps", "web-up", holds(up="false"))
        patch = '{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}'
        await desk.kubectl("patch", f"ins.{group}", "web", "--subresource=status", "--type=merge", "-p", patch)
        await desk.ready(ECHOES, "web")
        await desk.until("configmaps", "web-up", holds(up="true"))


@pytest.mark.exhaustive
async def test_a_status_that_nothing_writes_is_named_after_some_minutes_without_an_event(
    desk: Desk, operate: Operate, group: str, templates: Path, clock: SteppingClock
) -> None:
    only(templates, **{"in": child_of(group), "after": AFTER})
    item = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await define(desk, group, {"type": "object", "properties": {"conditions": {"type": "array", "items": item}}})
    messages, silence = list[str](), 5 * 60.0
    # A few seconds before the moment, as an operator that is started again then.
    clock.stepped = silence - 6
    async with operate():
        view = await desk.view(ECHOES)
        view.cache.listen(lambda _, new: messages.append(ready_condition(new.body).get("message", "")) if new else None)
        await desk.apply(echo("web", 0))
        advice = ("nothing has written its status", "5 minutes", "ssa-operator.dev/ready-when", "ssa-operator.dev/wait")
        said = await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", "In/web", *advice))
        entries = {entry["name"]: entry for entry in said["status"]["resources"]}
        assert entries["web"]["state"] == "InProgress"
        assert all(words in entries["web"]["message"] for words in advice)
        assert any("its controller has not written its status yet" in message for message in messages)
        clock.stepped += silence
        await desk.patch("echo", "web", spec={"replicas": 1})
        later = await desk.until(ECHOES, "web", lambda body: body["status"].get("observedGeneration") == 2)
        assert ready_condition(later)["message"] == ready_condition(said)["message"]
        patch = '{"status": {"conditions": [{"type": "Ready", "status": "True"}]}}'
        await desk.kubectl("patch", f"ins.{group}", "web", "--subresource=status", "--type=merge", "-p", patch)
        await desk.ready(ECHOES, "web")


async def test_a_status_that_the_crd_refuses_is_an_event(
    desk: Desk, operate: Operate, group: str, templates: Path
) -> None:
    (templates / f"ins.{group}").mkdir()
    (templates / f"ins.{group}" / "a.yaml.j2").write_text(map_template("a", v="1"))
    message = {"type": "string", "maxLength": 3}
    item = {"type": "object", "properties": {"message": message}, "x-kubernetes-preserve-unknown-fields": True}
    await define(desk, group, {"type": "object", "properties": {"conditions": {"type": "array", "items": item}}})
    async with operate():
        await desk.apply({"apiVersion": f"{group}/v1", "kind": "In", "metadata": {"name": "web"}, "spec": {}})
        event = await desk.until_event("StatusRefused", "the status can't be written: ", "status.conditions[0].message")
    assert event["regarding"]["name"] == "web"


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "status", ["", "shown: {{ required(spec.missing, 'is missing') }}\n"], ids=["refused", "failing"]
)
async def test_a_parent_is_rendered_again_at_its_time_if_its_status_fails_for_good(
    desk: Desk, operate: Operate, group: str, templates: Path, status: str
) -> None:
    folder = templates / f"ins.{group}"
    folder.mkdir()
    (folder / "a.yaml.j2").write_text(map_template("a", v="expired('4s')"))
    (folder / "_status.yaml.j2").write_text(status)
    message = {"type": "string", "maxLength": 3}
    item = {"type": "object", "properties": {"message": message}, "x-kubernetes-preserve-unknown-fields": True}
    await define(desk, group, {"type": "object", "properties": {"conditions": {"type": "array", "items": item}}})
    async with operate():
        await desk.apply({"apiVersion": f"{group}/v1", "kind": "In", "metadata": {"name": "web"}, "spec": {}})
        await desk.until_event("StatusRefused", "the status can't be written: ", about="web")
        await desk.until("configmaps", "web-a", holds(v="true"))


async def test_a_status_that_the_operator_may_not_write_is_an_event_beside_those_of_the_children(
    desk: Desk, options: MakeOptions, tmp_path: Path, templates: Path
) -> None:
    only(templates, a=map_template("a", v="1"))
    user = f"limited-{desk.namespace}"
    rules = [
        {"apiGroups": ["example.com"], "resources": ["echoes", "echoes/finalizers"], "verbs": ["*"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]},
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ]
    await desk.apply(*allowed(user, rules, "no-status"))
    async with acting_as(user, desk, tmp_path) as client, operating(client, options()):
        await desk.apply(echo("web"))
        await desk.until_event("StatusRefused", "cannot patch", "echoes/status")
    # The operator has written all its Events.
    reasons = await desk.kubectl("get", "events.events.k8s.io", "--output=jsonpath={.items[*].reason}")
    assert set(reasons.split()) == {"Created", "StatusRefused"}


async def test_a_missing_permission_for_the_watch_of_a_child_is_stalled_until_it_is_granted(
    desk: Desk, options: MakeOptions, tmp_path: Path, templates: Path
) -> None:
    only(templates, a=map_template("a", v="1"))
    user = f"limited-{desk.namespace}"
    await desk.apply(*allowed(user, BASICS, "basics"))
    async with acting_as(user, desk, tmp_path) as client, operating(client, options()):
        await desk.apply(echo("web"))
        words = (f'"{user}" cannot', "configmaps")
        found = await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", *words))
        assert {each["type"] for each in found["status"]["conditions"]} == {"Ready", "Stalled"}
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
        await desk.apply(*allowed(user, [rule], "maps"))
        await desk.ready(ECHOES, "web")


@pytest.mark.slow
async def test_a_parent_of_thousands_of_levels_does_not_hide_the_other_parents(
    desk: Desk, operate: Operate, group: str, templates: Path
) -> None:
    (templates / f"ins.{group}").mkdir()
    (templates / f"ins.{group}" / "a.yaml.j2").write_text(
        map_template("a", kept="spec.kept") + "{% if spec.all %}  deep: {{ spec.deep }}\n{% endif %}"
    )
    await define(desk, group)

    def deep(name: str, everything: str) -> str:
        head = f'"apiVersion":"{group}/v1","kind":"In","metadata":{{"name":"{name}"}}'
        return f'{{{head},"spec":{{"kept":"yes","all":{everything},"deep":{"[" * 9000}{"]" * 9000}}}}}'

    async with operate():
        # The first one is listed, the second one is an event of the watch.
        await desk.kubectl("create", "-f", "-", stdin=deep("first", "false"))
        await desk.create({"apiVersion": f"{group}/v1", "kind": "In", "metadata": {"name": "other"}, "spec": OTHER})
        await desk.kubectl("create", "-f", "-", stdin=deep("second", "true"))
        for name in ("first", "other"):
            await desk.ready(f"ins.{group}", name)
            await desk.until("configmaps", f"{name}-a", holds(kept="yes"))
        words = ("a.yaml.j2:7: ", "nested deeper than 100 levels")
        await desk.until(f"ins.{group}", "second", not_ready_because("RenderFailed", *words))
    async with operate():
        await desk.patch(f"ins.{group}", "other", spec={"kept": "no"})
        await desk.until("configmaps", "other-a", holds(kept="no"))


OTHER = {"kept": "yes", "all": False}
"""The spec of a parent that does nothing unusual."""


async def test_a_misspelt_field_that_only_the_crd_shows_is_asked_for(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    only(templates, a=map_template("a", v="status.redyReplicas"))
    async with operate():
        await desk.apply(echo("web"))
        words = ("the CRD declares no status.redyReplicas", "did you mean status.readyReplicas?")
        await desk.until(ECHOES, "web", not_ready_because("RenderFailed", *words))
