"""A manifest that is merged into its live object without an API server."""

from __future__ import annotations

from typing import Any

from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.render_result import Wait
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.reconcile import merged_outcomes as offline
from ssa_operator.reconcile.child import Child, Result
from ssa_operator.reconcile.plan import Plan, make_plan
from ssa_operator.reconcile.prune.deletions import deletions
from ssa_operator.tools.schema_rules import bundled_schemas
from tests.objects.example_objects import PARENT_UID, child, config_map, config_map_identity, made, observed, rendered

IS_QUANTITY = bundled_schemas(KUBERNETES_VERSION).is_quantity


def merged(live: LiveObject, manifest: Manifest) -> LiveObject:
    return offline.merged(live, manifest, IS_QUANTITY)


def merged_outcomes(plan: Plan) -> tuple[Child, ...]:
    return offline.merged_outcomes(plan, IS_QUANTITY, lambda _: lambda _: None)


def deployment(containers: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": containers}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"template": template, **spec},
    }


def stored(body: dict[str, Any], *fields: tuple[str, dict[str, Any]]) -> LiveObject:
    """An object with these owners of fields below spec.template.spec and of spec itself."""
    entries = [{"manager": manager, "operation": "Apply", "fieldsV1": tree} for manager, tree in fields]
    return LiveObject.of({**body, "metadata": {**body["metadata"], "managedFields": entries}})


ITEM: dict[str, Any] = {".": {}, "f:name": {}, "f:image": {}}
KEYED: dict[str, Any] = {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"a"}': ITEM}}}}}


def containers(live: LiveObject) -> Any:
    return live.body["spec"]["template"]["spec"]["containers"]


def test_items_of_a_list_map_keep_what_others_and_the_api_server_wrote() -> None:
    before = stored(
        deployment([{"name": "a", "image": "a:1", "pull": "Always"}, {"name": "sidecar"}]), (MANAGER, KEYED)
    )
    after = merged(before, made(deployment([{"name": "a", "image": "a:2"}])))
    assert containers(after) == [{"name": "a", "image": "a:2", "pull": "Always"}, {"name": "sidecar"}]


def test_a_field_that_only_the_operator_owns_and_no_longer_renders_is_removed() -> None:
    own: dict[str, Any] = {"f:data": {"f:a": {}, "f:old": {}, "f:shared": {}}}
    other: dict[str, Any] = {"f:data": {"f:shared": {}}}
    before = stored(config_map(data={"a": "b", "old": "x", "shared": "y"}), (MANAGER, own), ("other", other))
    after = merged(before, made(config_map()))
    assert after.body["data"] == {"a": "b", "shared": "y"}


def test_another_spelling_of_a_quantity_and_an_empty_mapping_are_no_change() -> None:
    before = stored(deployment([{"name": "a", "resources": {"requests": {"cpu": "100m"}}}]), (MANAGER, KEYED))
    wanted = {"name": "a", "resources": {"requests": {"cpu": "0.1"}, "limits": {}}}
    assert containers(merged(before, made(deployment([wanted])))) == containers(before)


def test_another_spelling_in_a_field_that_is_no_quantity_by_its_schema_is_a_change() -> None:
    def custom(memory: str) -> dict[str, Any]:
        spec = {"limits": {"memory": memory}, "capacity": [memory]}
        return {"apiVersion": "example.com/v1", "kind": "Cache", "metadata": {"name": "a"}, "spec": spec}

    after = merged(stored(custom("1Gi")), made(custom("1024Mi")))
    assert after.body["spec"] == custom("1024Mi")["spec"]
    labelled = deployment([], selector={"matchLabels": {"limits": "1000"}})
    after = merged(stored(labelled), made(deployment([], selector={"matchLabels": {"limits": "1k"}})))
    assert after.body["spec"]["selector"] == {"matchLabels": {"limits": "1k"}}


def test_a_list_without_keys_is_replaced() -> None:
    before = stored(deployment([], args=["a", "b"]), (MANAGER, {"f:spec": {"f:args": {}}}))
    assert merged(before, made(deployment([], args=["c"]))).body["spec"]["args"] == ["c"]


def test_the_outcomes_are_those_of_the_plan() -> None:
    fields: dict[str, Any] = {"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {}, "f:ownerReferences": {}}}
    same = made(config_map("same"))
    same_live = LiveObject.of(
        {
            **same.body,
            "metadata": {
                **same.body["metadata"],
                "uid": "1",
                "managedFields": [{"manager": MANAGER, "operation": "Apply", "fieldsV1": fields}],
            },
        }
    )
    plan = make_plan(
        observed(same_live, child("changed", data={"a": "x"}), child("gone", uid="c-2"), child("two", uid="c-3")),
        rendered(config_map("same"), config_map("changed", data={"a": "new"}), config_map("new"), config_map("two")),
    )
    found = {outcome.identity.name: outcome.result for outcome in merged_outcomes(plan)}
    assert found["same"] is Result.UNCHANGED
    assert found["changed"] is Result.CONFIGURED
    assert found["new"] is Result.CREATED
    assert found["gone"] is Result.PRUNED
    assert same_live.parent_uid == PARENT_UID


def test_what_is_kept_while_a_manifest_is_refused_counts_as_pruned() -> None:
    refused = config_map("refused", metadata={"namespace": "other"})
    plan = make_plan(observed(child("one"), child("gone", uid="c-2")), rendered(config_map("one"), refused))
    found = {outcome.identity.name: outcome.result for outcome in merged_outcomes(plan)}
    assert found["refused"] is Result.FAILED
    assert found["gone"] is Result.PRUNED


def test_what_waits_or_is_held_counts_as_pruned() -> None:
    waits = (Wait(location=SourceLocation("a.yaml.j2", 1), awaited=()),)
    for plan in (
        make_plan(observed(child("old")), rendered(config_map(), waits=waits)),
        make_plan(observed(child("old"), applied_digest="t0"), rendered()),
    ):
        (old,) = (each for each in merged_outcomes(plan) if each.identity.name == "old")
        assert old.result is Result.PRUNED
        assert "a template waits" in old.reason or "is held" in old.reason
        assert deletions(plan, merged_outcomes(plan)) == [config_map_identity("old")]
