"""What can be written at a place of a text, in a tag of a template or outside of one.

Promises:
- A comment has no completions.
- A key that has its colon already gets no second one.
"""

from __future__ import annotations

import re

from ssa_operator.tools.editor.completion_values import Completions, unique
from ssa_operator.tools.editor.expression_types import Reading
from ssa_operator.tools.editor.manifest_completion import in_yaml
from ssa_operator.tools.editor.manifest_cursor import yaml_place
from ssa_operator.tools.editor.template_completion import in_tag
from ssa_operator.tools.editor.template_cursor import tag_at

_NAMED = re.compile(r"[\w./-]")


def completions(reading: Reading, line: int, column: int) -> Completions:
    """What can be written at a column of a line."""
    lines = reading.lines
    text = lines[line] if line < len(lines) else ""
    column = min(column, len(text))
    joined, offset = reading.at(line, column)
    if reading.path.suffix == ".j2" and (tag := tag_at(joined.text, offset)) is not None:
        return in_tag(joined, tag, offset, column)
    begin = column
    if text.lstrip().startswith("#"):
        return begin, []
    while begin and _NAMED.match(text[begin - 1]):
        begin -= 1
    place = yaml_place(lines, line, column)
    with_colon = text[column:].lstrip(" \"'").startswith(":")
    items = unique(in_yaml(reading, place, lines, line))
    if with_colon or place.in_value:
        for each in items:
            each.insert_text = each.insert_text if "=" in (each.insert_text or "") else None
    return begin, items
