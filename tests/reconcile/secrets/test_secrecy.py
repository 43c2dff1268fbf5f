"""A Secret's content that a template reads is never shown: not in status, Events, logs, metrics or at /objects."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from tests.operator.harness import (
    ECHOES,
    Desk,
    MakeOptions,
    Operate,
    echo,
    not_ready_because,
    only,
    operating,
    ready_condition,
    shown,
)
from tests.operator.limited_accounts import BASICS, acting_as, allowed

pytestmark = pytest.mark.cluster

SET = "{% set pw = lookup('v1', 'Secret', 'leaky').data.pw | b64decode %}\n"


def config(name: str, data: str, annotations: str = "", kind: str = "ConfigMap") -> str:
    noted = f"  annotations:\n    {annotations}\n" if annotations else ""
    return f"{SET}apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n{noted}data:\n{data}"


LEAKS = {
    "twice": config("twice", "  {{ pw }}: a\n  {{ pw }}: b\n"),
    "duration": config("duration", "  a: '{{ expired(pw) }}'\n"),
    "generated": config("generated", "  a: {{ generated(pw) }}\n"),
    "instruction": config("instruction", "  a: b\n", "ssa-operator.dev/recreate: '{{ pw }}'"),
    "child": config("child", "  a: {{ child('ConfigMap', pw).data.a }}\n"),
    "lookup": config("lookup", "  a: {{ lookup('v1', 'ConfigMap', pw).data.a }}\n"),
    "far": config("far", "  a: {{ lookup('v1', 'ConfigMap', 'x', namespace=pw | lower).data.a }}\n"),
    "unknown": config("unknown", "  a: {{ lookup(pw, pw, 'x').data.a }}\n"),
    "rule": config("rule", "  a: b\n", "ssa-operator.dev/ready-when: \"data.a == '{{ pw }}'\""),
    "rule that fails": config("fails", "  a: {{ pw }}\n", "ssa-operator.dev/ready-when: \"fail('no ' ~ data.a)\""),
    "rule that is no expression": config("rule", "  a: b\n", "ssa-operator.dev/ready-when: '{{ pw }}('"),
    "after": config("after", "  a: b\n", "ssa-operator.dev/after: 'Job/{{ pw }}'"),
    "field": config("field", "  a: {{ spec[pw] }}\n"),
    "number": config("number", "  a: {{ {'b': 1}[pw] + 1 }}\n"),
    "decoded": config("decoded", "  a: {{ pw | b64decode }}\n"),
    "named": config("'{{ pw }}'", "  a: b\n"),
    "kind": config("kind", "  a: b\n", kind="{{ pw }}"),
    "label": config("label", "  a: b\n").replace("data:", "  labels: {a: '{{ pw }}!'}\ndata:"),
    "binary": config("binary", "  a: b\n").replace("data:", "binaryData:\n  a: '{{ pw }}'\ndata:"),
    "other": config("other", "  a: {b: '{{ pw }}'}\n"),
    "secret": config("secret", "  a: '{{ pw }}'\n", kind="Secret"),
    "yaml": config("yaml", "  a: b\n").replace("data:", "{{ pw }}: 1\ndata:"),
}


async def messages_of(desk: Desk, caplog: pytest.LogCaptureFixture) -> str:
    """The log, the Events and the statuses of an operator that has ended."""
    events = await desk.kubectl("get", "events", "-o", "json")
    statuses = await desk.kubectl("get", "echoes", "-o", "json")
    return f"{caplog.text}\n{events}\n{statuses}"


def is_redacted(words: str) -> bool:
    """Whether a text contains nothing of the Secret, in no case and not encoded."""
    return not any(form in words.lower() for form in ("leakme", "hunter2", "tevbs01f"))


NAMED = config("{{ pw | lower }}", "  a: b\n")


@pytest.fixture
async def folder(desk: Desk, templates: Path) -> Path:
    """The empty folder of an Echo's templates, beside a Secret that they read."""
    await desk.kubectl("create", "secret", "generic", "leaky", "--from-literal=pw=LEAKME-hunter2")
    return only(templates) / ECHOES


@pytest.mark.more_cases
@pytest.mark.parametrize("case", LEAKS)
async def test_no_message_contains_a_secrets_content(
    case: str, desk: Desk, operate: Operate, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ssa_operator")
    (folder / "a.yaml.j2").write_text(LEAKS[case])
    async with operate() as running:
        await desk.apply(echo("web"))
        found = await desk.until(ECHOES, "web", lambda body: bool(ready_condition(body).get("message")))
        assert ready_condition(found)["status"] == "False"
        words = shown(running)
    assert is_redacted(words + await messages_of(desk, caplog))


async def test_an_object_that_a_secret_gives_its_name_is_not_named(
    desk: Desk, operate: Operate, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ssa_operator")
    (folder / "a.yaml.j2").write_text(NAMED)
    async with operate() as running:
        await desk.apply_until_ready(echo("web"))
        await desk.read("configmaps", "leakme-hunter2")
        words = shown(running)
    assert is_redacted(words + await messages_of(desk, caplog))


async def test_a_status_field_that_would_publish_a_secret_is_left_out_and_named(
    desk: Desk, operate: Operate, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "a.yaml.j2").write_text(config("a", "  a: b\n"))
    (folder / "_status.yaml.j2").write_text(SET + "url: '{{ pw }}'\nreadyReplicas: 3\n")
    async with operate() as running:
        found = await desk.apply_until_ready(echo("web"))
        assert found["status"]["readyReplicas"] == 3
        assert "url" not in found["status"]
        assert "status.url is left out, because it contains a Secret's content" in ready_condition(found)["message"]
        words = shown(running)
    assert is_redacted(words + await messages_of(desk, caplog))


async def test_causes_that_hold_nothing_of_the_secret_are_shown_in_full(
    desk: Desk, operate: Operate, folder: Path
) -> None:
    rest = "spec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: c}}\n    spec:\n"
    rest += "      containers: [{name: c, image: i, env: [{name: P, value: '{{ pw }}'}]}]\n"
    text = f"{SET}apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n{rest}"
    (folder / "a.yaml.j2").write_text(text)
    async with operate():
        await desk.apply(echo("web"))
        words = "`selector` does not match template `labels`"
        found = await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", words))
    assert "LEAKME" not in json.dumps(found)


async def test_a_watch_of_an_object_that_a_secret_names_does_not_show_the_name(
    desk: Desk, options: MakeOptions, folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "ssa_operator")
    user = f"reader-{desk.namespace}"
    secrets = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["list", "watch"]}
    await desk.apply(*allowed(user, [*BASICS, secrets], "reader"))
    await desk.patch("secret", "leaky", stringData={"pw": "leakme-hunter2"})
    (folder / "a.yaml.j2").write_text(LEAKS["lookup"])
    async with acting_as(user, desk, tmp_path) as client, operating(client, options()) as running:
        await desk.apply(echo("web"))
        cause = "allow the operator to list and watch"
        await desk.until(ECHOES, "web", not_ready_because("WaitingForDependency", cause))
        words = shown(running)
    words += await messages_of(desk, caplog)
    assert "lookups: watch of" in words
    assert is_redacted(words)


async def test_a_former_value_stays_a_secret_after_it_changed(
    desk: Desk, operate: Operate, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "a.yaml.j2").write_text(NAMED)
    async with operate() as running:
        await desk.apply_until_ready(echo("web"))
        await desk.patch("secret", "leaky", stringData={"pw": "another-one"})
        await desk.read("configmaps", "another-one")
        await desk.gone("configmaps", "leakme-hunter2")
        words = shown(running)
    words += await messages_of(desk, caplog)
    assert is_redacted(words)
    assert "another-one" not in words
