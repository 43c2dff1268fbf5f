"""Refusals in which the API server quotes a Secret's content: admission copied it from another field, or an earlier
render wrote it.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.operator.admission_policies import mutating, validating
from tests.operator.harness import (
    ECHOES,
    Desk,
    MakeOptions,
    Operate,
    Running,
    definition,
    echo,
    not_ready_because,
    only,
    ready_condition,
    shown,
)

pytestmark = pytest.mark.cluster

CONTENT = "hush-hush/word"
GROUP = "quoting.example.com"
CARDS = f"cards.{GROUP}"

READ = "{% set word = lookup('v1', 'Secret', 'pass').data.word | b64decode %}\n"
NOTED = "metadata:\n  name: {{ name }}\n  annotations:\n    note: '{{ word }}'\n    ssa-operator.dev/wait: 'false'\n"
POD = "spec:\n      restartPolicy: Never\n      containers: [{name: main, image: a, args: ['{{ spec.replicas }}']}]\n"

JOB = f"{READ}apiVersion: batch/v1\nkind: Job\n{NOTED}spec:\n  template:\n    {POD}"
DEPLOYMENT = f"""\
{READ}apiVersion: apps/v1
kind: Deployment
{NOTED}spec:
  replicas: 0
  selector: {{matchLabels: {{a: b}}}}
  template:
    metadata: {{labels: {{a: b}}}}
    spec: {{containers: [{{name: main, image: a, args: ['{{{{ spec.replicas }}}}']}}]}}
"""
CRON = f"""\
{READ}apiVersion: batch/v1
kind: CronJob
{NOTED}spec:
  schedule: '{{{{ spec.replicas }}}} 1 * * *'
  jobTemplate: {{spec: {{template: {{spec: {{restartPolicy: Never, containers: [{{name: main, image: a}}]}}}}}}}}
"""
MAP = f"{READ}apiVersion: v1\nkind: ConfigMap\n{NOTED}data: {{number: '{{{{ spec.replicas }}}}'}}\n"
CARD = f"{READ}apiVersion: {GROUP}/v1\nkind: Card\n{NOTED}spec: {{number: {{{{ spec.replicas }}}}}}\n"

NOTE = "object.metadata.annotations['note']"


def card(field: str) -> str:
    return f"Object{{spec: Object.spec{{{field}: {NOTE}}}}}"


def in_template(field: str) -> str:
    metadata = f"Object.spec.template.metadata{{{field}: {{'a': {NOTE}}}}}"
    return f"Object{{spec: Object.spec{{template: Object.spec.template{{metadata: {metadata}}}}}}}"


IN_KEY = f"[JSONPatch{{op: 'add', path: '/data/' + jsonpatch.escapeKey({NOTE}), value: 'x'}}]"

COPIES: dict[str, tuple[str, str, str, str, list[str]]] = {
    # The template, the resource, what admission does, and what the message still says.
    "immutable": (JOB, "batch", "jobs", in_template("annotations"), ["spec.template", "immutable"]),
    "detail": (
        DEPLOYMENT,
        "apps",
        "deployments",
        in_template("labels"),
        ["spec.template.metadata.labels", "`selector` does not match template `labels`"],
    ),
    "detail-with-content": (
        CRON,
        "batch",
        "cronjobs",
        f"Object{{spec: Object.spec{{timeZone: {NOTE}}}}}",
        ["spec.timeZone"],
    ),
    "key": (MAP, "", "configmaps", IN_KEY, ["data"]),
    "schema": (CARD, GROUP, "cards", card("code"), ["spec"]),
    "rule": (CARD, GROUP, "cards", card("title"), ["spec"]),
}

RULE = {"rule": "self == ''", "messageExpression": "'the title ' + self + ' is wrong'"}
SPEC: dict[str, Any] = {
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "code": {"type": "string", "pattern": "^[a-z]*$"},
        "title": {"type": "string", "x-kubernetes-validations": [RULE]},
    },
}


@pytest.fixture
async def cards(desk: Desk) -> None:
    """Cards, whose CRD refuses most texts; and the Secret."""
    crd = definition("cards", GROUP, "Card")
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = SPEC
    await desk.define(crd)
    await desk.kubectl("create", "secret", "generic", "pass", f"--from-literal=word={CONTENT}")


async def is_hidden(desk: Desk, running: Running, *words: str) -> None:
    """The message has these words, and nothing that users see has the content."""
    found = await desk.until(
        ECHOES, "web", lambda body: all(word in ready_condition(body)["message"] for word in words)
    )
    events = await desk.kubectl("get", "events", "-o", "json")
    assert "hush" not in f"{json.dumps(found['status'])}{events}{shown(running)}"


@pytest.mark.more_cases
@pytest.mark.parametrize("case", COPIES)
async def test_a_refusal_quotes_nothing_that_admission_copied_from_a_secrets_content(
    desk: Desk, operate: Operate, options: MakeOptions, cards: None, case: str
) -> None:
    template, group, resource, expression, words = COPIES[case]
    async with operate(templates=only(options().templates[0], child=template)) as running:
        await desk.apply_until_ready(echo("web"))
        async with mutating(desk, group, resource, expression):
            await desk.apply(echo("web", replicas=2))
            await desk.until(ECHOES, "web", lambda body: ready_condition(body).get("status") == "False")
            await is_hidden(desk, running, "child.yaml.j2", *words)


@pytest.mark.exhaustive
async def test_a_denied_deletion_quotes_nothing_of_the_object_that_a_secrets_content_made(
    desk: Desk, operate: Operate, options: MakeOptions, cards: None
) -> None:
    template = f"{{% if spec.replicas == 1 %}}\n{MAP}{{% endif %}}\n"
    other = "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: other\n"
    expression = "'the note is ' + oldObject.metadata.annotations['note']"
    async with operate(templates=only(options().templates[0], child=template + other)) as running:
        await desk.apply_until_ready(echo("web"))
        async with validating(desk, "", "configmaps", "false", expression, operations=["DELETE"]):
            await desk.apply(echo("web", replicas=2))
            await desk.until(ECHOES, "web", not_ready_because("ApplyFailed", "denied"))
            await is_hidden(desk, running, "ValidatingAdmissionPolicy")
        await desk.gone("configmaps", "web")


VALUE = "<the value>"
PODS = f"""\
{READ}apiVersion: v1
kind: Pod
metadata:
  name: web
  annotations: {{ssa-operator.dev/wait: "false", checksum: '{{{{ word | sha256 }}}}'}}
spec:
  containers: [{{name: main, image: a, env: [{{name: WORD, value: '{VALUE}'}}]}}]
"""


@pytest.mark.more_cases
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_refusal_quotes_nothing_of_what_an_earlier_render_wrote(
    desk: Desk, operate: Operate, options: MakeOptions, cards: None, restarts: bool
) -> None:
    templates = only(options().templates[0], child=PODS.replace(VALUE, "{{ word if spec.replicas == 1 else 'plain' }}"))
    async with operate(templates=templates):
        await desk.apply_until_ready(echo("web"))
        if not restarts:
            await desk.apply(echo("web", replicas=2))
            await desk.until(ECHOES, "web", not_ready_because("Conflict", "spec"))
    (templates / ECHOES / "child.yaml.j2").write_text(PODS.replace(VALUE, "plain"))
    async with operate(templates=templates) as running:
        await desk.apply(echo("web", replicas=3))
        await desk.until(ECHOES, "web", not_ready_because("Conflict", "spec"))
        await is_hidden(desk, running, "immutable", "pod updates may not change fields other than")


async def test_beside_a_secret_that_a_template_reads_a_refusal_quotes_what_the_manifest_says(
    desk: Desk, operate: Operate, options: MakeOptions, cards: None
) -> None:
    """A checksum is no content."""
    template = PODS.replace(VALUE, "plain")
    template = template.replace("image: a", "image: a, imagePullPolicy: Sometimes")
    async with operate(templates=only(options().templates[0], child=template)):
        await desk.apply(echo("web"))
        await desk.until(
            ECHOES, "web", not_ready_because("ApplyFailed", 'imagePullPolicy: Unsupported value: "Sometimes"')
        )
