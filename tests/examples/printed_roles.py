"""Service accounts with exactly the permissions that `ssa-operator rbac` prints, and their requests."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.auth import credentials
from tests.cli.process import run
from tests.conftest import Kubectl
from tests.controller.harness import Desk
from tests.controller.permissions import with_token
from tests.devcluster.audit import audited

Grant = tuple[str, str, str]
"""Group, resource with subresource, and verb."""


@dataclass(frozen=True, slots=True)
class Account:
    """A service account with the permissions that the command prints."""

    name: str
    client: Client
    kubeconfig: Path
    granted: frozenset[Grant]

    def requests(self, cluster: Cluster) -> list[dict[str, Any]]:
        """Its requests for objects."""
        return [each for each in audited(cluster) if each["user"]["username"] == self.name and "objectRef" in each]

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
    """`async with account(*arguments)`: a service account with the permissions that `rbac` prints for the arguments."""

    def __call__(self, *arguments: str, removed: Grant | None = None) -> AbstractAsyncContextManager[Account]: ...


@pytest.fixture
def account(desk: Desk, kubectl: Kubectl, tmp_path: Path) -> MakeAccount:
    """Makes accounts in the test's namespace."""

    @contextlib.asynccontextmanager
    async def make(*arguments: str, removed: Grant | None = None) -> AsyncIterator[Account]:
        name = f"op-{uuid.uuid4().hex[:8]}"
        identity = [f"--service-account={name}", f"--operator-namespace={desk.namespace}"]
        code, out, err = await run("rbac", *arguments, *identity)
        assert code == 0, err
        manifests = list(yaml.safe_load_all(out))
        if removed is not None:
            assert removed in grants(manifests)
            manifests = without(manifests, removed)
        text = yaml.safe_dump_all(manifests)
        await asyncio.to_thread(kubectl, "apply", "--filename=-", input=text)
        try:
            path = with_token(desk.kubeconfig, tmp_path, await desk.kubectl("create", "token", name))
            async with Client(await credentials.load(str(path), None)) as client:
                yield Account(f"system:serviceaccount:{desk.namespace}:{name}", client, path, grants(manifests))
        finally:
            await asyncio.to_thread(kubectl, "delete", "--ignore-not-found", "--filename=-", input=text)

    return make
