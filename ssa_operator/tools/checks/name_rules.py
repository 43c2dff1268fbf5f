"""Rules about the text of templates: names that don't exist, and the syntax of Go templates.

Promises:
- A filter, test, function or variable that doesn't exist is found even in branches that no example takes.
- A name that any file of the folder or of `_shared/` sets is known, because included files see it.
- `default` and `is defined` accept a variable that doesn't exist.
- An edit is given only if its result means the same, and only for code, never for text or comments.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from jinja2 import TemplateSyntaxError, nodes
from msgspec import Struct

from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.jinja.environment import Environment
from ssa_operator.rendering.jinja.filters import FILTERS, PLACING, TESTS
from ssa_operator.rendering.jinja.functions import (
    CLUSTER_FUNCTIONS,
    FUNCTIONS,
    REMOVED,
    SETTING_DESCRIPTIONS,
    STATUS_DESCRIPTIONS,
    VARIABLES,
)
from ssa_operator.rendering.jinja.suggestions import (
    GO_KEYWORDS,
    GO_SYNTAX,
    Suggestion,
    is_foreign,
    jinja_for,
    suggest_filter,
    suggest_name,
    suggest_test,
)
from ssa_operator.rendering.jinja.templates import SHARED, is_manifest
from ssa_operator.tools.findings import Code, Edit, Finding

_JINJA_NAMES = frozenset({"caller", "kwargs", "loop", "self", "super", "varargs"})
"""Names that Jinja itself defines in blocks, loops and macros."""

_FILE_FUNCTIONS = frozenset({"read_file", "read_files"})

_KNOWN = VARIABLES | SETTING_DESCRIPTIONS.keys() | CLUSTER_FUNCTIONS | FUNCTIONS.keys() | _FILE_FUNCTIONS
_GUARDS = frozenset({"d", "default", "defined", "undefined"})

_WHOLE_SCALAR = re.compile(r"\s*(?:- )*(?:[\w./-]+:\s+)?\{\{[^{}]*\|\s*quote\s*-?\}\}\s*")
"""A line whose value is one expression that ends with `quote`."""


class ParsedFiles(Struct, frozen=True, kw_only=True):
    """The files of a templates folder."""

    files: Mapping[str, str]
    """The text of each file, by its path below the folder."""
    trees: Mapping[str, nodes.Template]
    """The syntax trees of the templates that Jinja can read."""


def parse_files(files: Mapping[str, str]) -> ParsedFiles:
    """Read the templates among some files."""
    found = {name: _syntax_tree(name, text) for name, text in files.items() if name.endswith(".j2")}
    return ParsedFiles(files=files, trees={name: tree for name, tree in found.items() if tree is not None})


@lru_cache(maxsize=256)
def _syntax_tree(name: str, text: str) -> nodes.Template | None:
    """The syntax tree of a template, None if Jinja can't read it. An editor checks most files again as they are."""
    with contextlib.suppress(TemplateSyntaxError):
        return Environment({name: text}, str, queries_cluster=True).parse(text, name, name)
    return None


UNKNOWN_NAME = Code.error(
    "unknown-name",
    "a filter, test, function or variable that doesn't exist",
    "Templates have the filters and tests of Jinja, and the variables, functions and filters of "
    "docs/templates.md. Names of Helm, Sprig and Ansible lead to the one that does the same. check --fix "
    "renames those that mean the same under another name.",
)


def check_names(parsed: ParsedFiles) -> list[Finding]:
    """The findings in the text of templates, by their paths below the templates folder."""
    files, trees = parsed.files, parsed.trees
    findings: list[Finding] = []
    for name in files:
        if name.endswith(".j2") and name not in trees:
            findings += _go_syntax(name, files[name])
    declared = {
        name: _declared(trees[name]) if name in trees else _assigned(files[name])
        for name in files
        if name.endswith(".j2")
    }
    for name, tree in trees.items():
        folder = name.partition("/")[0]
        visible = [
            names for other, names in declared.items() if folder == SHARED or other.startswith((f"{folder}/", SHARED))
        ]
        # A file that is no manifest may be included by the status template.
        of_status = () if is_manifest(folder, name) else STATUS_DESCRIPTIONS
        unknown = list(_unknown(tree, frozenset().union(*visible, of_status)))
        # `{{ if .Values.x }}` is a field of a variable `if` to Jinja.
        go = list(_go_syntax(name, files[name])) if _has_go_keywords(tree, unknown) else []
        lines = {finding.location.line for finding in go if finding.location is not None}
        findings += go
        unknown = [each for each in unknown if each.line not in lines]
        findings += _findings(unknown, name, files[name]) if unknown else ()
    return list(dict.fromkeys(findings))


def _has_go_keywords(tree: nodes.Template, unknown: Iterable[_Unknown]) -> bool:
    """Whether Jinja reads keywords of Go templates as variables: `{{ range .Values.x }}` is a field of `range`."""
    fields = [each.node for each in tree.find_all(nodes.Getattr)]
    reads_range = any(isinstance(each, nodes.Name) and each.name == "range" for each in fields)
    return reads_range or any(each.name in GO_KEYWORDS for each in unknown)


GO_TEMPLATE = Code.error(
    "go-template",
    "the syntax of a Go template",
    "The file is written as a template of Helm, and the templates of ssa-operator are Jinja's. A value is "
    "data: it keeps its type and can't become YAML syntax, so quote, toYaml and nindent are seldom needed.",
)


def _go_syntax(name: str, text: str) -> Iterator[Finding]:
    """The lines with the syntax of Go templates, in a file that isn't Jinja."""
    for number, line in enumerate(text.split("\n"), 1):
        if (fix := jinja_for(line)) is not None:
            message = f"{GO_SYNTAX}, and the templates of ssa-operator are Jinja's"
            yield Finding(code=GO_TEMPLATE, message=message, location=SourceLocation(name, number), fix=fix)


# Names.


_ASSIGNMENT = re.compile(r"\{%[-+]?\s*(?:set|for|macro|from|import|with|call)\b([^%]*)")
_NAME = re.compile(r"[^\W\d]\w*")


def _assigned(text: str) -> frozenset[str]:
    """The names that a file may set for the files that it includes, if Jinja can't read it."""
    return frozenset(name for statement in _ASSIGNMENT.findall(text) for name in _NAME.findall(statement))


def _declared(tree: nodes.Template) -> frozenset[str]:
    """The names that a template sets: variables, loop variables, parameters, macros, imports."""
    names = {node.name for node in tree.find_all(nodes.Name) if node.ctx != "load"}
    names |= {node.name for node in tree.find_all(nodes.Macro)}
    names |= {node.target for node in tree.find_all(nodes.Import)}
    for node in tree.find_all(nodes.FromImport):
        names |= {each[1] if isinstance(each, tuple) else each for each in node.names}
    return frozenset(names)


class _Unknown(Struct, frozen=True):
    """A name that doesn't exist."""

    kind: str
    """What it should be: filter, test, function or variable."""
    name: str
    line: int
    suggestion: Suggestion


def _unknown(tree: nodes.Template, declared: frozenset[str]) -> Iterator[_Unknown]:
    accepted: set[int] = set()
    called: set[int] = set()
    for node in tree.find_all((nodes.Filter, nodes.Test)):
        is_filter = isinstance(node, nodes.Filter)
        if node.name in _GUARDS:
            accepted |= {id(each) for each in _subject(node)}
        if node.name not in (FILTERS | PLACING if is_filter else TESTS) and node.name not in REMOVED:
            suggestion = suggest_filter(node.name, FILTERS) if is_filter else suggest_test(node.name, TESTS)
            yield _Unknown("filter" if is_filter else "test", node.name, node.lineno, suggestion)
    called |= {id(node.node) for node in tree.find_all(nodes.Call)}
    for name in tree.find_all(nodes.Name):
        if name.ctx != "load" or name.name in declared or name.name in _KNOWN or name.name in _JINJA_NAMES:
            continue
        if name.name in REMOVED or (id(name) in accepted and not is_foreign(name.name)):
            continue
        kind = "function" if id(name) in called else "variable"
        suggestion = suggest_name(name.name, _KNOWN | declared, list_known=False)
        yield _Unknown(kind, name.name, name.lineno, suggestion)


def _subject(node: Any) -> Iterator[nodes.Node]:
    """The value that a filter or test is applied to, and the values around it: `a.b.c`, `a.b`, `a`."""
    inner: nodes.Node | None = node.node
    while inner is not None:
        yield inner
        inner = inner.node if isinstance(inner, (nodes.Getattr, nodes.Getitem)) else None


def _findings(unknown: Iterable[_Unknown], name: str, text: str) -> Iterator[Finding]:
    words = list(_words(name, text))
    lines = text.split("\n")
    for each in unknown:
        edits = tuple(_edits(each, words, lines[each.line - 1]))
        yield Finding(
            code=UNKNOWN_NAME,
            message=f"there is no {each.kind} {each.name}",
            location=SourceLocation(name, each.line),
            fix=each.suggestion.text,
            edits=edits,
            about=each.name if each.kind == "variable" else "",
        )


# Edits.


class _Word(Struct, frozen=True):
    """A name in the code of a template."""

    line: int
    column: int
    text: str
    before: str
    """The token before it."""


def _words(name: str, text: str) -> Iterator[_Word]:
    """The names in expressions and tags. The lexer leaves out only blanks, so each token is the next of its text."""
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    at, before = 0, ""
    for _, kind, value in Environment({}, str, queries_cluster=False).lex(text, name, name):
        if kind == "whitespace" or not value:
            continue
        at = text.index(value, at)
        if kind == "name":
            line = text.count("\n", 0, at)
            yield _Word(line + 1, at - starts[line], value, before)
        before = value
        at += len(value)


def _edits(unknown: _Unknown, words: Iterable[_Word], line: str) -> Iterator[Edit]:
    new = unknown.suggestion.rename
    if unknown.kind == "filter" and unknown.name == "quote" and _WHOLE_SCALAR.fullmatch(line):
        new = "string"
    before = {"filter": ("|", "filter"), "test": ("is", "not")}.get(unknown.kind)
    for word in words if new else ():
        if (
            word.line == unknown.line
            and word.text == unknown.name
            and (word.before in before if before else word.before != ".")
        ):
            yield Edit(column=word.column, old=unknown.name, new=new)
