"""Generated values, and the times at which a parent is rendered again."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.cluster_view import OfflineClusterView
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Rendered
from ssa_operator.rendering.values.limits import Interrupt, Interrupted, interruptible
from tests.rendering.template_files import HEAD, FakeClusterView, live, manifest, render_with

SECRET = manifest("Secret", "s", "stringData:\n  password: {{ generated() }}\n")
ENCODED = manifest("Secret", "s", "data:\n  password: {{ generated() | b64encode }}\n")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def secret(name: str = "s", **data: str) -> dict[str, Any]:
    return live("Secret", name, data={key: encoded(value) for key, value in data.items()})


def cluster(*others: Mapping[str, Any], start: int = 0) -> FakeClusterView:
    return FakeClusterView(others=others, random_numbers=itertools.count(start))


def render(text: str, view: FakeClusterView | OfflineClusterView) -> Rendered:
    return render_with({"a.yaml.j2": text}, view)


def body(text: str, view: FakeClusterView | OfflineClusterView, position: int = 0) -> Any:
    result = render(text, view)
    assert (result.problems, result.waits) == ((), ())
    return result.documents[position].body


def problem(text: str, view: FakeClusterView) -> str:
    (found,) = render(text, view).problems
    return str(found)


def test_a_generated_value_is_letters_and_digits_of_the_length() -> None:
    for length in (8, 24, 1024):
        value = body(manifest("Secret", "s", f"stringData: {{p: {{{{ generated({length}) }}}}}}\n"), cluster())[
            "stringData"
        ]["p"]
        assert len(value) == length
        assert value.isalnum()
        assert value.isascii()
    assert len(body(SECRET, cluster())["stringData"]["password"]) == 24


def test_each_call_generates_another_value() -> None:
    text = manifest("Secret", "s", "stringData: {a: {{ generated() }}, b: {{ generated() }}}\n")
    for generated_values in (cluster(), OfflineClusterView()):
        data = body(text, generated_values)["stringData"]
        assert data["a"] != data["b"]


@pytest.mark.parametrize("text", [SECRET, ENCODED])
def test_a_value_that_a_live_secret_has_never_changes(text: str) -> None:
    fields = body(text, cluster(secret(password="the one: ä")))
    assert fields.get("stringData", {}).get("password", "the one: ä") == "the one: ä"
    assert fields.get("data", {}).get("password", encoded("the one: ä")) == encoded("the one: ä")


def test_the_next_render_reuses_a_generated_value() -> None:
    first = body(SECRET, cluster())["stringData"]["password"]
    assert body(SECRET, cluster(secret(password=first), start=7))["stringData"]["password"] == first


@pytest.mark.parametrize("other", [secret(), secret(password=""), secret("t", password="x"), live("Secret", "s")])
def test_a_value_that_no_live_object_has_is_generated(other: dict[str, Any]) -> None:
    assert body(SECRET, cluster(other, start=3)) == body(SECRET, cluster(start=3))


def test_a_live_value_of_any_kind_is_reused_at_its_field() -> None:
    text = manifest("ConfigMap", "c", "data: {id: {{ generated(8) }}}\n")
    assert body(text, cluster(live("ConfigMap", "c", data={"id": "mine"})))["data"]["id"] == "mine"


def test_a_live_value_in_a_list_is_found_by_the_name_of_its_item() -> None:
    text = manifest(
        "Pod", "p", "spec:\n  containers:\n  - {name: b, x: {{ generated() }}}\n  args: [a, {{ generated() }}]\n"
    )
    spec = {"containers": [{"name": "injected", "x": "no"}, {"name": "b", "x": "yes"}], "args": ["a", "b"]}
    fields = body(text, cluster(live("Pod", "p", spec=spec)))["spec"]
    assert (fields["containers"][0]["x"], fields["args"][1]) == ("yes", "b")
    other = {"containers": [{"name": "injected", "x": "no"}]}
    assert body(text, cluster(live("Pod", "p", spec=other)))["spec"]["containers"][0]["x"] not in ("no", "yes")


SEVERAL = (
    "{% set p = generated() %}\n"
    + manifest("Secret", "s", "stringData:\n  password: {{ p }}\n  url: postgres://u:{{ p }}@{{ spec.host }}\n")
    + "---\n"
    + manifest("Secret", "t", "data:\n  again: {{ p | b64encode }}\n  hash: {{ p | sha256 }}\n")
)


@pytest.mark.parametrize("kept", [secret(password="old", url="of another host"), secret("t", again="old")])
def test_one_call_is_one_value_wherever_it_is_written(kept: dict[str, Any]) -> None:
    result = render_with({"a.yaml.j2": SEVERAL}, cluster(kept), {"host": "h"})
    one, other = result.documents
    assert one.body["stringData"] == {"password": "old", "url": "postgres://u:old@h"}
    assert other.body["data"]["again"] == encoded("old")
    assert result.problems == ()


def test_only_a_document_with_a_value_alone_in_a_field_holds_it() -> None:
    text = SEVERAL + "---\n" + manifest("ConfigMap", "c", "data: {a: b}\n")
    text += "---\n" + manifest("Secret", "u", "stringData: {url: 'u:{{ p }}'}\n")
    result = render_with({"a.yaml.j2": text}, cluster(), {"host": "h"})
    holders = {
        (each.body["kind"], each.body["metadata"]["name"]): each.has_generated_values for each in result.documents
    }
    expected = {("Secret", "s"): True, ("Secret", "t"): True, ("ConfigMap", "c"): False, ("Secret", "u"): False}
    assert holders == expected
    assert {(each.kind, each.name) for each in result.generated} == {("Secret", "s"), ("Secret", "t")}


@pytest.mark.exhaustive
@given(known=st.dictionaries(st.sampled_from(["a", "b", "c"]), st.text(min_size=1, max_size=30)))
def test_each_of_several_values_that_the_cluster_has_is_reused(known: dict[str, str]) -> None:
    text = manifest("Secret", "s", "stringData:\n" + "".join(f"  {key}: {{{{ generated(8) }}}}\n" for key in "abc"))
    data = body(text, cluster(secret(**known)))["stringData"]
    assert {key: data[key] for key in known} == known
    assert all(len(data[key]) == 8 for key in data if key not in known)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            "stringData:\n  url: u:{{ generated() }}@h\n",
            "6: stringData.url is made of a generated value; the operator finds it again only in",
        ),
        (
            "stringData:\n  a: b\n  hash: {{ generated() | sha256 }}\n",
            "7: stringData.hash is made of a generated value",
        ),
        ("data: {a: {{ generated('x') }}}\n", "5: generated: length must be a number from 8 to 1024, and this is x"),
        ("data: {a: {{ generated(7) }}}\n", "5: generated: length must be a number from 8 to 1024, and this is 7"),
    ],
)
def test_a_value_that_no_live_object_could_return_is_a_problem(fields: str, message: str) -> None:
    for view in (cluster(), cluster(secret(a="b"))):
        assert problem(manifest("Secret", "s", fields), view).startswith(f"echoes.example.com/a.yaml.j2:{message}")


def test_a_generated_name_is_a_problem() -> None:
    text = manifest("Secret", "s-{{ p }}", "stringData: {p: {{ p }}}\n")
    found = problem("{% set p = generated(8) %}\n" + text, cluster())
    assert found.startswith("echoes.example.com/a.yaml.j2:5: metadata.name can't be generated")


def test_a_live_value_that_is_not_text_is_a_problem_that_does_not_show_it() -> None:
    other = live("Secret", "s", data={"password": base64.b64encode(b"\xff\xfe").decode()})
    found = problem(SECRET, cluster(other))
    assert "the live value of data.password is not base64 of text; remove it to generate another one" in found
    assert base64.b64encode(b"\xff\xfe").decode() not in found


def test_a_value_that_is_not_used_is_no_problem() -> None:
    assert body("{% set p = generated() %}\n" + manifest("ConfigMap", "c"), cluster())["kind"] == "ConfigMap"


def test_no_value_is_generated_before_the_clusters_objects_are_known() -> None:
    result = render(SECRET, replace(cluster(secret(password="x")), unsynced=frozenset({"Secret"})))
    assert result.documents == ()
    assert str(result.waits[0]) == "waiting for Secret n/s to be known: the watch of Secret is not synced"
    assert result.waits[0].identity == Identity("", "Secret", "n", "s")


def test_a_value_whose_own_field_waits_makes_the_others_wait() -> None:
    text = (
        "{% set p = generated() %}\n"
        + manifest("Secret", "s", "stringData: {p: {{ p }}, q: {{ lookup('v1', 'ConfigMap', 'x').data.q }}}\n")
        + "---\n"
        + manifest("Secret", "t", "stringData: {url: 'u:{{ p }}'}\n")
        + "---\n"
        + manifest("Secret", "u", "stringData: {a: b}\n")
    )
    result = render(text, cluster())
    assert [wait.identity and wait.identity.name for wait in result.waits] == ["s", "t"]
    assert [document.body["metadata"]["name"] for document in result.documents] == ["u"]
    assert result.problems == ()


NOW = 1_000_000.0
BORN = "1970-01-12T13:46:40Z"
"""The same moment as NOW."""


@pytest.mark.parametrize(
    ("after", "expired", "again"), [(0, False, NOW + 60), (59.5, False, NOW + 60), (60, True, None)]
)
def test_a_parent_expires_at_the_moment_at_which_it_is_rendered_again(
    after: float, expired: bool, again: float | None
) -> None:
    text = manifest("ConfigMap", "c", "v: {{ expired('1m') }}\n")
    metadata = {"name": "e", "namespace": "n", "creationTimestamp": BORN}
    result = render_with({"a.yaml.j2": text}, FakeClusterView(now=NOW + after), metadata=metadata)
    assert result.documents[0].body["v"] is expired
    assert result.changed_by_time is expired
    assert result.again_at == again


JOB = live("Job", "j", api_version="batch/v1", metadata={"creationTimestamp": "1970-01-12T13:47:40Z"})
"""A minute younger than NOW."""


@pytest.mark.parametrize(
    ("since", "expired", "again"),
    [
        ("live('Job', 'j')", False, NOW + 120),
        ("lookup('batch/v1', 'Job', 'j')", False, NOW + 120),
        ("lookup('batch/v1', 'Job', 'j').metadata.creationTimestamp", False, NOW + 120),
        ("live('Job', 'none')", False, None),
        ("lookup('batch/v1', 'Job', 'none', optional=true)", False, None),
        ("spec.since", True, None),
        ("object", True, None),
    ],
)
def test_time_can_be_counted_from_another_object_or_a_timestamp(since: str, expired: bool, again: float | None) -> None:
    text = manifest("ConfigMap", "c", f"v: {{{{ expired('1m', since={since}) }}}}\n")
    metadata = {"name": "e", "namespace": "n", "creationTimestamp": BORN}
    cluster = FakeClusterView(now=NOW + 61, children=(JOB,))
    files = {"a.yaml.j2": text, "b.yaml.j2": manifest("Job", "j", api_version="batch/v1")}
    result = render_with(files, cluster, spec={"since": BORN}, metadata=metadata)
    assert not result.problems
    assert (result.documents[0].body["v"], result.again_at) == (expired, again)
    later = render_with(files, replace(cluster, now=NOW + 120), spec={"since": BORN}, metadata=metadata)
    assert later.documents[0].body["v"] is (again is not None or expired)


@pytest.mark.parametrize("since", ["'soon'", "1", "{}", "[]", "spec"])
def test_what_is_no_time_and_no_object_is_a_problem(since: str) -> None:
    text = manifest("ConfigMap", "c", f"v: {{{{ expired('1m', since={since}) }}}}\n")
    assert "expired: since must be an object of child, live or lookup, or a timestamp" in problem(text, cluster())


def test_the_earliest_moment_is_the_next_one() -> None:
    text = "{% if not expired('7d') and not expired('30s') %}\n" + manifest("ConfigMap", "c") + "{% endif %}\n"
    metadata = {"name": "e", "namespace": "n", "creationTimestamp": BORN}
    result = render_with({"a.yaml.j2": text}, FakeClusterView(now=NOW), metadata=metadata)
    assert result.again_at == NOW + 30


def test_an_invalid_duration_is_a_problem() -> None:
    text = manifest("ConfigMap", "c", "v: {{ expired('soon') }}\n")
    assert "a.yaml.j2:5: expired: 'soon' is not a duration; write one like 500ms" in problem(text, cluster())
    assert "expired: duration must be a string" in problem(text.replace("'soon'", "60"), cluster())


def test_a_pod_that_counts_as_failed_later_changes_no_render() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": BORN}
    pod = live("Pod", "p", status={"conditions": [condition]})
    text = manifest("Pod", "p") + "---\n" + manifest("ConfigMap", "c", "v: {{ ready(child('Pod', 'p')) }}\n")
    for now in (NOW, NOW + 15):
        result = render_with({"a.yaml.j2": text}, FakeClusterView(children=(pod,), now=now))
        assert (result.documents[1].body["v"], result.again_at) == (False, None)


PREFIXED = manifest("Secret", "s", "stringData:\n  token: {{ generated(8, prefix=spec.p) }}\n")


def token(prefix: Any, *others: Mapping[str, Any]) -> Any:
    result = render_with({"a.yaml.j2": PREFIXED}, cluster(*others), {"p": prefix})
    return result.documents[0].body["stringData"]["token"] if result.documents else str(result.problems[0])


def test_a_prefix_does_not_count_as_length() -> None:
    assert token("tok-").startswith("tok-")
    assert len(token("tok-")) == len("tok-") + 8


def test_a_value_is_kept_whatever_its_prefix() -> None:
    assert token("new-", secret(token="old-abcdefgh")) == "old-abcdefgh"
    drawn = token("tok-")
    assert token("tok-", secret(token=drawn)) == drawn


@pytest.mark.parametrize("hostile", ["a: b", "\n- x", "{{ y }}", '"', "é\u2028"])
def test_a_hostile_prefix_stays_data(hostile: str) -> None:
    assert token(hostile)[:-8] == hostile


@pytest.mark.parametrize("prefix", [None, 7, ["x"], "x" * 1025])
def test_what_is_no_prefix_is_an_error_with_its_line(prefix: Any) -> None:
    expected = "echoes.example.com/a.yaml.j2:6: generated: prefix must be a string of at most 1024 characters"
    assert token(prefix) == expected


def test_values_that_are_drawn_alike_differ_behind_the_same_prefix() -> None:
    text = manifest("Secret", "s", "stringData:\n  a: {{ generated(8, 'x-') }}\n  b: {{ generated(8, 'x-') }}\n")
    same = FakeClusterView(random_numbers=itertools.repeat(0))
    data = body(text, same)["stringData"]
    assert data["a"] != data["b"]
    assert {value[:2] for value in data.values()} == {"x-"}


def test_any_number_of_values_are_different_even_if_all_draws_are_the_same() -> None:
    text = HEAD + "data:\n{% for i in range(200) %}  k{{ i }}: {{ generated(8) }}\n{% endfor %}"
    (document,) = render_with({"a.yaml.j2": text}, OfflineClusterView()).documents
    assert len(set(document.body["data"].values())) == 200


def test_a_file_generates_a_bounded_number_of_values() -> None:
    text = HEAD + "{% for i in range(90000) %}{% set x = generated(8) %}{% endfor %}\n"
    (found,) = render_with({"a.yaml.j2": text}, OfflineClusterView()).problems
    assert str(found) == "echoes.example.com/a.yaml.j2:5: one file may generate 5000 values, and this is one more"


def test_a_render_that_draws_long_values_ends_soon_after_it_is_interrupted() -> None:
    drawn = itertools.count()
    text = "{% for i in range(5000) %}{% set x = generated(1024) %}{% endfor %}" + SECRET
    with interruptible(Interrupt(ends=0.0)), pytest.raises(Interrupted):
        render(text, FakeClusterView(random_numbers=drawn))
    assert next(drawn) <= 1024
