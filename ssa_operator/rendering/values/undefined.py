"""Fields that are not there.

Promises:
- Using a missing field is an error that names it from the object down; passing it to `default` or asking `is defined`
  is not.
- A field below a missing one is missing too, so `spec.a.b | default(1)` works.
- `spec.labels.items()` works where there is no field `items`: a field beats the method of its name, and the method
  is what a call of the missing field means.
- A call of a method that would change a list or a mapping is an error that names what to write instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from jinja2 import StrictUndefined, TemplateRuntimeError, UndefinedError
from jinja2.utils import missing

from ssa_operator.core.objects.source_location import FieldPath, field_text
from ssa_operator.core.redaction.secret_values import HIDDEN

METHODS = frozenset({"items", "keys", "values", "get"})
"""Methods of mappings that a template may call."""

_OF_LISTS: Mapping[str, str] = {
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
_OF_MAPPINGS: Mapping[str, str] = {
    "clear": "{}",
    "pop": "dict(mapping | items | rejectattr(0, 'equalto', key))",
    "popitem": "dict(mapping | items | rejectattr(0, 'equalto', key))",
    "remove": "dict(mapping | items | rejectattr(0, 'equalto', key))",
    "setdefault": "dict({key: value}, **mapping)",
}
_OF_SETS = frozenset({"add", "difference_update", "intersection_update", "symmetric_difference_update"})

CHANGES = _OF_SETS.union(_OF_LISTS, _OF_MAPPINGS)
"""Methods of Python's lists, mappings and sets that change them."""


class ChangeError(TemplateRuntimeError):
    """A template tried to change a value in place."""


def refuse_change(owner: Any, name: object) -> None:
    """Raise ChangeError where the method `name` would change the list or mapping `owner`."""
    if name not in CHANGES or not isinstance(owner, (Mapping, list)):
        return
    if isinstance(owner, Mapping):
        kind, instead = "mapping", _OF_MAPPINGS.get(str(name), "dict(mapping, **other)")
    else:
        kind, instead = "list", _OF_LISTS.get(str(name), "list + [item]")
    raise ChangeError(
        f"{name} changes a {kind} in place, and values can't be changed in a template; write {instead}; to accumulate "
        "in a loop, use namespace()"
    )


class MissingFieldError(UndefinedError):
    """A missing field was used; `owner` lacks `path`."""

    def __init__(self, owner: Any, path: FieldPath, hint: str | None) -> None:
        super().__init__(hint or f"{field_text(path)} is missing")
        self.owner = owner
        self.path = path
        self.hint = hint


class Missing(StrictUndefined):
    """What stands for a missing field until it is used."""

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

    def nameless(self) -> Missing:
        """The same without the name of the field, which is a Secret's content."""
        return Missing(self._undefined_hint, self._undefined_obj, HIDDEN, self._undefined_exception)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The method of a mapping that the field is named after; where it is none, the field is just missing."""
        owner, name = self._undefined_obj, self._undefined_name
        if self.below:
            method = self.below[-1] in METHODS or self.below[-1] in CHANGES
            self._fail_at(self.below[:-1] if method else self.below)
        refuse_change(owner, name)
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


def path_of(owner: Any, root: Mapping[str, Any] | list[Any]) -> FieldPath | None:
    """Where the very mapping or list `owner` stands below `root`, None where it doesn't."""
    stack: list[tuple[Any, FieldPath]] = [(root, ())]
    while stack:
        value, path = stack.pop()
        if value is owner:
            return path
        if isinstance(value, Mapping):
            stack.extend((item, (*path, key)) for key, item in value.items() if isinstance(item, (Mapping, list)))
        else:
            stack.extend((item, (*path, at)) for at, item in enumerate(value) if isinstance(item, (Mapping, list)))
    return None
