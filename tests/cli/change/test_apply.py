"""`ssa-operator apply`: parents of files are applied and reconciled until they are ready."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.operator.operator_options import Options
from tests.cli.process import in_terminal, run
from tests.devcluster.audit import own_requests
from tests.operator.harness import (
    ECHOES,
    ROLE,
    ROLES,
    Desk,
    config_map,
    echo,
    is_ready,
    map_template,
    not_ready_because,
    only,
    operating,
    ready_condition,
)
from tests.operator.limited_accounts import BASICS, allowed, limited

pytestmark = pytest.mark.cluster

FINALIZER = "ssa-operator.dev/cleanup"
INVENTORY = "ssa-operator.dev/inventory"


async def apply(
    desk: Desk, templates: Path, *parents: dict[str, Any], options: tuple[str, ...] = ()
) -> tuple[int, str, str]:
    stdin = "---\n".join(json.dumps(parent) + "\n" for parent in parents)
    arguments = ("apply", "-", *options, f"--templates={templates}", f"--namespace={desk.namespace}")
    return await run(*arguments, f"--kubeconfig={desk.kubeconfig}", stdin=stdin)


def operator(desk: Desk, client: Client, templates: Path) -> Any:
    return operating(
        client, Options(templates=(templates,), namespaces=(desk.namespace,), listen=None, resync_rate=0.0)
    )


async def test_apply_makes_a_parent_ready_without_an_operator(desk: Desk, templates: Path) -> None:
    code, out, err = await apply(desk, templates, echo("web", 2))
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[-1] == f"Echo {desk.namespace}/web Ready: Deployment {desk.namespace}/web is ready"
    parent = await desk.read(ECHOES, "web")
    assert is_ready(parent)
    deployment = await desk.read("deployments.apps", "web")
    assert deployment["metadata"]["ownerReferences"][0]["uid"] == parent["metadata"]["uid"]
    # Without a change, it ends at once.
    assert (await apply(desk, templates, echo("web", 2)))[0] == 0


async def test_an_apply_that_changes_no_field_is_reconciled(desk: Desk, templates: Path) -> None:
    """The apply makes its field manager an owner, so that the parent has a new version of the same generation."""
    await desk.apply(echo("web", 1))
    code, _, err = await apply(desk, templates, echo("web", 1), options=("--timeout=60",))
    assert (code, err) == (0, "")
    assert is_ready(await desk.read(ECHOES, "web"))


async def test_children_that_wait_for_each_other_are_applied_one_after_the_other(desk: Desk, templates: Path) -> None:
    only(
        templates,
        a=map_template("a", word="'x'"),
        b=map_template("b", uid="child('ConfigMap', name ~ '-a').metadata.uid"),
        c=map_template("c", uid="child('ConfigMap', name ~ '-b').data.uid"),
    )
    code, out, err = await apply(desk, templates, echo("web"), options=("--output=json",))
    assert (code, err) == (0, "")
    (found,) = json.loads(out)
    assert found["ready"] is True
    assert [each["state"] for each in found["resources"]] == ["Current"] * 3
    first, last = await desk.read("configmaps", "web-a"), await desk.read("configmaps", "web-c")
    assert last["data"]["uid"] == first["metadata"]["uid"]


@pytest.mark.slow
async def test_the_operator_and_apply_take_over_from_each_other(desk: Desk, client: Client, templates: Path) -> None:
    texts = {"keep": map_template("keep", a="'b'"), "role": ROLE}
    only(templates, **texts)
    (templates / ECHOES / "_settings.yaml").write_text("clusterScope: true\n")
    role = f"{desk.namespace}-web"
    assert (await apply(desk, templates, echo("web")))[0] == 0
    parent = await desk.read(ECHOES, "web")
    assert FINALIZER in parent["metadata"]["finalizers"]
    assert role in parent["metadata"]["annotations"][INVENTORY]
    (templates / ECHOES / "role.yaml.j2").unlink()
    async with operator(desk, client, templates):
        # The operator prunes what apply created, by the records of apply.
        await desk.gone(ROLES, role)
        await desk.until(ECHOES, "web", lambda body: "finalizers" not in body["metadata"])
        (templates / ECHOES / "role.yaml.j2").write_text(ROLE)
        await desk.until(ECHOES, "web", lambda body: FINALIZER in body["metadata"].get("finalizers", ()))
        await desk.read(ROLES, role)
    (templates / ECHOES / "role.yaml.j2").unlink()
    # And apply prunes what the operator created.
    assert (await apply(desk, templates, echo("web")))[0] == 0
    assert await desk.find(ROLES, role) is None
    assert "finalizers" not in (await desk.read(ECHOES, "web"))["metadata"]


@pytest.mark.slow
async def test_beside_a_running_operator_nothing_is_applied_again_and_again(
    cluster: Cluster, desk: Desk, client: Client, templates: Path
) -> None:
    async with operator(desk, client, templates):
        await desk.apply_until_ready(echo("web", 1))
        before = len(own_requests(cluster, desk.namespace))
        for replicas in (2, 3):
            assert (await apply(desk, templates, echo("web", replicas)))[0] == 0
        parent = await desk.ready(ECHOES, "web")
        assert parent["spec"]["replicas"] == 3
    assert (await desk.read("deployments.apps", "web"))["spec"]["replicas"] == 3
    assert ready_condition(parent)["reason"] == "Ready"
    applied = [
        event["objectRef"]["resource"]
        for event in own_requests(cluster, desk.namespace)[before:]
        # How many statuses are written depends on how often the Deployment reports its progress.
        if event["verb"] == "patch" and "subresource" not in event["objectRef"]
    ]
    assert applied.count("echoes") == 4  # for each change tried, then applied
    # For each change: tried and applied by the command, and applied by the operator on its events.
    assert applied.count("deployments") < 25


@pytest.mark.slow
async def test_what_is_not_ready_in_time_is_named_with_exit_code_1(desk: Desk, templates: Path) -> None:
    only(templates, a=map_template("a", word="lookup('v1', 'ConfigMap', 'later').data.word"))
    code, out, err = await apply(desk, templates, echo("web"), options=("--timeout=2",))
    assert code == 1
    waits = f"waiting for ConfigMap {desk.namespace}/later"
    assert f"Echo {desk.namespace}/web WaitingForDependency: " in out
    assert f"standard input:1: Echo {desk.namespace}/web is not ready after 2 s: WaitingForDependency: " in err
    assert waits in err
    await desk.apply(config_map("later", word="there"))
    assert (await apply(desk, templates, echo("web")))[0] == 0


@pytest.mark.exhaustive
async def test_a_template_that_fails_ends_the_wait_at_once(desk: Desk, templates: Path) -> None:
    (templates / ECHOES / "bad.yaml.j2").write_text(map_template("bad", word="spec.nothing"))
    code, _, err = await apply(desk, templates, echo("web"))
    assert code == 1
    assert f"{ECHOES}/bad.yaml.j2:6: spec.nothing is missing" in err
    # Everything that does not depend on it is applied.
    await desk.read("deployments.apps", "web")


QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "none"},
    "spec": {"hard": {"count/configmaps": "0"}},
}


@pytest.fixture
async def full(desk: Desk, templates: Path) -> None:
    """A namespace whose quota denies the ConfigMap that the templates render."""
    only(templates, a=map_template("a", word="'x'"))
    await desk.apply(QUOTA)
    await desk.until("resourcequotas", "none", lambda body: "hard" in body.get("status", {}))


async def test_a_denial_is_retried_until_its_cause_is_gone(desk: Desk, templates: Path, full: None) -> None:
    applying = asyncio.create_task(apply(desk, templates, echo("web")))
    await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", "exceeded quota: none"))
    await desk.delete("resourcequota", "none")
    code, out, err = await applying
    assert (code, err) == (0, "")
    assert "exceeded quota: none" in out


@pytest.mark.exhaustive
async def test_a_lasting_denial_is_named_at_the_end_of_the_timeout(desk: Desk, templates: Path, full: None) -> None:
    code, _, err = await apply(desk, templates, echo("web"), options=("--timeout=2",))
    assert code == 1
    assert f"Echo {desk.namespace}/web is not ready after 2 s: ApplyFailed: " in err
    assert "exceeded quota: none" in err


async def test_beside_a_denial_what_fails_for_good_ends_the_wait(desk: Desk, templates: Path, full: None) -> None:
    (templates / ECHOES / "bad.yaml.j2").write_text(
        "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 99999999}]}\n"
    )
    code, _, err = await apply(desk, templates, echo("web"))
    assert code == 1
    assert "spec.ports[0].port" in err


async def test_if_one_parent_is_refused_none_is_applied(desk: Desk, templates: Path) -> None:
    # One mistake: of a wrong type and an unknown field the API server names both or one, by the order of a Go map.
    bad = {**echo("bad"), "spec": {"replicas": "many"}}
    code, out, err = await apply(desk, templates, echo("good"), bad, config_map("other"))
    assert (code, out) == (2, "")
    assert "spec.replicas" in err
    assert "standard input:5: no template folder that the cluster serves is for ConfigMap" in err
    assert "Traceback" not in err
    for name in ("good", "bad"):
        assert await desk.find(ECHOES, name) is None


@pytest.mark.slow
async def test_a_held_prune_needs_the_option_prune(desk: Desk, client: Client, templates: Path) -> None:
    only(templates, a=map_template("a", word="'x'"), b=map_template("b", word="'x'"))
    assert (await apply(desk, templates, echo("web")))[0] == 0
    only(templates, a="{% if false %}a{% endif %}")
    code, _, err = await apply(desk, templates, echo("web"))
    assert code == 1
    assert "PruneHeld: " in err
    assert "ssa-operator apply --prune" in err
    await desk.read("configmaps", "web-a")
    code, _, err = await apply(desk, templates, echo("web"), options=("--prune",))
    assert (code, err) == (0, "")
    for name in ("web-a", "web-b"):
        await desk.gone("configmaps", name)


@pytest.mark.slow
async def test_data_that_leaves_no_children_need_no_confirmation(desk: Desk, templates: Path) -> None:
    only(templates, a=f"{{% if spec.replicas %}}\n{map_template('a', word='name')}{{% endif %}}\n")
    assert (await apply(desk, templates, echo("web", 1)))[0] == 0
    assert (await apply(desk, templates, echo("web", 0)))[0] == 0
    await desk.gone("configmaps", "web-a")


@pytest.mark.exhaustive
async def test_a_terminal_shows_a_live_tree(desk: Desk, templates: Path, tmp_path: Path) -> None:
    (tmp_path / "echo.yaml").write_text(json.dumps(echo("web")))
    arguments = ("apply", str(tmp_path), f"--templates={templates}", "-n", desk.namespace)
    code, shown = await in_terminal(*arguments, f"--kubeconfig={desk.kubeconfig}")
    assert code == 0
    assert "InProgress" in shown
    assert "Current" in shown[shown.rindex("Echo") :]


@pytest.mark.exhaustive
@pytest.mark.slow
async def test_a_user_of_one_namespace_can_preview_and_apply_parents_in_it(
    desk: Desk, templates: Path, tmp_path: Path
) -> None:
    user = f"author-{desk.namespace}"
    rules = [*BASICS, {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]}]
    await desk.apply(*allowed(user, rules, "author"))
    kubeconfig = limited(desk.kubeconfig, tmp_path, user)
    arguments = ("-", f"--templates={templates}", "-n", desk.namespace, f"--kubeconfig={kubeconfig}")
    stdin = json.dumps(echo("web"))
    code, out, err = await run("render", *arguments, "--live", stdin=stdin)
    assert (code, err) == (0, "")
    code, out, err = await run("diff", *arguments, stdin=stdin)
    assert (code, err) == (1, "")
    assert f"create Deployment {desk.namespace}/web" in out
    code, _, err = await run("apply", *arguments, stdin=stdin)
    assert (code, err) == (0, "")
    assert await run("diff", "echo/web", *arguments[1:]) == (0, "", "")
    code, _, err = await run("diff", "-", f"--kubeconfig={kubeconfig}", "-n", "default", stdin=stdin)
    assert code == 2
    assert "forbidden" in err
