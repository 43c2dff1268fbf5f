"""Prints objects as YAML with a gutter that names the writer of each line, as `git blame` does.

Promises:
- The gutters of all lines have one width. On a terminal they take less than half of the width, so that 80 columns
  suffice.
- Elsewhere no text is shortened.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.console import Console
from rich.text import Text

from ssa_operator.objects.field_attribution import Attribution, Writer
from ssa_operator.objects.scalars import age
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.operator.process import streams
from ssa_operator.rendering.jinja.templates import SHARED
from ssa_operator.rendering.yaml.to_yaml import scalar_text
from ssa_operator.tools.blame.blamed_object import BlamedObject
from ssa_operator.tools.terminal.canonical_yaml import yaml_lines

_STYLES = {
    Writer.TEMPLATE: "green",
    Writer.OPERATOR: "cyan",
    Writer.EARLIER_TEMPLATE: "magenta",
    Writer.MANAGER: "yellow",
    Writer.API_SERVER: "dim",
    Writer.UNRECORDED: "dim",
}

GUTTER_SHARE = 0.45
"""The part of a terminal's width that the gutter takes at most."""


def print_text(found: Sequence[BlamedObject], now: float) -> None:
    """Print some objects. `now` is in seconds since the epoch; times are ages, as in `status`."""
    console = streams.console()
    layout = _layout(console, [_cells(each, field, now) for each in found for field in each.fields])
    for each in found:
        if each is not found[0]:
            console.print("---")
        note = f"; {each.note}" if each.note else ""
        console.print(Text(f"# {each.identity}{note}", "bold"), soft_wrap=True)
        fields = {field.path: field for field in each.fields}
        for line in yaml_lines(each.body):
            field = None if line.field is None else fields.get(line.field)
            text = _gutter(layout, ("", ""), "") if field is None else _field_gutter(layout, each, field, now)
            text.append(line.text)
            if field is not None and (remark := _remark(field)):
                text.append(f"  # {remark}", "bold")
            console.print(text, soft_wrap=True)
    if not found:
        console.print("no children")


class _Layout(Struct, frozen=True):
    """The widths of the gutter and of its first column; without columns (0), the origin follows the writer."""

    width: int
    column: int


def _layout(console: Console, cells: Sequence[tuple[str, str]]) -> _Layout:
    column = max((len(writer) for writer, _ in cells), default=0)
    width = column + 1 + max((len(origin) for _, origin in cells), default=0)
    limit = int(console.width * GUTTER_SHARE)
    return _Layout(limit, 0) if console.is_terminal and width > limit else _Layout(width, column)


def _field_gutter(layout: _Layout, blamed: BlamedObject, field: Attribution, now: float) -> Text:
    return _gutter(layout, _cells(blamed, field, now), _STYLES[field.writer])


def _gutter(layout: _Layout, cells: tuple[str, str], style: str) -> Text:
    writer, origin = _shortened(cells[0], layout.width).ljust(layout.column), cells[1]
    text = Text.assemble((writer, style), " " if origin else "", (origin, "dim"))
    if len(text) > layout.width:
        text = text[: layout.width - 1].append("…")
    text.pad_right(layout.width - len(text))
    return text.append(" │ ", "dim")


def _shortened(writer: str, width: int) -> str:
    """The writer, shortened at its beginning if even the number of the template line has no room."""
    first = writer.partition(_INCLUDED)[0]
    return f"…{first[len(first) - width + 1 :]}" if len(first) > width else writer


_INCLUDED = " < "


def _cells(blamed: BlamedObject, field: Attribution, now: float) -> tuple[str, str]:
    """The writer of a field, and the origin of its value."""
    match field.writer:
        case Writer.TEMPLATE if field.location is not None:
            chain = (field.location, *field.location.included_from)
            return _INCLUDED.join(map(_line, chain)), blamed.origin(field)
        case Writer.OPERATOR | Writer.TEMPLATE:
            return "ssa-operator", field.reason
        case Writer.EARLIER_TEMPLATE:
            return "ssa-operator", blamed.earlier
        case Writer.MANAGER:
            owner = field.owners[0]
            name = owner.manager + (f" ({owner.subresource})" if owner.subresource else "")
            return name, field.reason or (f"{age(owner.time, now)} ago" if owner.time else "")
    return field.writer.value, ""


def _line(location: SourceLocation) -> str:
    """A template line without the name of the parent's own folder."""
    folder, _, inner = location.file.partition("/")
    return f"{location.file if folder == SHARED else inner}:{location.line}"


def _remark(field: Attribution) -> str:
    """The parts that don't fit into the gutter: other owners, and the value that the template renders instead."""
    remarks = []
    others = [owner for owner in field.owners[1 if field.writer is Writer.MANAGER else 0 :] if not owner.is_operator]
    if others:
        names = (each.manager + (f" ({each.subresource})" if each.subresource else "") for each in others)
        remarks.append(f"also owned by {', '.join(dict.fromkeys(names))}")
    if field.location is not None and (field.differs or field.writer is not Writer.TEMPLATE):
        value = scalar_text(field.rendered) if not isinstance(field.rendered, (dict, list)) else "another value"
        remarks.append(f"{_line(field.location)} renders {value if field.differs else 'the same'}")
    return "; ".join(remarks)
