"""Admission policies in the namespace of a test."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.json_codec import encode
from tests.operator.harness import PATIENCE, Desk

Body = dict[str, Any]

ADMISSION = "admissionregistration.k8s.io/v1"

ALWAYS = ["CREATE", "UPDATE"]


@contextlib.asynccontextmanager
async def mutating(
    desk: Desk,
    group: str,
    resource: str,
    expression: str,
    *,
    operations: list[str] = ALWAYS,
    sample: Body | None = None,
) -> AsyncIterator[None]:
    """A MutatingAdmissionPolicy for one resource, once it is in force: once an update of the object `web` that changes
    nothing is refused, or once it changes `spec.image` of an object that is created of `sample`. `expression` is an
    apply configuration, or a list of JSON patches.
    """
    patch = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    if expression.startswith("["):
        patch = {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
    spec = {"failurePolicy": "Fail", "reinvocationPolicy": "Never", "mutations": [patch]}
    async with _policy(desk, "Mutating", group, resource, operations, spec):
        if sample is None:
            await _in_force(desk, group, resource)
        else:
            await _changes(desk, group, resource, sample)
        yield


@contextlib.asynccontextmanager
async def validating(
    desk: Desk,
    group: str,
    resource: str,
    expression: str,
    message: str,
    *,
    operations: list[str] = ALWAYS,
    probe: Body | None = None,
) -> AsyncIterator[None]:
    """A ValidatingAdmissionPolicy for one resource, once it is in force: once it denies the merge patch `probe` of the
    object `web`, or its deletion. `message` is an expression.
    """
    spec = {"failurePolicy": "Fail", "validations": [{"expression": expression, "messageExpression": message}]}
    async with _policy(desk, "Validating", group, resource, operations, spec, validationActions=["Deny"]):
        await _denies(desk, group, resource, probe)
        yield


@contextlib.asynccontextmanager
async def _policy(
    desk: Desk, form: str, group: str, resource: str, operations: list[str], spec: Body, **binding: Any
) -> AsyncIterator[None]:
    name, kind = f"{desk.namespace}-{resource}", f"{form}AdmissionPolicy"
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": operations, "resources": [resource]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": desk.namespace}}
    constraints = {"namespaceSelector": selector, "resourceRules": [rule]}
    policy = {
        "apiVersion": ADMISSION,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"matchConstraints": constraints, **spec},
    }
    bound = {
        "apiVersion": ADMISSION,
        "kind": f"{kind}Binding",
        "metadata": {"name": name},
        "spec": {"policyName": name, **binding},
    }
    await desk.apply(policy, bound)
    try:
        yield
    finally:
        await desk.delete(f"{kind}Binding".lower(), name, wait=False)
        await desk.delete(kind.lower(), name, wait=False)


async def _in_force(desk: Desk, group: str, resource: str) -> None:
    found = await desk.mapper.resource_by_name(f"{resource}.{group}" if group else resource)
    request = calls.merge_patch(found, desk.namespace, "web", b'{"metadata":{"labels":{"a":"b"}}}', dry_run=True)
    await _refused(desk, request)


async def _denies(desk: Desk, group: str, resource: str, probe: Body | None) -> None:
    found = await desk.mapper.resource_by_name(f"{resource}.{group}" if group else resource)
    live = await desk.client.get(found, "web", desk.namespace)
    request = (
        calls.delete(found, desk.namespace, "web", calls.DeleteOptions(uid=live.uid, dry_run=True))
        if probe is None
        else calls.merge_patch(found, desk.namespace, "web", encode(probe), dry_run=True)
    )
    await _refused(desk, request)


async def _refused(desk: Desk, request: calls.Request) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await desk.client.send(request)
            except ApiError:
                return
            await asyncio.sleep(0.1)


async def _changes(desk: Desk, group: str, resource: str, sample: Body) -> None:
    found = await desk.mapper.resource_by_name(f"{resource}.{group}")
    options, body = calls.ApplyOptions(dry_run=True), encode({**sample, "metadata": {"name": "sample"}})
    async with asyncio.timeout(PATIENCE):
        while True:
            made = await desk.client.apply(found, desk.namespace, "sample", body, options)
            if made.live.body["spec"]["image"] != sample["spec"]["image"]:
                return
            await asyncio.sleep(0.1)
