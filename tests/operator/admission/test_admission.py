"""`--admission`: the API server refuses a parent whose templates fail, and asks nobody once the operator is gone."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, ErrorStatus
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.json_codec import encode
from ssa_operator.operator.admission import webhook
from ssa_operator.operator.admission.parent_review import ParentReview
from ssa_operator.operator.admission.rules import AdmissionRequest, configuration, field_manager, webhook_name
from ssa_operator.operator.admission.webhook import CONFIGURATIONS, Webhook
from ssa_operator.operator.permissions.operator_needs import CERTIFICATE, CONFIGURATION, admission_needs
from ssa_operator.operator.permissions.rbac_roles import Account, binding_body, role_body, roles
from ssa_operator.operator.webhooks import registered_webhook
from ssa_operator.operator.webhooks import shared_certificate as certificates
from ssa_operator.operator.webhooks.shared_certificate import LIFETIME, SECRETS, KeptCertificate
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.values import limits
from tests.devcluster.waiting import until
from tests.docs.blocks.pages import blocks
from tests.operator.harness import (
    ECHOES,
    PATIENCE,
    Desk,
    Operate,
    Running,
    config_map,
    definition,
    echo,
    map_template,
    only,
    requests_for,
)
from tests.operator.limited_accounts import API, acting_as, allowed

pytestmark = pytest.mark.cluster

AT_MOST_NINE = '{% if spec.replicas > 9 %}\n{{ fail("at most 9 replicas") }}\n{% endif %}\n' + map_template(
    "a", v="'1'"
)
"""A template that fails in line 2 for more than nine replicas."""

REFUSED = f"{ECHOES}/a.yaml.j2:2: at most 9 replicas"


(SHOWN,) = (block for block in blocks("docs/permissions.md") if "denied the request" in block.text)

READ = (SHOWN,)
"""The blocks of pages that these tests read."""


def shown_in_the_documentation(namespace: str) -> str:
    """The message of docs/permissions.md, for these templates and an object from standard input."""
    command, message = SHOWN.text.splitlines()
    assert command == "$ kubectl apply -f web.yaml"
    ours = {
        "web.yaml": "STDIN",
        "deployment.yaml.j2:12": "a.yaml.j2:2",
        webhook_name("ssa-operator"): webhook_name(namespace),
    }
    for theirs, own in ours.items():
        assert theirs in message
        message = message.replace(theirs, own)
    return message


class MovedClock:
    """The machine's clock, moved by `seconds`."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return SYSTEM.now() + self.seconds

    monotonic = staticmethod(SYSTEM.monotonic)
    random = staticmethod(SYSTEM.random)
    sleep = staticmethod(SYSTEM.sleep)


@dataclass
class Judged:
    """An operator with a webhook, and the cluster whose API server asks it."""

    running: Running
    desk: Desk
    webhook: asyncio.Task[None]

    async def refusal(self, body: dict[str, Any], *arguments: str) -> str:
        """What kubectl prints when the API server refuses an object, '' if it is stored."""
        try:
            await self.desk.kubectl("apply", "-f", "-", *arguments, stdin=json.dumps(body))
        except AssertionError as error:
            return str(error)
        return ""

    async def until_refused(self, body: dict[str, Any], word: str = "") -> str:
        """Return what kubectl prints, once the API server refuses the object. Each attempt is a dry run."""
        async with asyncio.timeout(PATIENCE):
            while True:
                message = await self.refusal(body, "--dry-run=server")
                if message and word in message:
                    return message

    async def registration(self) -> dict[str, Any]:
        """The webhook of this operator in the cluster."""
        live = await self.desk.client.get(CONFIGURATIONS, CONFIGURATION)
        return next(each for each in live.body["webhooks"] if each["name"] == webhook_name(self.desk.namespace))


Judge = Callable[..., contextlib.AbstractAsyncContextManager[Judged]]


@pytest.fixture
def judge(operate: Operate, desk: Desk) -> Judge:
    """Runs an operator with a webhook on a free port; arguments are its options."""

    @contextlib.asynccontextmanager
    async def judging(clock: Clock = SYSTEM, port: int = 0, **changes: Any) -> AsyncIterator[Judged]:
        installed = Installation(namespace=desk.namespace)
        async with operate(installation=installed, **changes) as running:
            await running.operator.started.wait()
            serving = asyncio.create_task(Webhook(running.operator, "127.0.0.1", port, clock).run())
            try:
                yield Judged(running, desk, serving)
            finally:
                serving.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await serving

    return judging


async def test_a_parent_whose_template_fails_is_refused_with_file_line_and_reason(
    judge: Judge, desk: Desk, templates: Path
) -> None:
    only(templates, a=AT_MOST_NINE)
    async with judge() as judged:
        await judged.until_refused(echo("web", 10))
        message = await judged.refusal(echo("web", 10))
        assert f'admission webhook "{webhook_name(desk.namespace)}" denied the request: {REFUSED}' in message
        assert shown_in_the_documentation(desk.namespace) in message
        assert await desk.find(ECHOES, "web") is None
        await desk.apply_until_ready(echo("web", 9))


async def test_a_manifest_that_breaks_a_rule_is_refused(judge: Judge, desk: Desk, templates: Path) -> None:
    twice = map_template("a", v="'1'")
    cycle = "{% if spec.replicas > 1 %}\n" + map_template("x", v="child('ConfigMap', name ~ '-y').data.v")
    cycle += "---\n" + map_template("y", v="child('ConfigMap', name ~ '-x').data.v") + "{% endif %}\n"
    only(templates, a=twice, b="{% if spec.replicas == 1 %}\n" + twice + "{% endif %}\n", c=cycle)
    async with judge() as judged:
        message = await judged.until_refused(echo("web", 1))
        assert f"{ECHOES}/b.yaml.j2:2: ConfigMap {desk.namespace}/web-a is rendered twice" in message
        message = await judged.refusal(echo("web", 2))
        assert f"{ECHOES}/c.yaml.j2:7: ConfigMap {desk.namespace}/web-x" in message
        assert "ConfigMap/web-y" in message


async def test_a_dry_run_leaves_no_trace(judge: Judge, desk: Desk, templates: Path, cluster: Cluster) -> None:
    read = "lookup('v1', 'ConfigMap', 'shared', optional=true).data.v | default('none')"
    only(templates, a=AT_MOST_NINE, b=map_template("b", v=read))
    async with judge() as judged:
        await judged.until_refused(echo("web", 10))
        assert await judged.refusal(echo("web", 9), "--dry-run=server") == ""
        assert judged.running.reconciles == []
        assert [*judged.running.operator.controllers.lookups.reflectors] == []
        assert requests_for(cluster, desk.namespace, "web") == []
        assert await desk.kubectl("get", "events", "-o", "name") == ""


async def test_an_update_is_refused_only_for_problems_that_the_stored_object_does_not_have(
    judge: Judge, desk: Desk, templates: Path
) -> None:
    only(templates, a=map_template("a", v="'1'"))
    async with judge() as judged:
        await desk.apply(echo("web", 10))
        only(templates, a=AT_MOST_NINE, b="{% if spec.replicas > 20 %}{{ fail('far too many') }}{% endif %}\n")
        await judged.until_refused(echo("other", 10))
        await desk.kubectl("label", "echo", "web", "a=b")
        await desk.kubectl("annotate", "echo", "web", "ssa-operator.dev/suspend=true")
        assert await judged.refusal(echo("web", 11)) == ""
        message = await judged.refusal(echo("web", 21))
        assert ("far too many" in message, "at most 9" in message) == (True, False)
        await desk.kubectl("patch", "echo", "web", "--subresource=status", "--type=merge", '-p={"status":{}}')
        await desk.delete("echo", "web")


async def test_parents_are_stored_at_once_when_the_operator_is_gone(
    judge: Judge, desk: Desk, templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(templates, a=AT_MOST_NINE)
    monkeypatch.setattr(webhook, "REMOVAL_TIMEOUT", 0.0)  # as after a crash
    async with judge() as judged:
        await judged.until_refused(echo("web", 10))
    assert (await judged.registration())["failurePolicy"] == "Ignore"
    await desk.apply(echo("web", 10))
    await desk.delete(CONFIGURATIONS.name, CONFIGURATION)


@pytest.mark.exhaustive
async def test_a_webhook_with_a_url_removes_its_registration_alone(judge: Judge, desk: Desk, templates: Path) -> None:
    only(templates, a=AT_MOST_NINE)
    others = {"name": "others.ssa-operator.dev", "clientConfig": {"url": "https://127.0.0.1:1/"}}
    others |= {"sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore"}
    async with judge() as judged:
        await judged.until_refused(echo("web", 10))
        path = f"--patch={json.dumps({'webhooks': [others]})}"
        await desk.kubectl("patch", CONFIGURATIONS.name, CONFIGURATION, "--type=strategic", path)
    live = await desk.client.get(CONFIGURATIONS, CONFIGURATION)
    assert [each["name"] for each in live.body["webhooks"]] == ["others.ssa-operator.dev"]
    await desk.delete(CONFIGURATIONS.name, CONFIGURATION)
    async with judge() as judged:
        await judged.until_refused(echo("web", 10))
    assert await desk.client.find(CONFIGURATIONS, CONFIGURATION) is None


@pytest.mark.exhaustive
async def test_the_registration_follows_the_template_folders(judge: Judge, desk: Desk, templates: Path) -> None:
    only(templates, a=AT_MOST_NINE)
    suffix = uuid.uuid4().hex[:6]
    await desk.define(definition(f"teams{suffix}", "example.com", f"Team{suffix}", scope="Cluster"))
    team = {"apiVersion": "example.com/v1", "kind": f"Team{suffix}", "metadata": {"name": f"a{suffix}"}}
    async with judge(selector="tier in (a, b),!old") as judged:
        labelled = echo("web", 10)
        labelled["metadata"]["labels"] = {"tier": "a"}
        await judged.until_refused(labelled)
        assert await judged.refusal(echo("web", 10), "--dry-run=server") == ""
        judged.running.write(f"teams{suffix}.example.com/a.yaml.j2", "{{ fail('no teams') }}")
        team["metadata"]["labels"] = {"tier": "b"}  # type: ignore[index]
        await judged.until_refused(team, "no teams")
        registered = await judged.registration()
        assert [(rule["resources"], rule["scope"]) for rule in registered["rules"]] == [
            (["echoes"], "Namespaced"),
            ([f"teams{suffix}"], "Cluster"),
        ]
        assert registered["namespaceSelector"]["matchExpressions"][0]["values"] == [desk.namespace]


@pytest.mark.exhaustive
async def test_what_waits_is_allowed(judge: Judge, desk: Desk, templates: Path) -> None:
    waiting = map_template("b", v="lookup('v1', 'ConfigMap', 'absent').data.v")
    unserved = map_template("c", v="'1'").replace("ConfigMap", "Unserved").replace("v1", "nowhere.example.com/v1")
    only(templates, a=AT_MOST_NINE, b=waiting, c=unserved)
    async with judge() as judged:
        await judged.until_refused(echo("web", 10))
        await desk.apply(echo("web", 9))


@pytest.mark.exhaustive
async def test_a_lookup_is_judged_once_it_is_watched(judge: Judge, desk: Desk, templates: Path) -> None:
    limit = (
        "{% if spec.replicas > (lookup('v1', 'ConfigMap', 'limit').data.v | int) %}\n{{ fail('too many') }}{% endif %}"
    )
    only(templates, a=limit + "\n" + map_template("a", v="'1'"))
    await desk.apply(config_map("limit", v="3"))
    async with judge() as judged:
        await desk.apply_until_ready(echo("first", 3))
        await judged.until_refused(echo("web", 4), "a.yaml.j2:2: too many")
        await desk.apply_until_ready(echo("web", 3))


async def test_no_content_of_a_secret_is_in_a_refusal(judge: Judge, desk: Desk, templates: Path) -> None:
    word = "{% set word = lookup('v1', 'Secret', 'hidden').data.word | b64decode %}\n"
    fails = word + "{% if spec.replicas > 9 %}{{ fail('the word is ' ~ word) }}{% endif %}\n"
    only(templates, a=fails + map_template("a", v="word | length"))
    await desk.kubectl("create", "secret", "generic", "hidden", "--from-literal=word=canary-8f1c")
    async with judge() as judged:
        await desk.apply_until_ready(echo("first", 1))
        message = await judged.until_refused(echo("web", 10))
        assert f"{ECHOES}/a.yaml.j2:2" in message
        assert "canary" not in message


async def problems(running: Running, body: dict[str, Any], old_body: dict[str, Any] | None = None) -> tuple[str, ...]:
    """The judgement on a parent, without the way through the API server."""
    await running.operator.started.wait()
    resource = running.operator.folders[ECHOES].served.resource
    asked = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    request: dict[str, Any] = {"uid": "1", "operation": "CREATE" if old_body is None else "UPDATE", "resource": asked}
    request |= {"object": body, "oldObject": old_body}
    return await ParentReview(running.operator).problems(msgspec.convert(request, AdmissionRequest))


def created(desk: Desk, replicas: int) -> dict[str, Any]:
    """A parent as the API server shows it to a webhook."""
    body = echo("web", replicas)
    body["metadata"] |= {"uid": "1", "namespace": desk.namespace, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return body


async def test_what_the_account_may_not_read_refuses_nothing(operate: Operate, desk: Desk, templates: Path) -> None:
    only(templates, a="{% if lookup('v1', 'ConfigMap', 'limit').data.v == 'none' %}\n{{ fail('none') }}{% endif %}\n")
    await desk.apply(config_map("limit", v="none"))
    async with operate(impersonate="deployer") as running:
        await desk.apply(echo("first"))
        await running.reconciled(1)
        assert await problems(running, created(desk, 1)) == ()
    account = f"system:serviceaccount:{desk.namespace}:deployer"
    await desk.apply(*allowed(account, [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}], "reader"))
    async with operate(impersonate="deployer") as running:
        await running.reconciled(1)
        assert await problems(running, created(desk, 1)) == (f"{ECHOES}/a.yaml.j2:2: none",)


async def test_children_that_the_process_does_not_know_are_not_taken_for_missing_ones(
    operate: Operate, desk: Desk, templates: Path
) -> None:
    """As those of a parent of another shard, or of one that was not reconciled since the operator started."""
    missing = "{% if not live('ConfigMap', 'absent') and spec.replicas > 1 %}{{ fail('no child') }}{% endif %}\n"
    only(templates, a=AT_MOST_NINE, b=missing)
    lacks = (f"{ECHOES}/b.yaml.j2:1: no child",)
    async with operate() as running:
        known, unknown = await desk.apply_until_ready(echo("web")), created(desk, 1)
        # The status is there before the reconcile has ended.
        await until(lambda: not running.operator.queue.processing())
        assert await problems(running, created(desk, 2)) == lacks
        assert await problems(running, {**known, "spec": {"replicas": 2}}, known) == lacks
        assert await problems(running, created(desk, 2), unknown) == ()


async def test_an_error_of_the_operator_allows_the_parent_with_a_warning(
    judge: Judge, desk: Desk, templates: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    only(templates, a=AT_MOST_NINE)

    async def fails(_: ParentReview, _request: AdmissionRequest) -> tuple[str, ...]:
        raise KeyError("canary")

    async with judge() as judged:
        await judged.until_refused(echo("web", 10))
        monkeypatch.setattr(ParentReview, "problems", fails)
        await desk.apply(echo("web", 10))
    assert "a parent of echoes was not judged: KeyError" in caplog.text
    assert "canary" not in caplog.text


async def test_a_request_that_takes_too_long_is_allowed(
    judge: Judge, desk: Desk, templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only(templates, a=AT_MOST_NINE)

    async def waits(_: ParentReview, _request: AdmissionRequest) -> tuple[str, ...]:
        await asyncio.Event().wait()
        return ()

    async with judge() as judged:
        await judged.until_refused(echo("web", 10))
        monkeypatch.setattr(ParentReview, "problems", waits)
        monkeypatch.setattr(webhook, "ANSWER_DEADLINE", 0.1)
        await desk.apply(echo("web", 10))


ENDLESS = (
    "{% if name == 'slow' %}{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}{% endif %}\n"
)
"""A part of a template that takes all the time that a render has."""


@pytest.mark.exhaustive
async def test_a_judgement_whose_render_is_slow_ends_at_its_deadline_and_holds_up_no_other(
    judge: Judge, desk: Desk, templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SECONDS_LIMIT", 600.0)
    monkeypatch.setattr(limits, "WORK_LIMIT", 2**60)
    only(templates, a=ENDLESS + AT_MOST_NINE)
    async with judge() as judged:
        await judged.until_refused(echo("web", 10))
        # It is allowed, because no render may hold up its author, and its reconcile goes on in the thread.
        await desk.apply(echo("slow"))
        await judged.until_refused(echo("web", 10))
        await desk.apply_until_ready(echo("web", 9))
        assert "status" not in await desk.read(ECHOES, "slow")


@pytest.mark.exhaustive
async def test_a_judgement_whose_render_takes_its_whole_time_names_the_line(
    operate: Operate, desk: Desk, templates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WORK_LIMIT", 2**60)
    only(templates, a=ENDLESS + AT_MOST_NINE)
    async with operate() as running:
        await running.operator.started.wait()
        slow = created(desk, 1)
        slow["metadata"]["name"] = "slow"
        (why,) = await problems(running, slow)
        assert why.startswith(f"{ECHOES}/a.yaml.j2:1: rendering takes longer than 1 second")


async def test_only_the_api_server_knows_the_path(judge: Judge, templates: Path) -> None:
    only(templates, a=AT_MOST_NINE)
    async with judge() as judged:
        await judged.until_refused(echo("web", 10))
        url = (await judged.registration())["clientConfig"]["url"]
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
            async with session.post(url, data=b"{}") as answer:
                assert answer.status == 400
            async with session.post(f"{url}x", data=b"{}") as answer:
                assert answer.status == 404


# Certificates.


@pytest.fixture
def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def presented(port: int) -> str:
    return ssl.get_server_certificate(("127.0.0.1", port))


@pytest.mark.exhaustive
@pytest.mark.parametrize("shared", [False, True], ids=["url", "service"])
async def test_a_renewed_certificate_keeps_working(
    judge: Judge, desk: Desk, templates: Path, monkeypatch: pytest.MonkeyPatch, free_port: int, *, shared: bool
) -> None:
    only(templates, a=AT_MOST_NINE)
    monkeypatch.setattr(registered_webhook, "CHECK_INTERVAL", 0.1)
    monkeypatch.setattr(registered_webhook, "PROPAGATION", 0.5)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "webhook"}}
    # The API server connects to the external name itself.
    await desk.apply({**service, "spec": {"type": "ExternalName", "externalName": "localhost"}})
    clock = MovedClock()
    clock.seconds = -(LIFETIME.total_seconds() - 86400)
    async with judge(clock, free_port, admission_service=("webhook", free_port) if shared else None) as judged:
        await judged.until_refused(echo("web", 10))
        before, trusted = await asyncio.to_thread(presented, free_port), await judged.registration()
        clock.seconds = 0.0
        async with asyncio.timeout(PATIENCE):
            while await asyncio.to_thread(presented, free_port) == before:  # noqa: ASYNC110 - a server has no event for it
                await asyncio.sleep(0.05)
        after = await judged.registration()
        assert trusted["clientConfig"]["caBundle"] != after["clientConfig"]["caBundle"]
        # The API server asks by a new connection, because the configuration changed.
        assert REFUSED in await judged.refusal(echo("web", 10), "--dry-run=server")
    if shared:
        assert (await judged.registration())["failurePolicy"] == "Ignore"
        await desk.delete(CONFIGURATIONS.name, CONFIGURATION)


async def test_a_registration_that_fails_is_logged_once_and_repeated(
    judge: Judge, templates: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    only(templates, a=AT_MOST_NINE)
    attempts, third = 0, asyncio.Event()

    async def refused(*_: object) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 3:
            third.set()
        raise ApiError("apply of the configuration", ErrorStatus(code=403, reason="Forbidden"))

    monkeypatch.setattr(registered_webhook, "RETRY_INTERVAL", 0.01)
    monkeypatch.setattr(Webhook, "_register", refused)
    async with judge(), asyncio.timeout(PATIENCE):
        await third.wait()
    assert caplog.text.count("the webhook is not registered: apply of the configuration") == 1


async def test_replicas_that_start_together_share_one_certificate(desk: Desk, client: Client) -> None:
    clock = MovedClock()
    stores = [KeptCertificate(client, desk.namespace, clock.now) for _ in range(4)]
    found = await asyncio.gather(*(each.current() for each in stores))
    assert [each == found[0] for each in found] == [True] * 4
    assert await KeptCertificate(client, desk.namespace, clock.now).current() == found[0]
    clock.seconds = LIFETIME.total_seconds() - certificates.RENEWAL.total_seconds()
    renewed = await asyncio.gather(*(each.current() for each in stores))
    assert [each == renewed[0] for each in renewed] == [True] * 4
    assert (renewed[0].certificate != found[0].certificate, renewed[0].token) == (True, found[0].token)
    assert renewed[0].authorities.endswith(found[0].authorities)


async def test_a_secret_without_a_certificate_gets_one(desk: Desk, client: Client) -> None:
    await desk.kubectl("create", "secret", "generic", CERTIFICATE, "--from-literal=tls.crt=nonsense")
    made = await KeptCertificate(client, desk.namespace, SYSTEM.now).current()
    live = await client.get(SECRETS, CERTIFICATE, desk.namespace)
    assert certificates.read_certificate(live.body["data"]) == made


async def test_what_rbac_prints_is_enough(desk: Desk, tmp_path: Path) -> None:
    user, clock = f"webhook-{desk.namespace}", MovedClock()
    account = Account(name=user, namespace=desk.namespace)
    for role in roles(admission_needs(desk.namespace), account):
        subject = {"kind": "User", "name": user, "apiGroup": API}
        await desk.apply(role_body(role, {}), {**binding_body(role, account, {}), "subjects": [subject]})
    manager = ApplyOptions(manager=field_manager(desk.namespace))
    async with acting_as(user, desk, tmp_path) as limited:
        store = KeptCertificate(limited, desk.namespace, clock.now)
        made = await store.current()
        clock.seconds = LIFETIME.total_seconds()
        assert await store.current() != made
        for _ in ("created", "changed"):
            await limited.apply(CONFIGURATIONS, "", CONFIGURATION, encode(configuration([])), manager)
    await desk.delete(CONFIGURATIONS.name, CONFIGURATION)
