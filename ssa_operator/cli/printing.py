"""Prints objects as YAML or JSON, and tables.

Promises:
- `--output json` prints several objects as a `v1` List. The user can apply the printed YAML as it is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import yaml

from ssa_operator.cli.options import OutputFormat


class _Dumper(yaml.CSafeDumper):
    """Block style, no aliases, long texts unbroken."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def objects(found: Sequence[Mapping[str, Any]], output: OutputFormat) -> None:
    """Print Kubernetes objects."""
    if output is OutputFormat.JSON:
        value: Any = found[0] if len(found) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(found)}
        data(value, output)
    else:
        sys.stdout.write("---\n".join(yaml_text(each) for each in found))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table as kubectl does: one line for each row, without wrapping or truncation."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    columns = Table(*head, box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in columns.columns:
        column.no_wrap = True
    for row in rows:
        columns.add_row(*map(Text, row))
    width = Console(width=2**16).measure(columns).maximum
    Console(highlight=False, width=width).print(columns)


def data(value: Any, output: OutputFormat) -> None:
    """Print any JSON value as JSON or YAML."""
    if output is OutputFormat.JSON:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")
    else:
        sys.stdout.write(yaml_text(value))


def yaml_text(value: Any) -> str:
    """A value as one YAML document."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True, width=2**20
    )
    return text
