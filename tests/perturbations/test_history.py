"""The comparison of runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.perturbations.history import Body, Expectation, History, described

MAP, SECRET = ("configmaps", "web"), ("secrets", "web")


def body(uid: str, **rest: Any) -> Body:
    return {"metadata": {"name": "web", "uid": uid}, **rest}


def history(namespace: str, *steps: dict[tuple[str, str], Body]) -> History:
    found = History(namespace)
    found.steps += [found.values(step) for step in steps]
    return found


def secrets(namespace: str, *passwords: str, uids: Sequence[str] = ()) -> History:
    """A Secret with one password after the other, beside a ConfigMap with the name of the namespace."""
    uids = uids or [f"uid of {namespace}"] * len(passwords)
    steps = [
        {SECRET: body(uid, data={"password": password}), MAP: body("m" + namespace, data={"host": f"db.{namespace}"})}
        for uid, password in zip(uids, passwords, strict=True)
    ]
    return history(namespace, *steps)


EXPECTATION = Expectation.of(secrets("a1", "x", "x"), secrets("a2", "y", "y"))


def differences(found: History) -> str:
    return described(EXPECTATION.differences(found.steps[:-1], found.steps[-1]))


def test_a_value_that_each_run_draws_has_to_stay() -> None:
    assert differences(secrets("b1", "z", "z")) == ""
    lost = EXPECTATION.differences(secrets("b1", "z").steps, secrets("b1", "other").steps[0])
    assert [str(each) for each in lost] == [
        "secrets web/data/password is 'the value since step 1' instead of 'the value since step 0'"
    ]
    assert lost[0].lost


def test_what_a_run_draws_is_the_same_after_a_restart() -> None:
    before, same, other = (secrets("b1", password).steps[0] for password in ("z", "z", "other"))
    assert EXPECTATION.changes(before, same) == []
    assert described(EXPECTATION.changes(before, other)) == "secrets web/data/password is another one than before"


def test_an_object_that_is_recreated_has_a_uid_since_a_later_step() -> None:
    assert "secrets web/metadata/uid" in differences(secrets("b1", "z", "z", uids=["1", "2"]))


def test_what_is_the_same_in_each_run_is_compared_literally() -> None:
    found = secrets("b1", "z", "z")
    other = history("b1", {SECRET: body("u", data={"password": "z"}), MAP: body("m", data={"host": "db.other"})})
    texts = described(EXPECTATION.differences(found.steps[:1], other.steps[0]))
    assert "configmaps web/data/host is 'db.other' instead of 'db.NS'" in texts


def test_it_does_not_matter_which_address_is_free() -> None:
    one, other, third = (history("a1", {MAP: body("m", spec={"clusterIP": f"10.0.0.{last}"})}) for last in (1, 2, 3))
    expectation = Expectation.of(one, other)
    assert expectation.drawn == frozenset()
    assert expectation.differences([], third.steps[0]) == []


def test_what_is_missing_or_left_over_is_one_difference() -> None:
    found = secrets("b1", "z", "z")
    del_map = history("b1", {SECRET: body("uid of b1", data={"password": "z"}), ("secrets", "more"): body("m")})
    texts = described(EXPECTATION.differences(found.steps[:1], del_map.steps[0]))
    assert texts == "configmaps web is missing; secrets more is left over"


def test_the_operators_own_annotations_and_finalizers_are_compared() -> None:
    left = {"annotations": {"ssa-operator.dev/generated-values": "[]"}, "finalizers": ["ssa-operator.dev/cleanup"]}
    one, other = (history(name, {MAP: body(f"m{name}")}) for name in ("a1", "a2"))
    found = History("b1").values({MAP: {"metadata": {"name": "web", "uid": "m", **left}}})
    texts = described(Expectation.of(one, other).differences([], found))
    assert "annotations/ssa-operator.dev/generated-values" in texts
    assert "finalizers/0" in texts
