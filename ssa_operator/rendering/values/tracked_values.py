"""Values that a template reads from the cluster, with their provenance: the queries that they come from.

Promises:
- The result of an expression has the provenance of all values in it, and is unknown if one of them is.
- A field missing in the cluster gives an unknown value, not an error; `default` and `is defined` accept it.
- `default` and `is defined` see the live values of a child that is not ready, even through operators and filters.
  Every other use waits for the child.
- If control flow depends on an unknown value, the whole file waits: the template raises AwaitedError.
- In a lenient render nothing waits: an unknown value is false and empty.
- Everything that an expression computes from a Secret's content, or from a generated value, is content, too. Truth
  values and null are not, because control flow shows them, and neither are a Secret's name and its other metadata.
- The error of an expression that reads content is marked, whatever its text is (`values.secrecy`).

How it works:
What a template reads of the cluster is a proxy: a TrackedValue (a value and its provenance) or an UnknownValue (a
provenance and what it awaits). Both overload Python's operators, and the environment sends the calls, filters and tests
with such arguments through `call_tracked`. That unwraps the arguments, calls the plain function, and wraps its result
with the provenance of all arguments. If an argument is unknown, it does not call the function: the result is unknown,
and awaits all that its arguments await.

The function sees plain data, so it fails on a missing field as on any other. `path_of` then decides by the identity of
the mapping that lacks the field: if this is a part of a cluster's answer, the result is unknown and awaits the field;
otherwise it is the template's error. A child that is not ready has its value, and a provenance that is `unready`. Only
where a document would contain the value does `readable` make it unknown. `default` and `is defined` take the value
before, with a provenance that doesn't wait (`mark_read_unready`).

Python converts some values itself, and the result can't be a proxy: a condition, the items of a loop, a text, a hash.
Each of these goes through `read_untracked`. It raises AwaitedError for a value that waits, and otherwise adds the
provenance to `file_provenance`, so that every document of the file depends on it. Templates have no other way to the
value, so no text of a file follows from the cluster without a record of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import GeneratorType
from typing import Any

from jinja2 import TemplateRuntimeError
from jinja2.exceptions import SecurityError
from jinja2.utils import missing
from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.objects.annotations import LAST_APPLIED
from ssa_operator.objects.cluster_view import LiveBodies, Lookup, Question, Selection
from ssa_operator.objects.render_result import WaitTarget
from ssa_operator.objects.source_location import FieldPath, SourceLocation, value_at
from ssa_operator.rendering.values.limits import LimitError
from ssa_operator.rendering.values.secrecy import Secrecy, mark_error
from ssa_operator.rendering.values.undefined import (
    METHODS,
    Missing,
    MissingFieldError,
    Places,
    path_in,
    path_of,
    places_in,
    refuse_mutation,
)


class Provenance(Struct, frozen=True, eq=False, kw_only=True):
    """One query of a template to the cluster, and its answer."""

    query: Question
    """The query."""
    answer: Any
    """The live object, or the objects of a Selection; None without one."""
    file_provenance: list[Provenance]
    """The provenance of the whole file in progress, shared by all of its values: what its control flow depends on."""
    read_unready: set[Question]
    """The queries of the render whose answers `default` or `is defined` read, ready or not; shared by all values."""
    awaited: bool = True
    """Whether a document with a value of this answer waits for it."""
    lenient: bool = False
    """Whether the render is lenient: nothing waits."""
    unready: bool = False
    """Whether the object exists and is not ready."""
    unanswered: bool = False
    """Whether it isn't known if the object exists."""
    location: SourceLocation | None = None
    """The template line that sent the query."""
    path: FieldPath | None = None
    """The field of the answer that the template reads; None if the render records no paths."""
    live: bool = False
    """Whether it is the answer of `live`, which never waits: a missing field is an error."""
    of_parent: bool = False
    """Whether the answer is the parent. Only a render that records paths has such a provenance."""
    local: bool = False
    """Whether the answer is no object of the cluster: nothing waits for it, and no document depends on it."""
    secrecy: Secrecy = Secrecy.NONE
    """How the value relates to a Secret's content."""
    key: bool = False
    """Whether it is the provenance of a mapping's key, and not of the value under it alone."""
    public_part: str = ""
    """Which of these the value is: a Secret's metadata, its annotations, or its copy in them."""
    untracked: bool = False
    """For a provenance of the whole file: whether content became text or a key without a provenance."""
    secret_queries: set[Question] = field(default_factory=set)
    """The queries of the render whose arguments are content; shared by all values."""
    may_lack: Callable[[str, str, FieldPath], bool] = lambda *_: False
    """Whether the schema of a kind calls a field optional."""
    _places: Places = field(default_factory=dict)
    """Where each mapping, list and string is in the answer, once that was asked."""
    _read: list[tuple[Any, Any]] = field(default_factory=list)
    """The data that filters read from strings of the answer, each with the string."""
    _placed: list[Any] = field(default_factory=list)
    """Those of these data that are in `_places`, by their ids."""

    @property
    def body(self) -> Any:
        """The answer, with the objects of a Selection as a list."""
        return self.answer.decoded() if isinstance(self.answer, LiveBodies) else self.answer

    @property
    def read(self) -> Any:
        """The field of the answer that the template reads."""
        return value_at(self.body, self.path or (), missing)

    def path_of(self, owner: Any) -> FieldPath | None:
        """The path of the very mapping or list `owner` in the answer, None if that doesn't contain it."""
        body = self.body
        if not isinstance(body, (Mapping, list)):
            return None
        places = self._places
        if not places:
            places.update(places_in(body))
        while self._read and id(owner) not in places:
            data, text = self._read.pop(0)
            if (place := places.get(id(text))) is not None:
                self._placed.append(data)
                places.update(places_in(data) if isinstance(data, (Mapping, list)) else {})
                places[id(data)] = place
        return path_in(owner, places)

    def record_read(self, data: Any, text: Any) -> None:
        """Record that a filter read data from a text: what they lack is missing in the field of the text."""
        self._read.append((data, text))


class AwaitedError(TemplateRuntimeError):
    """A template can't continue without an unknown value."""

    def __init__(self, unknown: UnknownValue) -> None:
        super().__init__("waiting for " + " and ".join(map(str, unknown.awaited)))
        self.unknown = unknown


def _raise_awaited(lenient: Callable[[], Any] | None = None) -> Any:
    """A method that raises AwaitedError; in a lenient render it returns the result of `lenient`, if there is one."""

    def used(self: UnknownValue, *_: Any, **__: Any) -> Any:
        if lenient is None or not self.lenient:
            raise AwaitedError(self)
        return lenient()

    return used


def _unknown_result(*values: Any) -> Any:
    """The result of an operation of which a value is unknown."""
    return call_tracked(_same_value, values, {})


class UnknownValue(Missing):
    """A value that the cluster does not have yet."""

    __slots__ = ("awaited", "derived", "is_answer", "lacks", "provenance")

    def __init__(
        self,
        provenance: tuple[Provenance, ...],
        awaited: Sequence[WaitTarget],
        obj: Any = missing,
        name: str | None = None,
        is_answer: bool = False,
        derived: bool = False,
        lacks: int = 0,
    ) -> None:
        """`is_answer`: it is the whole answer of a query, whose provenance is the last one. `derived`: it is computed
        from awaited values, so that its fields aren't those of the awaited object. `lacks`: the length of the path to
        the outermost field that an existing object lacks.
        """
        super().__init__(None, obj, name)
        self.lacks = lacks
        self.is_answer = is_answer
        self.derived = derived
        self.provenance = provenance
        self.awaited = tuple(dict.fromkeys(awaited))

    @property
    def lenient(self) -> bool:
        return any(source.lenient for source in self.provenance)

    @property
    def unanswered(self) -> bool:
        """Whether even `default` waits, because the cluster may have the value."""
        return not self.lenient and any(source.unanswered for source in self.provenance)

    def field(self, name: str | int) -> UnknownValue:
        """The field of an unknown value."""
        (first, *_) = self.awaited
        provenance = self.provenance if self.derived else _field_provenance(self.provenance, (name,))
        if self.derived or first.state:
            return UnknownValue(provenance, self.awaited, derived=self.derived)
        return UnknownValue(provenance, [replace(first, field=(*first.field, name))], lacks=self.lacks)

    def is_optional(self) -> bool:
        """Whether it is a field that an object lacks, which exists and is ready, and whose schema calls it optional."""
        if not self.lacks or self.derived or len(self.awaited) != 1:
            return False
        (target,) = self.awaited
        if target.state or target.hidden:
            return False
        for source in self.provenance:
            version = getattr(source.query, "api_version", None) or _version_of(source.answer)
            if source.query.kind == target.query.kind and isinstance(version, str):
                return source.may_lack(version, target.query.kind, target.field[: self.lacks])
        return False

    def _is_false(self, *_: Any) -> bool:
        """A missing field that is optional is false, and has nothing in it. Raises AwaitedError for any other one."""
        if not self.lenient:
            if not self.is_optional():
                raise AwaitedError(self)
            for source in self.provenance:
                source.file_provenance.append(source)
        return False

    def field_named_by(self, key: TrackedValue) -> UnknownValue:
        """The field with the name that a value of the cluster gives; a Secret's content is never shown as a name."""
        unready = unready_children(key.provenance)
        hidden = key.secret or bool(unready)
        found = self if hidden else self.field(key.value)
        derived = found.derived or hidden
        return UnknownValue(
            merge_provenance(self.provenance, key.provenance), [*found.awaited, *unready], derived=derived
        )

    def without_name(self) -> UnknownValue:
        """The same without the name of the last field, because the name may be a Secret's content."""
        return UnknownValue(
            self.provenance, [replace(each, field=each.field[:-1]) for each in self.awaited], derived=True
        )

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method of the same name: of a live mapping, or of a value that is unknown, too."""
        owner, name = self._undefined_obj, self._undefined_name
        refuse_mutation(owner, name)
        if isinstance(owner, Mapping) and name in METHODS:
            provenance = _method_provenance(self.provenance, name, args)
            return call_tracked(getattr(owner, name), args, kwargs, provenance)
        (first, *_) = self.awaited
        if self.derived or first.state:
            return call_tracked(_same_value, (self, *args), kwargs)
        owner_value = UnknownValue(self.provenance, [replace(first, field=first.field[:-1])])
        return call_tracked(_same_value, (owner_value, *args), kwargs)

    def __hash__(self) -> Any:
        return id(self)

    _fail = _fail_with_undefined_error = __call__ = __str__ = _raise_awaited()
    __int__ = __float__ = __complex__ = __index__ = _raise_awaited()
    __bool__ = __contains__ = _is_false  # type: ignore[assignment]  # a missing field of the parent is never false
    __len__ = _raise_awaited(lambda: 0)
    __iter__ = _raise_awaited(lambda: iter(()))
    __getitem__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __pos__ = __neg__ = _unknown_result
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _unknown_result
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = _unknown_result


def merge_unknown(
    found: Sequence[TrackedValue | UnknownValue], provenance: tuple[Provenance, ...] = ()
) -> UnknownValue:
    """The result of an expression of which some values are unknown or of children that are not ready."""
    awaited: list[WaitTarget] = []
    for value in found:
        awaited += value.awaited if isinstance(value, UnknownValue) else unready_children(value.provenance)
    return UnknownValue(merge_provenance(provenance, *(value.provenance for value in found)), awaited, derived=True)


def unready_children(provenance: tuple[Provenance, ...]) -> list[WaitTarget]:
    """The children that have to become ready before a document can have a value of this provenance."""
    return [WaitTarget(source.query, state="be ready") for source in provenance if source.unready and source.awaited]


def without_waiting(provenance: tuple[Provenance, ...]) -> tuple[Provenance, ...]:
    """The same provenance for a value that doesn't wait."""
    if not any(source.awaited for source in provenance):
        return provenance
    return tuple(replace(source, awaited=False) for source in provenance)


def mark_read_unready(provenance: tuple[Provenance, ...]) -> tuple[Provenance, ...]:
    """Record a read of live values, ready or not. Returns the provenance for a value that doesn't wait."""
    for source in provenance:
        source.read_unready.add(source.query)
    return without_waiting(provenance)


def merge_provenance(*groups: tuple[Provenance, ...]) -> tuple[Provenance, ...]:
    """The provenance of all groups, each query once."""
    if len(groups) == 1:
        return groups[0]
    return tuple(dict.fromkeys(source for group in groups for source in group))


def _tracked_operation(function: Callable[..., Any], *, is_reflected: bool = False) -> Any:
    def operated(*values: Any) -> Any:
        return call_tracked(function, values[::-1] if is_reflected else values, {})

    return operated


class TrackedValue:
    """A value that the cluster has, or that an expression computed from such values."""

    __slots__ = ("bodies", "provenance", "value")

    value: Any

    def __init__(self, value: Any, provenance: tuple[Provenance, ...]) -> None:
        self.provenance = provenance
        self.bodies: LiveBodies | None = None
        """The objects whose list is the value, if that is not decoded yet."""
        if type(value) is LiveBodies:
            self.bodies = value
        else:
            self.value = value

    def __getattr__(self, name: str) -> Any:
        # Without a `value`, `bodies` has what it consists of.
        if name != "value":
            raise AttributeError(name)
        assert self.bodies is not None
        self.value = self.bodies.decoded()
        self.bodies = None
        return self.value

    def number_of_items(self) -> int:
        """The length of the value. It decodes no object."""
        self._read_by_file(by_control=True)
        return len(self.value if self.bodies is None else self.bodies)

    def derive(self, value: Any) -> TrackedValue:
        """Another value with the same provenance."""
        return TrackedValue(value, self.provenance)

    def field_value(self, found: Any, name: Any) -> Any:
        """The field `found` of this value with its provenance; unknown if it is missing."""
        if isinstance(found, Missing):
            return _missing_as_unknown(found, self.provenance)
        if isinstance(found, TrackedValue):
            # A mapping that `merge` made: its fields have a provenance of their own.
            return TrackedValue(found.value, merge_provenance(found.provenance, self.provenance))
        provenance = self.provenance
        if self.secret:
            provenance = _provenance_of_field(self, found, name)
        if provenance and provenance[0].path is not None:
            provenance = _item_provenance(provenance, name, found)
        return TrackedValue(found, provenance)

    @property
    def traced(self) -> bool:
        """Whether the render records the paths of the fields that templates read."""
        return bool(self.provenance) and self.provenance[0].path is not None

    @property
    def secret(self) -> bool:
        """Whether it is a Secret's content."""
        return is_content(self.provenance)

    @property
    def is_of_parent(self) -> bool:
        """Whether it is a field of the parent, as it is there."""
        source = self.provenance[0] if len(self.provenance) == 1 else None
        if source is None or not source.of_parent or source.path is None:
            return False
        return bool(value_at(source.body, source.path, missing) == self.value)

    def readable(self) -> TrackedValue | UnknownValue:
        """The value for a document: unknown while a child that it comes from is not ready."""
        unready = unready_children(self.provenance)
        return UnknownValue(self.provenance, unready, derived=True) if unready else self

    def __repr__(self) -> str:
        return f"TrackedValue({', '.join(str(source.query) for source in self.provenance)})"

    def read_untracked(self, *, by_control: bool = False) -> Any:
        """The value without its provenance, which becomes that of the whole file. `by_control`: control flow alone
        depends on the value, or its parts keep the provenance.

        Raises AwaitedError if a child that it comes from is not ready.
        """
        self._read_by_file(by_control=by_control)
        return self.value

    def _read_by_file(self, *, by_control: bool) -> None:
        readable = self.readable()
        if isinstance(readable, UnknownValue):
            raise AwaitedError(readable)
        for source in self.provenance:
            flows = not by_control and source.secrecy is Secrecy.CONTENT
            if not flows and source.file_provenance[-1:] == [source]:
                continue
            source.file_provenance.append(replace(source, untracked=True) if flows else source)

    def __str__(self) -> str:
        return str(self.read_untracked())

    def __bool__(self) -> bool:
        return bool(self.number_of_items() if self.bodies is not None else self.read_untracked(by_control=True))

    def __len__(self) -> int:
        return self.number_of_items()

    def __hash__(self) -> int:
        return hash(self.read_untracked())

    def __index__(self) -> int:
        return operator.index(self.read_untracked())

    def __contains__(self, item: Any) -> bool:
        wanted = item.read_untracked(by_control=True) if type(item) is TrackedValue else item
        return wanted in self.read_untracked(by_control=True)

    def __iter__(self) -> Iterator[Any]:
        if self.traced:
            for at, item in enumerate(self.read_untracked(by_control=True)):
                yield call_tracked(_same_value, (item,), {}, _item_provenance(self.provenance, at, item))
            return
        for item in self.read_untracked(by_control=True):
            yield call_tracked(_same_value, (item,), {}, self.provenance)


_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod")
# Jinja compiles a slice, and only a slice, to Python's own operation.
for _name in ("getitem", "eq", "ne", "lt", "le", "gt", "ge", "pos", "neg", *_ARITHMETIC):
    setattr(TrackedValue, f"__{_name}__", _tracked_operation(getattr(operator, _name)))
for _name in _ARITHMETIC:
    setattr(TrackedValue, f"__r{_name}__", _tracked_operation(getattr(operator, _name), is_reflected=True))


def _same_value(value: Any) -> Any:
    return value


def _read_at(
    provenance: tuple[Provenance, ...], path_of: Callable[[Provenance, FieldPath], FieldPath | None]
) -> tuple[Provenance, ...]:
    """In a traced render, the provenance with the paths that `path_of` gives; None leaves a path as it is."""
    if not provenance or provenance[0].path is None:
        return provenance
    paths = [path_of(source, source.path or ()) for source in provenance]
    return tuple(
        source if path is None else replace(source, path=path) for source, path in zip(provenance, paths, strict=True)
    )


def _item_provenance(provenance: tuple[Provenance, ...], name: Any, item: Any) -> tuple[Provenance, ...]:
    """The provenance of an item of a traced value: the path leads to the item if the item is part of the answer."""

    def path_of(source: Provenance, path: FieldPath) -> FieldPath | None:
        # A filter may have changed the order of a list, and `items` gives pairs of keys and values.
        return None if (step := _step_to(source.read, name, item)) is None else (*path, step)

    return _read_at(provenance, path_of)


def _field_provenance(provenance: tuple[Provenance, ...], path: FieldPath) -> tuple[Provenance, ...]:
    """The provenance of a field of an unknown value. Its own query is the last one of which nothing is found."""
    if not provenance or provenance[0].path is None:
        return provenance
    absent = next((source for source in reversed(provenance) if source.read in (None, missing)), None)
    return _read_at(provenance, lambda source, known: (*known, *path) if source is absent else None)


def _missing_provenance(provenance: tuple[Provenance, ...], owner: Any, path: FieldPath) -> tuple[Provenance, ...]:
    """The provenance of the field `path` that `owner` lacks."""
    return _read_at(provenance, lambda source, known: (*known, *path) if source.read is owner else None)


def _method_provenance(provenance: tuple[Provenance, ...], name: str, args: Sequence[Any]) -> tuple[Provenance, ...]:
    """The provenance of the result of a mapping's method. The method's name was read as a field before the call."""
    key = args[:1] if name == "get" and args and isinstance(args[0], str) else ()
    return _read_at(provenance, lambda _, known: (*known[:-1], *key) if known and known[-1] == name else None)


def _step_to(owner: Any, name: Any, item: Any) -> str | int | None:
    """The key or the position in `owner` at which `item` is; `name` is where the template found it."""
    if isinstance(owner, Mapping):
        if isinstance(name, str) and name in owner and owner[name] is item:
            return name
        if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], str) and item[0] in owner:
            return item[0] if owner[item[0]] is item[1] else None
        return item if isinstance(item, str) and isinstance(name, int) and item in owner else None
    if isinstance(owner, list):
        if isinstance(name, int) and -len(owner) <= name < len(owner) and owner[name] is item:
            return name % len(owner)
        return next((at for at, each in enumerate(owner) if each is item), None)
    return None


def is_tracked(values: Iterable[Any]) -> bool:
    """Whether one of the values comes from the cluster."""
    return not _TRACKED_TYPES.isdisjoint(map(type, values))


_TRACKED_TYPES = frozenset({TrackedValue, UnknownValue})


def call_tracked(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    provenance: tuple[Provenance, ...] = (),
) -> Any:
    """Call a function with the values of its arguments. The result has the provenance of all arguments, and is unknown
    if one of them is.

    Raises the function's error. A field missing in the cluster gives an unknown value, not an error; the same holds for
    a result that can't be computed from a child that is not ready.
    """
    values = (*args, *kwargs.values()) if kwargs else args
    groups, is_unknown = [provenance] if provenance else [], False
    for value in values:
        if type(value) is TrackedValue:
            groups.append(value.provenance)
        elif type(value) is UnknownValue:
            is_unknown = True
    provenance = merge_provenance(*groups)
    if is_unknown:
        return merge_unknown([value for value in values if isinstance(value, (TrackedValue, UnknownValue))], provenance)
    unready = unready_children(provenance)
    try:
        found = function(*map(untracked, args), **{name: untracked(value) for name, value in kwargs.items()})
        if isinstance(found, GeneratorType):
            # Iterate here, where a field that the cluster lacks can still be told apart from one that the parent lacks.
            found = [_missing_as_unknown(item, provenance) if type(item) is Missing else item for item in found]
    except AwaitedError as error:
        return merge_unknown([TrackedValue(None, provenance), error.unknown], provenance)
    except (LimitError, SecurityError) as error:
        _mark(error, provenance)
        raise
    except Exception as error:
        _mark(error, provenance)
        if unready:
            return UnknownValue(provenance, unready, derived=True)
        unknown = (
            _missing_in_answer(error.owner, error.path, provenance) if isinstance(error, MissingFieldError) else None
        )
        if unknown is None:
            raise
        return unknown
    return _tracked_result(found, values, provenance, unready)


def _tracked_result(
    found: Any, values: Sequence[Any], provenance: tuple[Provenance, ...], unready: Sequence[WaitTarget]
) -> Any:
    """The result `found` of a function of `values`, with their provenance."""
    if isinstance(found, (TrackedValue, UnknownValue)) and is_content(provenance):
        for source in found.provenance:
            source.secret_queries.add(source.query)
    if isinstance(found, UnknownValue):
        awaited = [replace(each, hidden=True) for each in found.awaited] if is_content(provenance) else found.awaited
        provenance = merge_provenance(_of_cluster(provenance), found.provenance)
        if unready:
            return UnknownValue(provenance, unready, is_answer=found.is_answer, derived=not found.is_answer)
        return UnknownValue(provenance, awaited, is_answer=found.is_answer, derived=not found.is_answer)
    if isinstance(found, Missing):
        unfound = None if unready else _missing_elsewhere(found, values, provenance)
        return _missing_as_unknown(found, provenance) if unfound is None else unfound
    if isinstance(found, TrackedValue):
        return TrackedValue(found.value, merge_provenance(_of_cluster(provenance), found.provenance))
    if found is None or type(found) is bool:
        provenance = with_secrecy(provenance, Secrecy.NONE)
    return TrackedValue(found, provenance)


_READ = "_ssa_operator_read"


def provenance_of(error: Exception) -> tuple[Provenance, ...]:
    """The provenance of the values with which a function failed."""
    found: tuple[Provenance, ...] = getattr(error, _READ, ())
    return found


def fields_of(provenance: Iterable[Provenance]) -> tuple[WaitTarget, ...]:
    """The fields of looked-up objects that a traced value comes from."""
    return tuple(
        dict.fromkeys(
            _awaited_field(source, source.path)
            for source in provenance
            if source.path and not (source.of_parent or source.local)
        )
    )


def mark_source(error: Exception, value: TrackedValue) -> None:
    """Let an error of the use of a value, which quotes nothing of it, know its provenance."""
    if not value.secret:
        setattr(error, _READ, value.provenance)


def _mark(error: Exception, provenance: tuple[Provenance, ...]) -> None:
    setattr(error, _READ, provenance)
    if any(source.secrecy is not Secrecy.NONE for source in provenance):
        mark_error(error)


def is_content(provenance: Iterable[Provenance]) -> bool:
    """Whether a value of this provenance is a Secret's content."""
    for source in provenance:  # noqa: SIM110 - a generator costs three times as much
        if source.secrecy is Secrecy.CONTENT:
            return True
    return False


def with_secrecy(provenance: tuple[Provenance, ...], secrecy: Secrecy) -> tuple[Provenance, ...]:
    """The same provenance for a value that is no more of a Secret's content than this."""
    if not is_content(provenance):
        return provenance
    return tuple(
        replace(source, secrecy=secrecy) if source.secrecy is Secrecy.CONTENT else source for source in provenance
    )


def _provenance_of_field(owner: TrackedValue, found: Any, name: Any) -> tuple[Provenance, ...]:
    """The provenance of a field of content. A Secret's type, its kind and its metadata are no content, except for the
    annotation in which kubectl keeps a copy of the whole Secret.
    """
    value, provenance = owner.value, owner.provenance
    below = {source.public_part for source in provenance if source.secrecy is Secrecy.CONTENT}
    if below == {"metadata"}:
        part = "annotations" if name == "annotations" else ""
    elif below == {"annotations"}:
        part = "copy" if name == LAST_APPLIED else ""
    elif not (
        isinstance(value, Mapping)
        and (value.get("kind") == "Secret" or any(value is source.answer for source in provenance))
        and name in ("apiVersion", "immutable", "kind", "metadata", "type")
    ):
        return provenance
    else:
        part = "metadata" if name == "metadata" and _has_copy(found) else ""
    if not part:
        return with_secrecy(provenance, Secrecy.NONE)
    return tuple(replace(source, public_part=part) for source in provenance)


def _has_copy(metadata: Any) -> bool:
    annotations = metadata.get("annotations") if isinstance(metadata, Mapping) else None
    return isinstance(annotations, Mapping) and LAST_APPLIED in annotations


def _of_cluster(provenance: tuple[Provenance, ...]) -> tuple[Provenance, ...]:
    """The provenance of arguments that name what a query or a key finds. The parent's fields are no origin of that."""
    if not provenance or provenance[0].path is None:
        return provenance
    return tuple(source for source in provenance if not source.of_parent)


def untracked(value: Any) -> Any:
    """The value without its provenance."""
    return value.value if type(value) is TrackedValue else value


def _missing_elsewhere(found: Missing, values: Sequence[Any], provenance: tuple[Provenance, ...]) -> Missing | None:
    """The missing field of a value that is not the cluster's, as in `spec[key]` with a key from `lookup`. Nothing waits
    for it, because the cluster can't supply it; the provenance of the key becomes that of the whole file.

    Returns None if the field is missing in a value of the cluster.
    """
    owner = found._undefined_obj  # noqa: SLF001 - Missing is this package's own
    given = [value._undefined_obj if type(value) is Missing else value for value in values]  # noqa: SLF001 - as above
    if type(found) is not Missing or not any(_is_part_of(owner, value) for value in given):
        return None
    for source in _of_cluster(provenance):
        source.file_provenance.append(source)
    return found.without_name() if TrackedValue(None, provenance).secret else found


def _is_part_of(owner: Any, value: Any) -> bool:
    if type(value) is TrackedValue and all(source.of_parent for source in value.provenance):
        value = value.value
    if isinstance(value, (TrackedValue, UnknownValue)):
        return False
    return owner is value or (
        isinstance(value, (Mapping, list)) and isinstance(owner, (Mapping, list)) and path_of(owner, value) is not None
    )


def _missing_as_unknown(found: Missing, provenance: tuple[Provenance, ...]) -> Missing:
    if isinstance(found, UnknownValue):
        return found
    if all(source.local for source in provenance):
        return found.without_name() if is_content(provenance) else found
    owner, name = found._undefined_obj, found._undefined_name  # noqa: SLF001 - Missing is this package's own
    path: FieldPath = (*(() if name is None else (name,)), *found.below)
    provenance = _missing_provenance(provenance, owner, path)
    if unready := unready_children(provenance):
        return UnknownValue(provenance, unready, owner, name)
    unknown = _missing_in_answer(owner, path, provenance)
    if unknown is None:
        unknown = UnknownValue(provenance, [_awaited_field(provenance[0], path)])
    lacks = len(unknown.awaited[0].field) - len(found.below)
    return UnknownValue(unknown.provenance, unknown.awaited, owner, name, lacks=lacks)


def _version_of(answer: Any) -> Any:
    return answer.get("apiVersion") if isinstance(answer, Mapping) else None


def _missing_in_answer(owner: Any, path: FieldPath, provenance: tuple[Provenance, ...]) -> UnknownValue | None:
    """The field `path` that `owner` lacks, a mapping or list in one of the answers; None if no answer contains it."""
    for source in provenance:
        if source.local:
            continue
        found = source.path_of(owner) if isinstance(owner, (Mapping, list)) else None
        if found is not None:
            return UnknownValue(provenance, [_awaited_field(source, (*found, *path))])
    return None


def _awaited_field(source: Provenance, path: FieldPath) -> WaitTarget:
    """A field of an answer; if the answer is a list, a field of the object in it."""
    query = source.query
    if isinstance(query, Selection) and path and isinstance(path[0], int) and path[0] < len(source.body):
        metadata = source.body[path[0]]["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        item = Lookup(api_version=query.api_version, kind=query.kind, namespace=namespace, name=name)
        return WaitTarget(item, path[1:])
    return WaitTarget(query, path, live=source.live)
