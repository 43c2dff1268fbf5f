"""What to do about errors of YAML and Jinja, whose own words name no cause.

Promises:
- A hint is given only where the message leaves one likely cause.
- `check`, `render`, `dev` and the status of a parent give the same hint.
"""

from __future__ import annotations

import re

_HINTS: tuple[tuple[str, str], ...] = (
    (
        "^mapping values are not allowed in this context.*to_yaml",
        "write {{ x }} without to_yaml: a mapping stays one",
    ),
    ("^-%} joins this line", "write %}"),
    ("mapping values are not allowed in this context", "put a value with a colon into quotes"),
    ("did not find expected key", "check the indentation and the quotes of this line and of the one above"),
    ("found a tab character|found character '.t'", "indent with spaces"),
    (r"^the key (?:apiVersion|kind|metadata) is there twice", "write --- between two manifests"),
    (r"^metadata\.\w+ must be a string, and this is a mapping", "write two braces: {{ name }}"),
    (r"^metadata must be a mapping, and this is null", "write metadata: with name: below it"),
    (
        "^apiVersion is missing, and so is kind",
        "remove a --- too many above it, or move a file that is no manifest elsewhere",
    ),
    (r"^a key must be a string", "{{ name }} is rendered in files that end in .j2"),
    (r"^unexpected '}'$", "close an expression with two braces: {{ name }}"),
    (r"cannot start any token", "put the value into quotes"),
    (r"^could not find expected ':'", "write `key: value`, and indent the lines of a text below its key"),
    (r"\(while scanning a quoted scalar", "close the quote"),
    (r"^the alias \*", "put a value that begins with * into quotes"),
    (r"^did not find expected ',' or", "close the bracket, or put the value into quotes"),
    (r"^unexpected char '&'", "write `and`"),
    (r"^unexpected char '!'", "write `not`"),
    (r"^unexpected char '\?'", "write `a if condition else b`"),
    ("^unexpected char '[\u2018\u2019\u201c\u201d]'", "write straight quotes"),
    (r"""^unexpected char (?:"'"|'"')""", "close the quote"),
    ("^expected token 'end of statement block', got 'if'", "write {% elif ... %}"),
    ("^expected token 'end of statement block', got '='", "compare with =="),
    (
        "^expected token 'end of print statement', got '='",
        "compare with ==, or write {% set name = value %}",
    ),
    ("^Missing end of comment tag", "close it with #}"),
)


def hint(message: str) -> str:
    """What to do about a problem; '' where its message says it, or where nothing is sure."""
    return next((words for pattern, words in _HINTS if re.search(pattern, message)), "")
