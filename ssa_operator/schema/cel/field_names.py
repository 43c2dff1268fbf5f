"""The names of fields in CEL expressions, which escape names that are not valid in CEL.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#escaping
"""

from __future__ import annotations

import re

RESERVED = frozenset({"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let"}) | {
    "loop", "package", "namespace", "return", "var", "void", "while"
}  # fmt: skip
"""The words that are no names."""

_ESCAPED_WORDS = RESERVED | {"true", "false", "null", "in"}
_ESCAPED_CHARACTER = re.compile(r"__(underscores|dot|dash|slash)__")
_ESCAPED_CHARACTERS = {"underscores": "__", "dot": ".", "dash": "-", "slash": "/"}


def unescaped(name: str) -> str:
    """The field that a name in an expression stands for: `a__dash__b` is `a-b`, `__namespace__` is `namespace`."""
    if name.startswith("__") and name.endswith("__") and name[2:-2] in _ESCAPED_WORDS:
        return name[2:-2]
    return _ESCAPED_CHARACTER.sub(lambda found: _ESCAPED_CHARACTERS[found[1]], name)


def escaped(name: str) -> str:
    """The name in an expression that stands for a field; the inverse of `unescaped`."""
    if name in _ESCAPED_WORDS:
        return f"__{name}__"
    return re.sub(r"__|[.\-/]", lambda found: f"__{_CHARACTER_WORDS[found[0]]}__", name)


_CHARACTER_WORDS = {character: word for word, character in _ESCAPED_CHARACTERS.items()}
