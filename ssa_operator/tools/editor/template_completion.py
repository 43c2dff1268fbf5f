"""What can be written in a tag of a template: fields, functions, filters, tests, kinds, macros and files.

Promises:
- A name after a dot is a field of what is before it, a name after `|` a filter, and one after `is` a test.
- A function shows its call and its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lsprotocol.types import CompletionItem, CompletionItemKind

from ssa_operator.rendering.jinja import filters, functions
from ssa_operator.rendering.jinja.folder_files import FILES
from ssa_operator.rendering.jinja.templates import SHARED
from ssa_operator.tools.editor import vocabulary
from ssa_operator.tools.editor.completion_values import Completions, completion, fields, unique
from ssa_operator.tools.editor.expression_types import (
    Reading,
    manifest_files,
    string_of,
    type_of,
    type_text,
    variables_types,
)
from ssa_operator.tools.editor.included_files import file_text
from ssa_operator.tools.editor.manifest_cursor import manifests
from ssa_operator.tools.editor.template_cursor import (
    OpenString,
    Tag,
    bindings,
    chain_before,
    open_string,
    word_around,
)
from ssa_operator.tools.editor.text_places import lines_of

KEYWORDS = [
    "if",
    "elif",
    "else",
    "endif",
    "for",
    "endfor",
    "set",
    "endset",
    "include",
    "import",
    "from",
    "macro",
    "endmacro",
    "call",
    "endcall",
    "filter",
    "endfilter",
    "with",
    "endwith",
    "block",
    "endblock",
    "extends",
    "raw",
    "endraw",
    "break",
    "continue",
    "return",
]
_OPERATORS = ("and", "or", "not", "in", "is", "if", "else", "true", "false", "none", "loop")
_TEST = re.compile(r"\bis\s+(?:not\s+)?\w*$")
_IMPORTED = re.compile(r"""[-+]?+\s*+from\s++['"](?P<file>[^'"]*+)['"]\s++import\s""")


def in_tag(reading: Reading, tag: Tag, offset: int, column: int) -> Completions:
    """What can be written in a tag at an offset of the text, which is at a column of its line."""
    if tag.opening == "{#":
        return column, []
    text = reading.text
    string = open_string(text, tag, offset)
    if string is not None:
        return column - (offset - string.begin), unique(_in_string(reading, string))
    begin, _ = word_around(text[:offset], offset)
    before = text[tag.begin : begin].rstrip()
    within = reading.before(offset)
    if before.endswith("."):
        dot = text.rindex(".", 0, begin)
        items = _after_dot(within, dot, tag)
    elif before.endswith("|"):
        items = _words(vocabulary.own_filters(), filters.FILTERS)
    elif _TEST.search(text[max(tag.begin, offset - 200) : offset]):
        items = _words(vocabulary.own_tests(), filters.TESTS)
    elif (imported := _IMPORTED.match(text[tag.begin : begin])) is not None:
        items = _macros(reading, imported["file"])
    elif tag.opening == "{%" and not before.strip("-+ "):
        items = (completion(each, CompletionItemKind.Keyword) for each in KEYWORDS)
    else:
        items = _names(within)
    return column - (offset - begin), unique(items)


def _after_dot(reading: Reading, dot: int, tag: Tag) -> Iterable[CompletionItem]:
    chain = chain_before(reading.text, dot, tag.begin)
    if len(chain) == 1 and (bound := reading.scope.get(chain[0].text)) is not None and bound.kind == "import":
        return _macros(reading, bound.expression)
    return fields(type_of(chain, reading), reading)


def _macros(reading: Reading, file: str) -> Iterator[CompletionItem]:
    for name, bound in bindings(file_text(reading, file)).items():
        if bound.kind == "macro":
            yield completion(name, CompletionItemKind.Function, detail=f"{name}({bound.expression})")
        elif bound.kind == "set":
            yield completion(name, CompletionItemKind.Variable)


def _words(own: vocabulary.Words, all_names: Iterable[str]) -> Iterator[CompletionItem]:
    for name in sorted({*own, *all_names}):
        word = own.get(name)
        yield completion(
            name,
            CompletionItemKind.Function,
            detail="" if word is None else word.form,
            documentation="of Jinja" if word is None else word.meaning,
        )


def _names(reading: Reading) -> Iterator[CompletionItem]:
    types = variables_types(reading)
    for name, word in vocabulary.variables().items():
        if name in types:
            detail = type_text(types[name], reading.project)
            yield completion(name, CompletionItemKind.Variable, detail, word.meaning)
    yield from _words(vocabulary.own_functions(), functions.FUNCTIONS)
    for name, bound in reading.scope.items():
        found = type_of(chain_before(name, len(name)), reading)
        if bound.kind == "macro":
            yield completion(name, CompletionItemKind.Function, detail=f"{name}({bound.expression})")
        else:
            detail = type_text(found, reading.project) if found else ""
            yield completion(name, CompletionItemKind.Variable, detail=detail)
    yield from (completion(each, CompletionItemKind.Keyword) for each in _OPERATORS)


def _in_string(reading: Reading, string: OpenString) -> Iterator[CompletionItem]:
    kinds = reading.project.schemas.kinds
    given = string_of(string.before[0]) if string.before else None
    if string.function in ("include", "import", "from", "extends"):
        yield from _files(reading)
    elif string.function in ("child", "live"):
        yield from _children(reading, string.argument, given)
    elif string.function in ("lookup", "lookup_all", "api_available"):
        if string.argument == 0:
            yield from (completion(each, CompletionItemKind.EnumMember) for each in sorted(kinds))
        elif string.argument == 1:
            known = kinds.get(given or "", {})
            yield from (completion(each, CompletionItemKind.Class, detail=given or "") for each in sorted(known))
    elif string.function in ("read_file", "read_files"):
        yield from _data_files(reading)


def _children(reading: Reading, argument: int, kind: str | None) -> Iterator[CompletionItem]:
    """The kinds that the folder renders, or the names of a kind that are written without a tag."""
    for path in manifest_files(reading.project, reading.path):
        for each in manifests(lines_of(reading.project.text(path))):
            if argument == 0 and each.kind and "{" not in each.kind:
                yield completion(each.kind, CompletionItemKind.Class, detail=each.api_version)
            elif argument == 1 and each.kind == kind and each.name and "{" not in each.name:
                yield completion(each.name, CompletionItemKind.EnumMember, detail=each.kind)


def _data_files(reading: Reading) -> Iterator[CompletionItem]:
    folder = reading.project.folder_of(reading.path)
    root = Path() if folder is None else folder.root / folder.name / FILES
    for path in sorted(root.rglob("*")) if folder is not None and root.is_dir() else ():
        if path.is_file():
            yield completion(path.relative_to(root).as_posix(), CompletionItemKind.File)


def _files(reading: Reading) -> Iterator[CompletionItem]:
    own = reading.project.name_of(reading.path)
    for path in manifest_files(reading.project, reading.path):
        name = reading.project.name_of(path) or ""
        if name.endswith(".j2") and name != own:
            yield completion(name if name.startswith(f"{SHARED}/") else name.partition("/")[2], CompletionItemKind.File)
