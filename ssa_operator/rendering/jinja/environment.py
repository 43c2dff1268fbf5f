"""The Jinja environment: a sandbox that keeps values as data and counts every operation against the limits.

Promises:
- A field of a mapping hides the method of the same name; the use of a missing field is an error.
- A template can't reach Python's internals, change a value in place, or read a file outside of its folder.
- Every operator, call and loop counts against the render's budget.
- Jinja evaluates no expression while it compiles a template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MappingView, MutableMapping
from functools import cached_property, partial
from types import BuiltinMethodType, CodeType, GeneratorType, MethodType
from typing import TYPE_CHECKING, Any, NoReturn

from jinja2 import DictLoader, Template, TemplateRuntimeError, TemplateSyntaxError, nodes, pass_context
from jinja2.environment import TemplateModule
from jinja2.exceptions import SecurityError
from jinja2.ext import LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import BlockReference, Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace
from jinja2.visitor import NodeTransformer

from ssa_operator.rendering.jinja import compilation
from ssa_operator.rendering.jinja.compilation import ATTEMPT, CodeGenerator
from ssa_operator.rendering.jinja.filters import FILTERS, PLACING, TESTS, text_as_string
from ssa_operator.rendering.jinja.functions import (
    ACCEPTS_TRACKED,
    CLUSTER_FUNCTIONS,
    CLUSTER_VARIABLES,
    FUNCTIONS,
    SETTINGS,
    TRY,
    TRY_FORM,
    VARIABLES,
    attempt,
)
from ssa_operator.rendering.jinja.kept_results import imported_module, kept_results
from ssa_operator.rendering.jinja.line_tags import LineTags
from ssa_operator.rendering.jinja.method_calls import (
    bounded_format,
    call_string_method,
    check_method_call,
    checked_pairs,
    percent_format,
)
from ssa_operator.rendering.jinja.tags import DoTag, ReturnTag
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.limits import LimitError
from ssa_operator.rendering.values.manifest_values import (
    Stringlike,
    UnfitValueError,
    json_data,
    key_text,
    kind_of,
    text_of,
)
from ssa_operator.rendering.values.template_text import Indented, Json, Text, TrackedPiece, ValuePiece, concat
from ssa_operator.rendering.values.tracked_containers import traced_parts, track_container, track_data
from ssa_operator.rendering.values.tracked_values import (
    AwaitedError,
    TrackedValue,
    UnknownValue,
    call_tracked,
    is_tracked,
    mark_source,
    untracked,
)
from ssa_operator.rendering.values.undefined import Missing, refuse_mutation
from ssa_operator.rendering.values.value_size import check_hash, compared, size_of

if TYPE_CHECKING:
    from ssa_operator.rendering.jinja.coverage import TemplateCoverage


@pass_context
def finalize(_: Context, value: Any) -> Any:
    """The piece of output that `{{ value }}` writes. It takes the context so that Jinja doesn't fold constants."""
    kind = type(value)
    if kind is str or kind is Indented:
        if not value.isascii():
            json_data(str(value))
        return ValuePiece(value)
    if kind is Text:
        return value.marked_as_included()
    if kind is Json:
        return value
    if kind is int or kind is bool or value is None:
        return ValuePiece(json_data(value))
    if kind is TrackedValue or kind is UnknownValue:
        return output_tracked(value)
    tracked: list[TrackedValue | UnknownValue] = []
    plain_data = json_data(value, 0, tracked)
    return TrackedPiece(_with_origins(track_data(plain_data, tracked), value)) if tracked else ValuePiece(plain_data)


_SHORT_SCALARS = frozenset({bool, float, int, type(None)})


def output_tracked(value: TrackedValue | UnknownValue) -> Any:
    """The piece of output that a value of the cluster writes."""
    if isinstance(value, UnknownValue):
        return TrackedPiece(value)
    if isinstance(value.value, Text):
        return value.read_untracked().marked_as_included()
    if isinstance(value.value, (Json, Indented)):
        return TrackedPiece(value)
    if type(value.value) in _SHORT_SCALARS or (type(value.value) is str and value.value.isascii()):
        json_data(value.value)
        return TrackedPiece(value)
    tracked: list[TrackedValue | UnknownValue] = [value]
    try:
        found = track_data(json_data(value.value, 0, tracked), tracked)
    except UnfitValueError as error:
        mark_source(error, value)
        raise
    return TrackedPiece(_with_origins(found, value.value) if len(tracked) > 1 else found)


def _with_origins(found: TrackedValue | UnknownValue, value: Any) -> TrackedValue | UnknownValue:
    """The plain data `found` of a mapping or list; in a traced render, each part of it has its own provenance."""
    if type(found) is not TrackedValue or not found.traced or any(source.lenient for source in found.provenance):
        return found
    return found.derive(traced_parts(value))


_SCOPES = ("_block_vars", "_loop_vars")
"""Arguments that Jinja adds to every call within a block or a loop, for functions that take the context."""


class _Context(Context):
    """A context whose variables imported files see, too: a macro of another file can read the parent."""

    def __init__(
        self,
        environment: Any,
        parent: dict[str, Any],
        name: str | None,
        blocks: dict[str, Any],
        globals: MutableMapping[str, Any] | None = None,  # noqa: A002 - the name is Jinja's
    ) -> None:
        super().__init__(environment, parent, name, blocks, globals)
        self.globals_keys = environment.shared_variables


class _Template(Template):
    """A template whose module, when another one imports it, is kept for the render."""

    def _get_default_module(self, ctx: Context | None = None) -> TemplateModule:
        environment: Environment = self.environment  # type: ignore[assignment]
        return imported_module(self, ctx, environment.imported_variables) or super()._get_default_module(ctx)


class _Transform(NodeTransformer):
    """Replaces the operations of Jinja that would mix text and values, or could run without end."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _operation("concatenate", node.nodes, node)

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.iter = _operation("loop_items", [node.iter], node)
        return node

    def visit_Call(self, node: nodes.Call) -> nodes.Node:  # noqa: N802
        # `namespace` is the parent's; `namespace(...)` is Jinja's way to a variable that outlives a loop.
        self.generic_visit(node)
        if isinstance(node.node, nodes.Name) and node.node.name == "namespace":
            node.node = nodes.EnvironmentAttribute("variables", lineno=node.lineno)
        if isinstance(node.node, nodes.Name) and node.node.name == TRY and node.node.ctx == "load":
            if len(node.args) != 1 or node.kwargs or node.dyn_args or node.dyn_kwargs:
                raise TemplateSyntaxError(TRY_FORM, node.lineno)
            node.node = nodes.EnvironmentAttribute(ATTEMPT, lineno=node.lineno)
        return _spread(node)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        if not isinstance(node.arg, nodes.Slice):
            return node
        bounds = [bound or nodes.Const(None) for bound in (node.arg.start, node.arg.stop, node.arg.step)]
        return _operation("sliced", [node.node, *bounds], node)

    def visit_Filter(self, node: nodes.Filter | nodes.Test) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _spread(node)

    visit_Test = visit_Filter  # noqa: N815

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> nodes.Node:  # noqa: N802
        # `{% filter f %}` writes the result of f as it is; through `{{ }}`, a value stays a value.
        self.generic_visit(node)
        name = "_filtered"
        innermost = node.filter
        while isinstance(innermost.node, nodes.Filter):
            innermost = innermost.node
        innermost.node = nodes.Name(name, "load", lineno=node.lineno)
        body = nodes.AssignBlock(nodes.Name(name, "store", lineno=node.lineno), None, node.body, lineno=node.lineno)
        return nodes.Scope([body, nodes.Output([node.filter], lineno=node.lineno)], lineno=node.lineno)

    def visit_ScopedEvalContextModifier(self, node: nodes.ScopedEvalContextModifier) -> NoReturn:  # noqa: N802
        raise TemplateSyntaxError("{% autoescape %} is for HTML; manifests need no escaping", node.lineno)


def _operation(name: str, args: list[Any], at: nodes.Node) -> nodes.Call:
    return nodes.Call(nodes.EnvironmentAttribute(name, lineno=at.lineno), args, [], None, None, lineno=at.lineno)


def _spread(node: nodes.Call | nodes.Filter | nodes.Test) -> nodes.Node:
    """The call, with the environment's own operations on the values after `*` and `**`."""
    if node.dyn_args is not None:
        node.dyn_args = _operation("spread_list", [node.dyn_args], node)
    if node.dyn_kwargs is not None:
        name = "spread_mapping" if isinstance(node, nodes.Call) else "spread_into_filter"
        node.dyn_kwargs = _operation(name, [node.dyn_kwargs], node)
    return node


_SHORT = 64
"""Entries of a short list, or characters of a short text."""

_MAKE_BYTES = frozenset({"encode", "from_bytes", "to_bytes"})

_SPREAD = "\ud800"
"""The argument with the whole mapping after `**` if it comes from the cluster. It is not valid text, so that no object
has a field of this name.
"""


class Environment(ImmutableSandboxedEnvironment):
    """The environment of one set of templates; `numbers` has the number of each template in line marks."""

    code_generator_class = CodeGenerator
    concat = staticmethod(concat)  # type: ignore[assignment]
    variables = Namespace
    compared = staticmethod(compared)
    attempt = staticmethod(attempt)
    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})
    context_class = _Context
    template_class = _Template

    def __init__(
        self,
        sources: Mapping[str, str],
        resolve_name: Callable[[str], str],
        queries_cluster: bool,
        coverage: TemplateCoverage | None = None,
    ) -> None:
        """`sources` are template texts by name; `resolve_name` returns the full name of an imported template;
        `queries_cluster` is whether one of them calls a function that queries the cluster; `coverage` records what
        renders reach.
        """
        super().__init__(
            extensions=[LineTags, LoopControlExtension, ReturnTag, DoTag],
            undefined=Missing,
            finalize=finalize,
            autoescape=False,
            optimized=False,
            keep_trailing_newline=True,
            cache_size=-1,
            loader=DictLoader(sources),
        )
        self.sources = sources
        self.numbers = {name: number for number, name in enumerate(sources)}
        self._resolve_name = resolve_name
        self._coverage = coverage
        self._trees: dict[str, nodes.Template] = {}
        self.filters = {**FILTERS, **PLACING}
        self.tests = dict(TESTS)
        self.globals = dict(FUNCTIONS)
        own = VARIABLES | SETTINGS
        self.shared_variables = own | CLUSTER_FUNCTIONS | CLUSTER_VARIABLES if queries_cluster else own

    @cached_property
    def imported_variables(self) -> frozenset[str]:
        """The variables that an imported file has of the file that imports it."""
        return self.shared_variables - self.globals.keys()

    def compile_next(self, name: str, tree: nodes.Template) -> None:
        """Let the next compilation of a template take this tree, and change it, in place of parsing the text again."""
        self._trees[name] = tree

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = self._trees.pop(name or "", None)
        if tree is not None:
            return tree
        return compilation.parse(lambda: Parser(self, source, name, filename), source)

    def _compile(self, source: str, filename: str) -> CodeType:
        with compilation.compiling(source):
            return super()._compile(source, filename)

    def join_path(self, template: str, _: str) -> str:
        return self._resolve_name(template)

    def _generate(
        self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False
    ) -> str:
        if self._coverage is not None and name is not None:
            from ssa_operator.rendering.jinja.coverage import mark_template  # noqa: PLC0415

            source = mark_template(source, name, self._coverage)
        changed = _Transform().visit(source)
        changed.set_environment(self)
        return super()._generate(changed, name, filename, defer_init)

    def getattr(self, obj: Any, attribute: str) -> Any:
        if type(obj) is dict:
            try:
                return obj[attribute]
            except KeyError:
                return self._missing(obj, attribute)
        if type(obj) is TrackedValue:
            return obj.field_value(self.getattr(obj.value, attribute), attribute)
        if type(obj) is TemplateModule and type(found := obj.__dict__.get(attribute)) is Macro:
            return found
        if isinstance(obj, Missing):
            return self._missing(obj, attribute)
        if isinstance(obj, Mapping):
            return obj[attribute] if attribute in obj else self._missing(obj, attribute)
        if attribute[:2] == "__":
            self.unsafe_undefined(obj, attribute)
        if type(obj) is Text:
            return self.getattr(text_as_string(obj), attribute)
        return super().getattr(text_as_string(obj), attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        argument = text_as_string(argument)
        if isinstance(argument, (list, dict)):
            raise TemplateRuntimeError(f"{kind_of(argument)} can't name a field or an item")
        if type(argument) is TrackedValue and isinstance(obj, UnknownValue):
            self._check_name(obj, argument.value)
            return obj.field_named_by(argument)
        if type(argument) is TrackedValue or isinstance(argument, UnknownValue):
            found = call_tracked(self.getitem, (obj, argument), {})
            hidden = isinstance(found, UnknownValue) and type(argument) is TrackedValue and argument.secret
            return found.without_name() if hidden else found
        if isinstance(argument, Missing):
            str(argument)
        if type(argument) is tuple:
            check_hash(argument)
        if type(obj) is TrackedValue:
            return obj.field_value(self.getitem(obj.value, argument), argument)
        if isinstance(obj, Missing):
            return self._missing(obj, argument)
        if isinstance(obj, Mapping):
            try:
                return obj[argument]
            except (KeyError, TypeError):
                return self._missing(obj, argument)
        if type(obj) is Text:
            return self.getitem(text_as_string(obj), argument)
        if isinstance(obj, type):
            self.unsafe_undefined(obj, str(argument))
        return super().getitem(text_as_string(obj), argument)

    def _missing(self, obj: Any, name: Any) -> Missing:
        self._check_name(obj, name)
        return obj.field(name) if isinstance(obj, Missing) else Missing(None, obj, name)

    def _check_name(self, obj: Any, name: Any) -> None:
        if isinstance(name, str) and name[:2] == "__":
            self.unsafe_undefined(obj, name)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        # The method of a class can change any value of it: dict.update(spec, a=1). Bytes grow outside of the limits.
        makes_bytes = isinstance(obj, (str, int)) and attr in _MAKE_BYTES
        return not isinstance(obj, type) and not makes_bytes and super().is_safe_attribute(obj, attr, value)

    def unsafe_undefined(self, obj: Any, attribute: str) -> NoReturn:
        refuse_mutation(obj, attribute)
        raise SecurityError(f"{attribute} is not accessible to templates: it leads out of the data into Python")

    def get_or_select_template(self, template_name_or_list: Any, *args: Any, **kwargs: Any) -> Template:
        name = template_name_or_list
        return super().get_or_select_template(
            name.read_untracked() if type(name) is TrackedValue else name, *args, **kwargs
        )

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        if type(obj) is MethodType and obj.__self__ is self:
            return obj(*args)  # one of `_operation`'s: it resolves its arguments itself
        limits.current().step()
        if _SPREAD in kwargs:
            return self._call_spread(context, obj, args, kwargs, kwargs.pop(_SPREAD))
        if isinstance(obj, (Macro, LoopContext)):
            kept = kept_results.get()
            if kept is not None and type(obj) is Macro and kept.has(obj):
                result = kept.call(obj, args, kwargs, lambda: context.call(obj, *args, **kwargs))
            else:
                result = context.call(obj, *args, **kwargs)
            # `{% call %}` writes the result without `{{ }}`, which would mark it.
            return finalize(context, result) if "caller" in kwargs else result
        if isinstance(kwargs.get("caller"), Macro) and not isinstance(obj, Missing):
            raise TemplateRuntimeError("{% call %} calls a macro, and this is not a macro")
        args = tuple([text_as_string(arg) for arg in args])
        if isinstance(obj, Missing):
            for arg in args:
                check_hash(arg)
            return obj.call(*args, **_written_arguments(kwargs))
        kwargs = {name: text_as_string(arg) for name, arg in kwargs.items()}
        if isinstance(obj, BlockReference):
            return context.call(obj, *args, **kwargs)
        if isinstance(obj, BuiltinMethodType) and obj.__name__ == "join":
            args = tuple([_joinable(arg) for arg in args])
        if type(obj) is TrackedValue or (
            (is_tracked(args) or (kwargs and is_tracked(kwargs.values())))
            and not hasattr(obj, ACCEPTS_TRACKED)
            and obj is not Namespace
        ):
            return call_tracked(partial(self.call, context), (obj, *args), kwargs)
        try:
            return self._call_plain(context, obj, args, kwargs)
        except AwaitedError as error:
            return error.unknown

    def _call_plain(self, context: Context, obj: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function with plain values, after what it reads is known to be within the limits."""
        if isinstance(obj, BuiltinMethodType):
            if isinstance(obj.__self__, str):
                return call_string_method(obj, args, _written_arguments(kwargs))
            check_method_call(obj, args)
        if not callable(obj):
            message = f"{kind_of(obj)} can't be called; a field beats the method of its name"
            raise TemplateRuntimeError(message)
        if obj is dict and args:
            limits.current().produce(limits.size_of(args[0]))
            args = (args[0] if isinstance(args[0], Mapping) else checked_pairs(args[0]), *args[1:])
        elif type(obj) is MethodType and isinstance(obj.__self__, LoopContext):
            limits.current().read(size_of(args).total)  # loop.changed compares them
        return super().call(context, obj, *args, **kwargs)

    def _call_spread(
        self,
        context: Context,
        obj: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        spread: TrackedValue | UnknownValue,
    ) -> Any:
        """A call with `**` and a mapping of the cluster. The result is tracked even if the mapping is empty."""
        if isinstance(obj, (Macro, LoopContext)) or obj is Namespace:
            # The template text of a macro is known only after the call.
            _track_in_file(spread)
            return self.call(context, obj, *args, **kwargs)
        return call_tracked(lambda _, /, *own, **named: self.call(context, *own, **named), (spread, obj, *args), kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """The function that a template calls as `text.format`."""
        if isinstance(value, BuiltinMethodType) and value.__name__ in ("format", "format_map"):
            text = value.__self__
            if isinstance(text, str):
                return bounded_format(self, text, mapping=value.__name__ == "format_map")
        return None

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        try:
            left, right = text_as_string(left), text_as_string(right)
        except AwaitedError as error:
            return error.unknown
        if is_tracked((left, right)):
            return call_tracked(partial(self.call_binop, context, operator), (left, right), {})
        budget = limits.current()
        sized = (str, list, tuple)
        for operand in (left, right):
            if type(operand) is int:
                limits.check_number(operand)
            elif isinstance(operand, MappingView):
                check_hash(operand)
        match operator:
            case "+" if isinstance(left, sized) and isinstance(right, sized):
                budget.produce(limits.size_of(left) + limits.size_of(right))
            case "*" if isinstance(left, sized) and isinstance(right, int):
                budget.produce(limits.size_of(left) * max(right, 0))
            case "*" if isinstance(right, sized) and isinstance(left, int):
                budget.produce(limits.size_of(right) * max(left, 0))
            case "%" if isinstance(left, str):
                return percent_format(left, right)
            case "*" if isinstance(left, int) and isinstance(right, int):
                _check_bits(left.bit_length() + right.bit_length())
            case "**" if isinstance(left, int) and isinstance(right, int):
                _check_bits(max(left.bit_length() - 1, 0) * right if abs(left) > 1 else 0)
            case _:
                budget.step()
        result = super().call_binop(context, operator, left, right)
        # A difference of keys or items is a set in Python, whose order differs between processes.
        return [item for item in dict.fromkeys(left) if item in result] if isinstance(result, set) else result

    def built(self, value: Any) -> Any:
        """The list, tuple or mapping that a template writes out."""
        budget = limits.current()
        if len(value) < _SHORT:
            budget.spend(_SHORT)
        else:
            budget.produce(limits.size_of(value))
        return value

    def key(self, value: Any) -> Any:
        """The key of a mapping that a template writes out."""
        check_hash(value)
        return value

    def sliced(self, value: Any, *bounds: Any) -> Any:
        """The part of a text or a list from a position on, before another one, in steps."""
        part = slice(*bounds)
        if (type(value) is str or type(value) is list) and len(value) < _SHORT:
            limits.current().spend(_SHORT)
            return value[part]
        whole = untracked(value)
        if isinstance(whole, Stringlike):
            whole = str(whole)
        if isinstance(whole, (str, list, tuple)):
            is_known = not is_tracked(bounds) and not any(isinstance(bound, Missing) for bound in bounds)
            taken = len(range(len(whole))[part] if is_known else whole)
            limits.current().produce(taken * (1 if isinstance(whole, str) else limits.ENTRY_SIZE))
        return value[part]

    def reached(self, mark: int) -> None:
        """Record that the render reached a mark of the coverage."""
        if self._coverage is not None:
            self._coverage.reach(mark)

    def reached_value(self, mark: int, value: Any) -> Any:
        """The value of an arm of `a if b else c`, whose mark the render reached."""
        self.reached(mark)
        return value

    def loop_items(self, iterable: Any) -> Iterator[Any]:
        """The items of a `{% for %}`; each one counts as a step."""
        limits.current().step()
        return limits.counted(text_as_string(iterable))

    def spread_list(self, value: Any) -> list[Any]:
        """The arguments that `*` adds to a call."""
        value = text_as_string(value)
        listable = (list, tuple, range, MappingView, GeneratorType, Missing)  # Missing raises its own error
        if not isinstance(untracked(value), listable):
            raise TemplateRuntimeError(f"* needs a list, and this is {kind_of(untracked(value))}")
        return [*limits.counted(value)]

    def spread_mapping(self, value: Any) -> dict[str, Any]:
        """The arguments that `**` adds to a call."""
        value = text_as_string(value)
        if isinstance(value, UnknownValue):
            return {_SPREAD: value}
        if isinstance(value, Missing):
            str(value)
        mapping = untracked(value)
        if not isinstance(mapping, Mapping):
            raise TemplateRuntimeError(f"** needs a mapping, and this is {kind_of(mapping)}")
        limits.current().produce(limits.size_of(mapping))
        found = {key_text(key): item for key, item in mapping.items()}
        if type(value) is not TrackedValue:
            return found
        return {
            **{key: call_tracked(untracked, (item,), {}, value.provenance) for key, item in found.items()},
            _SPREAD: value,
        }

    def spread_into_filter(self, value: Any) -> dict[str, Any]:
        """The arguments that `**` adds to a filter or a test; the whole file depends on a mapping of the cluster."""
        found = self.spread_mapping(value)
        if _SPREAD in found:
            _track_in_file(found.pop(_SPREAD))
        return found

    def concatenate(self, *parts: Any) -> Any:
        """The result of `a ~ b`: a value, never template text; each part as text."""
        parts = tuple([track_container(text_as_string(part)) for part in parts])
        if is_tracked(parts):
            return call_tracked(self.concatenate, parts, {})
        limits.current().step()
        try:
            texts = [text_of(part) for part in parts]
        except AwaitedError as error:
            return error.unknown
        limits.current().produce(sum(map(len, texts)))
        return "".join(texts)


def _track_in_file(value: TrackedValue | UnknownValue) -> None:
    """Make the whole file depend on a value. Raises AwaitedError if it is unknown and the render is not lenient."""
    if isinstance(value, TrackedValue):
        value.read_untracked(by_control=True)
    elif not value.lenient:
        raise AwaitedError(value)


def _written_arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments that the template wrote, without those that Jinja adds."""
    return {name: arg for name, arg in kwargs.items() if name not in _SCOPES} if kwargs else kwargs


def _joinable(value: Any) -> Any:
    """The items that `join` gets: template text as strings, and the whole tracked if an item is."""
    return track_container([text_as_string(item) for item in value] if type(value) is list else value)


def _check_bits(bits: int) -> None:
    if bits > limits.INTEGER_BITS:
        raise LimitError(f"a number of {bits} bits is too large")
