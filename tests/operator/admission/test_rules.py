"""Which requests of the API server are judged, and what is answered."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.label_selectors import label_selector
from ssa_operator.objects.messages import MESSAGE_LIMIT
from ssa_operator.operator.admission.rules import (
    REVIEWS,
    AdmissionRequest,
    JudgedResource,
    answer,
    field_manager,
    is_judged,
    new_problems,
    webhook,
    webhook_name,
)
from ssa_operator.operator.admission.webhook import Webhook
from ssa_operator.operator.webhooks.shared_certificate import WebhookCertificate

PARENT: dict[str, Any] = {
    "apiVersion": "example.com/v1",
    "kind": "Echo",
    "metadata": {"name": "web", "labels": {"a": "b"}, "annotations": {"c": "d"}, "resourceVersion": "1"},
    "spec": {"replicas": 1},
    "status": {"readyReplicas": 1},
}
RESOURCE = {"group": "example.com", "version": "v1", "resource": "echoes"}


def request(old: dict[str, Any] | None, new: dict[str, Any] | None, **fields: Any) -> AdmissionRequest:
    asked = {"uid": "1", "resource": RESOURCE, "operation": "CREATE" if old is None else "UPDATE"}
    return msgspec.convert({**asked, "object": new, "oldObject": old, **fields}, AdmissionRequest)


def changed(**metadata: Any) -> dict[str, Any]:
    return {**PARENT, "metadata": {**PARENT["metadata"], **metadata}}


def test_what_a_template_can_read_is_judged() -> None:
    assert is_judged(request(None, PARENT))
    assert is_judged(request(PARENT, {**PARENT, "spec": {"replicas": 2}}))
    assert is_judged(request(PARENT, {**PARENT, "data": {}}))  # a parent of a built-in kind
    assert is_judged(request(PARENT, changed(labels={})))
    assert is_judged(request(PARENT, changed(annotations={"c": "e"})))


@pytest.mark.parametrize(
    "new",
    [
        {**PARENT, "status": {}},
        changed(resourceVersion="2", managedFields=[{"manager": "a"}], generation=2),
        changed(finalizers=["ssa-operator.dev/cleanup"]),
        changed(annotations={"c": "d", "ssa-operator.dev/inventory": "[]"}),
        changed(annotations={"c": "d", "ssa-operator.dev/suspend": "true"}),
        {**changed(deletionTimestamp="2026-01-01T00:00:00Z"), "spec": {"replicas": 2}},
    ],
    ids=["status", "bookkeeping", "finalizer", "records", "suspend", "deleted"],
)
def test_what_changes_no_render_is_allowed_at_once(new: dict[str, Any]) -> None:
    assert not is_judged(request(PARENT, new))


def test_a_deletion_a_connection_and_a_subresource_are_allowed_at_once() -> None:
    assert not is_judged(request(PARENT, None, operation="DELETE"))
    assert not is_judged(request(None, PARENT, operation="CONNECT"))
    assert not is_judged(request(PARENT, {**PARENT, "spec": {"replicas": 2}}, subResource="scale"))


def test_a_review_is_read_as_the_api_server_sends_it() -> None:
    sent = {
        "uid": "7",
        "resource": RESOURCE,
        "operation": "UPDATE",
        "object": PARENT,
        "oldObject": PARENT,
        "dryRun": True,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": sent}
    read = REVIEWS.read(msgspec.json.encode(review))
    assert (read.uid, read.resource.resource, read.object, read.old_object) == ("7", "echoes", PARENT, PARENT)
    for wrong in (b"", b"{}", b"[]", msgspec.json.encode({**review, "apiVersion": "admission.k8s.io/v1beta1"})):
        with pytest.raises(ValueError, match=r".+"):
            REVIEWS.read(wrong)


texts = st.lists(st.text(max_size=5), max_size=8)


@given(texts, texts)
def test_a_new_problem_is_one_that_the_stored_object_does_not_have(now: list[str], before: list[str]) -> None:
    new = new_problems(now, before)
    assert set(new) == set(now) - set(before)
    assert len(new) == len(set(new))


@given(st.lists(st.text(min_size=1), min_size=1, max_size=20))
def test_a_refusal_has_a_limited_message(problems: list[str]) -> None:
    response = answer("1", [problem * 500 for problem in problems])["response"]
    assert (response["uid"], response["allowed"], response["status"]["code"]) == ("1", False, 422)
    assert 0 < len(response["status"]["message"]) <= MESSAGE_LIMIT


def test_an_object_without_problems_is_allowed() -> None:
    assert answer("1")["response"] == {"uid": "1", "allowed": True}
    assert answer("1", warning="not checked")["response"] == {"uid": "1", "allowed": True, "warnings": ["not checked"]}


ECHOES = JudgedResource("example.com", "v1", "echoes", namespaced=True)
NAMESPACES = JudgedResource("", "v1", "namespaces", namespaced=False)


def made(namespaces: tuple[str, ...] = (), selector: str = "") -> dict[str, Any]:
    config = {"caBundle": "", "url": "https://127.0.0.1:9443/validate/x"}
    return webhook("a.ssa-operator.dev", config, [ECHOES, NAMESPACES], namespaces, selector)


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


def operator(service: tuple[str, int] | None) -> Any:
    return SimpleNamespace(namespace="ops", options=SimpleNamespace(admission_service=service))


def test_the_webhook_is_found_by_a_service_or_a_url() -> None:
    bundle = base64.b64encode(b"pem").decode()
    certificate = WebhookCertificate(certificate=b"", key=b"", authorities=b"pem", token="x")
    by_url = Webhook(operator(service=None), "::1", 0)._client_config(certificate, 9443)
    assert by_url == {"caBundle": bundle, "url": "https://[::1]:9443/validate/x"}
    by_service = Webhook(operator(service=("webhook", 8443)), None, 0)._client_config(certificate, 9443)
    service = {"namespace": "ops", "name": "webhook", "port": 8443, "path": "/validate/x"}
    assert by_service == {"caBundle": bundle, "service": service}


def test_operators_in_two_namespaces_do_not_replace_each_others_webhook() -> None:
    assert webhook_name("team-a") != webhook_name("team-b")
    assert field_manager("team-a") != field_manager("team-b")
