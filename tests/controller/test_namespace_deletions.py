"""Namespaces that are deleted with the parents in them, and with the roles of the operator."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.controller.harness import (
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
from tests.controller.permissions import acting_as, allowed, allowed_everywhere
from tests.controller.test_wait_cycles import WIDE, spaces
from tests.examples.printed_roles import MakeAccount, account

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


async def test_namespaces_are_deleted_under_exactly_the_roles_that_the_command_prints(
    desk: Desk, options: MakeOptions, templates: Path, account: MakeAccount
) -> None:
    """Kubernetes deletes the RoleBindings in a namespace in no order with the parents."""
    folder = only(templates, role=ROLE, needs=NEEDS, hook=HOOK) / ECHOES
    (folder / "_settings.yaml").write_text(WIDE)
    async with spaces(desk, 6) as homes:
        names = [home.namespace for home in homes]
        arguments = [f"--templates={templates}", *(f"--namespace={name}" for name in names)]
        async with account(*arguments) as limited, operating(limited.client, options(namespaces=tuple(names))):
            for home in homes:
                await home.apply(echo("web"))
            for home in homes:
                await home.until(ECHOES, "web", has_finalizer)
                await home.read("configmaps", "web-second")
            await desk.kubectl("delete", "namespace", *names, "--wait=false")
            for home in homes:
                await home.gone(ECHOES, "web")
                await desk.gone("namespaces", home.namespace)
                assert await desk.find(ROLES, f"{home.namespace}-web") is None


ELSEWHERE = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
  namespace: {{ spec.place }}
"""
ECHO_RULES = [{"apiGroups": ["example.com"], "resources": ["echoes", "echoes/status"], "verbs": ["*"]}]
MAP_RULES = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]
NAMESPACE_RULES = [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]}]


@pytest.mark.parametrize("again", [False, True], ids=["gone", "created again"])
@pytest.mark.parametrize("restarted", [False, True], ids=["same process", "restarted"])
async def test_a_child_in_a_namespace_that_is_gone_keeps_no_parent_in_deletion(
    again: bool, restarted: bool, desk: Desk, options: MakeOptions, templates: Path, tmp_path: Path
) -> None:
    """The role that allowed the operator to read the child is gone with the namespace."""
    place = "{{ metadata.annotations.place }}"
    folder = only(templates, map=ELSEWHERE.replace("{{ spec.place }}", place)) / ECHOES
    (folder / "_settings.yaml").write_text(WIDE)
    user = f"{desk.namespace}-operator"
    await desk.apply(*allowed_everywhere(user, [*ECHO_RULES, *NAMESPACE_RULES]))
    async with spaces(desk, 1) as (other,), acting_as(user, desk, tmp_path) as limited:
        await other.apply(*allowed(user, MAP_RULES, "operator"))
        parent = echo("web")
        parent["metadata"]["annotations"] = {"place": other.namespace}
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(operating(limited, options()))
            await desk.apply_until_ready(parent)
            if restarted:
                await stack.aclose()
            await desk.kubectl("delete", "namespace", other.namespace)
            if restarted and not again:
                await stack.enter_async_context(operating(limited, options()))
            await desk.delete("echo", "web", wait=False)
            if again:
                await asyncio.sleep(1.1)  # a timestamp has seconds
                await desk.kubectl("create", "namespace", other.namespace)
                if restarted:
                    await stack.enter_async_context(operating(limited, options()))
            await desk.gone(ECHOES, "web")


async def test_a_parent_whose_deletion_waits_for_a_person_says_how_to_end_it(
    desk: Desk, options: MakeOptions, templates: Path, tmp_path: Path
) -> None:
    place = "{{ metadata.annotations.place }}"
    folder = only(templates, map=ELSEWHERE.replace("{{ spec.place }}", place)) / ECHOES
    (folder / "_settings.yaml").write_text(WIDE)
    user = f"{desk.namespace}-operator"
    await desk.apply(*allowed_everywhere(user, [*ECHO_RULES, *NAMESPACE_RULES]))
    async with spaces(desk, 1) as (other,), acting_as(user, desk, tmp_path) as limited:
        await other.apply(*allowed(user, MAP_RULES, "operator"))
        parent = echo("web")
        parent["metadata"]["annotations"] = {"place": other.namespace}
        async with operating(limited, options()):
            await desk.apply_until_ready(parent)
        await other.delete("rolebinding", "operator")
        async with operating(limited, options()):
            await desk.delete("echo", "web", wait=False)
            words = ("configmaps", "forbidden", "take the finalizer off", "kubectl patch Echo.example.com web")
            found = await desk.until(ECHOES, "web", not_ready_because("Deleting", *words))
            command = ready_condition(found)["message"].rpartition("`kubectl ")[2].rstrip("`")
            await desk.kubectl(*shlex.split(command))
            await desk.gone(ECHOES, "web")


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
            await desk.kubectl("delete", "namespace", home.namespace, "--wait=false")
            await home.gone(ECHOES, "web")
            await desk.gone("namespaces", home.namespace)
