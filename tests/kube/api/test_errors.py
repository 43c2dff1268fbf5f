import json
from typing import Any

import pytest

from ssa_operator.kube.api.backoff import BACKOFF_CAP
from ssa_operator.kube.api.errors import ApiError, Unreachable, read_error_status
from tests.kube.fakes import status

TERMINATING = 'configmaps "a" is forbidden: unable to create new content in namespace x because it is being terminated'
CRD_TERMINATING = (
    'gadgets.example.com "web" is forbidden: create not allowed while custom resource definition is terminating'
)
UNDISCOVERED = (
    'configmaps "a" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for '
    'APIVersion a.b/v1 Kind Site: no matches for kind "Site" in version "a.b/v1"'
)


def error(code: int, body: dict[str, Any] | bytes, **arguments: Any) -> ApiError:
    encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
    return ApiError("apply of ConfigMap x/a", read_error_status(code, encoded, **arguments))


LARGE = "etcdserver: request is too large"
GRPC = "rpc error: code = ResourceExhausted desc = trying to send message larger than max (2097164 vs. 2097152)"

# code, body, terminal, the predicates that hold
TABLE: list[tuple[int, dict[str, Any] | bytes, bool, set[str]]] = [
    (400, status(400, "BadRequest", "no"), True, set()),
    (401, status(401, "Unauthorized", "Unauthorized"), False, set()),
    (
        403,
        status(403, "Forbidden", 'pods "a" is forbidden: User "u" cannot patch resource "pods"'),
        True,
        {"forbidden"},
    ),
    (403, status(403, "Forbidden", "any plugin's words"), True, {"forbidden", "denied"}),
    (403, status(403, "Forbidden", TERMINATING), False, {"namespace_terminating"}),
    (403, status(403, "Forbidden", UNDISCOVERED), False, set()),
    (403, status(403, "Forbidden", CRD_TERMINATING), False, {"crd_terminating"}),
    (
        403,
        status(403, "Forbidden", "no", causes=[{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]),
        False,
        {"namespace_terminating"},
    ),
    (404, status(404, "NotFound", 'configmaps "a" not found'), False, {"not_found"}),
    (404, b"404 page not found\n", False, {"unknown_resource"}),
    (404, status(404, "NotFound", "the server could not find the requested resource"), False, {"unknown_resource"}),
    (405, status(405, "MethodNotAllowed"), True, set()),
    (409, status(409, "Conflict", "the object has been modified"), False, {"conflict"}),
    (409, status(409, "AlreadyExists", "exists"), False, {"already_exists"}),
    (410, status(410, "Expired", "too old resource version"), False, {"gone"}),
    (413, b"Request entity too large", True, {"too_large"}),
    (413, status(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"), True, {"too_large"}),
    (500, status(500, "", LARGE), True, {"too_large"}),
    (500, status(500, "InternalError", f"Internal error occurred: {LARGE}"), True, {"too_large"}),
    (500, status(500, "", GRPC), True, {"too_large"}),
    (500, status(500, "InternalError", f"failed calling webhook: {LARGE}"), False, set()),
    (422, status(422, "Invalid", "spec.x: Invalid value"), True, {"invalid"}),
    (429, status(429, "TooManyRequests", "later"), False, {"throttled"}),
    (500, status(500, "InternalError", "failed calling webhook: connection refused"), False, set()),
    (500, status(500, "", "failed to create typed patch object (x/a; /v1): .dat: field not declared"), True, set()),
    (503, b"upstream connect error", False, set()),
    (504, status(504, "Timeout", "Too large resource version: 9, current: 1"), False, {"too_large_resource_version"}),
    (
        504,
        status(504, "Timeout", "no", causes=[{"reason": "ResourceVersionTooLarge", "message": "no"}]),
        False,
        {"too_large_resource_version"},
    ),
    (0, status(410, "Gone", "the watch's ERROR event"), False, {"gone"}),
]
PREDICATES = {
    "already_exists", "conflict", "crd_terminating", "denied", "forbidden", "gone", "invalid", "namespace_terminating",
    "not_found", "throttled", "too_large",
    "too_large_resource_version", "unknown_resource",
}  # fmt: skip


@pytest.mark.parametrize(("code", "body", "terminal", "holds"), TABLE)
def test_an_error_is_classified_by_its_code_and_its_message(
    code: int, body: dict[str, Any] | bytes, terminal: bool, holds: set[str]
) -> None:
    found = error(code, body)
    assert found.terminal is terminal
    assert {name for name in PREDICATES if getattr(found, name)} == holds


DENIAL = 'admission webhook "w.x" denied the request: no'


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (404, "NotFound"),
        (404, ""),
        (409, "AlreadyExists"),
        (409, "Conflict"),
        (410, "Gone"),
        (410, "Expired"),
        (413, "RequestEntityTooLarge"),
        (429, "TooManyRequests"),
    ],
)
def test_a_denial_says_nothing_else_whichever_code_and_reason_a_webhook_chooses(code: int, reason: str) -> None:
    found = error(code, status(code, reason, DENIAL))
    assert {name for name in PREDICATES if getattr(found, name)} == {"denied"}


@pytest.mark.parametrize("what", ["port", "IP"])
def test_a_port_or_address_of_another_service_is_refused_for_now(what: str) -> None:
    words = f'Service "a" is invalid: spec.x: Invalid value: 1: provided {what} is already allocated'
    assert error(422, status(422, "Invalid", words)).denied


@pytest.mark.parametrize(
    "message",
    [
        'pods "a" is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "n"',
        'pods is forbidden: User "system:serviceaccount:n:a" cannot list resource "pods" in API group ""',
        'echoes.example.com "a\\"b" is forbidden: User "a\\"b c" cannot patch resource "echoes/status" in API group',
        'forbidden: User "u" cannot get path "/metrics"',
        'serviceaccounts "a" is forbidden: User "u" cannot impersonate-on:serviceaccount:patch resource "a"',
        'pods is forbidden: User "u" cannot list resource "pods" in API group "": requires one of ["pods.list"]',
        'pods "a" is forbidden: User "" cannot get resource "pods" in API group "": no RBAC policy matched',
    ],
)
def test_what_the_authorizer_refuses_is_no_denial(message: str) -> None:
    assert not error(403, status(403, "Forbidden", message)).denied


@pytest.mark.parametrize(
    "message",
    [
        'pods "a" is forbidden: error looking up service account n/x: serviceaccount "x" not found',
        'pods "a" is forbidden: no PriorityClass with name x was found',
        'pods "a" is forbidden: pod rejected: RuntimeClass "x" not found',
        'pods "a" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)',
        'pods "a" is forbidden: maximum cpu usage per Container is 1, but limit is 2',
        'pods "a" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1',
        'pods "a" is forbidden: failed quota: q: must specify limits.cpu for: a',
        'pods "a" is forbidden: status unknown for quota: q, resources: pods',
        'roles.rbac.authorization.k8s.io "a" is forbidden: user "u" is attempting to grant RBAC permissions',
        'admission webhook "w.x" denied the request: User "u" cannot do that',
        'User "u" cannot',
        "no",
        "",
    ],
)
def test_every_403_that_is_not_the_authorizers_is_a_denial(message: str) -> None:
    assert error(403, status(403, "Forbidden", message)).denied


def test_a_403_of_a_proxy_is_a_denial() -> None:
    assert error(403, b"<html>blocked</html>").denied


@pytest.mark.parametrize("message", [TERMINATING, CRD_TERMINATING, UNDISCOVERED])
def test_a_403_that_ends_by_itself_is_no_denial(message: str) -> None:
    assert not error(403, status(403, "Forbidden", message)).denied


@pytest.mark.parametrize("confidential", [False, True])
@pytest.mark.parametrize("message", [LARGE, GRPC, "Request entity too large: limit is 3145728"])
def test_an_error_about_a_large_object_has_the_size_of_the_request(message: str, confidential: bool) -> None:
    code = 413 if message.startswith("Request") else 500
    found = error(code, status(code, "", message), sent=b"x" * 1_600_000, confidential=confidential)
    assert found.message.startswith(message)
    assert "the request has 1600000 bytes" in found.message


def test_an_error_names_the_request_and_has_the_servers_message() -> None:
    found = error(422, status(422, "Invalid", "data: Too long", causes=[{"field": "data", "message": "Too long"}]))
    assert str(found) == "apply of ConfigMap x/a failed (422 Invalid): data: Too long"
    assert [(cause.field, cause.message) for cause in found.causes] == [("data", "Too long")]


def test_retry_after_is_read_from_the_header_and_from_the_status() -> None:
    assert error(429, status(429), retry_after="7").retry_after == 7
    assert error(429, status(429, retryAfterSeconds=3)).retry_after == 3
    assert error(429, status(429), retry_after="Wed, 21 Oct 2015 07:28:00 GMT").retry_after is None


@pytest.mark.parametrize("seconds", [121, 86_400, 10**9, 10**40])
def test_a_retry_after_of_more_than_the_longest_backoff_counts_as_that(seconds: int) -> None:
    assert error(429, status(429), retry_after=str(seconds)).retry_after == BACKOFF_CAP
    if seconds < 2**31:
        assert error(429, status(429, retryAfterSeconds=seconds)).retry_after == BACKOFF_CAP


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>bad gateway</html>",
        b"[]",
        b'{"kind":"Status","code":"x"}',
        b'{"kind":"Status","message":"\xff"}',
        b'{"kind":"Status","details":' + b"[" * 100_000,
        b"\xff\xfe",
    ],
    ids=["nothing", "HTML", "a list", "a wrong type", "no UTF-8", "lists without end", "UTF-16"],
)
def test_an_answer_without_a_status_is_an_error_that_quotes_it(body: bytes) -> None:
    found = error(502, body)
    assert found.code == 502
    assert found.message


def test_a_long_page_of_a_proxy_is_shortened() -> None:
    assert len(error(502, b"x" * 100_000).message) <= 500


def test_a_missing_answer_is_not_a_terminal_error() -> None:
    found = Unreachable("get of Namespace x", "no connection", sent=False)
    assert not found.terminal
    assert str(found) == "get of Namespace x failed (Unreachable): no connection"
