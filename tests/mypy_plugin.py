"""A plugin of mypy: the two functions `replace`, of structs and of dataclasses, are told apart and checked alike.

msgspec annotates `msgspec.structs.replace(struct, **changes: Any)`. mypy has the signature of each struct's `replace`
already, because `Struct` is a `dataclass_transform`, but looks it up for `dataclasses.replace` only, which fails for a
struct when it runs.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import FunctionSigContext, Plugin
from mypy.plugins.dataclasses import replace_function_sig_callback
from mypy.types import FunctionLike, Instance, Type, TypeVarType, UnionType, get_proper_type


class StructPlugin(Plugin):
    """Gives `msgspec.structs.replace` the signature of the struct, and refuses a struct in `dataclasses.replace`."""

    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], FunctionLike] | None:
        """The signature of `replace` by its first argument; None for other functions."""
        return {"msgspec.structs.replace": _of_struct, "dataclasses.replace": _of_dataclass}.get(fullname)


def _of_struct(call: FunctionSigContext) -> FunctionLike:
    if call.args and call.args[0] and not all(map(_is_struct, _kinds(call))):
        return call.default_signature  # which refuses a dataclass
    return replace_function_sig_callback(call)


def _of_dataclass(call: FunctionSigContext) -> FunctionLike:
    if any(map(_is_struct, _kinds(call))):
        call.api.fail("this value is a struct; use `replace` of msgspec.structs", call.context)
    return replace_function_sig_callback(call)


def _kinds(call: FunctionSigContext) -> list[Type]:
    """The types that the first argument may have."""
    if not (call.args and call.args[0]):
        return []
    kind = get_proper_type(call.api.get_expression_type(call.args[0][0]))
    return list(kind.items) if isinstance(kind, UnionType) else [kind]


def _is_struct(annotation: Type) -> bool:
    kind = get_proper_type(annotation)
    if isinstance(kind, TypeVarType):
        return all(map(_is_struct, kind.values or [kind.upper_bound]))
    return isinstance(kind, Instance) and kind.type.has_base("msgspec.Struct")


def plugin(_: str) -> type[StructPlugin]:
    """The entry point that mypy looks for."""
    return StructPlugin
