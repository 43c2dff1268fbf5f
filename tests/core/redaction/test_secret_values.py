"""A known value of a Secret is replaced in every text, however it is written."""

from __future__ import annotations

import base64
import json
from functools import partial
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.core.objects.secret_fields import HIDDEN
from ssa_operator.core.redaction.secret_values import MIN_LENGTH, NO_SECRETS, Redactor, values_of
from tests.instruction_counts import is_linear

LONG = "\n".join(f"{at:x}-line-{at * 7919:x}-of-{at * 104729:x}" for at in range(200))


def secret(**data: str) -> dict[str, object]:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "leaky"}, "data": encoded}


def redactor_of(*values: str, public: str = "") -> Redactor:
    return Redactor(values_of(secret(**{f"k{at}": value for at, value in enumerate(values)})), lambda: public)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the key LEAKME-hunter2 is there twice", f"the key {HIDDEN} is there twice"),
        ("'LEAKME-hunter2' is not a duration", f"'{HIDDEN}' is not a duration"),
        ("waiting for ConfigMap default/LEAKME-hunter2", f"waiting for ConfigMap default/{HIDDEN}"),
        ("leakme-hunter2 and LEAKME-HUNTER2", f"{HIDDEN} and {HIDDEN}"),
        ("TEVBS01FLWh1bnRlcjI=", HIDDEN),
        ("cut off: LEAKME-hun…", f"cut off: {HIDDEN}…"),
        ("in the middle: LEAKME-h…nter2 and more", f"in the middle: {HIDDEN}…{HIDDEN} and more"),
        ("both: …KME-hunt", f"both: …{HIDDEN}"),
        ("cut off: LEAKME-hun…) and more", f"cut off: {HIDDEN}…) and more"),
        ("Secret default/leaky .data.pw", "Secret default/leaky .data.pw"),
        ("LEA", "LEA"),
    ],
)
def test_a_value_is_replaced_wherever_the_text_contains_it(text: str, shown: str) -> None:
    assert redactor_of("LEAKME-hunter2").redact(text) == shown


_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=MIN_LENGTH, max_size=30).filter(
    lambda text: len(text.strip()) >= MIN_LENGTH and text.strip().lower() not in ("true", "false", "null", "none")
)


@given(value=_TEXTS, before=st.text("ab :'\"", max_size=5), after=st.text("ab :'\"", max_size=5))
def test_a_value_is_replaced_however_it_is_written(value: str, before: str, after: str) -> None:
    redactor = redactor_of(value)
    inner = value.strip()
    for form in (
        inner,
        repr(inner)[1:-1],
        json.dumps(inner)[1:-1],
        quote(inner, safe=""),
        base64.b64encode(value.encode()).decode(),
    ):
        assert form not in redactor.redact(f"{before}{form}{after}")
        assert redactor.contains_secret(f"{before}{form}{after}")
    if len(inner) > 5:
        assert redactor.contains_secret(base64.b64encode(f"{before}{inner}{after}".encode()).decode())


@given(text=st.text(max_size=100))
def test_without_a_secret_a_text_stays_as_it_is(text: str) -> None:
    assert NO_SECRETS.redact(text) == text
    assert not NO_SECRETS.contains_secret(text)


@pytest.mark.parametrize(
    ("content", "part"),
    [
        ("first line of it\nsecond-line-9\n", "second-line-9"),
        ('{"db": {"password": "hunter2secret"}}', "hunter2secret"),
        ('{"auths": {"r.io": {"auth": "' + base64.b64encode(b"joe:hunter2x").decode() + '"}}}', "hunter2x"),
        ("postgres://joe:Hunter2Hunter@db.default.svc:5432/app", "Hunter2Hunter"),
        ("password=Hunter2Hunter\nuser=joe", "Hunter2Hunter"),
    ],
)
def test_the_parts_of_a_value_are_secrets_too(content: str, part: str) -> None:
    assert redactor_of(content).redact(f"it is {part}!") == f"it is {HIDDEN}!"


def test_a_text_of_the_templates_or_the_parent_is_shown() -> None:
    redactor = redactor_of("postgres", "hunter2!", public="kind: StatefulSet\nname: postgres\n")
    assert redactor.redact("StatefulSet default/postgres: hunter2!") == f"StatefulSet default/postgres: {HIDDEN}"


def test_a_name_made_of_the_parents_name_is_shown() -> None:
    public = "web\ndefault\nname: {{ name }}-db\nhost: {{ name }}-db.{{ namespace }}.svc\n"
    redactor = redactor_of("web-db", "web-db.default.svc", "web-LEAKME", public=public)
    assert redactor.redact("StatefulSet default/web-db") == "StatefulSet default/web-db"
    assert redactor.redact("it is web-LEAKME") == f"it is {HIDDEN}"


def test_short_values_are_hidden_where_they_are_quoted() -> None:
    redactor = redactor_of("abc")
    assert redactor.redact("'abc' is no duration, abcd is") == f"{HIDDEN} is no duration, abcd is"
    assert redactor.redact('Invalid value: "abc"') == f"Invalid value: {HIDDEN}"


def test_truth_values_are_no_secrets() -> None:
    assert not redactor_of("true", "x")


def test_many_long_values_cost_no_more_than_one() -> None:
    lines = "\n".join(f"{at:x}-line-of-a-certificate-{at * 7919:x}" for at in range(20_000))
    redactor = redactor_of(lines)
    assert redactor.redact(f"so: {lines.splitlines()[777]}") == f"so: {HIDDEN}"


@pytest.mark.parametrize("content", ["LEAKME-hunter2", LONG], ids=["short", "long"])
@pytest.mark.parametrize("piece", ["…", "…LEAK", "LEAKME-hun…x ", "a… b"])
def test_the_work_is_linear_in_what_a_text_cuts_off(content: str, piece: str) -> None:
    redactor = redactor_of(content)
    assert is_linear(lambda size: partial(redactor.redact, piece * size))


def test_neither_repr_nor_str_shows_a_value() -> None:
    assert "hunter2" not in f"{redactor_of('LEAKME-hunter2')!r} {redactor_of('LEAKME-hunter2')}"
