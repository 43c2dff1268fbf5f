"""Whatever is read of a text of others takes a time in proportion to its length.

Patterns are proven (`tests/packaging/test_patterns.py`) and lists are counted (`tests/reconcile/test_long_lists.py`).
What C code does, for example a conversion of digits, can only be measured: in the processor time of one run, where a
text of twice the length may take three times as long.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from ssa_operator.kube.api.errors import ApiError, ErrorStatus, read_error_status
from ssa_operator.kube.api.redaction import redacted_message, redacted_warning
from ssa_operator.objects.annotations import PREFIX, parse_annotations
from ssa_operator.objects.field_refusal import FieldRefusal
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import decode_text, without_deep_values
from ssa_operator.objects.label_selectors import label_selector
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import did_you_mean, sentence
from ssa_operator.objects.scalars import amount, parse_duration
from ssa_operator.objects.secret_fields import WHOLE
from ssa_operator.objects.source_location import field_text, parse_field
from ssa_operator.reconcile.failures import location_of_error
from ssa_operator.reconcile.immutable_fields import changed_field, immutable_fields
from ssa_operator.reconcile.recreate.rules import TrialManifest, refusal_is_about_trial
from ssa_operator.rendering.jinja.filters import b64decode, k8s_name, later
from ssa_operator.rendering.jinja.text_filters import bytes_of, from_json, from_yaml, regex_replace, regex_search
from ssa_operator.rendering.values.manifest_values import UnfitValueError
from ssa_operator.rendering.values.python_errors import translate_error
from ssa_operator.rendering.yaml.to_yaml import scalar_text
from ssa_operator.schema.cel.cel_functions import FUNCTIONS, METHODS
from ssa_operator.schema.cel.syntax import CELSyntaxError, parse
from ssa_operator.schema.cel.values import EvaluationError, UncheckedError
from ssa_operator.schema.crd_schema import version_priority
from ssa_operator.schema.field_errors import quoted
from ssa_operator.schema.metadata_validation import key_faults, label_faults, label_value_faults, subdomain_faults
from ssa_operator.schema.string_formats import duration_nanoseconds, is_format
from tests.objects.example_objects import config_map, made

LENGTH = 10_000

NOTICEABLE = 0.04
"""Seconds below which two times are not compared."""

ROUNDS = 10
"""How often both times are taken at most."""

REFUSED = (ValueError, CELSyntaxError, EvaluationError, UncheckedError, UnfitValueError)
"""The errors with which a text may be refused."""

PYTHONS_OWN = re.compile(
    "Exceeds the limit|invalid literal|could not convert|Invalid isoformat|not enough values|too many values|"
    "substring not found|year -?[0-9]+ is out of range|embedded null|.*codec can't"
)
"""How messages of Python's own ValueErrors begin: no code of the operator chose these words, nor expected the error."""


@contextlib.contextmanager
def refused_in_our_words() -> Iterator[None]:
    """Suppress the errors with which a text may be refused, and no error that nobody expected."""
    try:
        yield
    except REFUSED as error:
        if type(error) is ValueError and PYTHONS_OWN.match(str(error)):
            raise AssertionError(f"Python refuses the text, and no rule does: {error}") from error


PARTS = (
    "a", "9", "0", " ", "\n", ".", "-", '"', "'", "\\", '\\"', "[", "]", "[a", "[a]", '["', '[a="', "a=1,", "a.", "0.",
    "0s", "00s", "1h", "1 ", "1e", "{", "{}", ": .a", ", ", "a,", "in (", "é", "٣", "\u2028", "%", "=", "/", "@", ":",
    "&a=", "%(a", "<", "00:", "1.1.1.1.", "0.0-", 'unknown field "', "exceeded quota: a, requested: ", ", used: ",
    "#\n", "- ", "aB", "…",
)  # fmt: skip
"""What a text repeats."""

Reading = Callable[[str], object]


def status(text: str) -> bytes:
    cause = {"field": f"data[{text}]", "reason": "FieldValueInvalid", "message": f"Invalid value: {text}: {text}"}
    return json.dumps({"kind": "Status", "code": 422, "message": text, "details": {"causes": [cause]}}).encode()


def error(text: str) -> ApiError:
    return ApiError("apply of ConfigMap default/web", read_error_status(422, status(text)))


def key(text: str) -> dict[str, Any]:
    return config_map("web", data={text: "x"})


def annotation(name: str) -> Reading:
    return lambda text: parse_annotations({f"{PREFIX}{name}": text})


READINGS: Mapping[str, Reading] = {
    "the field of an error": lambda text: parse_field(f"data[{text}]", key(text)),
    "a field": lambda text: field_text(parse_field(text)),
    "the line of an error": lambda text: location_of_error(made(key(text)), error(text)),
    "an error without causes": lambda text: location_of_error(
        made(key(text)), ApiError("", ErrorStatus(code=500, message=text))
    ),
    "an error": lambda text: (error(text).terminal, error(text).missing_version, str(error(text))),
    "an error about a Secret": lambda text: read_error_status(403, status(text), secret=WHOLE),
    "a message about a Secret": lambda text: redacted_message(403, f'secrets "{text}" is forbidden: {text}', (), WHOLE),
    "a warning about a Secret": lambda text: redacted_warning(text, WHOLE),
    "a refusal": lambda text: immutable_fields(GroupKind("", "Pod"), [FieldRefusal("spec", f"Invalid value: {text}")]),
    "a refused field": lambda text: changed_field(GroupKind("", "Pod"), [f"data[{text}]"], key(text), key(text)),
    "a quota": lambda text: refusal_is_about_trial(
        TrialManifest("web", b""), (), f"exceeded quota: {text}, used: {text}", None
    ),
    "a quantity": amount,
    "the filter bytes": bytes_of,
    "the filter from_json": from_json,
    "the filter from_yaml": from_yaml,
    "the filter b64decode": b64decode,
    "the filter k8s_name": k8s_name,
    "the filter later": partial(later, "2026-01-31T12:00:00Z"),
    "the filter later of a time": lambda text: later(text, "1h"),
    "the group of regex_search": lambda text: regex_search("a", "(a)", text),
    "the replacement of regex_replace": lambda text: regex_replace("a", "a", text),
    "an error of Python": lambda text: translate_error(ValueError(text)),
    "a scalar": scalar_text,
    "a duration": parse_duration,
    "a duration of Go": duration_nanoseconds,
    "a selector": label_selector,
    "a mistyped name": lambda text: did_you_mean(text, [text[:number] for number in range(0, 200, 5)]),
    "names like a mistyped one": lambda text: did_you_mean(text[:100], [text] * 20),
    "causes": lambda text: sentence([text] * 3),
    "a text in quotes": quoted,
    "JSON in an annotation": decode_text,
    "deep JSON": lambda text: without_deep_values(("[" * 200 + text).encode()),
    "an object": lambda text: LiveObject.of(key(text)).body,
    "a label": lambda text: (label_faults(text), key_faults(text), label_value_faults(text), subdomain_faults(text)),
    "a version": version_priority,
    "a rule of a CRD": parse,
    **{f"the annotation {name}": annotation(name) for name in ("after", "apply", "ready-when", "recreate", "none")},
    **{
        f"the format {name}": partial(is_format, name)
        for name in ("byte", "cidr", "date-time", "email", "hostname", "ipv4", "isbn", "mac", "rgbcolor", "uri", "uuid")
    },
    **{
        f"{name} in a rule": FUNCTIONS[name]
        for name in ("cidr", "double", "duration", "int", "ip", "quantity", "isIP", "timestamp", "uint", "url")
    },
    "format in a rule": lambda text: METHODS["format"](text, [1.5]),
}


def seconds(reading: Reading, text: str) -> float:
    """The processor time of one call."""
    before = time.thread_time()
    with refused_in_our_words():
        reading(text)
    return time.thread_time() - before


def is_proportional(reading: Reading, part: str) -> bool:
    """Whether a text of twice the length takes at most three times as long. Both are read in turn, because what else
    runs on the machine makes a time longer, and never shorter.
    """
    shorter, longer = (part * (length // len(part)) for length in (LENGTH, 2 * LENGTH))
    one = other = math.inf
    for _ in range(ROUNDS):
        other = min(other, seconds(reading, longer))
        if other < NOTICEABLE:
            return True
        one = min(one, seconds(reading, shorter))
        if other < 3 * one:
            return True
    return False


@pytest.mark.more_cases
@pytest.mark.parametrize("reading", READINGS.values(), ids=READINGS.keys())
def test_a_text_of_twice_the_length_takes_at_most_three_times_as_long(reading: Reading) -> None:
    assert [part for part in PARTS if not is_proportional(reading, part)] == []


@pytest.mark.parametrize("part", ['"', '["', "00s", "0."])
def test_a_text_of_a_hundred_parts_is_read_at_once(part: str) -> None:
    """What is exponential in the length never ends for a text of a hundred parts."""
    for reading in READINGS.values():
        with refused_in_our_words():
            reading(part * 100)
