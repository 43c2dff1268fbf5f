"""What it means that the cluster doesn't serve a kind in a version: absent, unknown, or not yet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.informers.served_versions import DefinedKind, ServedFacts, availability, why_unknown
from ssa_operator.objects.built_in_kinds import ApiKind
from ssa_operator.objects.cluster_view import Unknown

NOTHING = ServedFacts()


def kind(version: str) -> ApiKind:
    return ApiKind(f"t.example.com/{version}", "Item")


def defined(*, not_established: str = "", **versions: bool) -> ServedFacts:
    crd = DefinedKind(name="items.t.example.com", versions=versions, not_established=not_established)
    return ServedFacts(crd=crd)


@pytest.mark.parametrize(
    ("facts", "version", "available", "why"),
    [
        (NOTHING, "v1", False, ""),
        (defined(v1=True), "v1", True, "the API server has not yet begun to serve Item in t.example.com/v1"),
        (defined(v1beta1=False, v1=True), "v1beta1", None, "Item in v1, not in v1beta1; write t.example.com/v1"),
        # A version that the CRD no longer lists, and one that it does not list yet.
        (defined(v1=True), "v1beta1", None, "its CRD items.t.example.com serves Item in v1, not in v1beta1; write"),
        (defined(v1=True), "v2", False, "Item in v1, not in v2; write t.example.com/v1"),
        (defined(v1=True, v2=False), "v2", None, "Item in v1, not in v2; write t.example.com/v1"),
        (defined(v1beta1=True, v2=True, v1=True), "v1alpha1", None, "Item in v2, v1, v1beta1, not in v1alpha1; write"),
        (defined(v1=False), "v1", False, "its CRD items.t.example.com is not served: it serves no version"),
        (defined(v1=True, not_established="conflict"), "v1", False, "items.t.example.com is not served: conflict"),
        (ServedFacts(discovered=("v1",)), "v1", True, None),
        (
            ServedFacts(discovered=("v2", "v1")),
            "v1beta1",
            False,
            "Item in v2, v1, not in v1beta1; write t.example.com/v2",
        ),
        (ServedFacts(failing="it is stale"), "v1", None, "the discovery of its group fails: it is stale"),
        (ServedFacts(failing="it is stale", discovered=("v1",)), "v1", True, None),
        (ServedFacts(withdrawn=True), "v1", None, "the cluster served it and no longer does"),
        (ServedFacts(withdrawn=True, discovered=("v2",)), "v1", None, "Item in v2, not in v1; write t.example.com/v2"),
    ],
)
def test_what_is_not_served_is_unknown_unless_it_never_was(
    facts: ServedFacts, version: str, available: bool | None, why: str | None
) -> None:
    found = availability(kind(version), facts)
    assert (None if isinstance(found, Unknown) else found) is available
    if why is not None:
        assert why in why_unknown(kind(version), facts)
        assert bool(why) == bool(why_unknown(kind(version), facts))
    if isinstance(found, Unknown):
        assert found.why == why_unknown(kind(version), facts)


VERSIONS = st.sampled_from(["v1alpha1", "v1beta1", "v1", "v2"])


@given(
    facts=st.builds(
        ServedFacts,
        crd=st.none()
        | st.builds(
            DefinedKind,
            name=st.just("items.t.example.com"),
            versions=st.dictionaries(VERSIONS, st.booleans(), min_size=1),
            not_established=st.sampled_from(["", "conflict"]),
        ),
        discovered=st.lists(VERSIONS, unique=True),
        failing=st.sampled_from(["", "it is stale"]),
        withdrawn=st.booleans(),
    ),
    version=VERSIONS,
)
def test_only_a_kind_that_nothing_knows_of_is_absent(facts: ServedFacts, version: str) -> None:
    if not why_unknown(kind(version), facts):
        assert facts.crd is None
        assert not facts.discovered
        assert not facts.failing
        assert not facts.withdrawn
    found = availability(kind(version), facts)
    if facts.withdrawn:
        assert found is not False
    if isinstance(found, Unknown):
        assert found.why
