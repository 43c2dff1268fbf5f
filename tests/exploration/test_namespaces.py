"""The namespaces of an exploration on the real API server: which errors end the wait for one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import SourceLocation
from tests.exploration.explored_parents import Namespaces
from tests.operator.harness import PATIENCE, Desk
from tests.operator.limited_accounts import acting_as, allowed_everywhere

pytestmark = pytest.mark.cluster

CREATES = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]}]


def config_map(namespace: str, name: str) -> Document:
    place = SourceLocation("a.yaml", 1)
    metadata = {"namespace": namespace, "name": name}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}}
    return Document(body=body, location=place, location_of=lambda _: place)


async def test_a_missing_permission_ends_the_wait_with_the_api_server_s_words(desk: Desk, tmp_path: Path) -> None:
    user = f"creator-{desk.namespace}"
    await desk.apply(*allowed_everywhere(user, CREATES))
    async with acting_as(user, desk, tmp_path) as client:
        namespaces = Namespaces(client, RESTMapper(client), patience=10 * PATIENCE)
        # It would wait for ten times as long as the test may.
        async with asyncio.timeout(PATIENCE):
            with pytest.raises(ApiError, match='cannot get resource "serviceaccounts"') as found:
                await namespaces.create(f"{desk.namespace}-new")
    assert found.value.forbidden
    await namespaces_of(desk).delete(f"{desk.namespace}-new")


def namespaces_of(desk: Desk, patience: float = PATIENCE) -> Namespaces:
    return Namespaces(desk.client, desk.mapper, patience)


async def create_until_refused(desk: Desk, name: str) -> None:
    """The API server calls a webhook once it knows it. Until then it creates the namespace, with its account later."""
    while True:
        try:
            await namespaces_of(desk, patience=0).create(name)
        except ApiError as error:
            if not error.not_found:
                raise
        await namespaces_of(desk).delete(name)
        await desk.gone("namespaces", name)


async def test_a_namespace_is_created_once_a_webhook_that_does_not_answer_is_gone(desk: Desk) -> None:
    name = f"{desk.namespace}-late"
    url = "https://127.0.0.1:1/refuses"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["namespaces"]}
    webhook = {
        "name": "webhook.example.com",
        "clientConfig": {"url": url},
        "rules": [{**rule, "scope": "*"}],
        "matchConditions": [{"name": "only-this", "expression": f"object.metadata.name == '{name}'"}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    kind = "ValidatingWebhookConfiguration"
    configuration = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}}
    await desk.apply({**configuration, "webhooks": [webhook]})
    try:
        with pytest.raises(ApiError, match="failed calling webhook"):
            await create_until_refused(desk, name)
        creating = asyncio.create_task(namespaces_of(desk).create(name))
    finally:
        await desk.delete(kind, name)
    await creating
    await namespaces_of(desk).delete(name)


@pytest.mark.slow
async def test_an_error_that_does_not_pass_in_time_is_raised(desk: Desk) -> None:
    # A namespace that is being deleted has no service account any more, and never gets one.
    name = f"{desk.namespace}-held"
    held = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "finalizers": ["a.b/hold"]}}
    await desk.create(held)
    try:
        await desk.kubectl("wait", "--for=create", "serviceaccount/default", f"--namespace={name}")
        await namespaces_of(desk).delete(name)
        await desk.kubectl("wait", "--for=delete", "serviceaccount/default", f"--namespace={name}")
        with pytest.raises(ApiError) as found:
            await namespaces_of(desk, patience=0.5).create(name)
        assert found.value.not_found
    finally:
        await desk.release("namespace", name)


async def test_what_exists_already_is_neither_changed_nor_deleted(desk: Desk) -> None:
    await desk.create({**config_map(desk.namespace, "old").body, "data": {"mine": "yes"}})
    other = f"{desk.namespace}-other"
    namespaces = namespaces_of(desk)
    for each in (config_map(desk.namespace, "old"), config_map(desk.namespace, "new"), config_map(other, "new")):
        await namespaces.create_shared(each)
    assert (await desk.read("configmaps", "new"))["data"] == {"a": "b"}
    await namespaces.close()
    await desk.gone("configmaps", "new")
    assert (await desk.read("configmaps", "old"))["data"] == {"mine": "yes"}
    await desk.gone("namespaces", other)
    assert "deletionTimestamp" not in (await desk.read("namespaces", desk.namespace))["metadata"]
