"""Writes manifests as template text: data as YAML, with Jinja expressions in some places.

Promises:
- Text of a manifest that looks like Jinja is rendered literally.
- A value that is only an expression keeps the type of the expression's result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.yaml.to_yaml import yaml_lines

_SYNTAX = re.compile(r"\{\{|\{%|\{#")
_ENDRAW = "endraw"
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


def yaml_document(value: Any) -> str:
    """Data as a YAML document in block style."""
    return "".join(f"{line.text}\n" for line in yaml_lines(value))


def expression(path: tuple[str, ...]) -> str:
    """The Jinja expression of a field: `spec.db.host`, `spec["my-key"]`."""
    first, *rest = path
    return first + "".join(f".{part}" if _IDENTIFIER.fullmatch(part) else f"[{_jinja_string(part)}]" for part in rest)


def _jinja_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class TemplateText:
    """Makes the marks that stand for expressions within data, and writes data with marks as a template.

    A mark is a word of ASCII letters and digits that the given texts don't contain, so YAML needs no quotes for it.
    """

    def __init__(self, content: str) -> None:
        self._prefix = next(
            prefix for number in range(len(content) + 1) if (prefix := f"jinja{number}x") not in content
        )
        self._mark = re.compile(f"({self._prefix}[0-9]+x)")
        self._expressions: list[str] = []

    def mark(self, expression: str) -> str:
        """The mark that becomes `{{ expression }}`."""
        return self._make(f"{{{{ {expression} }}}}")

    def is_marked(self, text: str) -> bool:
        """Whether a text contains a mark."""
        return self._prefix in text

    def write(self, value: Any) -> str:
        """Data with marks as the text of a template."""
        text = yaml_document(self._escaped(value))
        return self._mark.sub(lambda found: self._expressions[self._number(found[0])], text)

    def line(self, value: Any, path: FieldPath) -> int:
        """The line of a field in the text of `write`."""
        escaped = tuple(self._escaped(part) for part in path)
        lines = enumerate(yaml_lines(self._escaped(value)), 1)
        return next((at for at, each in lines if (each.field or ())[: len(path)] == escaped), 1)

    def _make(self, text: str) -> str:
        if text not in self._expressions:
            self._expressions.append(text)
        return f"{self._prefix}{self._expressions.index(text)}x"

    def _number(self, mark: str) -> int:
        return int(mark.removeprefix(self._prefix).removesuffix("x"))

    def _escaped(self, value: Any) -> Any:
        """The data with marks in place of text that Jinja would parse."""
        if isinstance(value, Mapping):
            return {self._escaped(key): self._escaped(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._escaped(item) for item in value]
        return self._escaped_text(value) if isinstance(value, str) else value

    def _escaped_text(self, text: str) -> str:
        found = _SYNTAX.findall(text)
        # A raw block reads better, where nothing within it could end it or be an expression.
        if len(found) > 1 and set(found) == {"{{"} and _ENDRAW not in text and not self.is_marked(text):
            core = text.strip()
            before, _, after = text.partition(core)
            return f"{before}{self._make('{% raw %}')}{core}{self._make('{% endraw %}')}{after}"
        parts = self._mark.split(text)
        for at in range(0, len(parts), 2):
            part = _SYNTAX.sub(lambda match: self.mark(f'"{match[0]}"'), parts[at])
            if part.endswith("{") and at + 1 < len(parts):
                part = f"{part[:-1]}{self.mark(chr(34) + '{' + chr(34))}"
            parts[at] = part
        return "".join(parts)
