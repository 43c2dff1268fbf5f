"""Writes objects as the YAML text of golden cases: one form for each value, for reading and for diffs.

Promises:
- Reading the text gives the same values, types included.
- A text of several lines is a literal block, so that a diff shows the line that changed.
- Two texts have the same sorted form if and only if their documents have the same values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import yaml

_NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|0o[0-7]+|0x[0-9a-fA-F]+", re.ASCII)
"""Strings that the YAML of manifests would read as numbers; PyYAML quotes only some of them."""

_BLOCK = re.compile(r"[^\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ufeff]*", re.ASCII)
"""Strings that a literal block can hold unchanged."""


class _CanonicalDumper(yaml.CSafeDumper):
    """Block style, no aliases, long texts unbroken."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def _string_node(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    style = None
    if _NUMBER.fullmatch(text):
        style = "'"
    elif "\n" in text.rstrip("\n") and _BLOCK.fullmatch(text) and not text.startswith((" ", "\n")):
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_CanonicalDumper.add_representer(str, _string_node)


def canonical_text(documents: Iterable[Mapping[str, Any]], *, sort_keys: bool = False) -> str:
    """The documents as YAML, '' without any. With `sort_keys` the order of keys makes no difference."""
    return "---\n".join(
        yaml.dump(
            document,
            Dumper=_CanonicalDumper,
            sort_keys=sort_keys,
            default_flow_style=False,
            allow_unicode=True,
            width=2**20,
        )
        for document in documents
    )
