"""The messages of the real API server on immutable fields, kind by kind, and on other refused changes."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.field_refusal import FieldRefusal
from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Manifest, Rules, manifest
from ssa_operator.reconcile.immutable_fields import changed_field, immutable_fields
from ssa_operator.reconcile.recreate.rules import probe, refusal_is_about_trial
from ssa_operator.schema.crd_schema import object_schema
from tests.objects.example_objects import document, parent
from tests.operator.harness import Desk, definition

pytestmark = pytest.mark.cluster

CASES = yaml.safe_load(Path(__file__).with_name("immutability.yaml").read_text())
SCHEMA = CASES["schema"]


class Bench:
    """Applies manifests of one parent, and records the answers of the API server."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._client = desk.client
        self._parent = parent(name="bench", namespace=desk.namespace)
        self._definition: dict[str, Any] | None = None

    async def define(self) -> str:
        """Install a CRD with `SCHEMA`; returns its group."""
        group = f"t{uuid.uuid4().hex[:8]}.example.com"
        crd = definition("things", group, "Thing")
        crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = SCHEMA
        await self._desk.define(crd)
        self._definition = crd
        return group

    async def resource(self, body: dict[str, Any]) -> Resource:
        group, version = split_api_version(body["apiVersion"])
        return await self._desk.mapper.resource(GroupKind(group, body["kind"]), version)

    async def manifest(self, body: dict[str, Any]) -> Manifest:
        namespaced = (await self.resource(body)).namespaced
        # A cluster-scoped object can have no namespaced owner.
        kept = merged(body, {"metadata": {"annotations": {"ssa-operator.dev/prune": "false"}}})
        return manifest(document(kept), self._parent, Rules(namespaced=namespaced, cluster_scope=True))

    async def apply(self, body: dict[str, Any]) -> LiveObject:
        made = await self.manifest(body)
        resource = await self.resource(body)
        return (await self._client.apply(resource, made.identity.namespace, made.identity.name, made.encoded)).live

    async def refusals(self, body: dict[str, Any]) -> list[FieldRefusal]:
        with pytest.raises(ApiError) as caught:
            await self.apply(body)
        return [FieldRefusal(cause.field, cause.message) for cause in caught.value.causes]

    @property
    def schema(self) -> Any:
        return object_schema(self._definition, "v1") if self._definition else None

    async def prove(self, body: dict[str, Any], live: LiveObject) -> None:
        """The dry run before an object is deleted. Raises ApiError if the manifest isn't valid."""
        made = await self.manifest(body)
        probed = probe(made, live)
        try:
            await self._client.apply(
                await self.resource(body),
                made.identity.namespace,
                probed.name,
                probed.encoded,
                ApplyOptions(dry_run=True),
            )
        except ApiError as error:
            refusals = [FieldRefusal(cause.field, cause.message) for cause in error.causes]
            if not refusal_is_about_trial(probed, refusals, error.message, self.schema):
                raise


@pytest.fixture
def bench(desk: Desk) -> Bench:
    return Bench(desk)


def generated_values(value: Any) -> Any:
    """The same, with addresses and ports that no other object has."""
    number = uuid.uuid4().int
    places = {"NODEPORT": 30000 + number % 900, "FREE_ADDRESS": f"10.0.{number % 100}.{number % 251 + 1}"}
    if isinstance(value, dict):
        return {key: generated_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [generated_values(item) for item in value]
    return places.get(value, value) if isinstance(value, str) else value


def named(body: dict[str, Any], name: str = "") -> dict[str, Any]:
    """The object under a name that no other one has, where it has none."""
    return {**body, "metadata": {"name": name or f"x{uuid.uuid4().hex[:10]}", **body.get("metadata", {})}}


def thing(group: str, spec: dict[str, Any], name: str = "") -> dict[str, Any]:
    return named({"apiVersion": f"{group}/v1", "kind": "Thing", "spec": spec}, name)


def merged(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: merged(one.get(key), other[key]) if key in other else one[key] for key in {**one, **other}}
    return other


def label(case: dict[str, Any]) -> str:
    return f"{case['object']['kind']} {case['change']}"


@pytest.mark.more_cases
@pytest.mark.parametrize("case", CASES["immutable"], ids=label)
async def test_a_change_of_an_immutable_field_is_recognized_and_passes_the_dry_run(
    bench: Bench, case: dict[str, Any]
) -> None:
    body = named(generated_values(case["object"]))
    live = await bench.apply(body)
    changed = merged(body, generated_values(case["change"]))
    made = await bench.manifest(changed)
    kind = made.identity.group_kind
    assert immutable_fields(kind, await bench.refusals(changed))[0] == case["field"]
    assert changed_field(kind, [case["field"]], made.body, live.body) == case.get("written", case["field"])
    await bench.prove(changed, live)


@pytest.mark.more_cases
@pytest.mark.parametrize("case", CASES["invalid"], ids=label)
async def test_an_invalid_change_is_not_taken_for_a_change_of_an_immutable_field(
    bench: Bench, case: dict[str, Any]
) -> None:
    body = named(generated_values(case["object"]))
    live = await bench.apply(body)
    assert not immutable_fields(live.identity.group_kind, await bench.refusals(merged(body, case["change"])))


async def test_a_rule_of_a_crd_that_compares_with_the_old_object_makes_a_field_immutable(bench: Bench) -> None:
    group = await bench.define()
    for case in CASES["custom_immutable"]:
        live = await bench.apply(thing(group, case["first"]))
        changed = thing(group, case["then"], live.identity.name)
        found = immutable_fields(live.identity.group_kind, await bench.refusals(changed), bench.schema)[0]
        wanted = (await bench.manifest(changed)).body
        assert (case, changed_field(live.identity.group_kind, [found], wanted, live.body)) == (case, case["field"])
        await bench.prove(changed, live)


async def test_any_other_rule_of_a_crd_makes_no_field_immutable_whatever_its_message(bench: Bench) -> None:
    group = await bench.define()
    for case in CASES["custom_invalid"]:
        live = await bench.apply(thing(group, case["first"]))
        refusals = await bench.refusals(thing(group, case["then"], live.identity.name))
        assert (case, immutable_fields(live.identity.group_kind, refusals, bench.schema)) == (case, ())


async def test_a_rule_about_the_name_alone_does_not_fail_the_dry_run(bench: Bench) -> None:
    group = await bench.define()
    live = await bench.apply(thing(group, {"single": True, "silent": "a"}, "only"))
    await bench.prove(thing(group, {"single": True, "silent": "b"}, "only"), live)
    with pytest.raises(ApiError, match=r"spec\.short"):
        await bench.prove(thing(group, {"single": True, "short": "too long"}, "only"), live)


async def test_the_default_priority_class_passes_the_dry_run(bench: Bench) -> None:
    body = named({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5, "globalDefault": True})
    live = await bench.apply(body)
    try:
        await bench.prove({**body, "value": 6}, live)
    finally:
        await bench.apply({**body, "globalDefault": False})
