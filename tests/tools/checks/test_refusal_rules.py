# ruff: noqa: E501 - a message in one piece
"""What `check` says of manifests that the API server refuses: the field, the reason, and what to do."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.rendering.folder.object_files import objects
from ssa_operator.tools.checks.refusal_rules import check_refusals
from tests.schema.built_in_objects import OBJECTS

DOCUMENTS = {each.identity.kind: each for each in reversed(objects(OBJECTS, "all.yaml"))}
POD = ("spec", "template", "spec")
WEB = (*POD, "containers", 0)


def findings(kind: str, path: FieldPath, value: Any) -> list[str]:
    """What `check` says of an object with one field changed."""
    document = DOCUMENTS[kind]
    body = copy.deepcopy(dict(document.body))
    value_at(body, path[:-1])[path[-1]] = value
    found = check_refusals([type(document)(body=body, location=document.location, location_of=document.location_of)])
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
                "missing-field: spec.template.spec.containers[0].readinessProbe must specify one handler: exec, httpGet, "
                "tcpSocket, grpc"
            ),
        ),
        (
            "Deployment",
            (*WEB, "livenessProbe", "exec"),
            {"command": ["a"]},
            (
                "invalid-value: spec.template.spec.containers[0].livenessProbe.tcpSocket must not be set: only one handler is "
                "allowed, and exec is there; remove it"
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
            "Deployment",
            ("spec", "strategy", "type"),
            "rollingupdate",
            (
                "invalid-value: spec.strategy.type is rollingupdate, and must be Recreate or RollingUpdate; did you mean "
                "RollingUpdate?"
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
        (
            "CronJob",
            ("spec", "schedule"),
            "* * * 13 *",
            "invalid-value: spec.schedule is * * * 13 *: end of range (13) above maximum (12): 13",
        ),
    ],
)
def test_a_refusal_names_the_field_the_reason_and_what_to_do(
    kind: str, path: FieldPath, value: Any, shown: str
) -> None:
    assert findings(kind, path, value) == [shown]
