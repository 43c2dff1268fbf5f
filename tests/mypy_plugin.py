"""A plugin of mypy: it checks `replace` of a struct as it checks `replace` of a dataclass.

msgspec annotates `msgspec.structs.replace(struct, **changes: Any)`. mypy has the signature of each struct's `replace`
already, because `Struct` is a `dataclass_transform`, and looks it up for `dataclasses.replace` only.
"""

from __future__ import annotations

from collections.abc import Callable

from mypy.plugin import FunctionSigContext, Plugin
from mypy.plugins.dataclasses import replace_function_sig_callback
from mypy.types import FunctionLike, Instance, Type, TypeVarType, UnionType, get_proper_type


class StructPlugin(Plugin):
    """Gives `msgspec.structs.replace` the signature of the struct."""

    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], FunctionLike] | None:
        """The signature of `replace` by its first argument; None for other functions."""
        return _signature if fullname == "msgspec.structs.replace" else None


def _signature(call: FunctionSigContext) -> FunctionLike:
    if call.args and call.args[0] and not _is_struct(call.api.get_expression_type(call.args[0][0])):
        return call.default_signature  # which refuses a dataclass
    return replace_function_sig_callback(call)


def _is_struct(annotation: Type) -> bool:
    kind = get_proper_type(annotation)
    if isinstance(kind, UnionType):
        return all(map(_is_struct, kind.items))
    if isinstance(kind, TypeVarType):
        return all(map(_is_struct, kind.values or [kind.upper_bound]))
    return isinstance(kind, Instance) and kind.type.has_base("msgspec.Struct")


def plugin(_: str) -> type[StructPlugin]:
    """The entry point that mypy looks for."""
    return StructPlugin
