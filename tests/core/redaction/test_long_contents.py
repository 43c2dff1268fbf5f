"""The values of a Secret with many values are found in texts, although only their hashes are kept."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.core.objects.secret_fields import HIDDEN
from ssa_operator.core.redaction.secret_content import SecretContent
from ssa_operator.core.redaction.secret_values import Redactor, content_of, values_of

LINES = [f"{at:x}-line-{at * 7919:x}-of-{at * 104729:x}" for at in range(100)]
LONG = "\n".join(LINES)


def secret(text: str, version: int = 1, uid: str = "uid-1") -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "leaky", "uid": uid, "resourceVersion": str(version)},
        "data": {"key": base64.b64encode(text.encode()).decode()},
    }


def written(value: str) -> Iterator[str]:
    yield from (value, repr(value)[1:-1], json.dumps(value)[1:-1], quote(value, safe=""))
    yield from (base64.b64encode(each.encode()).decode() for each in (value, f"a{value}bc", f"ab{value}c"))


_VALUES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zs"]), min_size=8, max_size=40)


@given(value=_VALUES, before=st.text("ab :'\"", max_size=5), after=st.text("ab :'\"", max_size=5))
def test_a_line_of_a_long_content_is_replaced_however_it_is_written(value: str, before: str, after: str) -> None:
    redactor = Redactor(contents=(SecretContent(values_of(secret(f"{LONG}\n{value}"))),))
    for form in written(value.strip()):
        assert form not in redactor.redact(f"{before}{form}{after}")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"it is {LINES[5]}!", f"it is {HIDDEN}!"),
        (f"it is {LINES[5][:12]}… and more", f"it is {HIDDEN}… and more"),
        (f"…{LINES[5][-9:]} and more", f"…{HIDDEN} and more"),
        ("the password of th… and more", f"the {HIDDEN}… and more"),
        ("…ord of the databa", f"…{HIDDEN}"),
        ("ConfigMap default/web: applied", "ConfigMap default/web: applied"),
    ],
)
def test_what_is_cut_off_of_a_long_content_is_replaced(text: str, shown: str) -> None:
    content = content_of(secret(f"{LONG}\npassword of the database"))
    assert Redactor(contents=(content,)).redact(text) == shown


def test_a_value_that_is_longer_than_any_message_is_replaced() -> None:
    value = "".join(f"{at * 7919:x}" for at in range(5000))
    assert set(Redactor(contents=(content_of(secret(value)),)).redact(f"{value} .").split(HIDDEN)) <= {"", " ."}
