"""Writes objects as YAML: the text of golden cases, with one form for each value, and lines with their fields.

Promises:
- Reading the text gives the same values, types included.
- A text of several lines is a literal block, so that a diff shows the line that changed.
- Two texts have the same sorted form if and only if their documents have the same values.
- A YAML parser reads the same data back from lines with fields.
- Each scalar, and each mapping and list without content, begins on a line of its own, except for the first field of a
  list's item, which is on the line of the item.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml
from msgspec import Struct

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.yaml.to_yaml import scalar_text

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


_LITERAL_BLOCK = re.compile(r"[!-~][ -~\t]*(?:\n[ -~\t]*)*", re.ASCII)
"""Texts that a literal block scalar keeps unchanged: the first line isn't empty and isn't indented."""


class AnnotatedLine(Struct, frozen=True):
    """A line of YAML."""

    text: str
    field: FieldPath | None = None
    """The field whose value the line shows, None for a line without one."""


def yaml_lines(value: Any, path: FieldPath = ()) -> Iterator[AnnotatedLine]:
    """The lines of a value in block style."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _entry(f"{scalar_text(key)}:", item, (*path, key))
    elif isinstance(value, list) and value:
        for at, item in enumerate(value):
            first, *rest = yaml_lines(item, (*path, at))
            yield AnnotatedLine(f"- {first.text}", first.field)
            yield from (AnnotatedLine(f"  {line.text}" if line.text else "", line.field) for line in rest)
    else:
        yield from _scalar("", value, path)


def _entry(key: str, value: Any, path: FieldPath) -> Iterator[AnnotatedLine]:
    if isinstance(value, (Mapping, list)) and value:
        yield AnnotatedLine(key)
        for line in yaml_lines(value, path):
            yield AnnotatedLine(f"  {line.text}" if line.text else "", line.field)
    else:
        yield from _scalar(f"{key} ", value, path)


def _scalar(start: str, value: Any, path: FieldPath) -> Iterator[AnnotatedLine]:
    """The line of a scalar. A text of several lines becomes a literal block scalar if that keeps it unchanged."""
    if not isinstance(value, str) or "\n" not in value or not _LITERAL_BLOCK.fullmatch(value) or value.endswith("\n\n"):
        yield AnnotatedLine(f"{start}{scalar_text(value)}", path)
        return
    lines = value.removesuffix("\n").split("\n")
    yield AnnotatedLine(f"{start}{'|' if value.endswith(chr(10)) else '|-'}", path)
    yield from (AnnotatedLine(f"  {line}" if line else "") for line in lines)
