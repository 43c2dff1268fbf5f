"""The record of an object's generated values: it reads back, it belongs to one parent and one object, and it stays as
long as it is needed.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.kept_values import obsolete_values, read_secret, secret_body, secret_identity
from tests.objects.example_objects import child, config_map_identity, parent

LIVE = child("a", managedFields=[{"manager": "ssa-operator", "operation": "Apply", "fieldsV1": {"f:data": {}}}])
A, B = config_map_identity("a"), config_map_identity("b")


def stored(**changes: Any) -> LiveObject:
    secret = secret_identity(parent(), LIVE.identity)
    assert secret is not None
    return LiveObject.of({**secret_body(parent(), secret, LIVE, "data is immutable"), **changes})


def test_a_record_reads_back_without_managed_fields() -> None:
    found = read_secret(parent(), LIVE.identity, stored())
    assert found is not None
    assert found.old is not None
    without = {key: value for key, value in LIVE.body["metadata"].items() if key != "managedFields"}
    assert found.old.body == {**LIVE.body, "metadata": without}
    assert (found.created, found.why) == (False, "data is immutable")


def test_the_parent_owns_the_record_and_the_operator_never_prunes_it() -> None:
    (owner,) = stored().owner_references
    assert owner.uid == parent().uid
    assert not stored().owned_fields()


def test_the_record_has_the_label_that_deploy_base_allows_the_operator_to_delete() -> None:
    assert stored().parent_uid == parent().uid


def test_the_record_of_another_parent_object_or_type_is_not_read() -> None:
    assert read_secret(parent(uid="another"), LIVE.identity, stored()) is None
    assert read_secret(parent(), replace(LIVE.identity, name="another"), stored()) is None
    assert read_secret(parent(), LIVE.identity, stored(type="Opaque")) is None


@given(st.none() | st.text() | st.integers() | st.dictionaries(st.sampled_from(["object", "why"]), st.text()))
def test_a_malformed_record_is_none(data: Any) -> None:
    assert read_secret(parent(), LIVE.identity, stored(data=data)) is None


def test_each_object_of_each_parent_has_a_record_of_its_own() -> None:
    names = {secret_identity(parent(uid=uid), identity) for uid in ("u", "v") for identity in (A, B)}
    assert len(names) == 4


def test_without_any_namespace_there_is_no_record() -> None:
    cluster_scoped = parent(namespace="")
    assert secret_identity(cluster_scoped, Identity("", "Namespace", "", "team")) is None
    secret = secret_identity(cluster_scoped, A)
    assert secret is not None
    assert secret.namespace == A.namespace


@pytest.mark.parametrize(
    ("applied", "rendered", "existing", "obsolete"),
    [
        (set(), {A}, set(), False),
        (set(), {A}, {A}, False),
        ({A}, {A}, {A}, True),
        (set(), set(), {A}, False),
        (set(), set(), set(), True),
        (set(), None, set(), False),
    ],
    ids=["to be created", "not applied", "applied", "to be pruned", "gone", "a template failed"],
)
def test_a_record_stays_until_its_object_is_applied_or_is_no_longer_rendered_and_gone(
    applied: set[Identity], rendered: set[Identity] | None, existing: set[Identity], obsolete: bool
) -> None:
    found = obsolete_values([A], applied=applied, rendered=rendered, existing=existing)
    assert found == ({A} if obsolete else set())
