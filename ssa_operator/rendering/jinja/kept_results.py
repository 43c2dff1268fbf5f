"""Keeps the modules of imported files, and the results of their macros, for the length of one render.

Promises:
- A file that others import is evaluated once a render, and a macro of it once for the same arguments.
- The rendered bytes, the dependencies, the waits, the secrecy and the origins are those without kept results.
- What can change, or generates a value, is not kept: a file with a namespace, a cycler or a generator of items, and a
  macro that is called with one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from jinja2 import Template
from jinja2.environment import TemplateModule
from jinja2.runtime import Context, Macro
from msgspec import Struct

from ssa_operator.objects.annotations import Reference
from ssa_operator.rendering.values.template_text import Json, Text, TrackedPiece, ValuePiece, YamlText
from ssa_operator.rendering.values.tracked_values import Provenance, TrackedValue, UnknownValue

RESULTS_LIMIT = 4096
"""Results of macros that are kept."""

_PARTS_LIMIT = 1000
"""Parts of a value that are read to find out whether it can change."""

_WRITTEN = frozenset({"_block_vars", "_loop_vars"})
"""Arguments that Jinja adds to a call, and that no macro reads."""


class _Kept(Struct, frozen=True):
    """A module or the result of a macro. While it is kept, so are the values by whose identity it is found."""

    result: Any
    given: Sequence[Any]
    """The variables of the module, or the arguments of the macro."""
    reads: tuple[Provenance, ...]
    """What it read for the whole file."""


class KeptResults:
    """The modules and results of one render, whose file in progress has this provenance."""

    __slots__ = ("_file_provenance", "_macros", "_modules", "_results", "unrepeatable")

    def __init__(self, file_provenance: list[Provenance]) -> None:
        self._file_provenance = file_provenance
        self._modules: dict[Template, _Kept] = {}
        self._macros: dict[int, Macro] = {}
        self._results: dict[tuple[Any, ...], _Kept] = {}
        self.unrepeatable = 0
        """How often the templates called a function whose result depends on more than its arguments."""

    def module(self, template: Template, variables: Mapping[str, Any]) -> TemplateModule:
        """The module of an imported file."""
        given = tuple(variables.values())
        known = self._modules.get(template)
        if known is not None and all(one is other for one, other in zip(known.given, given, strict=True)):
            self._read(known.reads)
            kept: TemplateModule = known.result
            return kept
        context = template.new_context({**variables})
        module: TemplateModule
        module, reads = self._recorded(lambda: TemplateModule(template, context))
        if reads is not None and known is None and self._is_constant([*context.vars.values()], template):
            self._modules[template] = _Kept(module, given, reads)
            self._macros |= {id(each): each for each in context.vars.values() if type(each) is Macro}
        return module

    def has(self, macro: Macro) -> bool:
        """Whether results of a macro may be kept."""
        return id(macro) in self._macros

    def call(self, macro: Macro, args: Sequence[Any], kwargs: Mapping[str, Any], call: Callable[[], Any]) -> Any:
        """What a call of a macro gives."""
        key: list[Any] = [id(macro)]
        given = [*args]
        for arg in args:
            if not _add_key(arg, key):
                return call()
        for name, arg in kwargs.items():
            if name not in _WRITTEN:
                key.append((name,))
                given.append(arg)
                if not _add_key(arg, key):
                    return call()
        found = tuple(key)
        known = self._results.get(found)
        if known is not None:
            self._read(known.reads)
            return known.result
        result, reads = self._recorded(call)
        if reads is not None and len(self._results) < RESULTS_LIMIT and self._is_constant([result]):
            self._results[found] = _Kept(result, given, reads)
        return result

    def _recorded(self, evaluate: Callable[[], Any]) -> tuple[Any, tuple[Provenance, ...] | None]:
        """The result of an evaluation, and what it read for the whole file; None if it can't be repeated."""
        provenance, before = self._file_provenance, self.unrepeatable
        known = len(provenance)
        provenance.append(_START)  # what was just read is recorded again
        try:
            result = evaluate()
        finally:
            reads = tuple(provenance[known + 1 :])
            del provenance[known:]
            self._read(reads)
        return result, reads if self.unrepeatable == before else None

    def _read(self, reads: tuple[Provenance, ...]) -> None:
        """Record what the file read, unless it has just read the same."""
        if reads and self._file_provenance[-len(reads) :] != [*reads]:
            self._file_provenance += reads

    def _is_constant(self, values: list[Any], template: Template | None = None) -> bool:
        """Whether no use changes these values: those at the top of this template's file."""
        for count, value in enumerate(values):
            kind = type(value)
            if count > _PARTS_LIMIT:
                return False
            if kind is dict:
                values += (*value.keys(), *value.values())
            elif kind in (list, tuple):
                values += value
            elif kind is TrackedValue:
                if value.bodies is None and type(value.value) not in _SCALARS and type(value.value) not in _DATA:
                    return False
            elif kind is Macro:
                own = template is not None and value._func.__globals__ is template.root_render_func.__globals__  # noqa: SLF001 - nothing else names its file
                if not own and id(value) not in self._macros:
                    return False
            elif kind is TemplateModule:
                if not any(value is kept.result for kept in self._modules.values()):
                    return False
            elif kind not in _SCALARS and kind is not UnknownValue:
                return False
        return True


_SCALARS = frozenset({bool, float, int, str, type(None), Text, Json, YamlText})
_DATA = frozenset({dict, list})


_START = Provenance(query=Reference("", ""), answer=None, file_provenance=[], read_unready=set())
"""Stands before what an evaluation reads."""


def _add_key(value: Any, key: list[Any]) -> bool:
    """Add to a key what identifies an argument. Returns False for one that may change, or that is not known."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        key.append((kind, value))
    elif kind is Text:
        for piece in value.pieces:
            if type(piece) is str or type(piece) is YamlText:
                key.append((type(piece), piece))
            elif type(piece) not in (ValuePiece, TrackedPiece) or not _add_key(piece.data, key):
                return False
        key.append(Text)
    elif kind is dict or kind is list:
        key.append(id(value))
    elif kind is TrackedValue and value.bodies is None and (type(value.value) in _DATA or type(value.value) is str):
        key.append((id(value.value), *map(id, value.provenance)))
    else:
        return False
    return True


kept_results: ContextVar[KeptResults | None] = ContextVar("ssa_operator_kept_results", default=None)
"""Those of the render in progress, None if it keeps none."""


def imported_module(template: Template, context: Context | None, keys: frozenset[str]) -> TemplateModule | None:
    """The module of a file that a template imports; None if the render in progress keeps none. `keys` are the names of
    the variables that it sees.
    """
    kept = kept_results.get()
    if kept is None or context is None or not keys:
        return None
    return kept.module(template, {name: context.parent[name] for name in keys})
