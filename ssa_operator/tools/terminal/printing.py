"""Prints objects as YAML or JSON, and tables.

Promises:
- `--output json` prints several objects as a `v1` List. The user can apply the printed YAML unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import yaml

from ssa_operator.objects.messages import escaped_json, escaped_quoted_yaml, is_risky, visible_line
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import OutputFormat

if TYPE_CHECKING:
    from ssa_operator.tools.tree.tree_view import Line


class _Dumper(yaml.CSafeDumper):
    """Block style, no aliases, long texts unbroken."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def _string_node(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    # Double quotes have escapes for everything that controls a terminal, and keep a text on one line.
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if is_risky(text) else None)


_Dumper.add_representer(str, _string_node)


def objects(found: Sequence[Mapping[str, Any]], output: OutputFormat, comments: Sequence[str] = ()) -> None:
    """Print Kubernetes objects. In YAML, each has its comment above it, if there are comments."""
    if output is OutputFormat.JSON:
        value: Any = found[0] if len(found) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(found)}
        data(value, output)
    else:
        heads = [f"# {visible_line(comment)}\n" for comment in comments] or [""] * len(found)
        streams.data("---\n".join(head + yaml_text(each) for head, each in zip(heads, found, strict=True)))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table as kubectl does: one line for each row, without wrapping or truncation."""
    from rich.table import Table
    from rich.text import Text

    columns = Table(*head, box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for column in columns.columns:
        column.no_wrap = True
    for row in rows:
        columns.add_row(*(Text(visible_line(each)) for each in row))
    width = streams.console(width=2**16).measure(columns).maximum
    streams.console(width=width).print(columns)


def lines(found: Iterable[Line]) -> None:
    """Print the lines of a tree: with styles in a terminal, and otherwise as text without wrapping."""
    if not streams.is_terminal():
        # One write, because there may be thousands.
        streams.data("".join(f"{visible_line(str(line))}\n" for line in found))
        return
    console = streams.console()
    for line in found:
        console.print(line.text(), soft_wrap=True)


def lines_or_data(found: Iterable[Line], value: Any, output: OutputFormat) -> None:
    """Print the lines of a tree, or its data as JSON or YAML."""
    if output is OutputFormat.TABLE:
        lines(found)
    else:
        data(value, output)


def data(value: Any, output: OutputFormat, *, document: bool = False) -> None:
    """Print any JSON value as JSON or YAML. With `document` others follow: JSON is one line, and YAML ends in `---`."""
    if output is OutputFormat.JSON and document:
        streams.data(escaped_json(msgspec.json.encode(value).decode()) + "\n")
    elif output is OutputFormat.JSON:
        streams.data(escaped_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()) + "\n")
    else:
        streams.data(yaml_text(value) + ("---\n" if document else ""))


def yaml_text(value: Any) -> str:
    """Any JSON value as YAML that controls no terminal and no log (`objects/messages.py`)."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True, width=2**31 - 1
    )
    return escaped_quoted_yaml(text)
