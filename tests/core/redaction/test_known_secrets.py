"""Parents that read the same Secret share what they know of it, and a former content stays known."""

from __future__ import annotations

import base64
import json
import tracemalloc
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.core.redaction.known_secrets import KnownSecrets, with_secrets
from ssa_operator.core.redaction.secret_content import FormerContents, SecretContent
from ssa_operator.core.redaction.secret_values import HIDDEN, Redactor, content_of, values_of

LINES = [f"{at:x}-line-{at * 7919:x}-of-{at * 104729:x}" for at in range(100)]
LONG = "\n".join(LINES)


def secret(text: str, version: int = 1, uid: str = "uid-1") -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "leaky", "uid": uid, "resourceVersion": str(version)},
        "data": {"key": base64.b64encode(text.encode()).decode()},
    }


def learned(known: KnownSecrets, *secrets: dict[str, object], generated: tuple[str, ...] = ()) -> KnownSecrets:
    return with_secrets(known, secrets, generated, (1, "set"), lambda: "web\n")


def test_many_parents_that_read_one_secret_need_the_memory_of_one() -> None:
    def memory_of(parents: int) -> tuple[list[KnownSecrets], int]:
        tracemalloc.start()
        known = [learned(KnownSecrets(), secret(f"{LONG}{parents}")) for _ in range(parents)]
        assert all(each.redactor.redact(LINES[7]) == HIDDEN for each in known)
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return known, used

    memory_of(1)
    (_, one), (_, many) = memory_of(2), memory_of(20)
    assert many < 3 * one


def test_secrets_with_one_content_share_it() -> None:
    one, other = (learned(KnownSecrets(), secret(LONG, uid=uid)).redactor.contents for uid in ("uid-1", "uid-2"))
    assert one[0] is other[0]


@pytest.mark.parametrize("text", ["hunter2-{}", f"hunter2-{{}}\n{LONG}"], ids=["short", "long"])
def test_former_contents_stay_known(text: str) -> None:
    known = KnownSecrets()
    for version in range(20):
        known = learned(known, secret(text.format(version), version))
    assert [known.redactor.redact(f"hunter2-{version}") for version in range(20)] == [HIDDEN] * 20


def test_former_generated_values_stay_known() -> None:
    known = learned(learned(KnownSecrets(), generated=("first-one-1",)), generated=("other-one-2",))
    assert known.redactor.redact("first-one-1 other-one-2") == f"{HIDDEN} {HIDDEN}"


def test_all_secrets_of_one_render_are_known_however_many_there_are() -> None:
    secrets = [secret(f"hunter2-{at}", uid=f"uid-{at}") for at in range(400)]
    redactor = learned(KnownSecrets(), *secrets).redactor
    assert [redactor.redact(f"hunter2-{at}") for at in (0, 200, 399)] == [HIDDEN] * 3


def test_a_secret_that_one_render_reads_in_two_versions_is_known_in_both() -> None:
    redactor = learned(KnownSecrets(), secret("hunter2-one", 1), secret("hunter2-two", 2)).redactor
    assert redactor.redact("hunter2-one hunter2-two") == f"{HIDDEN} {HIDDEN}"


def test_former_long_contents_take_bounded_memory_and_the_oldest_go_first() -> None:
    contents = [SecretContent(values_of(secret(f"{at}\n{LONG}"))) for at in range(10)]
    assert all(content.forms for content in contents)
    short = SecretContent(values_of(secret("hunter2-x")))
    former = FormerContents(limit=3 * contents[-1].size)
    former.keep([short, *contents])
    assert [content in former for content in contents] == [False] * 7 + [True] * 3
    assert short in former


def written(value: str) -> Iterator[str]:
    yield from (value, repr(value)[1:-1], json.dumps(value)[1:-1], quote(value, safe=""))
    yield from (base64.b64encode(each.encode()).decode() for each in (value, f"a{value}bc", f"ab{value}c"))


_VALUES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zs"]), min_size=8, max_size=40)


@given(value=_VALUES, before=st.text("ab :'\"", max_size=5), after=st.text("ab :'\"", max_size=5))
def test_a_line_of_a_long_content_is_replaced_however_it_is_written(value: str, before: str, after: str) -> None:
    redactor = Redactor(contents=(SecretContent(values_of(secret(f"{LONG}\n{value}"))),))
    for form in written(value.strip()):
        assert form not in redactor.redact(f"{before}{form}{after}")
        assert redactor.may_reveal(f"{before}{form}{after}")


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


def test_neither_repr_nor_str_shows_a_value() -> None:
    known = learned(learned(KnownSecrets(), secret("hunter2-one")), secret("hunter2-two"))
    assert "hunter2" not in f"{known!r} {known} {known.redactor!r} {known.redactor.contents!r}"
