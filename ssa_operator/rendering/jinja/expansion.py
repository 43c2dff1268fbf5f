"""Expands the templates of a folder without a parent: the text of all branches, macros and includes, and every lookup.

Promises:
- The text of every branch of a condition is part of the expansion, and each piece knows its branch.
- A loop over constants expands once for each item, any other loop once. A call of a macro expands the macro with the
  arguments of the call.
- An expression whose value is not known without a parent is a hole in the text.
- Everything that hides text of a template, such as an include with a computed name, is an UnknownPart.

How it works:
This is an interpreter of Jinja's syntax trees that takes every branch. `_on_<node>` expands a kind of statement or
expression that decides text. For any other node, the interpreter visits the children, so that their lookups are found,
and the value is UNKNOWN. A scope maps names to values (`possible_values`): the texts that an expression may give, the
output of a macro, the items of a list, a field of the parent, a macro, a module, or nothing that is known.

Text is added to `_pieces`, each piece with its branch: the numbers of the conditions around it, each with an arm. An
`if` expands each arm in a copy of the scope. Afterwards a name has the joined values of all copies. A macro's call is
expanded into a list of its own (`_captured`), so that its result can be assigned, filtered and printed as any other
value. A file that extends another one is expanded as that other one, with its own blocks in place.

A render chooses arms and repeats loops, so the text of its manifests consists of pieces of the expansion, with a value
in each hole. Where the interpreter can't follow the text, it reports an UnknownPart instead. `_STEPS_LIMIT` and
`_DEPTH_LIMIT` bound its work, and a macro or an include is expanded at most `_RECURSION_LIMIT` times within itself.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce

from jinja2 import nodes
from msgspec.structs import replace

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.objects.template_contents import PARENT_NAMESPACE, PossibleField, PossibleLookup, UnknownPart
from ssa_operator.rendering.jinja import filters
from ssa_operator.rendering.jinja.functions import VARIABLES
from ssa_operator.rendering.jinja.possible_values import (
    METHODS,
    PARENTS_NAMESPACE,
    UNKNOWN,
    AnyValue,
    Body,
    Branch,
    Entries,
    Fragment,
    Module,
    ParentField,
    Piece,
    PossibleItems,
    Scope,
    Texts,
    Value,
    bounded,
    concatenated,
    data_value,
    entries_of,
    in_arm,
    indented,
    known_texts,
    limited_texts,
    only_text,
    options_of,
    placed,
    replaced,
    split,
    text,
)
from ssa_operator.rendering.jinja.tags import return_value
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.values.line_marks import CLOSE, LINE, POP, PUSH

_MARK = re.compile(f"{LINE}([0-9]+)\\.([0-9]+){CLOSE}|[{PUSH}{POP}]")

_ITEMS_LIMIT = 64
"""Items for which a loop over constants is expanded one by one."""

_DEPTH_LIMIT = 32
"""Macros, includes and blocks within each other."""

_STEPS_LIMIT = 300_000
"""Statements, expressions and pieces of text of one file, with macros, loops and includes written out."""

_DIGITS = 10
"""Digits of a position in a list."""

_RECURSION_LIMIT = 2
"""How often a macro or an include is expanded within itself: its text is known by then."""


class ExpansionError(ValueError):
    """The templates are too large to be expanded."""


@dataclass(slots=True)
class Expansion:
    """The expansion of the files of one folder. `field_options` gives the values that a field of the parent may have,
    if its CRD lists them.
    """

    templates: Templates
    field_options: Callable[[tuple[str, ...]], frozenset[str] | None] = lambda _: None
    lookups: dict[PossibleLookup, None] = field(default_factory=dict)
    """The lookups of all expanded files."""
    fields: dict[PossibleField, None] = field(default_factory=dict)
    """The fields of the parent that all expanded files read."""
    unknown: dict[UnknownPart, None] = field(default_factory=dict)
    """What hides text or lookups."""
    generates: bool = False
    """Whether an expanded file generates values."""
    warns: bool = False
    """Whether an expanded file emits Events with `warn`."""
    conditions: list[int] = field(default_factory=list)
    """The arms of each condition by its number, the one that renders nothing included."""
    _pieces: list[Piece] = field(default_factory=list)
    _branch: Branch = ()
    _file: str = ""
    _line: SourceLocation = field(default_factory=lambda: SourceLocation("", 1))
    _modules: dict[str, Module] = field(default_factory=dict)
    _blocks: dict[str, list[tuple[str, nodes.Block]]] = field(default_factory=dict)
    _returned: list[Value] = field(default_factory=list)
    """What the macro that is being expanded may return."""
    _depth: int = 0
    _count: int = 0
    _active: Counter[object] = field(default_factory=Counter)
    """The macros and files that are being expanded, each with how often."""

    def expand(self, name: str) -> tuple[Piece, ...]:
        """The text of a file with all its branches. Raises ExpansionError."""
        if not name.endswith(".j2"):
            lines = self.templates.source(name).split("\n")
            return tuple(
                Piece(text=f"{line}\n", location=SourceLocation(name, number), branch=())
                for number, line in enumerate(lines, 1)
            )
        self._blocks, self._count, self._file = {}, 0, name
        self._branch, self._depth, self._active = (), 0, Counter()
        return self._captured(lambda: self._template(name, {}))

    # Files.

    def _template(self, name: str, scope: Scope) -> None:
        tree = self.templates.syntax_tree(name)
        for block in tree.find_all(nodes.Block):
            self._blocks.setdefault(block.name, []).append((name, block))
        extends = next(iter(tree.find_all(nodes.Extends)), None)
        if extends is None:
            self._body(tree.body, scope)
        else:
            # The child's own text is not rendered, but its imports and variables count.
            self._captured(lambda: self._body([each for each in tree.body if each is not extends], scope))
            for parent in self._files(extends.template, scope, extends.lineno):
                self._nested(partial(self._template, parent, scope), extends.lineno, parent)

    def _files(self, expression: nodes.Expr, scope: Scope, line: int) -> list[str]:
        """The files that an import or include may name."""
        value = self._visit(expression, scope)
        values = value.values if isinstance(value, PossibleItems) else (value,)
        found: list[str] = []
        for each in values:
            options, complete = (each.options, each.complete) if isinstance(each, Texts) else (frozenset[str](), False)
            if not complete:
                self._report("the name of the imported or included file is computed", line)
            found += [full for option in sorted(options) if (full := self.templates.full_name(option)) is not None]
        return found

    def _module(self, name: str, line: int) -> Module:
        if name not in self._modules:
            module = self._modules[name] = Module({})
            try:
                self._captured(lambda: self._nested(partial(self._template, name, module.scope), line, name))
            except ExpansionError:
                # The next file that imports it must not treat it as a file without these macros.
                del self._modules[name]
                raise
        return self._modules[name]

    # Statements.

    def _body(self, body: Sequence[nodes.Node], scope: Scope) -> None:
        for node in body:
            self._visit(node, scope)

    def _visit(self, node: nodes.Node, scope: Scope) -> Value:
        """Expand a statement, or an expression, whose value this returns."""
        self._step()
        handler: Callable[[nodes.Node, Scope], Value | None] | None
        handler = getattr(self, f"_on_{type(node).__name__.lower()}", None)
        if handler is not None:
            value = handler(node, scope)
            return UNKNOWN if value is None else value
        for child in node.iter_child_nodes():
            self._visit(child, scope)
        return UNKNOWN

    def _on_output(self, node: nodes.Output, scope: Scope) -> None:
        for child in node.nodes:
            if isinstance(child, nodes.TemplateData):
                self._text(child.data)
            else:
                self._emit(self._visit(child, scope), child)

    def _text(self, data: str) -> None:
        at = 0
        for mark in _MARK.finditer(data):
            self._add(Piece(text=data[at : mark.start()], location=self._line, branch=self._branch))
            at = mark.end()
            if mark[1]:
                self._line = SourceLocation(self.templates.file_names[int(mark[1])], int(mark[2]))
        self._add(Piece(text=data[at:], location=self._line, branch=self._branch))

    def _emit(self, value: Value, expression: nodes.Node) -> None:
        location = SourceLocation(self._file, expression.lineno)
        if isinstance(value, Fragment):
            for piece in value.pieces:
                self._add(replace(piece, branch=_merged(self._branch, piece.branch)))
        elif (known := only_text(value)) is not None:
            self._add(Piece(text=known, location=location, branch=self._branch))
        else:
            self._add(Piece(location=location, branch=self._branch, value=value, expression=expression))

    def _add(self, piece: Piece) -> None:
        if piece.text or piece.value is not None:
            self._step()
            self._pieces.append(piece)

    def _on_if(self, node: nodes.If, scope: Scope) -> None:
        arms = [(each.test, each.body) for each in (node, *node.elif_)]
        number = len(self.conditions)
        self.conditions.append(len(arms) + 1)
        scopes = [] if node.else_ else [scope]
        for test, _ in arms:
            self._visit(test, scope)
        bodies = [body for _, body in arms] + ([node.else_] if node.else_ else [])
        before = self._branch
        for arm, body in enumerate(bodies):
            self._branch = (*before, (number, arm))
            scopes.append(own := dict(scope))
            self._body(body, own)
        self._branch = before
        for name in {name for each in scopes for name in each}:
            values = [each.get(name, UNKNOWN) for each in scopes]
            scope[name] = values[0]
            for value in values[1:]:
                scope[name] = self._joined(scope[name], value)

    def _on_for(self, node: nodes.For, scope: Scope) -> None:
        value = self._visit(node.iter, scope)
        items = value.values if isinstance(value, PossibleItems) and len(value.values) <= _ITEMS_LIMIT else (UNKNOWN,)
        for item in items:
            own = dict(scope)
            self._assign(node.target, item, own)
            if node.test is not None:
                self._visit(node.test, own)
            self._body(node.body, own)
        self._body(node.else_, dict(scope))

    def _on_macro(self, node: nodes.Macro, scope: Scope) -> None:
        scope[node.name] = Body(
            self._file, tuple(each.name for each in node.args), tuple(node.defaults), node.body, scope
        )

    def _on_import(self, node: nodes.Import, scope: Scope) -> None:
        modules = [self._module(name, node.lineno) for name in self._files(node.template, scope, node.lineno)]
        scope[node.target] = modules[0] if len(modules) == 1 else UNKNOWN

    def _on_fromimport(self, node: nodes.FromImport, scope: Scope) -> None:
        modules = [self._module(name, node.lineno) for name in self._files(node.template, scope, node.lineno)]
        for each in node.names:
            name, alias = each if isinstance(each, tuple) else (each, each)
            scope[alias] = modules[0].scope.get(name, UNKNOWN) if len(modules) == 1 else UNKNOWN

    def _on_include(self, node: nodes.Include, scope: Scope) -> None:
        for name in self._files(node.template, scope, node.lineno):
            self._nested(partial(self._template, name, dict(scope)), node.lineno, name, name)

    def _on_block(self, node: nodes.Block, scope: Scope) -> None:
        """The block of the template that extends all others. `super()` is the block that it overrides."""
        (file, block), *overridden = self._blocks.get(node.name) or [(self._file, node)]
        own = dict(scope)
        for outer_file, outer in reversed(overridden):
            own = {**own, "super": Body(outer_file, (), (), outer.body, own)}
        self._nested(lambda: self._body(block.body, own), node.lineno, file)

    def _on_assign(self, node: nodes.Assign, scope: Scope) -> None:
        self._assign(node.target, self._visit(node.node, scope), scope)

    def _on_assignblock(self, node: nodes.AssignBlock, scope: Scope) -> None:
        value: Value = Fragment(self._captured(lambda: self._body(node.body, dict(scope))))
        if node.filter is not None:
            value = self._on_filter(node.filter, scope, value)
        self._assign(node.target, value, scope)

    def _on_filterblock(self, node: nodes.FilterBlock, scope: Scope) -> None:
        text = Fragment(self._captured(lambda: self._body(node.body, dict(scope))))
        self._emit(self._on_filter(node.filter, scope, text), node.filter)

    def _on_callblock(self, node: nodes.CallBlock, scope: Scope) -> None:
        caller = Body(self._file, tuple(each.name for each in node.args), tuple(node.defaults), node.body, scope)
        self._emit(self._on_call(node.call, scope, caller), node.call)

    def _on_with(self, node: nodes.With, scope: Scope) -> None:
        own = dict(scope)
        for target, value in zip(node.targets, node.values, strict=True):
            self._assign(target, self._visit(value, scope), own)
        self._body(node.body, own)

    def _assign(self, target: nodes.Node, value: Value, scope: Scope) -> None:
        if isinstance(target, nodes.Name):
            scope[target.name] = value
        elif isinstance(target, nodes.Tuple):
            values = value.values if isinstance(value, PossibleItems) else ()
            if len(values) != len(target.items):
                values = (UNKNOWN,) * len(target.items)
            for each, part in zip(target.items, values, strict=True):
                self._assign(each, part, scope)

    # Expressions.

    def _on_const(self, node: nodes.Const, _: Scope) -> Value:
        if node.value is None:
            return UNKNOWN
        return text(str(node.value).lower() if isinstance(node.value, bool) else str(node.value))

    def _on_name(self, node: nodes.Name, scope: Scope) -> Value:
        if node.name in scope:
            return scope[node.name]
        if node.name == "values":
            return data_value(self.templates.surroundings.values)
        if node.name == "operator":
            return data_value(self.templates.surroundings.operator)
        return self._field((node.name,), node.lineno) if node.name in VARIABLES else UNKNOWN

    def _field(self, path: tuple[str, ...], line: int) -> Value:
        path = path[1:] if path[0] == "object" and len(path) > 1 else path
        self.fields[PossibleField(path=path, location=SourceLocation(self._file, line))] = None
        if path in (("namespace",), ("metadata", "namespace")):
            return PARENTS_NAMESPACE
        options = self.field_options(path)
        return ParentField(path) if options is None else Texts(options)

    def _on_getattr(self, node: nodes.Getattr | nodes.Getitem, scope: Scope) -> Value:
        value = self._visit(node.node, scope)
        if isinstance(node, nodes.Getattr):
            name = node.attr
        else:
            key = only_text(self._visit(node.arg, scope))
            if key is None:
                return UNKNOWN
            name = key
        match value:
            case Module():
                return value.scope.get(name, UNKNOWN)
            case Entries():
                return value.get(name)
            case ParentField():
                return self._field((*value.path, name), node.lineno)
            case PossibleItems() if name.isdecimal() and len(name) < _DIGITS and int(name) < len(value.values):
                return value.values[int(name)]
        return UNKNOWN

    _on_getitem = _on_getattr

    def _on_concat(self, node: nodes.Concat, scope: Scope) -> Value:
        return concatenated([self._visit(each, scope) for each in node.nodes])

    def _on_add(self, node: nodes.Add, scope: Scope) -> Value:
        left, right = self._visit(node.left, scope), self._visit(node.right, scope)
        if isinstance(left, PossibleItems) and isinstance(right, PossibleItems):
            return bounded(PossibleItems((*left.values, *right.values)))
        return concatenated([left, right])

    def _on_condexpr(self, node: nodes.CondExpr, scope: Scope) -> Value:
        self._visit(node.test, scope)
        first = self._visit(node.expr1, scope)
        return self._joined(first, self._visit(node.expr2, scope) if node.expr2 is not None else text(""))

    def _on_or(self, node: nodes.Or, scope: Scope) -> Value:
        return self._joined(self._visit(node.left, scope), self._visit(node.right, scope))

    def _on_list(self, node: nodes.List | nodes.Tuple, scope: Scope) -> Value:
        return bounded(PossibleItems(tuple(self._visit(each, scope) for each in node.items)))

    _on_tuple = _on_list

    def _on_dict(self, node: nodes.Dict, scope: Scope) -> Value:
        entries = [(only_text(self._visit(each.key, scope)), self._visit(each.value, scope)) for each in node.items]
        known = tuple((key, value) for key, value in entries if key is not None)
        return bounded(Entries(known)) if len(known) == len(entries) else UNKNOWN

    def _on_filter(self, node: nodes.Filter, scope: Scope, text: Value = UNKNOWN) -> Value:
        """The value after a filter, or after those of a block with this text."""
        value = text
        if isinstance(node.node, nodes.Filter):
            value = self._on_filter(node.node, scope, text)
        elif node.node is not None:
            value = self._visit(node.node, scope)
        arguments = [self._visit(each, scope) for each in node.args]
        named = {str(each.key): self._visit(each.value, scope) for each in node.kwargs}
        self._spread(node, scope)
        match node.name:
            case "safe" | "string" | "to_yaml" | "tojson" | "list":
                return value
            case "from_yaml" | "merge" if isinstance(value, Fragment) and _is_manifest(value):
                return value
            case "default" | "d":
                return self._with_default(value, arguments)
            case "indent" if isinstance(value, Fragment):
                return indented(value, arguments, named)
            case filters.PLACE_ALL if isinstance(value, Fragment):
                return placed(value, arguments)
            case "trim" | filters.PLACE_FIRST | filters.PLACE_LINE if isinstance(value, Fragment):
                return value
            case "items" | "dictsort" if isinstance(value, Entries):
                return entries_of(value, "items")
            case "replace" if len(arguments) == 2 and not named:
                return replaced(value, arguments[0], arguments[1])
            case "lower" | "upper" | "capitalize" | "title" | "trim" if isinstance(value, Texts):
                change = {"trim": str.strip}.get(node.name) or getattr(str, node.name)
                return Texts(frozenset(map(change, value.options)), value.complete)
        return UNKNOWN

    def _spread(self, node: nodes.Call | nodes.Filter, scope: Scope) -> None:
        """Find the lookups in the arguments after `*` and `**`."""
        for extra in (node.dyn_args, node.dyn_kwargs):
            if extra is not None:
                self._visit(extra, scope)

    def _with_default(self, value: Value, arguments: Sequence[Value]) -> Value:
        default = arguments[0] if arguments else text("")
        if isinstance(value, AnyValue | ParentField):
            return Texts(default.options, complete=False) if isinstance(default, Texts) else UNKNOWN
        return value

    def _on_call(self, node: nodes.Call, scope: Scope, caller: Body | None = None) -> Value:
        arguments = [self._visit(each, scope) for each in node.args]
        named = {each.key: self._visit(each.value, scope) for each in node.kwargs}
        self._spread(node, scope)
        if isinstance(node.node, nodes.Name) and node.node.name not in scope:
            if node.node.name in ("lookup", "lookup_all"):
                self._lookup(node, arguments, named)
            self.generates = self.generates or node.node.name == "generated"
            self.warns = self.warns or node.node.name == "warn"
            return UNKNOWN
        if isinstance(node.node, nodes.Getattr) and node.node.attr in METHODS:
            found = self._visit(node.node.node, scope)
            if isinstance(found, Entries) and node.node.attr not in dict(found.values):
                return entries_of(found, node.node.attr)
            if node.node.attr == "split" and isinstance(found, Texts) and not named:
                return split(found, arguments)
        target = self._visit(node.node, scope)
        if isinstance(target, Body):
            return self._macro_result(target, arguments, named, caller, node.lineno)
        if isinstance(target, AnyValue) and _names_import(node.node, scope):
            self._report("the called macro is computed", node.lineno)
        return UNKNOWN

    def _macro_result(
        self, macro: Body, arguments: Sequence[Value], named: Mapping[str, Value], caller: Body | None, line: int
    ) -> Value:
        own: Scope = dict(macro.scope)
        first_default = len(macro.parameters) - len(macro.defaults)
        for position, name in enumerate(macro.parameters):
            if position < len(arguments):
                own[name] = arguments[position]
            elif name in named:
                own[name] = named[name]
            elif position >= first_default:
                own[name] = self._visit(macro.defaults[position - first_default], own)
            else:
                own[name] = UNKNOWN
        if caller is not None:
            own["caller"] = caller
        outer, self._returned = self._returned, []
        body = partial(self._body, macro.body, own)
        pieces = self._captured(lambda: self._nested(body, line, macro.file, id(macro.body)))
        found, self._returned = self._returned, outer
        # A macro that returns values writes text only where it ends without one.
        return reduce(self._joined, found) if found else Fragment(pieces)

    def _on_exprstmt(self, node: nodes.ExprStmt, scope: Scope) -> None:
        returned = return_value(node)
        value = self._visit(returned or node.node, scope)
        if returned is not None:
            self._returned.append(value)

    def _lookup(self, node: nodes.Call, positional: Sequence[Value], named: Mapping[str, Value]) -> None:
        everything = isinstance(node.node, nodes.Name) and node.node.name == "lookup_all"
        computed = node.dyn_args is not None or node.dyn_kwargs is not None

        def argument(position: int, name: str) -> Value | None:
            """None if the call has none."""
            return (
                positional[position] if position < len(positional) else named.get(name, UNKNOWN if computed else None)
            )

        location = SourceLocation(self._file, node.lineno)
        api_versions, kinds = argument(0, "apiVersion"), argument(1, "kind")
        for value, what in ((api_versions, "apiVersion"), (kinds, "kind")):
            if not (isinstance(value, Texts) and value.complete):
                self.unknown[UnknownPart(f"the {what} of this lookup is computed", location)] = None
        # One namespace may be a constant and another one computed: `namespace=spec.x | default("a")`.
        namespaces = known_texts(argument(3, "namespace"), PARENT_NAMESPACE)
        if (chosen := argument(5, "namespaces")) is not None and everything:
            namespaces = self._chosen_namespaces(chosen, location)
        names = (None,) if everything else known_texts(argument(2, "name"), None)
        for api_version, kind in itertools.product(options_of(api_versions), options_of(kinds)):
            group_kind = GroupKind.of(api_version, kind)
            for name, namespace in itertools.product(names, namespaces):
                self._step()
                found = PossibleLookup(
                    group_kind=group_kind, location=location, name=name, namespace=namespace, selects=everything
                )
                self.lookups[found] = None

    def _chosen_namespaces(self, chosen: Value, location: SourceLocation) -> tuple[str | None, ...]:
        """The namespaces of a `lookup_all`, None for any other. What may be a selector reads Namespaces, too."""
        if isinstance(chosen, Texts):
            return known_texts(chosen, None)
        if isinstance(chosen, PossibleItems):
            return tuple({name for each in chosen.values for name in known_texts(each, None)})
        namespace = GroupKind("", "Namespace")
        selection = PossibleLookup(group_kind=namespace, location=location, name=None, namespace="", selects=True)
        self.lookups[selection] = None
        return ("",)

    # Helpers.

    def _step(self) -> None:
        self._count += 1
        if self._count > _STEPS_LIMIT:
            raise ExpansionError("the text with all macros, loops and includes written out is too large")

    def _joined(self, one: Value, other: Value) -> Value:
        """The value that is one of two."""
        if one == other or one is other:
            return one
        if isinstance(one, Fragment) and isinstance(other, Fragment):
            number = len(self.conditions)
            self.conditions.append(2)
            return Fragment((*in_arm(one, (number, 0)), *in_arm(other, (number, 1))))
        if isinstance(one, Texts) and isinstance(other, Texts):
            return limited_texts(one.options | other.options, one.complete and other.complete)
        known = one if isinstance(one, Texts) else other
        return Texts(known.options, complete=False) if isinstance(known, Texts) else UNKNOWN

    def _captured(self, work: Callable[[], None]) -> tuple[Piece, ...]:
        """The pieces that `work` adds."""
        before, self._pieces = self._pieces, []
        work()
        found, self._pieces = self._pieces, before
        return tuple(found)

    def _nested(self, work: Callable[[], None], line: int, file: str, active: object = None) -> None:
        """Expand a macro, an include or a block of a file; `active` identifies what must not be within itself too
        often.
        """
        if active is not None and self._active[active] >= _RECURSION_LIMIT:
            return
        if self._depth >= _DEPTH_LIMIT:
            self._report("macros or includes call each other too deeply", line)
            return
        self._depth += 1
        self._active[active] += 1
        before, self._file = (self._file, self._line), file
        work()
        self._file, self._line = before
        self._active[active] -= 1
        self._depth -= 1

    def _report(self, message: str, line: int) -> None:
        self.unknown[UnknownPart(message, SourceLocation(self._file, line))] = None


def _names_import(node: nodes.Node, scope: Scope) -> bool:
    """Whether an expression names something in an imported file: `neon.request`, or a name that an import gives."""
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        node = node.node
        if isinstance(node, nodes.Name) and isinstance(scope.get(node.name), Module):
            return True
    return False


def _is_manifest(text: Fragment) -> bool:
    """Whether a text is that of whole manifests. The text of a part would be at the wrong indentation in other text."""
    written = "".join(piece.text for piece in text.pieces)
    return all(re.search(rf"^{key}:", written, re.MULTILINE) for key in ("apiVersion", "kind"))


def _merged(outer: Branch, inner: Branch) -> Branch:
    return outer if inner == outer else (*outer, *(each for each in inner if each not in outer))
