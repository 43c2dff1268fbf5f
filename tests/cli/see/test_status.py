"""`ssa-operator status`: the operator's report, and the children of parents whose CRD has no fields for it."""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.operator.operator_options import Options
from tests.cli.process import run, started
from tests.cli.terminal import terminal
from tests.devcluster.audit import audited
from tests.operator.harness import PATIENCE, ROOT, Desk, definition, echo, operating
from tests.operator.limited_accounts import allowed, limited

pytestmark = pytest.mark.cluster

CONDITIONS = {
    "type": "array",
    "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
CHILDREN = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: web}
---
apiVersion: v1
kind: Secret
metadata: {name: web}
stringData: {word: hidden-content}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: web}
spec: {accessModes: [ReadWriteOnce], storageClassName: none, resources: {requests: {storage: 1Gi}}}
"""


@pytest.fixture
async def group(desk: Desk) -> AsyncIterator[str]:
    """The group of a test's own CRD of Things, which is deleted at its end."""
    group = f"g{uuid.uuid4().hex[:8]}.example.com"
    yield group
    await desk.kubectl("delete", "crd", f"things.{group}", "--ignore-not-found", "--wait=false")


async def define(desk: Desk, group: str, **status: Any) -> None:
    """A CRD of Things whose status has these properties."""
    crd = definition("things", group, "Thing")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["status"] = {"type": "object", "properties": {"phase": {"type": "string"}, **status}}
    await desk.define(crd)


def folder(path: Path, name: str, text: str) -> Path:
    """A templates folder for one resource."""
    (path / "own" / name).mkdir(parents=True)
    (path / "own" / name / "a.yaml.j2").write_text(text)
    return path / "own"


def thing(group: str) -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "web"}}


async def made(desk: Desk, client: Client, templates: Path, parent: dict[str, Any]) -> None:
    """Have an operator apply the CHILDREN of a parent, and wait for the objects that Kubernetes creates for them."""
    async with operating(client, Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)):
        await desk.apply(parent)
        for kind in ("configmaps", "secrets", "services", "persistentvolumeclaims"):
            await desk.read(kind, "web")
    slices = await desk.view("endpointslices.discovery.k8s.io")
    async with asyncio.timeout(PATIENCE):
        while not len(slices.cache):
            await slices.change(slices.changes)


async def shown(desk: Desk, templates: Path, *more: str, kubeconfig: Path | None = None) -> tuple[str, dict[str, Any]]:
    """The output of `status` for one parent, as a tree and as JSON."""
    arguments = (
        *more,
        f"--templates={templates}",
        "-n",
        desk.namespace,
        f"--kubeconfig={kubeconfig or desk.kubeconfig}",
    )
    code, text, err = await run("status", *arguments)
    assert (code, err) == (0, "")
    code, data, err = await run("status", *arguments, "--output=json")
    assert (code, err) == (0, "")
    assert "hidden-content" not in text + data
    (entry,) = json.loads(data)
    return text, entry


def states(entry: dict[str, Any]) -> dict[str, str]:
    return {f"{each['kind']}/{each['name']}": each["state"] for each in entry["resources"]}


FOUND = {
    "ConfigMap/web": "Current",
    "PersistentVolumeClaim/web": "InProgress",
    "Secret/web": "Current",
    "Service/web": "Current",
}


async def test_the_age_of_parents_and_children_is_shown(desk: Desk, client: Client) -> None:
    options = Options(templates=(ROOT / "templates",), namespaces=(desk.namespace,), listen=None)
    async with operating(client, options):
        await desk.apply_until_ready(echo("web"))
    deployment = await desk.read("deployments.apps", "web")
    text, entry = await shown(desk, ROOT / "templates")
    assert re.search(rf"Echo {desk.namespace}/web  Ready  \d+s\n", text)
    assert re.search(rf"Deployment {desk.namespace}/web  Current  \d+s\n", text)
    (child,) = entry["resources"]
    assert child["creationTimestamp"] == deployment["metadata"]["creationTimestamp"]
    assert entry["creationTimestamp"]
    assert entry["notes"] == []


@pytest.mark.exhaustive
async def test_children_are_found_if_the_crd_declares_no_status_resources(
    desk: Desk, client: Client, group: str, tmp_path: Path
) -> None:
    await define(desk, group)
    templates = folder(tmp_path, f"things.{group}", CHILDREN)
    await made(desk, client, templates, thing(group))
    text, entry = await shown(desk, templates)
    assert f"Thing {desk.namespace}/web  3 of 4 Current  " in text
    why = f"its CRD things.{group} doesn't declare status.conditions and status.resources as the operator writes it"
    assert entry["notes"] == [f"{why}; the children were found by their label"]
    assert "doesn't declare status.conditions and status.resources" in " ".join(text.split())
    assert states(entry) == FOUND
    (claim,) = [each for each in entry["resources"] if each["kind"] == "PersistentVolumeClaim"]
    assert claim["message"] == "its phase is Pending"
    assert claim["creationTimestamp"]


async def test_conditions_are_shown_if_the_crd_declares_no_status_resources(
    desk: Desk, client: Client, group: str, tmp_path: Path
) -> None:
    await define(desk, group, conditions=CONDITIONS, resources={"type": "array", "items": {"type": "string"}})
    templates = folder(tmp_path, f"things.{group}", CHILDREN)
    await made(desk, client, templates, thing(group))
    await desk.until(f"things.{group}", "web", lambda body: body.get("status", {}).get("conditions"))
    text, entry = await shown(desk, templates)
    assert f"Thing {desk.namespace}/web  Progressing  " in text
    assert "doesn't declare status.resources" in entry["notes"][0]
    assert states(entry) == FOUND


@pytest.mark.exhaustive
async def test_what_a_parent_waits_for_is_its_last_event_if_its_status_has_no_conditions(
    desk: Desk, client: Client, group: str, tmp_path: Path
) -> None:
    await define(desk, group)
    waits = "data: {url: \"{{ lookup('v1', 'ConfigMap', 'missing').data.url }}\"}\n"
    config = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: web}}\n{waits}"
    templates = folder(tmp_path, f"things.{group}", config)
    async with operating(client, Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)):
        await desk.apply(thing(group))
        event = await desk.until_event("WaitingForDependency", "missing")
    text, entry = await shown(desk, templates)
    assert entry["event"]["reason"] == "WaitingForDependency"
    assert entry["event"]["time"] == event["eventTime"]
    assert re.search(r"last Event: WaitingForDependency: .*waiting for ConfigMap .*missing .*\(\d+s ago\)\n", text)


@pytest.mark.exhaustive
async def test_the_children_of_a_built_in_kind_are_found(desk: Desk, client: Client, tmp_path: Path) -> None:
    templates = folder(tmp_path, "serviceaccounts", "{% if name == 'own' %}\n" + CHILDREN + "{% endif %}\n")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "own"}}
    await made(desk, client, templates, account)
    _, entry = await shown(desk, templates, "serviceaccount/own")
    assert "the status of a ServiceAccount has no fields for the operator's report" in entry["notes"][0]
    assert states(entry) == FOUND


@pytest.mark.exhaustive
async def test_a_kind_that_the_user_cannot_list_is_named(
    desk: Desk, client: Client, group: str, tmp_path: Path
) -> None:
    await define(desk, group)
    templates = folder(tmp_path, f"things.{group}", CHILDREN)
    await made(desk, client, templates, thing(group))
    user = f"viewer-{desk.namespace}"
    rules = [
        {"apiGroups": [group], "resources": ["things"], "verbs": ["list"]},
        {"apiGroups": [""], "resources": ["configmaps", "services"], "verbs": ["list"]},
    ]
    await desk.apply(*allowed(user, rules, "viewer"))
    _, entry = await shown(desk, templates, kubeconfig=limited(desk.kubeconfig, tmp_path, user))
    assert states(entry) == {"ConfigMap/web": "Current", "Service/web": "Current"}
    why, skipped, events = entry["notes"]
    assert events == "its Events are not shown, because listing them is forbidden"
    assert f"its CRD can't be read (get of CustomResourceDefinition things.{group}" in why
    assert skipped.startswith("children of these kinds are not shown, because listing them is forbidden: ")
    assert {"persistentvolumeclaims", "secrets"} <= set(skipped.partition(": ")[2].split(", "))


@pytest.mark.exhaustive
async def test_a_kind_whose_age_the_user_cannot_read_is_named(desk: Desk, client: Client, tmp_path: Path) -> None:
    options = Options(templates=(ROOT / "templates",), namespaces=(desk.namespace,), listen=None)
    async with operating(client, options):
        await desk.apply_until_ready(echo("web"))
    user = f"viewer-{desk.namespace}"
    await desk.apply(
        *allowed(user, [{"apiGroups": ["example.com"], "resources": ["echoes"], "verbs": ["list"]}], "viewer")
    )
    kubeconfig = limited(desk.kubeconfig, tmp_path, user)
    text, entry = await shown(desk, ROOT / "templates", "echo/web", kubeconfig=kubeconfig)
    assert states(entry) == {"Deployment/web": "Current"}
    why = "the age of children of these kinds is not shown, because listing them is forbidden: deployments.apps"
    assert entry["notes"] == [why]
    assert f"Deployment {desk.namespace}/web  Current\n" in text


async def test_a_parent_without_a_report_has_a_note(desk: Desk) -> None:
    await desk.apply(echo("web"))
    text, entry = await shown(desk, ROOT / "templates")
    assert f"Echo {desk.namespace}/web  Unknown  " in text
    assert entry["notes"] == ["the operator has not reported anything yet"]


async def test_a_missing_permission_for_parents_is_a_one_line_error(desk: Desk, tmp_path: Path) -> None:
    kubeconfig = limited(desk.kubeconfig, tmp_path, f"nobody-{desk.namespace}")
    code, out, err = await run("status", "-n", desk.namespace, f"--kubeconfig={kubeconfig}")
    assert (code, out) == (1, "")
    assert "forbidden" in err
    assert "Traceback" not in err


@pytest.mark.exhaustive
async def test_parents_that_are_not_ready_come_first_and_are_counted(desk: Desk, client: Client) -> None:
    options = Options(templates=(ROOT / "templates",), namespaces=(desk.namespace,), listen=None)
    async with operating(client, options):
        await desk.apply_until_ready(echo("a-ready"))
        await desk.apply_until_ready(echo("b-ready"))
    await desk.apply(echo("unreported"))
    code, out, err = await run("status", f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}")
    assert (code, err) == (0, "")
    parents = [line.split()[1].rpartition("/")[2] for line in out.splitlines() if line.startswith("Echo ")]
    assert parents == ["unreported", "a-ready", "b-ready"]
    assert out.splitlines()[-1] == "3 parents: 1 Unknown, 2 Ready"
    for chosen, shown in (
        (("--only=unready",), "unreported"),
        (("--only=ready", "--text=b-READY echo"), "b-ready"),
        (("--text=nosuch",), "no parents"),
        (("--only=unready", "--only=suspended"), "no parents"),
    ):
        _, out, _ = await run("status", *chosen, f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}")
        assert shown in out
        assert not any(each in out for each in {*parents} - {shown})


@pytest.mark.more_cases
@pytest.mark.parametrize("arguments", [("echo", "one"), ("echoes.example.com/one",), ("echo/one", "echo/two"), ("ec",)])
async def test_parents_are_named_as_for_kubectl(desk: Desk, arguments: tuple[str, ...]) -> None:
    await desk.apply(echo("one"), echo("two"))
    target = (f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}", "--output=json")
    code, out, err = await run("status", *arguments, *target)
    if arguments == ("ec",):
        assert code == 1
        assert "the cluster serves no resource ec; did you mean " in err
        return
    assert (code, err) == (0, "")
    wanted = ["one", "two"] if len(arguments) == 2 and "/" in arguments[0] else ["one"]
    assert [each["name"] for each in json.loads(out)] == wanted


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("echo/wbe", "there is no echo/wbe in namespace NAMESPACE; did you mean web?"),
        ("ecoh/web", "the cluster serves no resource ecoh; did you mean echoes.example.com"),
        ("deploy/web", "there is no template folder deployments.apps; `ssa-operator tree deploy/web` shows any object"),
    ],
)
async def test_a_parent_that_does_not_exist_gets_a_suggestion(desk: Desk, reference: str, message: str) -> None:
    await desk.apply(echo("web"))
    code, out, err = await run("status", reference, "-n", desk.namespace, f"--kubeconfig={desk.kubeconfig}")
    assert (code, out) == (1, "")
    assert message.replace("NAMESPACE", desk.namespace) in err
    assert err.count("\n") == 1


@pytest.mark.slow
async def test_watched_status_prints_each_change_without_listing_again(
    desk: Desk, client: Client, cluster: Cluster, tmp_path: Path
) -> None:
    await desk.apply(echo("web"))
    user = f"watcher-{desk.namespace}"
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
    await desk.apply(*allowed(user, rules, "watcher"))
    kubeconfig = limited(desk.kubeconfig, tmp_path, user)
    arguments = ("status", "--watch", f"--namespace={desk.namespace}", f"--kubeconfig={kubeconfig}")

    def lists() -> int:
        mine = (event for event in audited(cluster) if event.get("impersonatedUser", {}).get("username") == user)
        return sum(event["verb"] == "list" for event in mine)

    async with started(*arguments) as command:
        await command.prints(f"Echo {desk.namespace}/web  Unknown")
        before = lists()
        options = Options(templates=(ROOT / "templates",), namespaces=(desk.namespace,), listen=None)
        async with operating(client, options):
            await command.prints(f"Echo {desk.namespace}/web  Ready")
            await command.prints(f"Deployment {desk.namespace}/web  Current")
        assert lists() == before
        assert "\x1b" not in "".join(command.printed)


@pytest.mark.exhaustive
async def test_status_in_a_terminal_changes_its_lines_in_place(desk: Desk, client: Client) -> None:
    await desk.apply(echo("web"))
    target = (f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}")
    options = Options(templates=(ROOT / "templates",), namespaces=(desk.namespace,), listen=None)
    async with terminal("status", "--watch", *target) as shown:
        await shown.shows(f"Echo {desk.namespace}/web  Unknown")
        async with operating(client, options):
            text = await shown.shows(
                f"Echo {desk.namespace}/web ", " Ready ", f"Deployment {desk.namespace}/web  Current"
            )
        assert "Unknown" not in text
        shown.press("\x03")
        assert await shown.ended() == 130


async def test_status_shows_parents_children_and_the_objects_that_they_wait_for(
    cluster: Cluster, client: Client, desk: Desk
) -> None:
    options = Options(templates=(ROOT / "templates",), namespaces=(desk.namespace,), listen=None)
    async with operating(client, options):
        await desk.apply(echo("web"))
        await desk.ready("echoes.example.com", "web")
    arguments = ("status", f"--namespace={desk.namespace}", f"--kubeconfig={cluster.kubeconfig}")
    code, out, _ = await run(*arguments)
    assert code == 0
    assert f"Echo {desk.namespace}/web  Ready" in out
    assert f"Deployment {desk.namespace}/web  Current" in out
    code, out, _ = await run(*arguments, "echo/web", "--output=json")
    assert json.loads(out)[0]["resources"][0]["kind"] == "Deployment"
    code, _, err = await run(*arguments, "echo/other")
    assert code == 1
    assert "there is no echo/other" in err
