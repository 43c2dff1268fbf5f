import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.core.redaction.secret_values import HIDDEN, NO_SECRETS, SHORTEST, Redactor, values_of


def secret(**data: str) -> dict[str, object]:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "leaky"}, "data": encoded}


def knowing(*values: str, public: str = "") -> Redactor:
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
def test_a_value_is_replaced_wherever_it_stands(text: str, shown: str) -> None:
    assert knowing("LEAKME-hunter2").redacted(text) == shown


_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=SHORTEST, max_size=30).filter(
    lambda text: len(text.strip()) >= SHORTEST and text.strip().lower() not in ("true", "false", "null", "none")
)


@given(value=_TEXTS, before=st.text("ab :'\"", max_size=5), after=st.text("ab :'\"", max_size=5))
def test_no_way_of_writing_a_value_gets_it_through(value: str, before: str, after: str) -> None:
    known = knowing(value)
    inner = value.strip()
    for form in (
        inner,
        repr(inner)[1:-1],
        json.dumps(inner)[1:-1],
        quote(inner, safe=""),
        base64.b64encode(value.encode()).decode(),
    ):
        assert form not in known.redacted(f"{before}{form}{after}")
        assert known.holds(f"{before}{form}{after}")
        assert known.reveals(f"{before}{form}{after}")
    if len(inner) > 5:
        assert known.holds(base64.b64encode(f"{before}{inner}{after}".encode()).decode())


@given(text=st.text(max_size=100))
def test_without_a_secret_nothing_is_touched(text: str) -> None:
    assert NO_SECRETS.redacted(text) == text
    assert not NO_SECRETS.holds(text)
    assert not NO_SECRETS.reveals(text)


@pytest.mark.parametrize(
    ("content", "piece"),
    [
        ("first line of it\nsecond-line-9\n", "second-line-9"),
        ('{"db": {"password": "hunter2secret"}}', "hunter2secret"),
        ('{"auths": {"r.io": {"auth": "' + base64.b64encode(b"joe:hunter2x").decode() + '"}}}', "hunter2x"),
        ("postgres://joe:Hunter2Hunter@db.default.svc:5432/app", "Hunter2Hunter"),
        ("password=Hunter2Hunter\nuser=joe", "Hunter2Hunter"),
    ],
)
def test_the_pieces_of_a_value_are_secrets_too(content: str, piece: str) -> None:
    assert knowing(content).redacted(f"it is {piece}!") == f"it is {HIDDEN}!"


def test_what_the_template_and_the_parent_say_themselves_is_shown() -> None:
    known = knowing("postgres", "hunter2!", public="kind: StatefulSet\nname: postgres\n")
    assert known.redacted("StatefulSet default/postgres: hunter2!") == f"StatefulSet default/postgres: {HIDDEN}"
    assert not known.reveals("StatefulSet default/postgres is not ready")


def test_what_is_named_after_the_parent_is_shown() -> None:
    public = "web\ndefault\nname: {{ name }}-db\nhost: {{ name }}-db.{{ namespace }}.svc\n"
    known = knowing("web-db", "web-db.default.svc", "web-LEAKME", public=public)
    assert known.redacted("StatefulSet default/web-db") == "StatefulSet default/web-db"
    assert not known.reveals('services "web-db" not found at web-db.default.svc')
    assert known.redacted("it is web-LEAKME") == f"it is {HIDDEN}"


def test_short_values_are_hidden_where_they_are_quoted() -> None:
    known = knowing("abc")
    assert known.redacted("'abc' is no duration, abcd is") == f"{HIDDEN} is no duration, abcd is"
    assert known.redacted('Invalid value: "abc"') == f"Invalid value: {HIDDEN}"


def test_truth_values_are_no_secrets() -> None:
    assert not knowing("true", "x")


def test_words_that_hold_a_part_of_a_value_betray_it() -> None:
    known = knowing("LEAKME-hunter2")
    assert known.reveals('Invalid value: "LEAKME-h"')
    assert not known.reveals(
        "spec.template.metadata.labels: Invalid value: `selector` does not match template `labels`"
    )


def test_many_long_values_cost_no_more_than_one() -> None:
    lines = "\n".join(f"{at:x}-line-of-a-certificate-{at * 7919:x}" for at in range(20_000))
    known = knowing(lines)
    assert known.redacted(f"so: {lines.splitlines()[777]}") == f"so: {HIDDEN}"
    assert known.reveals("anything")


def test_neither_repr_nor_str_shows_a_value() -> None:
    assert "hunter2" not in f"{knowing('LEAKME-hunter2')!r} {knowing('LEAKME-hunter2')}"
