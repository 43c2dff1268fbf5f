"""The search after each test of the control plane finds what is shown of a Secret."""

from __future__ import annotations

import base64
import logging

import pytest

from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.objects.json_codec import encode
from tests.operator.fixtures import client, desk
from tests.operator.harness import ECHOES, Desk, echo
from tests.secret_contents import OUTPUTS, SecretSearch

pytestmark = pytest.mark.cluster

__all__ = ["client", "desk"]

FORMER, CURRENT = 'the "former" one', "the current one"


def secret(content: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": content}}


async def test_a_former_and_a_current_content_are_found_in_whatever_is_shown(
    desk: Desk, secret_search: SecretSearch
) -> None:
    await desk.apply(secret(FORMER), secret(CURRENT), echo("web"))
    logging.getLogger("ssa_operator").error("%s", FORMER)
    OUTPUTS.add("a command", base64.b64encode(CURRENT.encode()).decode())
    condition = {"type": "Ready", "status": "False", "reason": "Failed", "message": FORMER}
    condition["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    echoes = await desk.mapper.resource_by_name(ECHOES)
    status = {"apiVersion": "example.com/v1", "kind": "Echo", "status": {"conditions": [condition]}}
    options = ApplyOptions(manager="ssa-operator", subresource="status")
    await desk.client.apply(echoes, desk.namespace, "web", encode(status), options)
    found = secret_search.found()
    secret_search.begin()
    path = f"/apis/example.com/v1/namespaces/{desk.namespace}/echoes/web/status"
    for where, content in (("log", FORMER), ("a command", CURRENT), (f"patch {path}", FORMER)):
        assert any(line.startswith(where) and f"shows {content!r}" in line for line in found), (where, found)
