"""Values that a template read of the cluster: they carry where they came from.

Promises:
- What is computed of an observed value carries the same origins; what is computed of an unknown one is unknown.
- A field that the cluster does not have (yet) is unknown and not an error; `default` and `is defined` work on it.
- A child that is not ready has its live values, also through operators and filters: `default` and `is defined` see
  them, and everything else waits for the child.
- Where control flow depends on an unknown value, the whole file does: AwaitedError leaves the template. In a lenient
  render nothing leaves it: there an unknown value is false and empty.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import GeneratorType
from typing import Any, TypeAlias

from jinja2 import TemplateRuntimeError
from jinja2.exceptions import SecurityError
from jinja2.utils import missing

from ssa_operator.core.objects.cluster_view import Lookup, Query, Selection
from ssa_operator.core.objects.render_result import WaitTarget
from ssa_operator.core.objects.source_location import FieldPath, SourceLocation
from ssa_operator.rendering.values.limits import LimitError
from ssa_operator.rendering.values.undefined import METHODS, Missing, MissingFieldError, path_of, refuse_change


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Provenance:
    """One answer of the cluster: what was asked for and the live body, None where there is none.

    branches: what the control flow of the file depends on so far; a source adds itself. taken: the questions of the
    render whose answers are taken as they are, by `default` or `is defined`. awaited: whether what is made
    of it waits. lenient: whether nothing waits. unready: whether the object is there and can't be read yet. unanswered:
    whether it isn't known if the object is there. place: the template line that asked.
    """

    query: Query
    body: Any
    branches: list[Provenance]
    read_unready: set[Query]
    awaited: bool = True
    lenient: bool = False
    unready: bool = False
    unanswered: bool = False
    location: SourceLocation | None = None


Sources: TypeAlias = tuple[Provenance, ...]


class AwaitedError(TemplateRuntimeError):
    """A template can't go on without a value that is unknown."""

    def __init__(self, unknown: UnknownValue) -> None:
        super().__init__("waiting for " + " and ".join(map(str, unknown.awaited)))
        self.unknown = unknown


def _awaiting(lenient: Callable[[], Any] | None = None) -> Any:
    """A use of an unknown value that can't go on, but in a lenient render where that has an answer of its own."""

    def used(self: UnknownValue, *_: Any, **__: Any) -> Any:
        if lenient is None or not self.lenient:
            raise AwaitedError(self)
        return lenient()

    return used


def _unknown_too() -> Any:
    def operated(*values: Any) -> Any:
        return carried(_itself, values, {})

    return operated


class UnknownValue(Missing):
    """A value that the cluster does not have yet.

    whole: whether it is an answer and not a part of one; its own source is the last one. derived: whether it is
    computed of what is awaited, so that its fields aren't those of the awaited object.
    """

    __slots__ = ("awaited", "derived", "sources", "whole")

    def __init__(
        self,
        sources: Sources,
        awaited: Sequence[WaitTarget],
        obj: Any = missing,
        name: str | None = None,
        whole: bool = False,
        derived: bool = False,
    ) -> None:
        super().__init__(None, obj, name)
        self.whole = whole
        self.derived = derived
        self.sources = sources
        self.awaited = tuple(dict.fromkeys(awaited))

    @property
    def lenient(self) -> bool:
        return any(source.lenient for source in self.sources)

    @property
    def unanswered(self) -> bool:
        """Whether even `default` has to wait: the cluster may have the value, and nobody knows."""
        return not self.lenient and any(source.unanswered for source in self.sources)

    def field(self, name: str | int) -> UnknownValue:
        """The field of an unknown value."""
        (first, *_) = self.awaited
        if self.derived or first.state:
            return UnknownValue(self.sources, self.awaited, derived=self.derived)
        return UnknownValue(self.sources, [replace(first, field=(*first.field, name))])

    def at(self, key: TrackedValue) -> UnknownValue:
        """The field that a value of the cluster names; a Secret's content is not named."""
        unready = unready_of(key.sources)
        nameless = key.secret or bool(unready)
        found = self if nameless else self.field(key.value)
        derived = found.derived or nameless
        return UnknownValue(union(self.sources, key.sources), [*found.awaited, *unready], derived=derived)

    def nameless(self) -> UnknownValue:
        """The same without the name of the last field, which may be a Secret's content."""
        return UnknownValue(self.sources, [replace(each, field=each.field[:-1]) for each in self.awaited], derived=True)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The method that the field is named after: of a mapping that is there, or of what is unknown too."""
        owner, name = self._undefined_obj, self._undefined_name
        refuse_change(owner, name)
        if isinstance(owner, Mapping) and name in METHODS:
            return carried(getattr(owner, name), args, kwargs, self.sources)
        (first, *_) = self.awaited
        if self.derived or first.state:
            return carried(_itself, (self, *args), kwargs)
        of = UnknownValue(self.sources, [replace(first, field=first.field[:-1])])
        return carried(_itself, (of, *args), kwargs)

    def __hash__(self) -> Any:
        return id(self)

    _fail = _fail_with_undefined_error = __call__ = __getitem__ = __str__ = _awaiting()
    __int__ = __float__ = __complex__ = __index__ = _awaiting()
    __bool__ = __contains__ = _awaiting(lambda: False)
    __len__ = _awaiting(lambda: 0)
    __iter__ = _awaiting(lambda: iter(()))
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __pos__ = __neg__ = _unknown_too()
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _unknown_too()
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = _unknown_too()


def merged(found: Sequence[TrackedValue | UnknownValue], sources: Sources = ()) -> UnknownValue:
    """What is computed of values that can't all be read."""
    awaited: list[WaitTarget] = []
    for value in found:
        awaited += value.awaited if isinstance(value, UnknownValue) else unready_of(value.sources)
    return UnknownValue(union(sources, *(value.sources for value in found)), awaited, derived=True)


def unready_of(sources: Sources) -> list[WaitTarget]:
    """What has to become ready before a value that is made of these can be read."""
    return [WaitTarget(source.query, state="be ready") for source in sources if source.unready and source.awaited]


def unawaited(sources: Sources) -> Sources:
    """The same sources for something that doesn't wait for them."""
    return tuple(replace(source, awaited=False) for source in sources)


def taken(sources: Sources) -> Sources:
    """The same sources for something that takes what is there, ready or not."""
    for source in sources:
        source.read_unready.add(source.query)
    return unawaited(sources)


def union(*groups: Sources) -> Sources:
    """The sources of all groups, each once."""
    return tuple(dict.fromkeys(source for group in groups for source in group))


def _operation(function: Callable[..., Any]) -> Any:
    def operated(*values: Any) -> Any:
        return carried(function, values, {})

    return operated


def _swapped(function: Callable[..., Any]) -> Any:
    def operated(right: Any, left: Any) -> Any:
        return carried(function, (left, right), {})

    return operated


class TrackedValue:
    """A value that the cluster has, or that was computed of such values."""

    __slots__ = ("sources", "value")

    def __init__(self, value: Any, sources: Sources) -> None:
        self.value = value
        self.sources = sources

    def of(self, value: Any) -> TrackedValue:
        """A value that came to be by this one."""
        return TrackedValue(value, self.sources)

    def below(self, found: Any) -> Any:
        """What a field of this value is, once `found` was read of it."""
        if isinstance(found, Missing):
            return _absent(found, self.sources)
        return TrackedValue(found, self.sources)

    @property
    def secret(self) -> bool:
        """Whether it may be a Secret's content."""
        return any(source.query.kind == "Secret" for source in self.sources)

    def readable(self) -> TrackedValue | UnknownValue:
        """The value for what is written of it: unknown as long as something that it is made of is not ready."""
        unready = unready_of(self.sources)
        return UnknownValue(self.sources, unready, derived=True) if unready else self

    def __repr__(self) -> str:
        return f"Observed({', '.join(str(source.query) for source in self.sources)})"

    def branched(self) -> Any:
        """The value alone, for what can't carry its origins: the whole file depends on them now.

        Raises AwaitedError where it can't be read yet.
        """
        readable = self.readable()
        if isinstance(readable, UnknownValue):
            raise AwaitedError(readable)
        for source in self.sources:
            source.branches.append(source)
        return self.value

    def __str__(self) -> str:
        return str(self.branched())

    def __bool__(self) -> bool:
        return bool(self.branched())

    def __len__(self) -> int:
        return len(self.branched())

    def __hash__(self) -> int:
        return hash(self.branched())

    def __index__(self) -> int:
        return operator.index(self.branched())

    def __contains__(self, item: Any) -> bool:
        return (item.branched() if type(item) is TrackedValue else item) in self.branched()

    def __iter__(self) -> Iterator[Any]:
        for item in self.branched():
            yield carried(_itself, (item,), {}, self.sources)

    __eq__ = _operation(operator.eq)
    __ne__ = _operation(operator.ne)
    __lt__ = _operation(operator.lt)
    __le__ = _operation(operator.le)
    __gt__ = _operation(operator.gt)
    __ge__ = _operation(operator.ge)
    __pos__ = _operation(operator.pos)
    __neg__ = _operation(operator.neg)
    __add__ = _operation(operator.add)
    __sub__ = _operation(operator.sub)
    __mul__ = _operation(operator.mul)
    __truediv__ = _operation(operator.truediv)
    __floordiv__ = _operation(operator.floordiv)
    __mod__ = _operation(operator.mod)
    __radd__ = _swapped(operator.add)
    __rsub__ = _swapped(operator.sub)
    __rmul__ = _swapped(operator.mul)
    __rtruediv__ = _swapped(operator.truediv)
    __rfloordiv__ = _swapped(operator.floordiv)
    __rmod__ = _swapped(operator.mod)


def _itself(value: Any) -> Any:
    return value


def is_tracked(values: Iterable[Any]) -> bool:
    """Whether one of the values came from the cluster."""
    return not _CARRIERS.isdisjoint(map(type, values))


_CARRIERS = frozenset({TrackedValue, UnknownValue})


def carried(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], sources: Sources = ()) -> Any:
    """What a function gives for plain values, with the origins of the values that it was given; unknown where one is.

    Raises what the function raises, but what the cluster lacks is unknown and no error, and so is what can't be
    computed of a child that is not ready.
    """
    values = (*args, *kwargs.values())
    sources = union(sources, *(value.sources for value in values if isinstance(value, TrackedValue)))
    if any(isinstance(value, UnknownValue) for value in values):
        return merged([value for value in values if isinstance(value, (TrackedValue, UnknownValue))], sources)
    unready = unready_of(sources)
    try:
        found = function(*map(plain, args), **{name: plain(value) for name, value in kwargs.items()})
        if isinstance(found, GeneratorType):
            # Read here, where what its items lack can still be told from what the parent lacks.
            found = [_absent(item, sources) if type(item) is Missing else item for item in found]
    except AwaitedError as error:
        return merged([TrackedValue(None, sources), error.unknown], sources)
    except (LimitError, SecurityError):
        raise
    except Exception as error:
        if unready:
            return UnknownValue(sources, unready, derived=True)
        unknown = _lacking(error.owner, error.path, sources) if isinstance(error, MissingFieldError) else None
        if unknown is None:
            raise
        return unknown
    if isinstance(found, UnknownValue):
        sources = union(sources, found.sources)
        if unready:
            return UnknownValue(sources, unready, whole=found.whole, derived=not found.whole)
        return UnknownValue(sources, found.awaited, whole=found.whole, derived=not found.whole)
    if isinstance(found, Missing):
        unfound = None if unready else _unfound(found, values, sources)
        return _absent(found, sources) if unfound is None else unfound
    if isinstance(found, TrackedValue):
        return TrackedValue(found.value, union(sources, found.sources))
    return TrackedValue(found, sources)


def plain(value: Any) -> Any:
    """The value without its origins."""
    return value.value if type(value) is TrackedValue else value


def _unfound(found: Missing, values: Sequence[Any], sources: Sources) -> Missing | None:
    """A field that something lacks which is not the cluster's, as in `spec[key]` with a key that was looked up: nothing
    would come of waiting for it. The whole file depends on what it was looked for by. None where it is the cluster's.
    """
    owner = found._undefined_obj  # noqa: SLF001 - Missing is this package's own
    given = [value._undefined_obj if type(value) is Missing else value for value in values]  # noqa: SLF001 - as above
    if type(found) is not Missing or not any(_is_in(owner, value) for value in given):
        return None
    for source in sources:
        source.branches.append(source)
    return found.nameless() if TrackedValue(None, sources).secret else found


def _is_in(owner: Any, value: Any) -> bool:
    if isinstance(value, (TrackedValue, UnknownValue)):
        return False
    return owner is value or (
        isinstance(value, (Mapping, list)) and isinstance(owner, (Mapping, list)) and path_of(owner, value) is not None
    )


def _absent(found: Missing, sources: Sources) -> UnknownValue:
    if isinstance(found, UnknownValue):
        return found
    owner, name = found._undefined_obj, found._undefined_name  # noqa: SLF001 - Missing is this package's own
    path: FieldPath = (*(() if name is None else (name,)), *found.below)
    if unready := unready_of(sources):
        return UnknownValue(sources, unready, owner, name)
    unknown = _lacking(owner, path, sources)
    if unknown is None:
        unknown = UnknownValue(sources, [_awaited(sources[0], path)])
    return UnknownValue(unknown.sources, unknown.awaited, owner, name)


def _lacking(owner: Any, path: FieldPath, sources: Sources) -> UnknownValue | None:
    """The field `path` that the mapping or list `owner` of one of the sources lacks; None where it is nobody's."""
    for source in sources:
        inside = isinstance(owner, (Mapping, list)) and isinstance(source.body, (Mapping, list))
        found = path_of(owner, source.body) if inside else None
        if found is not None:
            return UnknownValue(sources, [_awaited(source, (*found, *path))])
    return None


def _awaited(source: Provenance, path: FieldPath) -> WaitTarget:
    """A field of an answer; where the answer is a list, a field of the object in it."""
    query = source.query
    if isinstance(query, Selection) and path and isinstance(path[0], int) and path[0] < len(source.body):
        metadata = source.body[path[0]]["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        item = Lookup(api_version=query.api_version, kind=query.kind, namespace=namespace, name=name)
        return WaitTarget(item, path[1:])
    return WaitTarget(query, path)
