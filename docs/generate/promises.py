"""Makes docs/reference/promises.md from the modules: each promise, under the module that keeps it.

Promises:
- A promise is an item of "Promises:" in the docstring of a module. The page has no other text than that of docstrings.
- The page begins with a table of all rooms: `reconcile/` first, the others in the order of imports.
- The anchor of a room or a module follows from its path alone.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

_LIST = re.compile(r"^Promises\b.*:\n((?:.+\n?)+)", re.MULTILINE)
_ITEM = re.compile(r"^- (.*(?:\n(?!- ).+)*)", re.MULTILINE)
_SENTENCE = re.compile(r".*?[.](?=\s|$)", re.DOTALL)

_FIRST = "reconcile"


def promises_of(docstring: str) -> list[str]:
    """The promises of a module, each in one line."""
    found = _LIST.search(docstring)
    return [_line(item) for item in _ITEM.findall(found[1])] if found else []


def sections(package: Path) -> Iterator[str]:
    """The table of the rooms with promises, and a section for each of them."""
    found = {room: text for room in _rooms(package) if (text := "\n\n".join(_modules(package, room)))}
    rows = [f"| {_link(room)} | {_sentence(_purpose(package / room))} |" for room in found]
    yield "\n".join(["| room | what it is |", "| --- | --- |", *rows])
    for room, text in found.items():
        yield f"## {room}\n\n{_purpose(package / room)}\n\n{text}"


def _rooms(package: Path) -> Iterator[str]:
    """The rooms as paths in the package, each before the rooms in it."""
    project = tomllib.loads((package.parent / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = project["tool"]["importlinter"]["contracts"]
    layers = next(each["layers"] for each in contracts if each["name"] == "Imports go down only")
    names = [room for layer in layers for room in layer.split(" | ")]
    for name in sorted(names, key=lambda name: name != _FIRST):
        for path in sorted((package / name).rglob("__init__.py")):
            yield path.parent.relative_to(package).as_posix()


def _modules(package: Path, room: str) -> Iterator[str]:
    """The modules of a room that promise something, with their promises."""
    for path in sorted((package / room).glob("*.py")):
        if items := promises_of(_docstring(path)):
            name = path.relative_to(package).as_posix()
            source = f"../../{package.name}/{name}"
            yield f"### [{name}]({source})\n\n{_purpose(path)}\n\n" + "\n".join(f"- {item}" for item in items)


def _link(room: str) -> str:
    name = f"**`{room}/`**" if "/" not in room else f"`{room}/`"
    return f"[{name}](#{room.replace('/', '')})"


def _purpose(path: Path) -> str:
    """The first paragraph of a docstring, in one line."""
    module = path / "__init__.py" if path.is_dir() else path
    return _line(_docstring(module).partition("\n\n")[0])


def _sentence(paragraph: str) -> str:
    found = _SENTENCE.match(paragraph)
    return found[0] if found else paragraph


def _line(text: str) -> str:
    return " ".join(text.split())


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
