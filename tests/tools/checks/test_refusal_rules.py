# ruff: noqa: E501 - a message in one piece
"""What `check` says of manifests that the API server refuses: the field, the reason, and what to do."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from msgspec.structs import replace

from ssa_operator.kube.api.errors import ApiError, ErrorStatus, StatusCause
from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.source_location import FieldPath, SourceLocation, value_at
from ssa_operator.rendering.folder.object_files import objects
from ssa_operator.tools.checks.codes import CODES
from ssa_operator.tools.checks.refusal_rules import AskedManifest, Refusal, check_refusals, server_findings
from ssa_operator.tools.checks.shown_findings import without_known
from ssa_operator.tools.findings import Finding
from ssa_operator.tools.schema_rules import bundled_schemas
from tests.schema.built_in_objects import OBJECTS

DOCUMENTS = {each.identity.kind: each for each in reversed(objects(OBJECTS, "all.yaml"))}
POD = ("spec", "template", "spec")
WEB = (*POD, "containers", 0)


def findings(kind: str, path: FieldPath, value: Any) -> list[str]:
    """What `check` says of an object with one field changed."""
    document = DOCUMENTS[kind]
    body = copy.deepcopy(dict(document.body))
    value_at(body, path[:-1])[path[-1]] = value
    changed = type(document)(body=body, location=document.location, location_of=document.location_of)
    found = check_refusals([changed], bundled_schemas(KUBERNETES_VERSION))
    return [f"{each.code}: {each.message}" + (f"; {each.fix}" if each.fix else "") for each in found]


@pytest.mark.parametrize(
    ("kind", "path", "value", "shown"),
    [
        ("Deployment", (*POD, "containers"), [], "missing-field: spec.template.spec.containers is missing"),
        (
            "Deployment",
            (*WEB, "readinessProbe"),
            {"periodSeconds": 3},
            (
                "missing-field: spec.template.spec.containers[0].readinessProbe must specify one of exec, httpGet, "
                "tcpSocket, grpc"
            ),
        ),
        (
            "Deployment",
            (*WEB, "livenessProbe", "exec"),
            {"command": ["a"]},
            (
                "invalid-value: spec.template.spec.containers[0].livenessProbe.tcpSocket must not be set: may not be "
                "specified when `exec` is not empty; remove it"
            ),
        ),
        (
            "Deployment",
            (*WEB, "resources", "limits", "cpu"),
            "50m",
            (
                "invalid-value: spec.template.spec.containers[0].resources.requests.cpu is 100m: must be less than or "
                "equal to cpu limit of 50m"
            ),
        ),
        (
            "StatefulSet",
            ("spec", "volumeClaimTemplates", 0, "spec", "resources"),
            {},
            "missing-field: spec.volumeClaimTemplates[0].spec.resources.requests.storage is missing",
        ),
        (
            "Service",
            ("spec", "ports", 1, "port"),
            80,
            'duplicate-item: spec.ports[1] is {"port":80,"protocol":"TCP"}, which another item has, too',
        ),
        (
            "Secret",
            ("data", "tls.crt"),
            "%",
            "invalid-value: data[tls.crt] is refused: must be base64: write it with the filter b64encode",
        ),
    ],
)
def test_a_refusal_names_the_field_the_reason_and_what_to_do(
    kind: str, path: FieldPath, value: Any, shown: str
) -> None:
    assert findings(kind, path, value) == [shown]


INVALID = ErrorStatus(code=422, reason="Invalid", message="invalid")


def of_server(kind: str, status: ErrorStatus, path: FieldPath = (), value: Any = None) -> list[str]:
    """What `check` says of an API server's refusal of an object, with one field changed."""
    document = DOCUMENTS[kind]
    body = copy.deepcopy(dict(document.body))
    if path:
        value_at(body, path[:-1])[path[-1]] = value
    changed = type(document)(body=body, location=document.location, location_of=document.location_of)
    refusal = Refusal(manifest=AskedManifest(document=changed, body=body), error=ApiError("apply", status))
    return [f"{each.code}: {each.message}" + (f"; {each.fix}" if each.fix else "") for each in server_findings(refusal)]


@pytest.mark.parametrize(
    ("kind", "path", "value", "cause", "shown"),
    [
        (
            "Deployment",
            ("spec", "strategy", "type"),
            "rollingupdate",
            StatusCause(
                "spec.strategy.type",
                "",
                'Unsupported value: "rollingupdate": supported values: "Recreate", "RollingUpdate"',
            ),
            "invalid-value: spec.strategy.type is rollingupdate, and must be Recreate or RollingUpdate; did you mean RollingUpdate?",
        ),
        (
            "CronJob",
            ("spec", "schedule"),
            "* * * 13 *",
            StatusCause("spec.schedule", "", 'Invalid value: "* * * 13 *": end of range (13) above maximum (12): 13'),
            "invalid-value: spec.schedule is * * * 13 *: end of range (13) above maximum (12): 13",
        ),
        (
            "Deployment",
            ("spec", "template", "metadata", "labels", "app"),
            "a b",
            StatusCause(
                "spec.template.labels", "", 'Invalid value: "a b": a valid label must be an empty string (e.g. a)'
            ),
            'invalid-name: spec.template.metadata.labels is {"app":"a b"}: a valid label must be an empty string',
        ),
        (
            "Service",
            ("spec", "clusterIP"),
            "a",
            StatusCause("spec.clusterIPs[0]", "", 'Invalid value: "a": must be a valid IP address'),
            "invalid-value: spec.clusterIP is a: must be a valid IP address",
        ),
        (
            "Secret",
            ("data", "tls.crt"),
            "aHVudGVyMg==",
            StatusCause("data[tls.crt]", "FieldValueInvalid", "Invalid value"),
            "invalid-value: data[tls.crt] is refused",
        ),
    ],
)
def test_the_words_of_the_api_server_are_at_the_field_of_the_manifest(
    kind: str, path: FieldPath, value: Any, cause: StatusCause, shown: str
) -> None:
    assert of_server(kind, replace(INVALID, causes=(cause,)), path, value) == [shown]


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            'pods "web" is forbidden: the integer value of priority (5) must not be provided in pod spec',
            "invalid-value: the API server refuses it: the integer value of priority (5) must not be provided in pod spec",
        ),
        (
            "failed to create typed patch object (kube-public/web; v1, Kind=Pod): .spec.containers: duplicate entries",
            "invalid-value: spec.containers is refused: duplicate entries",
        ),
    ],
)
def test_a_refusal_without_causes_is_a_finding(message: str, shown: str) -> None:
    assert of_server("Pod", replace(INVALID, message=message)) == [shown]


def test_fields_of_which_an_error_says_what_to_correct_are_no_second_finding() -> None:
    def finding(path: FieldPath, line: int, code: str = "invalid-value") -> Finding:
        location = SourceLocation("web.yaml.j2", line)
        return Finding(code=CODES[code], message="is refused", location=location, subject="Pod web", path=path)

    own = finding(("spec", "containers", 0), 5)
    refusals = [
        finding(("spec", "containers", 0, "image"), 6),
        finding(("spec",), 2),
        finding(("spec", "dnsPolicy"), 5),
        finding(("spec", "dnsConfig"), 7),
    ]
    assert without_known(refusals, [own]) == refusals[3:]
    assert without_known(refusals, [finding(own.path, 5, "latest-image")]) == refusals, "a warning explains no error"
