"""Makes docs/reference/promises.md from the modules: each promise, under the folder that keeps it.

Promises:
- A promise is an item of "Promises:" in the docstring of a module. The page has no other text than theirs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_ITEM = re.compile(r"^- (.*(?:\n(?!- |\n).+)*)", re.MULTILINE)


def promises_of(docstring: str) -> list[str]:
    """The promises of a module, each in one line."""
    _, _, listed = docstring.partition("Promises:\n")
    return [" ".join(item.split()) for item in _ITEM.findall(listed.partition("\n\n")[0])]


def sections(package: Path) -> Iterator[str]:
    """The sections of the page: one for each folder with promises, in the order of the file tree."""
    for folder in sorted({path.parent for path in package.rglob("*.py")}):
        items = [
            f"- {promise} (`{path.relative_to(package)}`)"
            for path in sorted(folder.glob("*.py"))
            for promise in promises_of(_docstring(path))
        ]
        if items:
            name = folder.relative_to(package.parent).as_posix()
            purpose = _docstring(folder / "__init__.py").partition("\n\n")[0]
            yield f"## {name}\n\n{' '.join(purpose.split())}\n\n" + "\n".join(items)


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
