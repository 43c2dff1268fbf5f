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
    (re.compile("^-%} joins this line"), "write %}"),
    (re.compile("mapping values are not allowed in this context"), "put a value with a colon into quotes"),
    (re.compile("did not find expected key"), "check the indentation and the quotes of this line and of the one above"),
    (re.compile("found a tab character|found character '.t'"), "indent with spaces"),
    (re.compile(r"^the key (?:apiVersion|kind|metadata) is there twice"), "write --- between two manifests"),
    (re.compile(r"^metadata\.\w+ must be a string, and this is a mapping"), "write two braces: {{ name }}"),
    (re.compile(r"^metadata must be a mapping, and this is null"), "write metadata: with name: below it"),
    (
        re.compile("^apiVersion is missing, and so is kind"),
        "remove a --- too many above it, or move a file that is no manifest elsewhere",
    ),
    (re.compile(r"^a key must be a string"), "{{ name }} is rendered in files that end in .j2"),
    (re.compile(r"^unexpected '}'$"), "close an expression with two braces: {{ name }}"),
    (re.compile(r"cannot start any token"), "put the value into quotes"),
    (re.compile(r"^could not find expected ':'"), "write `key: value`, and indent the lines of a text below its key"),
    (re.compile(r"\(while scanning a quoted scalar"), "close the quote"),
    (re.compile(r"^the alias \*"), "put a value that begins with * into quotes"),
    (re.compile(r"^did not find expected ',' or"), "close the bracket, or put the value into quotes"),
    (re.compile(r"^unexpected char '&'"), "write `and`"),
    (re.compile(r"^unexpected char '!'"), "write `not`"),
    (re.compile(r"^unexpected char '\?'"), "write `a if condition else b`"),
    (re.compile("^unexpected char '[\u2018\u2019\u201c\u201d]'"), "write straight quotes"),
    (re.compile(r"""^unexpected char (?:"'"|'"')"""), "close the quote"),
    (re.compile("^expected token 'end of statement block', got 'if'"), "write {% elif ... %}"),
    (re.compile("^expected token 'end of statement block', got '='"), "compare with =="),
    (
        re.compile("^expected token 'end of print statement', got '='"),
        "compare with ==, or write {% set name = value %}",
    ),
    (re.compile("^Missing end of comment tag"), "close it with #}"),
)


def hint(message: str) -> str:
    """What to do about a problem; '' where its message says it, or where nothing is sure."""
    return next((words for pattern, words in _HINTS if pattern.search(message)), "")
