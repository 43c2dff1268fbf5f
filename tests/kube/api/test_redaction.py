import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.kube.api.errors import ApiError, read_error_status
from ssa_operator.kube.api.redaction import without_go_values, without_webhook_path
from ssa_operator.objects.secret_fields import SecretFields
from tests.kube.fakes import status

CONTENT = "hunter2"

# What kube-apiserver 1.36 says about a Secret, with its content in the words, and what users still have to learn.
ECHOES: list[tuple[dict[str, Any], list[str]]] = [
    (
        status(
            500, "",
            'failed to create typed patch object (n/a; /v1, Kind=Secret): .data.password: expected string, got '
            "&value.valueUnstructured{Value:hunter2}",
        ),
        [".data.password", "failed to create typed patch object"],
    ),
    (
        status(
            422, "Invalid",
            'Secret "a" is invalid: type: Invalid value: "hunter2": field is immutable',
            causes=[{"field": "type", "reason": "FieldValueInvalid",
                     "message": 'Invalid value: "hunter2": field is immutable'}],
        ),
        ["type", "field is immutable"],
    ),
    (
        status(
            422, "Invalid",
            'Pod "a" is invalid: spec: Forbidden: pod updates may not change fields other than `spec.x`\n  hunter2',
            causes=[{"field": "spec", "reason": "FieldValueForbidden",
                     "message": "Forbidden: pod updates may not change fields other than `spec.x`\n  hunter2"}],
        ),
        ["spec", "pod updates may not change fields other than"],
    ),
    (
        status(
            422, "Invalid", 'Secret "a" is invalid: data: Forbidden: field is immutable when `immutable` is set',
            causes=[{"field": "data", "reason": "FieldValueForbidden",
                     "message": "Forbidden: field is immutable when `immutable` is set"}],
        ),
        ["data", "immutable"],
    ),
    (
        status(400, "BadRequest", 'Secret in version "v1" cannot be handled as a Secret: illegal base64 data: hunter2'),
        [],
    ),
    (status(400, "BadRequest", 'strict decoding error: unknown field "dta", hunter2'), ['unknown field "dta"']),
    (status(403, "Forbidden", 'admission webhook "w" denied the request: password hunter2 is weak'),
     ['admission webhook "w" denied the request']),
    (status(403, "Forbidden", 'secrets "a" is forbidden: exceeded quota: q, requested: count/secrets=1, used: '
            'count/secrets=1, limited: count/secrets=1'), ["exceeded quota: q, requested: count/secrets=1"]),
]  # fmt: skip


@pytest.mark.parametrize(("body", "kept"), ECHOES)
def test_an_error_about_a_secret_names_the_field_but_never_the_content(body: dict[str, Any], kept: list[str]) -> None:
    found = ApiError(
        "apply of Secret n/a", read_error_status(body["code"], json.dumps(body).encode(), confidential=True)
    )
    said = f"{found} {found!r} {found.causes} {found.message}"
    assert CONTENT not in said
    for words in kept:
        assert words in said


@pytest.mark.parametrize(
    "body",
    [
        status(404, "NotFound", 'namespaces "n" not found'),
        status(409, "Conflict", "the object has been modified"),
        status(
            403, "Forbidden",
            'secrets "a" is forbidden: User "u" cannot patch resource "secrets" in API group "" in the '
            'namespace "n"',
        ),
        status(
            403, "Forbidden",
            'secrets "a" is forbidden: User "u" cannot impersonate-on:serviceaccount:patch resource "secrets" in API '
            'group "" in the namespace "n"',
        ),
        status(
            403, "Forbidden",
            'serviceaccounts "deployer" is forbidden: User "u" cannot impersonate resource "serviceaccounts" in API '
            'group "" in the namespace "n"',
        ),
        status(
            403, "Forbidden",
            'secrets "a" is forbidden: unable to create new content in namespace n because it is being '
            "terminated",
        ),
    ],
)  # fmt: skip
def test_a_message_without_content_is_shown_in_full(body: dict[str, Any]) -> None:
    found = ApiError(
        "apply of Secret n/a", read_error_status(body["code"], json.dumps(body).encode(), confidential=True)
    )
    assert found.message == body["message"]


IMMUTABLE = "`selector` does not match template `labels`"
FIELDS = SecretFields((("spec", "template", "spec", "containers", 0, "env", 1, "value"),))
SENT = b'{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":-1,"template":{"spec":{"nodeSelector":{}}}}}'
ABOUT_CONTENT: list[tuple[dict[str, Any], SecretFields, list[str]]] = [
    (
        status(
            422, "Invalid", f'Deployment "a" is invalid: spec.template.metadata.labels: {IMMUTABLE}, and hunter2',
            causes=[{"field": "spec.template.metadata.labels", "reason": "FieldValueInvalid",
                     "message": f'Invalid value: {{"a":"hunter2"}}: {IMMUTABLE}'},
                    {"field": "spec.template.spec.containers[3].env[0].value", "reason": "FieldValueInvalid",
                     "message": 'Invalid value: "hunter2": field is immutable'},
                    {"field": "spec.template", "reason": "FieldValueInvalid", "message": "Invalid value: {hunter2}"}],
        ),
        FIELDS,
        [IMMUTABLE, "containers[3].env[0].value: Invalid value: field is immutable", "spec.template:"],
    ),
    (
        status(500, "", "failed to create typed patch object (n/a; apps/v1, Kind=Job): .spec.replicas: expected 3"),
        FIELDS, [".spec.replicas: expected 3"],
    ),
    (
        status(500, "", "failed to create typed patch object (n/a; apps/v1, Kind=Deployment): .spec.template: hunter2"),
        FIELDS, [".spec.template"],
    ),
    (status(403, "Forbidden", 'admission webhook "w" denied the request: hunter2'), FIELDS, ['admission webhook "w"']),
    (
        status(403, "Forbidden", "deployments.apps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding "
               "'b' denied request: hunter2"),
        FIELDS, ["ValidatingAdmissionPolicy 'p'"],
    ),
    (
        status(403, "Forbidden", 'deployments.apps "a" is forbidden: User "u" cannot patch resource "deployments" in '
               'API group "apps" in the namespace "n"'),
        FIELDS, ['User "u" cannot patch resource "deployments"'],
    ),
    (status(409, "Conflict", 'admission webhook "w" denied the request: hunter2'), FIELDS, ['admission webhook "w"']),
    (
        status(
            422, "Invalid", 'Deployment "a" is invalid: spec.strategy.type: Unsupported value: "hunter2"',
            causes=[{"field": "spec.strategy.type", "reason": "FieldValueNotSupported",
                     "message": 'Unsupported value: "hunter2": supported values: "Recreate"'},
                    {"field": "spec.template.spec.nodeSelector[hunter2]", "reason": "FieldValueInvalid",
                     "message": "Invalid value: 1: must be greater than or equal to 0, not hunter2"}],
        ),
        FIELDS,
        ["spec.strategy.type: Unsupported value",
         "spec.template.spec.nodeSelector: Invalid value: must be greater than or equal to 0"],
    ),
    (status(404, "NotFound", 'configmaps "hunter2" not found'), SecretFields((("metadata", "name"),)), []),
    (
        status(400, "BadRequest", 'strict decoding error: unknown field "spec.hunter2", unknown field "dta"'),
        SecretFields((("spec",),), keys=True), ['unknown field "spec"', 'unknown field "dta"'],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "secret", "kept"), ABOUT_CONTENT)
def test_an_error_about_a_manifest_with_content_never_quotes_its_fields(
    body: dict[str, Any], secret: SecretFields, kept: list[str]
) -> None:
    found = ApiError(
        "apply of Deployment n/a", read_error_status(body["code"], json.dumps(body).encode(), secret=secret, sent=SENT)
    )
    said = f"{found} {found!r} {found.causes} {found.message}"
    assert CONTENT not in said
    for words in kept:
        assert words in said


def test_beside_a_stored_content_an_error_quotes_what_was_sent_only() -> None:
    body = status(
        422, "Invalid", 'Deployment "a" is invalid: hunter2',
        causes=[{"field": "spec.replicas", "reason": "FieldValueInvalid", "message": "Invalid value: -1: must be 1"},
                {"field": "spec.selector", "reason": "FieldValueInvalid",
                 "message": 'Invalid value: "hunter2": field is immutable'},
                {"field": "spec", "reason": "FieldValueForbidden", "message": "Forbidden: may not change\n-hunter2"}],
    )  # fmt: skip
    status_read = read_error_status(422, json.dumps(body).encode(), sent=SENT, quotes_sent_only=True)
    assert status_read.message == (
        "spec.replicas: Invalid value: -1: must be 1; spec.selector: Invalid value: field is immutable; "
        "spec: Forbidden: may not change"
    )
    found = ApiError("apply of Deployment n/a", status_read)
    assert CONTENT not in f"{found} {found!r} {found.causes}"
    assert found.words.message == body["message"]


def test_what_is_done_follows_from_the_words_before_redaction() -> None:
    message = "request to convert CR from an invalid group/version: example.com/v1"
    body = json.dumps(status(500, "InternalError", message)).encode()
    found = ApiError("apply", read_error_status(500, body, secret=FIELDS))
    assert (found.missing_version, message in str(found)) == ("example.com/v1", False)


@given(st.sampled_from([400, 403, 422, 500, 502, 503]), st.text())
def test_a_message_that_no_rule_allows_is_not_shown(code: int, words: str) -> None:
    body = json.dumps(status(code, "Whatever", f"{words}{CONTENT}{words}")).encode()
    assert CONTENT not in str(ApiError("apply of Secret n/a", read_error_status(code, body, confidential=True)))
    raw = f"{words}{CONTENT}".encode(errors="replace")
    assert CONTENT not in str(ApiError("apply of Secret n/a", read_error_status(code, raw, confidential=True)))


def test_the_path_of_a_webhook_that_does_not_answer_is_hidden() -> None:
    message = (
        'conversion webhook for a.b/v1, Kind=Site failed: Post "https://x.ops.svc:443/convert/5ec7e7?timeout=30s": '
        "dial tcp: connection refused"
    )
    shown = without_webhook_path(message)
    assert "5ec7e7" not in shown
    assert 'failed: Post "https://x.ops.svc:443/' in shown
    assert shown.endswith('?timeout=30s": dial tcp: connection refused')


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (".data.a: expected string, got &value.valueUnstructured{Value:8080}", ".data.a: expected string, got 8080"),
        (
            '.spec.a: expected numeric (int or float), got &value.valueUnstructured{Value:"}"}, and more',
            '.spec.a: expected numeric (int or float), got "}", and more',
        ),
        (
            'expected string, got &value.valueUnstructured{Value:map[string]interface {}{"a":"{", "b":[]string{}}}',
            "expected string, got a mapping",
        ),
        ("got &value.valueUnstructured{Value:[]interface {}{1}}", "got a list"),
        ("got &value.valueUnstructured{Value:interface {}(nil)}", "got null"),
        (
            'spec.a: Invalid value: v1.LabelSelector{MatchLabels:map[string]string{"a":"b"}}: field is immutable',
            "spec.a: Invalid value: field is immutable",
        ),
        (
            'spec: Forbidden: may not change others\n  core.PodSpec{\n- \tHostname: "x",\n+ \tHostname: "",\n  }\n',
            "spec: Forbidden: may not change others",
        ),
        # What is no Go value stays, and so does one without an end.
        (
            'Invalid value: {"matchLabels":{"a":"b"}}: must be {a.B}',
            'Invalid value: {"matchLabels":{"a":"b"}}: must be {a.B}',
        ),
        ('got v1.LabelSelector{MatchLabels:"', 'got v1.LabelSelector{MatchLabels:"'),
    ],
)
def test_a_value_in_the_syntax_of_go_is_cut_from_a_message(said: str, shown: str) -> None:
    assert without_go_values(said) == shown
