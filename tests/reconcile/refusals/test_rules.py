"""What a refused apply shows: whose fields may make way, and what is claimed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.objects.field_refusal import FieldRefusal
from ssa_operator.objects.field_set import Path, leaves
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import MANAGER, LiveObject
from ssa_operator.objects.manifest import Manifest, Rules, manifest
from ssa_operator.reconcile.field_changes import LeftField
from ssa_operator.reconcile.immutable_fields import immutable_fields
from ssa_operator.reconcile.refusals.field_claims import claim
from ssa_operator.reconcile.refusals.known_refusals import (
    KeptValue,
    KnownRefusal,
    after_apply,
    recalled,
    refusal_notice,
    without_kept,
)
from ssa_operator.reconcile.refusals.rules import (
    RefusedApply,
    changes_nothing_immutable,
    find_candidates,
    merged_patch,
)
from tests.objects.example_objects import document, parent

Body = dict[str, Any]

ROLLING: Path = ("f:spec", "f:strategy", "f:rollingUpdate")


def made(**spec: Any) -> Manifest:
    body = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    return manifest(document(body), parent(), Rules(namespaced=True))


def entry(manager: str, operation: str, *paths: Path, **more: str) -> Body:
    tree: Body = {}
    for path in paths:
        below = tree
        for step in path:
            below = below.setdefault(step, {})
    times = {"apiVersion": "apps/v1", "time": "2026-01-01T00:00:00Z"}
    return {"manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": tree, **times, **more}


def live(spec: Body, *entries: Body) -> LiveObject:
    metadata = {"name": "web", "namespace": "default", "uid": "u1", "resourceVersion": "7", "managedFields": [*entries]}
    return LiveObject.of({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


def refused(wanted: Manifest, found: LiveObject, *field: str, immutable: str = "") -> RefusedApply:
    return RefusedApply(
        manifest=wanted,
        live=found,
        fields=(field,),
        immutable=(immutable,) if immutable else (),
        custom=False,
        former=frozenset({"helm"}),
    )


SPEC = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}, "paused": True}
RECREATE = made(strategy={"type": "Recreate"})
NEW = live({"strategy": {"type": "Recreate"}})
OWN = entry(MANAGER, "Apply", ("f:spec", "f:strategy", "f:type"))


def of(*others: Body) -> RefusedApply:
    return refused(RECREATE, live(SPEC, OWN, *others), "spec", "strategy", "rollingUpdate")


@pytest.mark.parametrize(
    ("others", "candidates", "left"),
    [
        ((), 1, 0),
        ((entry("kubectl-set", "Update", ROLLING),), 1, 0),
        ((entry("kubectl-edit", "Update", (*ROLLING, "f:maxSurge")),), 1, 0),
        ((entry("helm", "Apply", ROLLING),), 1, 0),
        ((entry("kubectl", "Apply", ROLLING),), 0, 1),
        ((entry("kubectl", "Update", ROLLING, subresource="scale"),), 0, 1),
        ((entry("controller", "Update", (*ROLLING, "f:maxSurge")),), 0, 1),
        ((entry("kubectl-set", "Update", ROLLING), entry("controller", "Update", ROLLING)), 0, 1),
        # What another version calls the field isn't known.
        ((entry("controller", "Update", ROLLING, apiVersion="apps/v1beta1"),), 0, 1),
        ((entry("controller", "Update", ("f:spec", "f:other"), apiVersion="apps/v1beta1"),), 0, 0),
    ],
)
def test_only_what_nobody_owns_or_gives_up_makes_way(others: tuple[Body, ...], candidates: int, left: int) -> None:
    found = find_candidates(of(*others), NEW)
    assert (len(found.candidates), len(found.of_others)) == (candidates, left)


def test_what_the_new_object_has_too_stays() -> None:
    found = find_candidates(refused(RECREATE, live(SPEC, OWN), "spec", "strategy"), live(SPEC))
    assert found.candidates == ()


def test_without_managed_fields_nothing_counts_as_a_default() -> None:
    assert find_candidates(refused(RECREATE, live(SPEC), "spec", "strategy", "rollingUpdate"), NEW).candidates == ()


_PATHS = st.lists(st.sampled_from([ROLLING, (*ROLLING, "f:maxSurge"), ("f:spec", "f:paused"), ("f:spec", "f:a")]))


@given(kubectl=_PATHS, other=_PATHS)
def test_a_claim_takes_one_field_and_leaves_every_other_owner_alone(kubectl: list[Path], other: list[Path]) -> None:
    others = [entry("kubectl-set", "Update", *kubectl), entry("controller", "Update", *other)]
    claimed = claim(of(*others).live, "apps/v1", [ROLLING], frozenset())
    after = json.loads(claimed.patch)["metadata"]
    assert after["resourceVersion"] == "7"
    fields = {each["manager"]: frozenset(leaves(each["fieldsV1"])) for each in after["managedFields"]}
    assert ROLLING[:3] in {path[:3] for path in fields[MANAGER]}
    assert ("f:spec", "f:strategy", "f:type") in fields[MANAGER]
    before = {path for path in leaves(others[0]["fieldsV1"]) if path[:3] != ROLLING}
    above = {path[:length] for path in before for length in (1, 2)}
    assert before <= fields.get("kubectl-set", frozenset()) | above
    assert fields.get("controller", frozenset()) == frozenset(leaves(others[1]["fieldsV1"]))


def test_a_trial_changes_what_the_apply_changes_and_nothing_else() -> None:
    found = live(SPEC, entry(MANAGER, "Apply", ("f:spec", "f:paused"), ("f:data",)))
    found = LiveObject.of({**found.body, "data": {"a": "b"}, "status": {"replicas": 1}, "type": "same"})
    patch, after = merged_patch(found, made(strategy={"type": "Recreate"}))
    operations = {each["path"]: (each["op"], each.get("value")) for each in json.loads(patch)}
    labels = after.body["metadata"]["labels"]
    assert operations.pop("/metadata/labels") == ("add", labels)
    assert operations.pop("/metadata/ownerReferences")[0] == "add"
    spec = {"strategy": {"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}}
    assert operations == {"/spec": ("add", spec), "/data": ("remove", None)}


def test_a_removed_field_of_ours_is_a_change_of_the_manifest() -> None:
    own = entry(MANAGER, "Apply", ("f:spec", "f:paused"), ("f:spec", "f:strategy", "f:type"))
    wanted, same = made(strategy={"type": "RollingUpdate"}), made(strategy={"type": "RollingUpdate"}, paused=True)
    found = live(SPEC, own)
    assert not changes_nothing_immutable(refused(wanted, found, "spec", immutable="spec"), None)
    assert changes_nothing_immutable(refused(same, found, "spec", immutable="spec"), None)
    # A new object would differ from the live one.
    assert not changes_nothing_immutable(refused(wanted, found, "spec", immutable="spec"), live({}))


def kept(wanted: Any) -> KnownRefusal:
    value = KeptValue(path=("spec", "replicas"), steps=("f:spec", "f:replicas"), wanted=wanted)
    return KnownRefusal(digest=made(replicas=wanted).digest, uid="u1", kept=(value,))


@pytest.mark.parametrize(
    ("wanted", "found", "words"),
    [(1, 3, "spec.replicas: 3, larger than the template's 1, stays"), ("1Gi", "3Gi", "3Gi, larger"), (3, 1, "smaller")],
)
def test_a_value_that_stays_is_named_with_the_templates_value(wanted: Any, found: Any, words: str) -> None:
    assert words in str(refusal_notice(kept(wanted), made(replicas=wanted), live({"replicas": found})))


def test_what_stays_is_left_out_and_is_known_for_one_manifest_and_one_object_only() -> None:
    known, wanted = kept(1), made(replicas=1)
    assert recalled(known, wanted, live({"replicas": 3}), resyncs=True) is known
    assert recalled(known, wanted, live({"replicas": 1}), resyncs=False) is None
    assert recalled(known, made(replicas=2), live({"replicas": 3}), resyncs=False) is None
    assert recalled(known, wanted, None, resyncs=False) is None
    denied = replace(known, denial="it goes one way")
    assert recalled(denied, wanted, live({"replicas": 3}), resyncs=False) is denied
    assert recalled(denied, wanted, live({"replicas": 3}), resyncs=True) is None
    left = without_kept(wanted, known.kept)
    assert ("spec" in left.body, left.digest) == (False, wanted.digest)


def test_a_refusal_of_metadata_is_none_of_an_immutable_field() -> None:
    refusal = FieldRefusal("metadata.uid", "Invalid value: field is immutable")
    assert not immutable_fields(GroupKind("apps", "Deployment"), [refusal])


PAUSED, LABELS = ("f:spec", "f:paused"), ("f:spec", "f:replicas")


def test_a_field_that_another_manager_keeps_is_named_until_it_goes_or_the_template_has_it_again() -> None:
    spec, other = {"replicas": 1, "paused": True}, entry("kubectl-edit", "Update", PAUSED)
    before = live(spec, entry(MANAGER, "Apply", PAUSED, LABELS), other)
    after, wanted = live(spec, entry(MANAGER, "Apply", LABELS), other), made(replicas=1)
    known, message = after_apply(None, wanted, before, after)
    text = "spec.paused is no longer in the template, and stays, because kubectl-edit (Update) owns it, too"
    assert known is not None
    assert (message, refusal_notice(known, wanted, after)) == (text, text)
    assert after_apply(known, wanted, after, after) == (known, "")
    assert recalled(known, wanted, after, resyncs=True) is known
    # Another manifest without the field changes nothing.
    another = recalled(known, made(replicas=2), after, resyncs=False)
    assert another is not None
    assert refusal_notice(another, made(replicas=2), after) == text
    assert recalled(known, wanted, live({"replicas": 1}, entry(MANAGER, "Apply", LABELS)), resyncs=False) is None
    assert recalled(known, wanted, before, resyncs=False) is None


def test_a_field_that_goes_with_the_template_is_not_named() -> None:
    before = live({"paused": True}, entry(MANAGER, "Apply", PAUSED, LABELS))
    assert after_apply(None, made(replicas=1), before, live({}, entry(MANAGER, "Apply", LABELS))) == (None, "")


def test_a_field_of_no_manager_that_stays_after_a_denied_dry_run_is_named_with_the_denial() -> None:
    wanted, found = made(replicas=1), live({"replicas": 1, "paused": True}, entry(MANAGER, "Apply", LABELS))
    known = KnownRefusal(
        digest=wanted.digest, uid="u1", denial="admission denies it (no)", left=(LeftField(path=PAUSED, owners=()),)
    )
    assert recalled(known, wanted, found, resyncs=False) is known
    for each in (known, recalled(known, wanted, found, resyncs=True), after_apply(known, wanted, found, found)[0]):
        assert refusal_notice(each, wanted, found) == (
            "spec.paused is no longer in the template, and stays; whether it is a default is unknown: "
            "admission denies it (no)"
        )
