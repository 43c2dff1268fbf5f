"""Converts an object from one version of its CRD to another, so that nothing is lost on the way back.

Promises:
- An object goes by way of the stored version. There and back it is the same object.
- What the other version can't hold travels in the annotation `ssa-operator.dev/unconverted`, for each version that it
  belongs to.
- Of the metadata only labels and annotations change, and of these none of the operator's own but that annotation.
- The API server's fields of the status and those that no template renders stay, as far as the other version has them.
- An annotation that the operator did not seal is none. What it sealed for another object, of which this one is a copy,
  counts as a user's: it sets no status, no field with a transition rule, and nothing that the CRD's schema refuses.
- A conversion takes time in proportion to the object, whatever its annotations hold.
- A conversion that would lose something is an error: of a template, or of an annotation that gets too large.
- An object that is stored already and can't be converted is shown without its content, with an annotation that says why
  and has the content. So a list shows all others. What is written comes back by it, or is refused.
- The same object and the same templates give the same result.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.annotations import NOT_CONVERTED, UNCONVERTED, NotConverted, not_converted
from ssa_operator.objects.identity import split_api_version
from ssa_operator.objects.json_schema import RULES, Schema, part_schema
from ssa_operator.objects.messages import bounded
from ssa_operator.objects.render_result import ConversionError
from ssa_operator.objects.source_location import field_text
from ssa_operator.operator.conversion.unconverted import (
    KeptField,
    Path,
    declares,
    differences,
    is_same,
    path_text,
    put_back,
    without_field,
)
from ssa_operator.schema.crd_schema import has_status, object_schema, stored_version
from ssa_operator.schema.field_errors import ErrorType
from ssa_operator.schema.new_object import defaulted, new_object, prune, whole_numbers
from ssa_operator.schema.operator_fields import RESERVED
from ssa_operator.schema.schema_validation import validate

Body: TypeAlias = Mapping[str, Any]

Render: TypeAlias = Callable[[Body, str], Body]
"""What a template renders of an object for another version. Raises ConversionError."""

ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes of all annotations of an object: the API server's limit."""


DEPTH_LIMIT = 100
"""Levels of nesting of a kept value."""


MESSAGE_LIMIT = 1000
"""Characters of the reason why an object is not converted."""

_SEAL = 32
"""Characters of a seal for one object, and of one for its copies."""


class Kept(Struct, frozen=True, kw_only=True):
    """The fields of one version that the present one can't hold."""

    fields: tuple[KeptField, ...]
    seal: str = ""
    """The proofs that the operator kept them: for this object, and for one that it is a copy of."""


class Converter(Struct, frozen=True, kw_only=True):
    """Converts the objects of a CRD."""

    definition: Mapping[str, Any]
    """The CRD."""
    render: Render
    key: bytes
    """The secret with which the operator seals what it keeps."""

    def convert(self, body: Body, version: str) -> dict[str, Any]:
        """The object in a version. Raises ConversionError."""
        found = self._with_content(body)
        try:
            for step in self._route(version_of(found), version):
                found = self._step(found, step)
        except RecursionError as error:
            raise ConversionError("the object is nested too deeply") from error
        return found

    def convert_or_mark(self, body: Body, version: str) -> dict[str, Any]:
        """The object in a version. One that may be stored already and can't be converted is marked. Raises
        ConversionError.
        """
        try:
            return self.convert(body, version)
        except ConversionError as error:
            marked = self._marked(body, version, bounded(str(error), MESSAGE_LIMIT))
            if marked is None:
                raise
            return marked

    def _marked(self, body: Body, version: str, message: str) -> dict[str, Any] | None:
        """The object without its content, which travels in the annotation. None if that would hide what is written, or
        lose it.
        """
        try:
            body = self._with_content(body)
            own, _ = version_of(body), [*self._route(version_of(body), version)]
            if not self._is_whole(body):
                return None
        except (ConversionError, RecursionError):
            return None
        before = (self.definition.get("status") or {}).get("storedVersions") or ()
        if version == self.stored and own not in before:
            return None  # it is being written, and its user must learn that it can't be converted
        content = base64.b85encode(zlib.compress(msgspec.json.encode(_without_metadata(body)))).decode()
        found = {"apiVersion": self._api_version(version), "kind": body["kind"], "metadata": body["metadata"]}
        if status := _operator_status(body):
            found["status"] = status
        # Without its content, the object comes back to no stored version.
        for text in (content,) if version == self.stored else (content, ""):
            mark = NotConverted(version=own, message=message, content=text)
            with contextlib.suppress(ConversionError):
                return _annotated(found, {NOT_CONVERTED: replace(mark, seal=self._mac(body, mark))})
        return None

    def _with_content(self, body: Body) -> dict[str, Any]:
        """The object, a marked one in its own version. Raises ConversionError if it would lose its content."""
        mark = not_converted(body)
        if mark is None or not self._is_sealed(mark.seal, self._mac(body, replace(mark, seal=""))):
            return {**body}
        plain = _without_mark(body)
        # The API server adds the defaults of the version.
        empty = {**defaulted({}, object_schema(self.definition, version_of(body))), "status": None}
        if {**_without_metadata(body), "status": None} == empty and mark.content:
            content = msgspec.json.decode(zlib.decompress(base64.b85decode(mark.content)))
            status = {**(content.get("status") or {}), **_operator_status(body)}
            found = {**plain, **content, "apiVersion": self._api_version(mark.version)}
            return {**found, **({"status": status} if status else {})}
        if mark.version == self.stored != version_of(body):
            raise ConversionError(f"it can't be converted, so write it in {mark.version}: {mark.message}")
        return plain  # a user has written it since

    def unaided(self, body: Body, version: str) -> dict[str, Any]:
        """The object in a version that has a direct way, as the template alone gives it. Raises ConversionError."""
        return self._rendered(without_kept(body)[0], version)

    def lost_fields(self, body: Body, there: Body, back: Body) -> list[str]:
        """The fields of an object that have a place in the version of `there`, and that the templates alone don't give
        `back` from there.
        """
        own, other = object_schema(self.definition, version_of(body)), object_schema(self.definition, version_of(there))
        found = differences(_without_metadata(body), _without_metadata(back), own)
        return [
            path_text(each.path)
            for each in found
            if declares(other, each.path) or self._arrives(body, there, each.path)
        ]

    def _arrives(self, body: Body, there: Body, path: Path) -> bool:
        """Whether what `there` is depends on a field."""
        less = defaulted(without_field(body, path), object_schema(self.definition, version_of(body)))
        try:
            return not is_same(_without_metadata(self.unaided(less, version_of(there))), _without_metadata(there))
        except ConversionError:
            return True

    @property
    def stored(self) -> str:
        """The version in which objects are stored."""
        return stored_version(self.definition)

    def _route(self, own: str, version: str) -> Iterator[str]:
        names = [each["name"] for each in self.definition["spec"]["versions"]]
        for each in (own, version):
            if each not in names:
                name = self.definition["metadata"]["name"]
                raise ConversionError(f"the CRD {name} has no version {each}; it has {', '.join(names)}")
        if own == version:
            return
        if self.stored not in (own, version):
            yield self.stored
        yield version

    def _step(self, body: Body, version: str) -> dict[str, Any]:
        """The object in a version that has a direct way."""
        plain, kept = without_kept(body)
        own, whole = version_of(body), self._is_whole(plain)
        given = self._given(plain, version, whole=whole)
        if version in kept:
            given = self._with_kept(given, kept[version])
        back = self._given(given, own, whole=whole)
        schema = object_schema(self.definition, own)
        fields = tuple(differences(_converted_part(plain), _converted_part(back), schema))
        others = {name: each for name, each in kept.items() if name not in (own, version)}
        if whole:
            others[own] = (self._sealed(plain, own, fields),) if fields else ()
            return with_kept(given, others)
        others[own] = tuple(self._sealed(plain, own, (leaf,)) for field in fields for leaf in field.leaves)
        return with_kept_apart(given, others)

    def _is_whole(self, body: Body) -> bool:
        """Whether an object can be one that the API server stores. To find the owners of fields, it converts parts of
        objects, too: without the fields that a manager owned before.
        """
        version = version_of(body)
        schema = object_schema(self.definition, version)
        if not _has_owned_fields(body) or defaulted(body, schema) != body:
            return False
        content = {name: value for name, value in body.items() if name != "status"}
        return not any(error.type is ErrorType.REQUIRED for error in validate(schema or {}, content).errors)

    def _given(self, body: Body, version: str, *, whole: bool) -> dict[str, Any]:
        """The object in a version, as the template gives it. A part may have too little for the template."""
        try:
            return self._rendered(body, version, whole=whole)
        except ConversionError:
            if whole:
                raise
            return {"apiVersion": self._api_version(version), "kind": body["kind"], "metadata": {**body["metadata"]}}

    def _rendered(self, body: Body, version: str, *, whole: bool = True) -> dict[str, Any]:
        """The object in a version, as the template gives it. Raises ConversionError."""
        found = whole_numbers(self.render(body, version))
        # The default of a field that a part lacks would look like that field.
        return self._fitting(_merged(body, found, self._api_version(version)), version, defaults=whole)

    def _fitting(self, body: dict[str, Any], version: str, *, defaults: bool) -> dict[str, Any]:
        schema = object_schema(self.definition, version)
        pruned, _ = prune(_without_nulls(body, schema), schema)
        return defaulted(pruned, schema) if defaults else pruned

    def _api_version(self, version: str) -> str:
        return f"{self.definition['spec']['group']}/{version}"

    def _sealed(self, body: Body, version: str, fields: tuple[KeptField, ...]) -> Kept:
        return Kept(fields=fields, seal="".join(self._seals(body, version, fields)))

    def _seals(self, body: Body, version: str, fields: Sequence[KeptField]) -> tuple[str, str]:
        return self._mac(body, [version, fields]), self._mac(None, [version, fields])

    def _mac(self, body: Body | None, kept: Any) -> str:
        uid = None if body is None else (body.get("metadata") or {}).get("uid", "")
        content = msgspec.json.encode([self.definition["metadata"]["name"], uid, kept], order="deterministic")
        return hmac.new(self.key, content, hashlib.sha256).hexdigest()[:_SEAL]

    def _is_sealed(self, seal: str, own: str) -> bool:
        return bool(self.key) and hmac.compare_digest(seal.encode(), own.encode())

    def _with_kept(self, body: dict[str, Any], kept: Iterable[Kept]) -> dict[str, Any]:
        """The object with the fields that the operator kept for its version."""
        version = version_of(body)
        schema = object_schema(self.definition, version)
        # A user may repeat what was sealed, and each field costs its size.
        own: dict[bytes, KeptField] = {}
        copied: dict[bytes, KeptField] = {}
        for each in kept:
            for_object, for_copies = self._seals(body, version, each.fields)
            fields = {msgspec.json.encode(field.path, order="deterministic"): field for field in each.fields}
            if self._is_sealed(each.seal[:_SEAL], for_object):
                own |= fields
            elif self._is_sealed(each.seal[_SEAL:], for_copies):
                copied |= {key: field for key, field in fields.items() if self._is_of_users(field, schema, version)}
        body = self._fitting(put_back(body, [*own.values()]), version, defaults=False)
        found = self._fitting(put_back(body, [*copied.values()]), version, defaults=False) if copied else body
        return found if not copied or self._errors(found) <= self._errors(body) else body

    def _errors(self, body: Body) -> frozenset[tuple[str, str]]:
        found = new_object(body, self.definition, version_of(body))
        return frozenset((field_text(error.path), str(error.type)) for error in found.errors)

    def _is_of_users(self, kept: KeptField, schema: Schema | None, version: str) -> bool:
        """Whether a user who writes the object may set a field."""
        if kept.path[0] == "status" and has_status(self.definition, version):
            return False
        return kept.path[0] == "metadata" or not _has_transition_rule(kept.path, schema)


_decode = msgspec.json.Decoder(dict[str, Kept]).decode

_APART = f"{UNCONVERTED}-"
"""The prefix of an annotation for each field. The API server compares parts of an object by their fields, so that what
it keeps or removes must be fields, too. Whole objects have the one annotation.
"""

KeptByVersion: TypeAlias = dict[str, tuple[Kept, ...]]


def without_kept(body: Body) -> tuple[dict[str, Any], KeptByVersion]:
    """The object without the annotations, and what they keep by version; nothing if that is not the operator's."""
    metadata = body.get("metadata") or {}
    annotations = metadata.get("annotations") or {}
    texts = [annotations[name] for name in sorted(annotations) if name == UNCONVERTED or name.startswith(_APART)]
    if not texts:
        return {**body, "metadata": metadata}, {}
    rest = {name: each for name, each in annotations.items() if name != UNCONVERTED and not name.startswith(_APART)}
    metadata = {name: each for name, each in metadata.items() if name != "annotations"}
    plain = {**body, "metadata": {**metadata, **({"annotations": rest} if rest else {})}}
    found: KeptByVersion = {}
    for text in texts:
        for version, kept in _read(text).items():
            found[version] = (*found.get(version, ()), kept)
    return plain, found


def _read(text: str) -> Mapping[str, Kept]:
    try:
        kept = _decode(text)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return {}
    return kept if all(_is_flat(field, DEPTH_LIMIT) for each in kept.values() for field in each.fields) else {}


def _is_flat(value: Any, levels: int) -> bool:
    """Whether a value is nested less deeply than this."""
    if isinstance(value, KeptField):
        value = [value.path, value.value, value.items]
    if isinstance(value, Mapping):
        value = [*value.values()]
    return levels > 0 and (not isinstance(value, (list, tuple)) or all(_is_flat(each, levels - 1) for each in value))


def with_kept(body: dict[str, Any], kept: KeptByVersion) -> dict[str, Any]:
    """The object with the annotation. Raises ConversionError if it gets too large."""
    joined: dict[str, Any] = {
        # What came apart is not sealed as one, and stays apart.
        version: each[0]
        for version, each in kept.items()
        if len(each) == 1
    }
    apart = {version: each for version, each in kept.items() if len(each) > 1}
    body = with_kept_apart(body, apart)
    return _annotated(body, {UNCONVERTED: joined}) if joined else body


def with_kept_apart(body: dict[str, Any], kept: KeptByVersion) -> dict[str, Any]:
    """The object with an annotation for each field. Raises ConversionError if they get too large."""
    texts = {}
    for version, parts in kept.items():
        for each in parts:
            path = msgspec.json.encode([version, [field.path for field in each.fields]], order="deterministic")
            texts[f"{_APART}{hashlib.sha256(path).hexdigest()[:16]}"] = {version: each}
    return _annotated(body, texts) if texts else body


def _annotated(body: dict[str, Any], texts: Mapping[str, Any]) -> dict[str, Any]:
    metadata = body["metadata"]
    encoded = {name: msgspec.json.encode(each, order="sorted").decode() for name, each in texts.items()}
    annotations = {**(metadata.get("annotations") or {}), **encoded}
    size = sum(len(name.encode()) + len(str(value).encode()) for name, value in annotations.items())
    if size > ANNOTATIONS_LIMIT:
        raise ConversionError(
            f"{UNCONVERTED} would keep what {version_of(body)} can't hold, and all annotations would have {size} "
            f"bytes of at most {ANNOTATIONS_LIMIT}; let the conversion give back more fields"
        )
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def version_of(body: Body) -> str:
    return split_api_version(str(body["apiVersion"]))[1]


def _has_owned_fields(body: Body) -> bool:
    """Whether an object has the fields of its spec that a manager owns in its version."""
    entries = (body.get("metadata") or {}).get("managedFields") or ()
    owned = (each.get("fieldsV1") for each in entries if each.get("apiVersion") == body["apiVersion"])
    return all(_has(body, {"f:spec": fields.get("f:spec", {})}) for fields in owned if fields and "f:spec" in fields)


def _has(value: Any, owned: Mapping[str, Any]) -> bool:
    """Whether a value has the fields of a set of owned ones."""
    names = [name for name in owned if name.startswith("f:")]
    if names and not isinstance(value, Mapping):
        return False
    return all(name[2:] in value and _has(value[name[2:]], owned[name]) for name in names)


def _merged(body: Body, found: Body, api_version: str) -> dict[str, Any]:
    """The object with what a template renders."""
    merged = {key: value for key, value in body.items() if key not in found}
    rendered = {key: value for key, value in found.items() if key not in ("apiVersion", "kind", "metadata")}
    if isinstance(rendered.get("status"), Mapping):
        rendered["status"] = {**_operator_status(body), **rendered["status"]}
    metadata = dict(body.get("metadata") or {})
    for field, values in (found.get("metadata") or {}).items():
        changed = {**(metadata.get(field) or {}), **(values or {})}
        metadata[field] = {name: value for name, value in changed.items() if value is not None}
        if not metadata[field]:
            del metadata[field]
    return {**merged, **rendered, "apiVersion": api_version, "kind": body["kind"], "metadata": metadata}


def _without_nulls(value: Any, schema: Schema | None) -> Any:
    """The value without null fields, which an object has only where the schema says `nullable`."""
    if isinstance(value, Mapping):
        return {
            name: _without_nulls(item, part)
            for name, item in value.items()
            for part in (part_schema(schema, name),)
            if item is not None or part is None or part.get("nullable")
        }
    if isinstance(value, (list, tuple)):
        return [_without_nulls(item, part_schema(schema, 0)) for item in value]
    return value


def _operator_status(body: Body) -> dict[str, Any]:
    """The fields of the status that the operator writes."""
    status = body.get("status")
    return {key: status[key] for key in (*RESERVED, "revision") if key in status} if isinstance(status, Mapping) else {}


def _without_mark(body: Body) -> dict[str, Any]:
    annotations = {name: each for name, each in body["metadata"]["annotations"].items() if name != NOT_CONVERTED}
    metadata = {name: each for name, each in body["metadata"].items() if name != "annotations"}
    return {**body, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}}


def _without_metadata(body: Body) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in ("apiVersion", "kind", "metadata")}


def _converted_part(body: Body) -> dict[str, Any]:
    """The fields that a conversion can change."""
    metadata = body.get("metadata") or {}
    changed = {field: metadata.get(field) or {} for field in ("labels", "annotations")}
    return {**_without_metadata(body), "metadata": changed}


def _has_transition_rule(path: Sequence[Any], schema: Schema | None) -> bool:
    """Whether a rule on a field, on one around it or on one in it compares it with the stored value."""
    for name in path:
        if schema is None:
            return False
        if _compares(schema, name):
            return True
        schema = part_schema(schema, name)
    return schema is not None and "oldSelf" in msgspec.json.encode(schema).decode()


_OLD = re.compile(r"\boldSelf\b(?:\.(\w+))?")


def _compares(schema: Schema, field: Any) -> bool:
    """Whether a rule compares a field of the value, or the whole value, with the stored one."""
    rules = schema.get(RULES) or ()
    named = {name for rule in rules for name in _OLD.findall(str(rule.get("rule")))}
    return bool(named) and (not isinstance(field, str) or "" in named or field in named)
