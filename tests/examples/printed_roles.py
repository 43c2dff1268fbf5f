"""Service accounts with exactly the permissions that `ssa-operator rbac` prints, and their requests."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.auth import credentials
from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.json_codec import encode
from tests.cli.process import run
from tests.devcluster.audit import audited_after, end_of_log
from tests.operator.harness import PATIENCE, Desk
from tests.operator.limited_accounts import with_token

Grant = tuple[str, str, str]
"""Group, resource with subresource, and verb."""


@dataclass(slots=True)
class Account:
    """A service account with the permissions that the command prints. No part of the audit log is read twice: tests
    poll its requests.
    """

    name: str
    client: Client
    kubeconfig: Path
    granted: frozenset[Grant]
    _position: int
    _requests: list[dict[str, Any]] = field(default_factory=list)

    def requests(self, cluster: Cluster) -> list[dict[str, Any]]:
        """Its requests for objects."""
        found, self._position = audited_after(cluster, self._position)
        self._requests += [each for each in found if each["user"]["username"] == self.name and "objectRef" in each]
        return self._requests

    def used(self, cluster: Cluster) -> frozenset[Grant]:
        found = set()
        for each in self.requests(cluster):
            reference = each["objectRef"]
            subresource = f"/{reference['subresource']}" if "subresource" in reference else ""
            found.add((reference.get("apiGroup", ""), reference["resource"] + subresource, each["verb"]))
        return frozenset(found)

    def refused(self, cluster: Cluster) -> list[str]:
        """The requests that the API server refused because of a missing permission."""
        return [
            f"{each['verb']} {each['requestURI']}: {each['responseStatus'].get('message')}"
            for each in self.requests(cluster)
            if each.get("responseStatus", {}).get("code") == 403
            # This one is not about a permission: an admission plugin discovers a new CRD late.
            and "cannot find RESTMapping" not in each["responseStatus"].get("message", "")
        ]


def grants(manifests: Iterable[dict[str, Any]]) -> frozenset[Grant]:
    return frozenset(
        (group, resource, verb)
        for body in manifests
        for rule in body.get("rules", ())
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    )


def without(manifests: list[dict[str, Any]], removed: Grant) -> list[dict[str, Any]]:
    """The manifests without one verb of one resource."""
    group, resource, verb = removed
    for body in manifests:
        for rule in body.get("rules", ()):
            if (rule["apiGroups"], rule["resources"]) == ([group], [resource]):
                rule["verbs"] = [each for each in rule["verbs"] if each != verb]
        if "rules" in body:
            body["rules"] = [rule for rule in body["rules"] if rule["verbs"]]
    return manifests


class MakeAccount(Protocol):
    """`async with account(*arguments)`: a service account with the permissions that `rbac` prints for the arguments.

    `added` are rules that it leaves to the administrator, for roles.
    """

    def __call__(
        self, *arguments: str, removed: Grant | None = None, added: Sequence[dict[str, Any]] = ()
    ) -> AbstractAsyncContextManager[Account]: ...


async def token_of(desk: Desk, name: str) -> str:
    """A token of a service account in the test's namespace."""
    path = f"/api/v1/namespaces/{desk.namespace}/serviceaccounts/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    response = await desk.client.send(Request(method="POST", path=path, subject=f"token of {name}", body=encode(body)))
    return str(json.loads(response.body)["status"]["token"])


async def _until_granted(client: Client, manifests: Iterable[dict[str, Any]]) -> None:
    """Return once the API server's authorizer knows all bindings, and their roles: it watches them. `client` is the
    account's.
    """
    bodies = list(manifests)
    rules = {
        (body["kind"], _place(body), body["metadata"]["name"]): body["rules"] for body in bodies if "rules" in body
    }
    for body in bodies:
        if "roleRef" not in body:
            continue
        role = body["roleRef"]
        place = _place(body) if role["kind"] == "Role" else ""
        for rule in rules[role["kind"], place, role["name"]][:1]:
            resource, _, subresource = rule["resources"][0].partition("/")
            asked = {
                "namespace": _place(body),
                "group": rule["apiGroups"][0],
                "resource": resource,
                "subresource": subresource,
                "verb": rule["verbs"][0],
                "name": rule.get("resourceNames", [""])[0],
            }
            async with asyncio.timeout(PATIENCE):
                while not await _allowed(client, asked):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)


def _place(body: dict[str, Any]) -> str:
    return str(body["metadata"].get("namespace", ""))


async def _allowed(client: Client, attributes: dict[str, str]) -> bool:
    """Whether the API server would carry out a request of the client's user."""
    api = "authorization.k8s.io/v1"
    body = {"apiVersion": api, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
    path = f"/apis/{api}/selfsubjectaccessreviews"
    response = await client.send(Request(method="POST", path=path, subject="review", body=encode(body), review=True))
    return bool(json.loads(response.body)["status"]["allowed"])


async def _delete(desk: Desk, body: dict[str, Any]) -> None:
    """Delete an object if it is there."""
    group, version = split_api_version(body["apiVersion"])
    resource = await desk.mapper.resource(GroupKind(group, body["kind"]), version)
    metadata = body["metadata"]
    path = resource.path(metadata.get("namespace", desk.namespace) if resource.namespaced else "", metadata["name"])
    try:
        await desk.client.send(Request(method="DELETE", path=path, subject=f"delete of {path}"))
    except ApiError as error:
        if not error.not_found:
            raise


@pytest.fixture
def account(cluster: Cluster, desk: Desk, tmp_path: Path) -> MakeAccount:
    """Makes accounts in the test's namespace."""

    @contextlib.asynccontextmanager
    async def make(
        *arguments: str, removed: Grant | None = None, added: Sequence[dict[str, Any]] = ()
    ) -> AsyncIterator[Account]:
        name = f"op-{uuid.uuid4().hex[:8]}"
        identity = [f"--service-account={name}", f"--operator-namespace={desk.namespace}"]
        code, out, err = await run("rbac", *arguments, *identity)
        assert code == 0, err
        manifests = list(yaml.safe_load_all(out))
        for body in manifests:
            if any("roles" in rule["resources"] for rule in body.get("rules", ())):
                body["rules"] += added
        if removed is not None:
            assert removed in grants(manifests)
            manifests = without(manifests, removed)
        begin = end_of_log(cluster)
        await desk.apply(*manifests)
        try:
            path = with_token(desk.kubeconfig, tmp_path, await token_of(desk, name))
            async with Client(await credentials.load(str(path), None)) as client:
                await _until_granted(client, manifests)
                user = f"system:serviceaccount:{desk.namespace}:{name}"
                yield Account(user, client, path, grants(manifests), begin)
        finally:
            for body in manifests:
                await _delete(desk, body)

    return make
