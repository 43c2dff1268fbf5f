"""A preview says what the operator would do, and does nothing."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.informers.parents import Parent
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import DryRunClient
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import encode
from ssa_operator.operator.planned_deletions import planned_deletions
from ssa_operator.operator.preview import synced_informers
from ssa_operator.operator.shared_informers import ParentError
from ssa_operator.reconcile.child import Action, Child, Result
from ssa_operator.tools.command_target import FoundObject
from ssa_operator.tools.plan.all_parents import plan_all
from ssa_operator.tools.plan.changes import parent_changes
from ssa_operator.tools.plan.plan_summary import PlanSummary
from ssa_operator.tools.plan.previews import FilePreview, NamedParent
from ssa_operator.web.object_page import changes_now
from tests.devcluster.audit import own_requests
from tests.operator.harness import (
    ECHOES,
    ROLE,
    Desk,
    MakeOptions,
    Operate,
    administrator,
    config_map,
    echo,
    map_template,
    only,
    uid,
    version,
)

pytestmark = pytest.mark.cluster

Previewing = Callable[..., AbstractAsyncContextManager[FilePreview]]

CHANGED = {"one": "changed", "three": "three", "same": "a"}


async def allow(_: Identity) -> bool:
    return True


JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ name }}
  annotations: {ssa-operator.dev/recreate: Background}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: a, image: "image:{{ spec.replicas }}"}]
"""


@pytest.fixture
def previewing(cluster: Cluster, options: MakeOptions) -> Previewing:
    """A preview with the administrator's permissions; arguments are its options."""

    @contextlib.asynccontextmanager
    async def preview(**changes: Any) -> AsyncIterator[FilePreview]:
        async with (
            DryRunClient(await administrator(cluster)) as client,
            synced_informers(client, RESTMapper(client), options(**changes)) as shared,
        ):
            yield FilePreview(client, shared)

    return preview


def the_parent(preview: FilePreview, name: str = "web") -> Parent:
    return next(parent for parent in preview.parents() if parent.live.identity.name == name)


async def results(preview: FilePreview, parent: Parent) -> dict[str, Result]:
    outcomes = await preview.dry_run(await preview.plan(parent))
    return {outcome.identity.name: outcome.result for outcome in outcomes}


def failures(outcomes: tuple[Child, ...]) -> list[str]:
    return [outcome.message for outcome in outcomes if outcome.result is Result.FAILED]


async def test_changed_templates_are_previewed_and_nothing_is_written(
    cluster: Cluster, desk: Desk, operate: Operate, previewing: Previewing, templates: Path
) -> None:
    one, two = (map_template(each, word="'one'") for each in ("one", "two"))
    only(templates, one=one, two=two, same=map_template("same", word="'same'"))
    async with operate():
        await desk.apply_until_ready(echo("web"))
    before = {name: await desk.read("configmaps", f"web-{name}") for name in ("one", "two", "same")}
    only(
        templates,
        one=map_template("one", word="'changed'"),
        three=map_template("three", word="'three'"),
        same=map_template("same", word="'same'"),
    )
    seen = len(own_requests(cluster, desk.namespace))
    async with previewing() as preview:
        assert await results(preview, the_parent(preview)) == {
            "web-one": Result.CONFIGURED,
            "web-three": Result.CREATED,
            "web-same": Result.UNCHANGED,
            "web-two": Result.PRUNED,
        }
    for name, body in before.items():
        assert version(await desk.read("configmaps", f"web-{name}")) == version(body)
    assert await desk.find("configmaps", "web-three") is None
    writes = [
        each for each in own_requests(cluster, desk.namespace)[seen:] if each["verb"] not in ("get", "list", "watch")
    ]
    assert {each["verb"] for each in writes} == {"patch", "delete"}
    assert all("dryRun=All" in each["requestURI"] for each in writes if each["verb"] == "patch")


ASKED = {"web-one": "CONFIGURED", "web-three": "CREATED", "web-same": "UNCHANGED", "web-two": "PRUNED"}
"""What the changed templates of `test_all_views` would do."""

KEPT = {"web-one": "UNCHANGED", "web-three": "UNCHANGED", "web-same": "UNCHANGED", "web-two": "UNCHANGED"}


@pytest.mark.parametrize(
    ("annotations", "shown", "counted", "deleted"),
    [
        ({}, ASKED, ASKED, "1 object of 1 parent: ConfigMap"),
        ({"ssa-operator.dev/suspend": "true"}, ASKED, KEPT, "1 object of 1 parent: ConfigMap"),
        ({"ssa-operator.dev/once": "[7"}, {}, {}, "1 object of 1 parent: ConfigMap"),
    ],
    ids=["as it is", "suspended", "with a record that can't be read"],
)
async def test_all_views_of_a_parent_show_the_outcomes_of_one_preview(
    cluster: Cluster,
    desk: Desk,
    operate: Operate,
    options: MakeOptions,
    previewing: Previewing,
    templates: Path,
    annotations: dict[str, str],
    shown: dict[str, str],
    counted: dict[str, str],
    deleted: str,
) -> None:
    """`diff` and the page show a suspended parent as if it was resumed, `plan` what is done now, and a rollout counts
    what it could delete whenever the parent is reconciled again.
    """
    only(templates, **{each: map_template(each, word="'a'") for each in ("one", "two", "same")})
    async with operate():
        await desk.apply_until_ready(echo("web"))
    resource = await desk.mapper.resource_by_name(ECHOES)
    body = encode({"metadata": {"annotations": annotations}})
    await desk.client.send(calls.merge_patch(resource, desk.namespace, "web", body))
    only(templates, **{each: map_template(each, word=f"'{word}'") for each, word in CHANGED.items()})
    credentials, salt = await administrator(cluster), b"salt"
    async with previewing() as preview:
        parent = the_parent(preview)
        found = FoundObject(resource=resource, live=parent.live)
        page = await changes_now(preview, preview.folder_of(parent.live.identity.group_kind), found, "", allow)
        planned = await preview.plan(parent)
        named = NamedParent(parent=parent)
        diff = parent_changes(named, planned, await preview.dry_run(planned, as_resumed=True), salt)
        summary = PlanSummary()
        await plan_all(preview, [parent], summary)
        folder = preview.controllers.templates.folders[ECHOES]
        why = await planned_deletions(credentials, options(), folder, [parent.live.uid], 0)
    assert {each["name"]: each["result"].upper() for each in page["objects"]} == shown
    assert {each.identity.name: each.result.name for each in diff.objects} == shown
    expected = Counter(Result[each].value for each in counted.values())
    assert {name: count for name, count in summary.totals.by_name.items() if count and name != "failed"} == {
        {"configured": "changed"}.get(name, name): count for name, count in expected.items()
    }
    assert [*diff.problems] == page["problems"] == ([] if counted else [planned.refusal])
    assert deleted in why


async def test_a_parent_that_is_only_in_a_file_is_planned_as_if_it_was_created(
    desk: Desk, previewing: Previewing, templates: Path
) -> None:
    only(templates, a=map_template("a", replicas="spec.replicas"))
    async with previewing() as preview:
        parent = await preview.as_applied(echo("web"), desk.namespace)
        planned = await preview.plan(parent)
        (outcome,) = await preview.dry_run(planned)
    assert not planned.exists
    assert parent.live.uid == "00000000-0000-0000-0000-000000000000"
    assert outcome.result is Result.CREATED
    assert outcome.live is not None
    assert outcome.live.body["data"] == {"replicas": "1"}
    assert await desk.find(ECHOES, "web") is None
    assert await desk.find("configmaps", "web-a") is None


async def test_a_parent_in_a_file_keeps_the_uid_and_the_children_of_the_live_one(
    desk: Desk, operate: Operate, previewing: Previewing, templates: Path
) -> None:
    loop = (
        "{% for n in range(spec.replicas) %}\n"
        + map_template("a", n="n").replace("-a", "-{{ n }}")
        + "---\n{% endfor %}\n"
    )
    only(templates, a=loop)
    async with operate():
        live = await desk.apply_until_ready(echo("web", 2))
    async with previewing() as preview:
        parent = await preview.as_applied(echo("web", 0), desk.namespace)
        assert parent.live.uid == uid(live)
        planned = await preview.plan_applied(parent)
        outcomes = await preview.dry_run(planned)
    # The data leaves nothing, and not the templates: the prune is not held.
    assert planned.plan.hold_message is None
    assert {outcome.identity.name: outcome.result for outcome in outcomes} == {
        "web-0": Result.PRUNED,
        "web-1": Result.PRUNED,
    }


async def test_changed_templates_that_would_prune_everything_are_held(
    desk: Desk, operate: Operate, previewing: Previewing, templates: Path
) -> None:
    only(templates, a=map_template("a", word="'a'"))
    async with operate():
        await desk.apply_until_ready(echo("web"))
    only(templates, a="{% if false %}a{% endif %}")
    async with previewing() as preview:
        planned = await preview.plan(the_parent(preview))
    assert "would now delete a child" in str(planned.plan.hold_message)
    assert [step.action for step in planned.plan.steps] == [Action.KEEP]


async def test_two_parents_of_files_that_render_one_object_are_noticed(
    desk: Desk, previewing: Previewing, templates: Path
) -> None:
    only(templates, a=map_template("a", word="'a'").replace("{{ name }}", "shared"))
    async with previewing() as preview:
        one, two = [await preview.as_applied(echo(name), desk.namespace) for name in ("one", "two")]
        assert one.live.uid != two.live.uid
        assert failures(await preview.dry_run(await preview.plan(one))) == []
        (message,) = failures(await preview.dry_run(await preview.plan(two)))
    assert f"belongs to Echo {desk.namespace}/one already" in message


async def test_a_recreated_object_is_shown_as_it_would_become(
    desk: Desk, operate: Operate, previewing: Previewing, templates: Path
) -> None:
    only(templates, job=JOB)
    async with operate():
        await desk.apply(echo("web", 1))
        job = await desk.read("jobs.batch", "web")
    async with previewing() as preview:
        planned = await preview.plan_applied(await preview.as_applied(echo("web", 2), desk.namespace))
        (outcome,) = await preview.dry_run(planned)
    assert (outcome.result, outcome.message) == (
        Result.RECREATED,
        "spec.template.spec.containers[0].image is immutable",
    )
    assert outcome.live is not None
    assert outcome.live.body["spec"]["template"]["spec"]["containers"][0]["image"] == "image:2"
    assert uid(await desk.read("jobs.batch", "web")) == uid(job)


async def test_an_immutable_field_without_recreate_is_a_failure(
    desk: Desk, operate: Operate, previewing: Previewing, templates: Path
) -> None:
    only(templates, job=JOB.replace("Background", "Never"))
    async with operate():
        await desk.apply(echo("web", 1))
        await desk.read("jobs.batch", "web")
    async with previewing() as preview:
        planned = await preview.plan_applied(await preview.as_applied(echo("web", 2), desk.namespace))
        (message,) = failures(await preview.dry_run(planned))
    assert "spec.template.spec.containers[0].image is immutable" in message
    assert "ssa-operator.dev/recreate" in message


async def test_what_the_api_server_refuses_is_a_failure_and_an_invalid_parent_an_error(
    desk: Desk, previewing: Previewing, templates: Path
) -> None:
    only(templates, a="apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {portz: []}\n", role=ROLE)
    async with previewing() as preview:
        outcomes = await preview.dry_run(await preview.plan(await preview.as_applied(echo("web"), desk.namespace)))
        service, role = failures(outcomes)
        assert ".spec.portz: field not declared in schema" in service
        assert "set `clusterScope: true`" in role
        with pytest.raises(ApiError, match=r"spec\.replicas"):
            await preview.as_applied({**echo("web"), "spec": {"replicas": "many"}}, desk.namespace)
        with pytest.raises(ParentError, match="no template folder that the cluster serves is for ConfigMap"):
            await preview.as_applied(config_map("a"), desk.namespace)
