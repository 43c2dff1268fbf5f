"""The ValidatingWebhookConfiguration of an operator."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ssa_operator.objects.label_selectors import label_selector
from ssa_operator.operator.admission.webhook_configuration import (
    JudgedResource,
    WebhookAddress,
    field_manager,
    webhook,
    webhook_name,
)

ECHOES = JudgedResource("example.com", "v1", "echoes", namespaced=True)
NAMESPACES = JudgedResource("", "v1", "namespaces", namespaced=False)


def made(namespaces: tuple[str, ...] = (), selector: str = "") -> dict[str, Any]:
    address = WebhookAddress(path="/validate/x", url="https://127.0.0.1:9443")
    return webhook("a.ssa-operator.dev", address.client_config(b"pem"), [ECHOES, NAMESPACES], namespaces, selector)


def test_the_api_server_waits_a_short_time_and_goes_on_without_an_operator() -> None:
    found = made()
    assert (found["failurePolicy"], found["sideEffects"]) == ("Ignore", "None")
    assert found["timeoutSeconds"] <= 3


def test_there_is_a_rule_for_each_resource_and_no_subresource() -> None:
    rules = [(rule["apiGroups"], rule["resources"], rule["scope"], rule["operations"]) for rule in made()["rules"]]
    assert rules == [
        ([""], ["namespaces"], "Cluster", ["CREATE", "UPDATE"]),
        (["example.com"], ["echoes"], "Namespaced", ["CREATE", "UPDATE"]),
    ]


def test_only_parents_that_the_operator_reconciles_are_judged() -> None:
    assert not {"namespaceSelector", "objectSelector"} & made().keys()
    found = made(("team-a", "team-b"), "app=web")
    named = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a", "team-b"]}
    assert found["namespaceSelector"] == {"matchExpressions": [named]}
    assert found["objectSelector"] == {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}


@pytest.mark.parametrize(
    ("text", "expressions"),
    [
        ("a.b/c", [("a.b/c", "Exists", None)]),
        ("!old", [("old", "DoesNotExist", None)]),
        (" ! old ", [("old", "DoesNotExist", None)]),
        ("app=web,tier != test", [("app", "In", ["web"]), ("tier", "NotIn", ["test"])]),
        ("app==web", [("app", "In", ["web"])]),
        ("app=", [("app", "In", [""])]),
        (
            "env in (a, b),!old , x notin (c)",
            [("env", "In", ["a", "b"]), ("old", "DoesNotExist", None), ("x", "NotIn", ["c"])],
        ),
        ("inner", [("inner", "Exists", None)]),
    ],
)
def test_a_selector_is_translated(text: str, expressions: list[tuple[str, str, list[str] | None]]) -> None:
    found = [(each["key"], each["operator"], each.get("values")) for each in label_selector(text)["matchExpressions"]]
    assert found == expressions


def test_the_webhook_is_found_by_a_service_or_a_url() -> None:
    bundle = base64.b64encode(b"pem").decode()
    by_url = WebhookAddress(path="/validate/x", url="https://[::1]:9443")
    assert by_url.client_config(b"pem") == {"caBundle": bundle, "url": "https://[::1]:9443/validate/x"}
    by_service = WebhookAddress(path="/validate/x", namespace="ops", service="webhook", port=8443)
    service = {"namespace": "ops", "name": "webhook", "port": 8443, "path": "/validate/x"}
    assert by_service.client_config(b"pem") == {"caBundle": bundle, "service": service}


def test_operators_in_two_namespaces_do_not_replace_each_others_webhook() -> None:
    assert webhook_name("team-a") != webhook_name("team-b")
    assert field_manager("team-a") != field_manager("team-b")
