"""`--impersonate`: what a parent creates and reads is bounded by the permissions of a service account beside it."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.auth import credentials
from ssa_operator.operator.http import Server
from ssa_operator.reconcile import impersonation as account_reviews
from ssa_operator.reconcile.finalization import finalizer
from ssa_operator.reconcile.parent_records.rules import FOLDER_KINDS
from ssa_operator.reconcile.status import requests as status_requests
from tests.cli.process import run
from tests.devcluster.audit import own_requests
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
    other_than,
    ready_condition,
)
from tests.operator.limited_accounts import API, BASICS, Rules, allowed, limited, with_token

pytestmark = pytest.mark.cluster

ACCOUNT = "deployer"

CHILDREN: Rules = [
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "delete"]},
    {"apiGroups": ["example.com"], "resources": ["echoes/finalizers"], "verbs": ["update"]},
]
"""The permissions that a tenant's account needs for ConfigMaps."""

CANARY = "canary-8f1c"
"""The content of a Secret that no tenant may read."""


def user(namespace: str) -> str:
    return f"system:serviceaccount:{namespace}:{ACCOUNT}"


def reading(resource: str, *verbs: str, names: tuple[str, ...] = ()) -> Rules:
    restricted = {"resourceNames": list(names)} if names else {}
    return [{"apiGroups": [""], "resources": [resource], "verbs": list(verbs), **restricted}]


async def grant(desk: Desk, rules: Rules, name: str = "children", account_namespace: str = "") -> None:
    """Grant permissions in the desk's namespace to an account, by default to that of the namespace."""
    await desk.apply(*allowed(user(account_namespace or desk.namespace), rules, name))


async def withdraw(desk: Desk, name: str) -> None:
    await desk.delete("rolebinding", name)


def writes(cluster: Cluster, namespace: str, resource: str) -> list[tuple[str, str, str]]:
    """The verb, the name and the impersonated user ('' for the operator itself) of an operator's writes."""
    return [
        (event["verb"], event["objectRef"].get("name", ""), event.get("impersonatedUser", {}).get("username", ""))
        for event in own_requests(cluster, namespace)
        if event["objectRef"]["resource"] == resource and event["verb"] not in ("get", "list", "watch")
    ]


@pytest.fixture
def short_lifetime(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers about permissions count for a moment only."""
    for module in (account_reviews, finalizer, status_requests):
        monkeypatch.setattr(module, "ANSWER_LIFETIME", 0.2)


@pytest.fixture
async def other(desk: Desk) -> AsyncIterator[Desk]:
    """Another namespace, with a Secret that the operator can read and the tenant's account can't."""
    name = f"other-{uuid.uuid4().hex[:8]}"
    await desk.kubectl("create", "namespace", name)
    async with desk.elsewhere(name) as elsewhere:
        await elsewhere.kubectl("create", "secret", "generic", "hidden", f"--from-literal=word={CANARY}")
        yield elsewhere
    await desk.delete("namespace", name, wait=False)


async def test_children_are_written_as_the_account_and_the_parent_as_the_operator(
    operate: Operate, desk: Desk, templates: Path, cluster: Cluster
) -> None:
    only(templates, a=map_template("a", v="spec.replicas"), b=map_template("b", v="'b'"))
    await grant(desk, CHILDREN)
    async with operate(impersonate=ACCOUNT, resync_rate=100.0, interval=0.2) as running:
        await desk.apply_until_ready(echo("web"))
        running.forget()
        await running.reconciled(3)  # resyncs, which apply again
        running.remove(f"{ECHOES}/b.yaml.j2")
        await desk.gone("configmaps", "web-b")
        await desk.ready(ECHOES, "web")
    made = [each for each in writes(cluster, desk.namespace, "configmaps") if each[1] != FOLDER_KINDS]
    assert {account for _, _, account in made} == {user(desk.namespace)}
    assert {(verb, name) for verb, name, _ in made} >= {("patch", "web-a"), ("patch", "web-b"), ("delete", "web-b")}
    assert len([each for each in made if each[:2] == ("patch", "web-a")]) > 2
    assert {account for _, _, account in writes(cluster, desk.namespace, "echoes")} == {""}
    assert {account for _, _, account in writes(cluster, desk.namespace, "events")} == {""}


async def test_a_missing_permission_is_a_condition_that_names_verb_resource_account_and_template_line(
    short_lifetime: None, operate: Operate, desk: Desk, templates: Path
) -> None:
    only(templates, a=map_template("a", v="'a'"))
    async with operate(impersonate=ACCOUNT):
        await desk.apply(echo("web"))
        words = ("patch", "configmaps", user(desk.namespace), f"{ECHOES}/a.yaml.j2:1")
        await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", *words))
        assert await desk.find("configmaps", "web-a") is None
        await grant(desk, CHILDREN)
        await desk.ready(ECHOES, "web")


async def test_a_record_that_the_account_may_not_read_is_a_condition_until_it_may(
    short_lifetime: None, operate: Operate, desk: Desk, templates: Path
) -> None:
    """Without what the record keeps, a render would generate other values."""
    only(templates, a=map_template("a", v="'a'"))
    await grant(desk, CHILDREN)
    kept = json.dumps([{"kind": "Secret", "namespace": desk.namespace, "name": "web"}])
    async with operate(impersonate=ACCOUNT):
        await desk.apply_until_ready(echo("web"))
        await desk.patch("echo", "web", metadata={"annotations": {"ssa-operator.dev/generated-values": kept}})
        words = ("get of Secret", "ssa-operator-kept-", user(desk.namespace), 'cannot get resource "secrets"')
        parent = await desk.until(ECHOES, "web", not_ready_because("Forbidden", *words))
        assert [each["name"] for each in parent["status"]["resources"]] == ["web-a"]
        await grant(desk, reading("secrets", "get"), "secrets")
        await desk.ready(ECHOES, "web")


async def test_the_account_has_the_groups_of_a_service_account(operate: Operate, desk: Desk, templates: Path) -> None:
    """For its requests, and for the reviews of what it may read."""
    only(templates, a=map_template("a", v="lookup('v1', 'ConfigMap', 'shared').data.v"))
    role, binding = allowed(user(desk.namespace), CHILDREN, "children")
    group = {"kind": "Group", "name": f"system:serviceaccounts:{desk.namespace}", "apiGroup": API}
    await desk.apply(role, {**binding, "subjects": [group]}, config_map("shared", v="1"))
    async with operate(impersonate=ACCOUNT):
        await desk.apply_until_ready(echo("web"))


async def test_an_operator_that_may_not_impersonate_reports_that(
    desk: Desk, templates: Path, options: MakeOptions, tmp_path: Path
) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ name }}-s\nstringData: {v: x}\n"
    only(templates, a=secret)
    await desk.kubectl("create", "serviceaccount", "operator")
    operator = f"system:serviceaccount:{desk.namespace}:operator"
    watches = [
        *reading("secrets", "list", "watch"),
        {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
    ]
    await desk.apply(*allowed(operator, [*BASICS, *watches], "operator"))
    path = with_token(desk.kubeconfig, tmp_path, await desk.kubectl("create", "token", "operator"))
    async with (
        Client(await credentials.load(str(path), None)) as client,
        operating(client, options(impersonate=ACCOUNT)),
    ):
        await desk.apply(echo("web"))
        # Kubernetes before 1.36 names the resource "serviceaccounts"; a later one names "secrets".
        await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", f'User "{operator}" cannot impersonate'))


async def test_a_kubeconfig_that_impersonates_can_not_be_used(desk: Desk, tmp_path: Path) -> None:
    kubeconfig = limited(desk.kubeconfig, tmp_path, "jane")
    code, _, err = await run("run", f"--impersonate={ACCOUNT}", "--listen=", f"--kubeconfig={kubeconfig}")
    assert (code, "--impersonate can't be used with a kubeconfig whose user has `as`" in err) == (1, True)


async def test_the_account_of_another_namespace_has_no_say(operate: Operate, desk: Desk, templates: Path) -> None:
    only(templates, a=map_template("a", v="'a'"))
    await desk.apply(*allowed(user("elsewhere"), CHILDREN, "other-account"))
    async with operate(impersonate=ACCOUNT):
        await desk.apply(echo("web"))
        await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", user(desk.namespace)))
        assert await desk.find("configmaps", "web-a") is None


SECRET_OF_SPEC = "lookup('v1', 'Secret', metadata.annotations['secret'], namespace=metadata.annotations['from'])"
READERS = {
    "plain": f"{SECRET_OF_SPEC}.data.word",
    "default": f"{SECRET_OF_SPEC}.data.word | default('none')",
    "optional": SECRET_OF_SPEC.replace(")", ", optional=true)") + ".data.word | default('none')",
    "ready": f"ready({SECRET_OF_SPEC})",
    "all": "lookup_all('v1', 'Secret', namespace=metadata.annotations['from']) | length",
    "digest": f"{SECRET_OF_SPEC} | tojson | sha256",
}


def asking(name: str, secret: str, namespace: str) -> dict[str, Any]:
    parent = echo(name)
    parent["metadata"]["annotations"] = {"secret": secret, "from": namespace}
    return parent


@pytest.mark.more_cases
@pytest.mark.parametrize("reader", READERS)
async def test_a_lookup_reads_nothing_that_the_account_may_not_read(
    reader: str,
    operate: Operate,
    desk: Desk,
    other: Desk,
    templates: Path,
    cluster: Cluster,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whoever chooses the name of a Secret in `spec` learns neither its content nor whether it exists."""
    only(templates, a=map_template("a", v=READERS[reader]))
    status = f"echoed: {{{{ {READERS['default']} }}}}\n"
    (templates / ECHOES / "_status.yaml.j2").write_text(status)
    await grant(desk, CHILDREN)
    async with operate(impersonate=ACCOUNT, namespaces=(desk.namespace, other.namespace)) as running:
        await desk.apply(asking("one", "hidden", other.namespace), asking("two", "absent", other.namespace))
        verb = "list" if reader == "all" else "get"
        words = (verb, "secrets", f"in {other.namespace}", user(desk.namespace), f"{ECHOES}/a.yaml.j2:6")
        messages = []
        for name, secret in (("one", "hidden"), ("two", "absent")):
            body = await desk.until(ECHOES, name, not_ready_because("WaitingForDependency", *words))
            assert "echoed" not in body["status"]
            messages.append(ready_condition(body)["message"].replace(secret, "SECRET").replace(name, "NAME"))
            assert await desk.find("configmaps", f"{name}-a") is None
        assert messages[0] == messages[1]
        watched = {each.scope.namespace for each in running.operator.controllers.lookups.reflectors}
        assert other.namespace not in watched
        async with Server(running.operator, "127.0.0.1", 0) as server, aiohttp.ClientSession() as session:
            shown = ""
            for path in (ECHOES, f"{ECHOES}/{desk.namespace}/one"):
                async with session.get(f"http://127.0.0.1:{server.port}/objects/{path}") as answer:
                    assert answer.status == 200
                    shown += await answer.text()
    events = await desk.kubectl("get", "events", "--output=json")
    for text in (caplog.text, events, shown, json.dumps(await desk.find(ECHOES, "one"))):
        assert CANARY not in text


@pytest.mark.slow
async def test_a_granted_permission_is_used_and_a_withdrawn_one_is_not(
    short_lifetime: None, operate: Operate, desk: Desk, other: Desk, templates: Path
) -> None:
    lookup = "lookup('v1', 'ConfigMap', 'shared', namespace=metadata.annotations['from']).data.v"
    only(templates, a=map_template("a", v=lookup))
    await grant(desk, CHILDREN)
    await other.apply(config_map("shared", v="1"))
    waits = not_ready_because("WaitingForDependency", "get configmaps shared", user(desk.namespace))
    async with operate(impersonate=ACCOUNT, resync_rate=100.0, interval=0.2):
        await desk.apply(asking("web", "", other.namespace))
        await desk.until(ECHOES, "web", waits)
        await grant(other, reading("configmaps", "get", names=("shared",)), "reader", desk.namespace)
        await desk.until("configmaps", "web-a", holds(v="1"))
        await desk.ready(ECHOES, "web")
        await withdraw(other, "reader")
        await desk.until(ECHOES, "web", waits)
        await other.apply(config_map("shared", v="2"))
        await desk.until(ECHOES, "web", waits)
        # What was applied stays as it is.
        assert (await desk.read("configmaps", "web-a"))["data"] == {"v": "1"}


async def test_an_account_that_may_not_read_its_children_gets_no_content_of_them(
    operate: Operate, desk: Desk, templates: Path
) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ name }}-s\nstringData:\n  v: hidden\n"
    only(
        templates,
        secret=secret,
        child=map_template("child", v="child('Secret', name ~ '-s').data.v"),
        live=map_template("live", v="live('Secret', name ~ '-s').data.v | default('-')"),
        generated=secret.replace("-s", "-g").replace("hidden", "{{ generated() }}"),
    )
    write_only = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "patch"]}]
    await grant(desk, [*CHILDREN, *write_only])
    async with operate(impersonate=ACCOUNT):
        await desk.apply(echo("web"))
        words = ("get secrets web-s", user(desk.namespace), f"{ECHOES}/live.yaml.j2:6")
        body = await desk.until(ECHOES, "web", not_ready_because("RenderFailed", *words))
        assert (await desk.read("secrets", "web-s"))["metadata"]["name"] == "web-s"
        assert await desk.find("configmaps", "web-child") is None
        # The first render found no such child.
        assert (await desk.read("configmaps", "web-live"))["data"] == {"v": "-"}
        assert await desk.find("secrets", "web-g") is None
        assert "get secrets web-g" in json.dumps(body["status"])
        await grant(desk, reading("secrets", "get"), "secrets")
    async with operate(impersonate=ACCOUNT):
        await desk.ready(ECHOES, "web")


async def test_an_existing_object_is_read_and_adopted_as_the_account(
    short_lifetime: None, operate: Operate, desk: Desk, templates: Path, cluster: Cluster
) -> None:
    only(templates, a=map_template("a", v="'a'"))
    await desk.apply(config_map("web-a", v="before"))
    await grant(desk, [{**CHILDREN[0], "verbs": ["create", "patch"]}, CHILDREN[1]])
    async with operate(impersonate=ACCOUNT):
        await desk.apply(echo("web"))
        words = ("cannot get", "configmaps", user(desk.namespace))
        await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", *words))
        assert (await desk.read("configmaps", "web-a"))["data"] == {"v": "before"}
        await grant(desk, CHILDREN)
        await desk.until("configmaps", "web-a", holds(v="a"))
    reads = [each for each in own_requests(cluster, desk.namespace) if each["objectRef"].get("name") == "web-a"]
    gets = [each for each in reads if each["verb"] == "get" and each["objectRef"]["resource"] == "configmaps"]
    assert gets
    assert {each.get("impersonatedUser", {}).get("username") for each in gets} == {user(desk.namespace)}


async def test_an_immutable_object_is_recreated_and_a_hook_runs_as_the_account(
    operate: Operate, desk: Desk, templates: Path, cluster: Cluster
) -> None:
    frozen = map_template("a", v="spec.replicas").replace("\ndata:", "\nimmutable: true\ndata:")
    annotated = frozen.replace("metadata:\n", "metadata:\n  annotations: {ssa-operator.dev/recreate: Background}\n")
    hook = map_template("hook", v="'h'").replace(
        "metadata:\n", "metadata:\n  annotations: {ssa-operator.dev/on: finalize}\n"
    )
    only(templates, a=annotated, hook=hook)
    await grant(desk, CHILDREN)
    async with operate(impersonate=ACCOUNT):
        await desk.apply_until_ready(echo("web"))
        old = await desk.read("configmaps", "web-a")
        await desk.patch("echo", "web", spec={"replicas": 2})
        await desk.until("configmaps", "web-a", other_than(old))
        await desk.ready(ECHOES, "web")
        await desk.kubectl("delete", "echo", "web", "--timeout=60s")
    made = [each for each in writes(cluster, desk.namespace, "configmaps") if each[1] != FOLDER_KINDS]
    assert {account for _, _, account in made} == {user(desk.namespace)}
    assert {("delete", "web-a"), ("patch", "web-hook")} <= {(verb, name) for verb, name, _ in made}


@pytest.mark.exhaustive
async def test_a_cluster_scoped_parent_is_refused_unless_its_folder_allows_cluster_scope(
    operate: Operate, desk: Desk, templates: Path, cluster: Cluster
) -> None:
    group = f"{uuid.uuid4().hex[:8]}.example.com"
    gadgets = f"gadgets.{group}"
    await desk.define(definition("gadgets", group, "Gadget", scope="Cluster"))
    (templates / gadgets).mkdir()
    text = map_template("a", v="'a'").replace("metadata:\n", f"metadata:\n  namespace: {desk.namespace}\n")
    (templates / gadgets / "a.yaml.j2").write_text(text)
    try:
        async with operate(impersonate=ACCOUNT) as running:
            await desk.apply({"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": {"name": "g"}})
            words = ("cluster-scoped", ACCOUNT, "clusterScope: true")
            await desk.until(gadgets, "g", not_ready_because("ClusterScoped", *words))
            assert await desk.find("configmaps", "g-a") is None
            running.write(f"{gadgets}/_settings.yaml", "clusterScope: true\n")
            await desk.ready(gadgets, "g")
        assert {account for _, _, account in writes(cluster, desk.namespace, "configmaps")} == {""}
    finally:
        await desk.delete("crd", gadgets, wait=False)
