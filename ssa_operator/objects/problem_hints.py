"""What to do about errors of YAML and Jinja, whose own words name no cause.

Promises:
- A hint is given only where the message leaves one likely cause.
- `check`, `render`, `dev` and the status of a parent give the same hint.
"""

from __future__ import annotations

import re

_HINTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile("^mapping values are not allowed in this context.*to_yaml"),
        "write {{ x }} without to_yaml: a mapping stays one",
    ),
    (re.compile("mapping values are not allowed in this context"), "put a value with a colon into quotes"),
    (re.compile("did not find expected key"), "check the indentation and the quotes of this line and of the one above"),
    (re.compile("found a tab character|found character '.t'"), "indent with spaces"),
    (re.compile(r"^the key (?:apiVersion|kind|metadata) is there twice"), "write --- between two manifests"),
    (re.compile(r"^metadata\.\w+ must be a string, and this is a mapping"), "write two braces: {{ name }}"),
    (re.compile(r"^metadata must be a mapping, and this is null"), "write metadata: with name: below it"),
    (re.compile(r"^a key must be a string"), "{{ name }} is rendered in files that end in .j2"),
    (re.compile(r"^unexpected '}'"), "close an expression with two braces: {{ name }}"),
)


def hint(message: str) -> str:
    """What to do about a problem; '' where its message says it, or where nothing is sure."""
    return next((words for pattern, words in _HINTS if pattern.search(message)), "")
