"""Which parents are requeued when an object that two parents render is released."""

from __future__ import annotations

from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.plan import Plan, make_plan
from tests.objects.example_objects import OTHER_UID, PARENT_UID, config_map, config_map_identity, observed, rendered

SHARED = config_map_identity("shared")


class Claimed:
    """The object `shared`, rendered by one parent and refused to another, and the parents that were requeued since."""

    def __init__(self) -> None:
        self.requeued: list[str] = []
        self.parents = dict(observed().parents.existing)
        self.claims = ObjectClaims(self.parents, lambda: True, self.requeued.append)
        self.claims.claim(OTHER_UID, make_plan(observed(), rendered(config_map("shared"))))
        self.claims.claim(PARENT_UID, self.plan())

    def plan(self) -> Plan:
        return make_plan(observed(claims=self.claims), rendered(config_map("shared")))


def test_a_refused_parent_is_requeued_when_the_other_no_longer_renders_the_object() -> None:
    case = Claimed()
    assert (dict(case.claims), case.requeued) == ({SHARED: OTHER_UID}, [])
    case.claims.claim(OTHER_UID, make_plan(observed(), rendered()))
    assert case.requeued == [PARENT_UID]
    case.claims.claim(PARENT_UID, case.plan())
    assert dict(case.claims) == {SHARED: PARENT_UID}
    case.claims.free(SHARED)
    assert case.requeued == [PARENT_UID]


def test_a_refused_parent_is_requeued_when_the_other_is_deleted_and_when_its_object_is() -> None:
    case = Claimed()
    case.claims.forget(OTHER_UID)
    case.claims.free(SHARED)
    assert case.requeued == [PARENT_UID, PARENT_UID]


def test_a_deleted_parent_is_not_requeued() -> None:
    case = Claimed()
    case.claims.forget(PARENT_UID)
    case.claims.forget(OTHER_UID)
    assert not case.requeued
    assert not case.claims


def test_a_parent_that_is_deleted_while_it_is_reconciled_claims_nothing() -> None:
    case = Claimed()
    case.claims.claim(OTHER_UID, make_plan(observed(), rendered()))
    del case.parents[PARENT_UID]
    case.claims.forget(PARENT_UID)
    case.claims.claim(PARENT_UID, case.plan())
    assert not case.claims
