"""Namespaces that are deleted with the parents in them, and with the roles of the operator."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ssa_operator.kube.api.client import Client
from tests.examples.printed_roles import MakeAccount, account
from tests.operator.harness import (
    ECHOES,
    ROLE,
    ROLES,
    Desk,
    MakeOptions,
    Operate,
    echo,
    map_template,
    not_ready_because,
    only,
    operating,
    ready_condition,
)
from tests.operator.limited_accounts import acting_as, allowed, allowed_everywhere
from tests.reconcile.finalization.test_wait_cycles import WIDE, space, spaces

__all__ = ["account"]

pytestmark = pytest.mark.cluster

CLEANUP = "ssa-operator.dev/cleanup"
HOOK = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ name }}-bye
  annotations: {ssa-operator.dev/on: finalize}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: bye, image: "busybox:1"}]
"""
NEEDS = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-first
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-second
data:
  first: "{{ child('ConfigMap', name ~ '-first').metadata.name }}"
"""


def has_finalizer(body: dict[str, Any]) -> bool:
    return CLEANUP in body["metadata"].get("finalizers", [])


@pytest.mark.exhaustive
async def test_namespaces_are_deleted_under_exactly_the_roles_that_the_command_prints(
    desk: Desk, options: MakeOptions, templates: Path, account: MakeAccount
) -> None:
    """Kubernetes deletes the RoleBindings in a namespace in no order with the parents."""
    folder = only(templates, role=ROLE, needs=NEEDS, hook=HOOK) / ECHOES
    (folder / "_settings.yaml").write_text(WIDE)
    async with spaces(desk, 4) as homes:
        names = [home.namespace for home in homes]
        arguments = [f"--templates={templates}", *(f"--namespace={name}" for name in names)]
        async with account(*arguments) as limited, operating(limited.client, options(namespaces=tuple(names))):
            for home in homes:
                await home.apply(echo("web"))
            for home in homes:
                await home.until(ECHOES, "web", has_finalizer)
                await home.read("configmaps", "web-second")
            for name in names:
                await desk.delete("namespace", name, wait=False)
            for home in homes:
                await home.gone(ECHOES, "web")
                await desk.gone("namespaces", home.namespace)
                assert await desk.find(ROLES, f"{home.namespace}-web") is None


ELSEWHERE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
  namespace: {{ metadata.annotations.place }}
"""
ECHO_RULES = [{"apiGroups": ["example.com"], "resources": ["echoes", "echoes/status"], "verbs": ["*"]}]
MAP_RULES = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
NAMESPACE_RULES = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}]

MakeElsewhere: TypeAlias = "Callable[..., AbstractAsyncContextManager[Elsewhere]]"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Parents, each with a child in a namespace of its own, where a Role allows their operator to read it."""

    desk: Desk
    places: Mapping[str, Desk]
    """The namespace of each parent's child, by the parent's name."""
    client: Client
    """That of the operator."""

    async def apply(self) -> None:
        """Apply the parents, until they are ready."""
        for name, place in self.places.items():
            metadata = {"name": name, "annotations": {"place": place.namespace}}
            await self.desk.apply(echo(name) | {"metadata": metadata})
        for name in self.places:
            await self.desk.ready(ECHOES, name)

    async def delete(self, *names: str) -> None:
        for name in names:
            await self.desk.delete("echo", name, wait=False)

    async def delete_places(self, *names: str) -> None:
        """Delete the namespaces of some children, and the Roles with them."""
        for name in names:
            await self.desk.delete("namespace", self.places[name].namespace, wait=False)
        for name in names:
            await self.desk.gone("namespaces", self.places[name].namespace)

    async def create_places(self, *names: str) -> None:
        await self.desk.apply(*(space(self.places[name].namespace) for name in names))

    async def gone(self, *names: str) -> None:
        for name in names:
            await self.desk.gone(ECHOES, name)


@pytest.fixture
def elsewhere(desk: Desk, templates: Path, tmp_path: Path) -> MakeElsewhere:
    """Makes parents of these names."""

    @contextlib.asynccontextmanager
    async def make(*names: str) -> AsyncIterator[Elsewhere]:
        folder = only(templates, map=ELSEWHERE) / ECHOES
        (folder / "_settings.yaml").write_text(WIDE)
        user = f"{desk.namespace}-operator"
        await desk.apply(*allowed_everywhere(user, [*ECHO_RULES, *NAMESPACE_RULES]))
        async with spaces(desk, len(names)) as others, acting_as(user, desk, tmp_path) as limited:
            for other in others:
                await other.apply(*allowed(user, MAP_RULES, "operator"))
            yield Elsewhere(desk, dict(zip(names, others, strict=True)), limited)

    return make


async def test_a_child_in_a_namespace_that_is_gone_keeps_no_parent_in_deletion(
    elsewhere: MakeElsewhere, options: MakeOptions
) -> None:
    """The role that allowed the operator to read the child is gone with the namespace."""
    async with elsewhere("gone", "again") as made, operating(made.client, options()):
        await made.apply()
        await made.delete_places("gone", "again")
        await made.create_places("again")
        await made.delete("gone", "again")
        await made.gone("gone", "again")


@pytest.mark.exhaustive
async def test_after_a_restart_the_end_of_a_namespace_ends_a_deletion_or_a_person_does(
    elsewhere: MakeElsewhere, options: MakeOptions
) -> None:
    """A namespace that was created again before the deletion may have the child, as far as the new process knows."""
    async with elsewhere("gone", "again", "earlier", "unbound") as made:
        async with operating(made.client, options()):
            await made.apply()
        await made.places["unbound"].delete("rolebinding", "operator")
        await made.delete_places("gone", "again", "earlier")
        await made.create_places("earlier")
        await asyncio.sleep(1.1)  # a timestamp has seconds
        await made.delete(*made.places)
        await asyncio.sleep(1.1)
        await made.create_places("again")
        for name in ("earlier", "unbound"):  # no child shows whether their deletion takes the children along
            await made.desk.patch("echo", name, metadata={"annotations": {"ssa-operator.dev/deletion": "Delete"}})
        async with operating(made.client, options()):
            await made.gone("gone", "again")
            for name in ("earlier", "unbound"):
                words = ("configmaps", "forbidden", "take the finalizer off", f"kubectl patch Echo.example.com {name}")
                found = await made.desk.until(ECHOES, name, not_ready_because("Deleting", *words))
                command = ready_condition(found)["message"].rpartition("`kubectl ")[2].rstrip("`")
                await made.desk.kubectl(*shlex.split(command))
            await made.gone(*made.places)


async def test_a_child_that_its_controller_keeps_in_deletion_names_the_finalizer_and_the_command(
    desk: Desk, operate: Operate, templates: Path
) -> None:
    folder = only(templates, role=ROLE) / ECHOES
    (folder / "_settings.yaml").write_text(WIDE)
    role = f"{desk.namespace}-web"
    async with operate():
        await desk.apply_until_ready(echo("web"))
        await desk.hold("clusterrole", role)
        await desk.delete("echo", "web", wait=False)
        words = ("kept by the finalizer a.b/hold", f"kubectl patch ClusterRole.rbac.authorization.k8s.io {role} ")
        found = await desk.until(ECHOES, "web", not_ready_because("Deleting", *words))
        command = ready_condition(found)["message"].rpartition("`kubectl ")[2].partition("`")[0]
        await desk.kubectl(*shlex.split(command))
        await desk.gone(ECHOES, "web")


@pytest.mark.exhaustive
async def test_a_parent_that_is_orphaned_in_a_namespace_that_is_deleted_keeps_it_from_ending_no_longer_than_others(
    desk: Desk, options: MakeOptions, templates: Path, account: MakeAccount
) -> None:
    folder = only(templates, role=ROLE, map=map_template("a")) / ECHOES
    (folder / "_settings.yaml").write_text(WIDE)
    async with spaces(desk, 1) as (home,):
        arguments = [f"--templates={templates}", f"--namespace={home.namespace}"]
        async with (
            account(*arguments) as limited,
            operating(limited.client, options(namespaces=(home.namespace,))),
        ):
            await home.apply_until_ready(echo("web"))
            await home.kubectl("delete", "rolebinding", "--all")
            await home.kubectl("delete", "echo", "web", "--cascade=orphan", "--wait=false")
            await desk.delete("namespace", home.namespace, wait=False)
            await home.gone(ECHOES, "web")
            await desk.gone("namespaces", home.namespace)
