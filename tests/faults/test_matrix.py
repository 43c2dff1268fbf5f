"""A representative part of the fault matrix, and how the cluster is compared with the story."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from tests.faults.cell import Outcome, allowance, lost
from tests.faults.injections import injections
from tests.faults.matrix import play
from tests.faults.story import (
    DELETED,
    FIRST,
    MAPS,
    ROLES,
    SECRETS,
    SHARED,
    STACKS,
    Body,
    Key,
    Phase,
    Spec,
    differences,
    wrongly_deleted,
)
from tests.faults.story import wanted as wanted_children
from tests.faults.table import BEGIN, END, replaced_table, table

PART = [
    ("connection refused", Phase.START_UP),
    ("connection refused", Phase.FINALIZE),
    ("reset after the request", Phase.RECREATE),
    ("429 with Retry-After: 2", Phase.MASS_UPDATE),
    ("truncated JSON", Phase.PRUNE),
    ("watch ended at once", Phase.STEADY_STATE),
    ("410 as an event", Phase.PRUNE),
    ("500", Phase.ROLLOUT),
    ("503", Phase.ORPHAN),
    ("rotated CA", Phase.MASS_UPDATE),
    ("quota exceeded", Phase.RECREATE),
]
"""Each phase once, and each kind of fault that ends within seconds."""


@pytest.mark.cluster
@pytest.mark.slow
async def test_the_operator_keeps_its_promises_in_a_representative_part_of_the_matrix(
    cluster: Cluster, tmp_path: Path
) -> None:
    named = {str(injection): injection for injection in injections()}
    outcomes: list[Outcome] = []
    await play(cluster, tmp_path, [(named[name], phase) for name, phase in PART], outcomes.append)
    assert len(outcomes) == len(PART)
    broken = {f"{each.fault}, {each.phase.value}": each.failures for each in outcomes if each.failures}
    assert not broken


NAMESPACE = "ns"


def cluster(**specs: Spec) -> dict[Key, Body]:
    """A cluster as the templates say."""
    ready = {"type": "Ready", "status": "True", "observedGeneration": 1}
    found: dict[Key, Body] = {}
    for name, spec in specs.items():
        metadata = {"name": name, "uid": name, "generation": 1}
        found[STACKS, name] = {"metadata": metadata, "status": {"conditions": [ready]}}
        for key, fields in wanted_children(NAMESPACE, name, spec).items():
            found[key] = {"metadata": {"uid": " ".join(key)}, **(fields or {})}
        found[MAPS, f"{name}-reader"]["data"] = {"uid": f"{MAPS} {name}-base"}
        found[SECRETS, f"{name}-secret"]["data"] = {"password": "one"}
    found[SHARED]["metadata"]["ownerReferences"] = [{"uid": name} for name in specs]
    return found


def test_a_cluster_as_the_templates_say_has_no_differences() -> None:
    assert not differences(cluster(a=Spec()), NAMESPACE, {"a": Spec()})


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        (Spec(n=2), "a-base is not as rendered"),
        (Spec(n=2), "a-second is missing"),
        (Spec(extra=False), "a-extra is left over"),
        (Spec(key="b"), "a-secret is not as rendered"),
    ],
)
def test_every_difference_is_named(spec: Spec, word: str) -> None:
    assert any(word in each for each in differences(cluster(a=Spec()), NAMESPACE, {"a": spec}))


def test_an_owner_of_a_shared_object_that_is_gone_or_missing_is_named() -> None:
    found = cluster(a=Spec(), b=Spec())
    found[SHARED]["metadata"]["ownerReferences"].pop()
    assert differences(found, NAMESPACE, {"a": Spec(), "b": Spec()}) == [
        "configmaps shared has other owners than the parents"
    ]


def test_the_children_of_a_parent_that_left_them_have_to_be_there() -> None:
    after, left = Phase.ORPHAN.after, Phase.ORPHAN.left
    found = cluster(**FIRST)
    for name in DELETED:
        del found[STACKS, name]
    found[SHARED]["metadata"]["ownerReferences"] = [{"uid": name} for name in after]
    assert not differences(found, NAMESPACE, after, left)
    del found[ROLES, f"{NAMESPACE}-{DELETED[0]}"]
    assert differences(found, NAMESPACE, after, left) == [f"{ROLES} {NAMESPACE}-{DELETED[0]} is missing"]


def test_an_object_with_another_uid_and_another_generated_value_are_lost() -> None:
    before, after = cluster(a=Spec()), cluster(a=Spec())
    after[MAPS, "a-once"] = {"metadata": {"uid": "new"}}
    after[SECRETS, "a-secret"] = {**after[SECRETS, "a-secret"], "data": {"password": "two"}}
    found = lost(before, after, Phase.RECREATE, NAMESPACE)
    assert found == ["configmaps a-once", "the generated value of Secret a-secret"]


def test_only_what_the_phase_deletes_is_deleted_rightly() -> None:
    before = cluster(**FIRST)
    extra, role = (MAPS, "web-0-extra"), (ROLES, "ns-web-0-extra")
    gone = [(key, " ".join(key)) for key in (extra, role)]
    assert not wrongly_deleted(gone, before, Phase.PRUNE, NAMESPACE)
    assert wrongly_deleted(gone, before, Phase.MASS_UPDATE, NAMESPACE) == [" ".join(extra), " ".join(role)]
    assert wrongly_deleted([(extra, "recreated")], before, Phase.PRUNE, NAMESPACE) == [" ".join(extra)]
    finalized = [((ROLES, "ns-web-0"), f"{ROLES} ns-web-0"), ((MAPS, "web-1-bye"), "bye")]
    assert not wrongly_deleted(finalized, before, Phase.FINALIZE, NAMESPACE)


def test_a_hot_loop_is_beyond_the_allowance() -> None:
    seconds = 6.0
    spin = int(seconds * 600)
    assert Outcome(fault="f", phase=Phase.PRUNE, held=seconds, requests=spin).failures
    assert not Outcome(fault="f", phase=Phase.PRUNE, held=seconds, requests=allowance(seconds)).failures


def test_the_table_has_the_worst_cell_of_each_fault_and_replaces_the_one_before() -> None:
    outcomes = [
        Outcome(fault="reset", phase=Phase.PRUNE, seconds=1.23, held=6.0, requests=7),
        Outcome(fault="reset", phase=Phase.FINALIZE, seconds=0.4, held=6.0, requests=9, lost=("a Secret",)),
        Outcome(fault="500", phase=Phase.PRUNE, seconds=0.5, held=6.0, requests=3),
    ]
    made = table(outcomes, "now")
    assert "\nMeasured: now. 3 cells." in f"\n{made}"
    assert "| reset | 2, **1 failed** | 1.2 s | 9 | 1 | 0 |\n| 500 | 1 | 0.5 s | 3 | 0 | 0 |" in made
    page = replaced_table(f"a\n{BEGIN}\nold\n{END}\nb\n", made)
    assert page == f"a\n{BEGIN}\n{made}\n{END}\nb\n"
