"""Missing fields: the value that stands for one until an expression uses it, and the error of that use.

Promises:
- The use of a missing field is an error that names the field with its path from the object down.
- `default` and `is defined` accept a missing field.
- A field below a missing one is missing too, so `spec.a.b | default(1)` works.
- A field hides the method of its name. `spec.labels.items()` calls the method only if there is no field `items`.
- A call of a method that would change a list or a mapping is an error that names the expression to write instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, TypeAlias

from jinja2 import StrictUndefined, TemplateRuntimeError, UndefinedError
from jinja2.utils import missing

from ssa_operator.objects.secret_fields import HIDDEN
from ssa_operator.objects.source_location import FieldPath, field_text

METHODS = frozenset({"items", "keys", "values", "get"})
"""Methods of mappings that a template may call."""

_LIST_ALTERNATIVES: Mapping[str, str] = {
    "append": "list + [item]",
    "clear": "[]",
    "discard": "list | reject('equalto', item) | list",
    "extend": "list + other",
    "insert": "list[:1] + [item] + list[1:]",
    "pop": "list[:-1]",
    "remove": "list | reject('equalto', item) | list",
    "reverse": "list | reverse | list",
    "sort": "list | sort",
    "update": "list + other",
}
_MAPPING_ALTERNATIVES: Mapping[str, str] = {
    "clear": "{}",
    "pop": "dict(mapping | items | rejectattr(0, 'equalto', key))",
    "popitem": "dict(mapping | items | rejectattr(0, 'equalto', key))",
    "remove": "dict(mapping | items | rejectattr(0, 'equalto', key))",
    "setdefault": "dict({key: value}, **mapping)",
}
_SET_METHODS = frozenset({"add", "difference_update", "intersection_update", "symmetric_difference_update"})

MUTATING_METHODS = _SET_METHODS.union(_LIST_ALTERNATIVES, _MAPPING_ALTERNATIVES)
"""Methods of Python's lists, mappings and sets that change them."""


class MutationError(TemplateRuntimeError):
    """A template tried to change a value in place."""


def refuse_mutation(owner: Any, name: object) -> None:
    """Raise MutationError if the method `name` would change the list or mapping `owner`."""
    if name not in MUTATING_METHODS or not isinstance(owner, (Mapping, list)):
        return
    if isinstance(owner, Mapping):
        kind, instead = "mapping", _MAPPING_ALTERNATIVES.get(str(name), "dict(mapping, **other)")
    else:
        kind, instead = "list", _LIST_ALTERNATIVES.get(str(name), "list + [item]")
    raise MutationError(
        f"{name} changes a {kind} in place, and values can't be changed in a template; write {instead}; to accumulate "
        "in a loop, use namespace()"
    )


class MissingFieldError(UndefinedError):
    """An expression used a missing field: `owner` has no `path`."""

    def __init__(self, owner: Any, path: FieldPath, hint: str | None) -> None:
        super().__init__(hint or f"{field_text(path)} is missing")
        self.owner = owner
        self.path = path
        self.hint = hint


class Missing(StrictUndefined):
    """Stands for a missing field until an expression uses it."""

    __slots__ = ("below",)

    def __init__(
        self,
        hint: str | None = None,
        obj: Any = missing,
        name: str | None = None,
        exc: type[TemplateRuntimeError] = UndefinedError,
        below: FieldPath = (),
    ) -> None:
        super().__init__(hint, obj, name, exc)
        self.below = below

    def field(self, name: str | int) -> Missing:
        """The field of a missing field."""
        return Missing(
            self._undefined_hint,
            self._undefined_obj,
            self._undefined_name,
            self._undefined_exception,
            (*self.below, name),
        )

    def without_name(self) -> Missing:
        """The same without the name of the field, because the name is a Secret's content."""
        return Missing(self._undefined_hint, self._undefined_obj, HIDDEN, self._undefined_exception)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the mapping's method of the same name. Raises MissingFieldError if there is no such method."""
        owner, name = self._undefined_obj, self._undefined_name
        if self.below:
            method = self.below[-1] in METHODS or self.below[-1] in MUTATING_METHODS
            self._fail_at(self.below[:-1] if method else self.below)
        refuse_mutation(owner, name)
        if isinstance(owner, Mapping) and name in METHODS:
            return getattr(owner, name)(*args, **kwargs)
        return self._fail()

    def _fail(self, *_: Any, **__: Any) -> NoReturn:
        self._fail_at(self.below)

    def _fail_at(self, below: FieldPath) -> NoReturn:
        name = () if self._undefined_name is None else (self._undefined_name,)
        raise MissingFieldError(self._undefined_obj, (*name, *below), self._undefined_hint)

    _fail_with_undefined_error = _fail
    __call__ = __getitem__ = __str__ = __iter__ = __len__ = __bool__ = __hash__ = __contains__ = __eq__ = __ne__ = _fail
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _fail
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pos__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = _fail
    __int__ = __float__ = __complex__ = __pow__ = __rpow__ = __index__ = _fail


Places: TypeAlias = dict[int, tuple[int, str | int] | None]
"""The mappings and lists of a value by their ids: the id of the one around each, and its name or position there."""


def places_in(root: Mapping[str, Any] | list[Any]) -> Places:
    """Where each mapping, list and string is in `root`."""
    stack: list[tuple[Any, tuple[int, str | int] | None]] = [(root, None)]
    found: Places = {}  # a list that a template made may contain another one many times
    while stack:
        value, place = stack.pop()
        own = id(value)
        if own in found:
            continue
        found[own] = place
        items: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, Mapping) else enumerate(value)
        for name, item in items:
            kind = type(item)
            if kind is dict or kind is list or (kind not in _SCALARS and isinstance(item, (Mapping, list))):
                stack.append((item, (own, name)))
            elif kind is str:
                found[id(item)] = own, name
    return found


def path_in(owner: Any, places: Places) -> FieldPath | None:
    """The path of the very mapping or list `owner`, None if it is not among these places."""
    path: list[str | int] = []
    at = id(owner)
    if at not in places:
        return None
    while (place := places[at]) is not None:
        at, name = place
        path.append(name)
    return tuple(reversed(path))


def path_of(owner: Any, root: Mapping[str, Any] | list[Any]) -> FieldPath | None:
    """The path of the very mapping or list `owner` below `root`, None if `root` doesn't contain it."""
    return path_in(owner, places_in(root))


_SCALARS = frozenset({bool, float, int, str, type(None)})
