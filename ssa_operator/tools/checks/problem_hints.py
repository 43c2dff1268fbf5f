"""What to do about errors of YAML and Jinja, whose own words name no cause.

Promises:
- A hint is given only where the message leaves one likely cause.
"""

from __future__ import annotations

import re

_HINTS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        ("mapping values are not allowed in this context", "put a value with a colon into quotes"),
        ("did not find expected key", "check the indentation and the quotes of this line and of the one above"),
        ("found a tab character|found character '.t'", "indent with spaces"),
        (r"^the key (?:apiVersion|kind|metadata) is there twice", "write --- between two manifests"),
        (r"^metadata\.\w+ must be a string, and this is a mapping", "write two braces: {{ name }}"),
        (r"^metadata must be a mapping, and this is null", "write metadata: with name: below it"),
        (r"^unexpected '}'", "close an expression with two braces: {{ name }}"),
        (r"^Unexpected end of template.*block that needs to be closed is '(?:if|for)'", "each block needs its own end"),
    )
)


def hint(message: str) -> str:
    """What to do about a problem; '' where its message says it, or where nothing is sure."""
    return next((words for pattern, words in _HINTS if pattern.search(message)), "")
