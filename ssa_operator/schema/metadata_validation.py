"""Validates the metadata of objects and of embedded resources, as the API server does.

Promises:
- Names, labels, annotations, finalizers and owner references are checked with the API server's words.
- A field of another type is named; the API server's words for it differ, because it refuses the whole request.

The rules are those of k8s.io/apimachinery (pkg/api/validation) and k8s.io/apiextensions-apiserver (.../objectmeta).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from ssa_operator.objects.json_schema import Schema
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at, error_field, walk

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_KEY = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    f"'{_SUBDOMAIN}')"
)
_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
_KEY_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_KEY}')"
)
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    f"'({_KEY})?')"
)
_KIND_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
ANNOTATIONS_LIMIT = 256 * 1024
"""Bytes of all annotations of an object."""


def subdomain_faults(text: str, unit: str = "characters") -> list[str]:
    """The faults of a DNS subdomain. The API server has two words for the unit of its length."""
    faults = [f"must be no more than 253 {unit}"] if len(text.encode()) > 253 else []
    return faults if re.fullmatch(_SUBDOMAIN, text) else [*faults, _SUBDOMAIN_WORDS]


def label_faults(text: str) -> list[str]:
    """The faults of a DNS label."""
    faults = ["must be no more than 63 characters"] if len(text.encode()) > 63 else []
    return faults if re.fullmatch(_LABEL, text) else [*faults, _LABEL_WORDS]


def dns1035_faults(text: str) -> list[str]:
    """The faults of a DNS-1035 label."""
    faults = ["must be no more than 63 characters"] if len(text.encode()) > 63 else []
    return faults if re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", text) else [*faults, _KIND_WORDS]


def key_faults(text: str) -> list[str]:
    """The faults of the key of a label, an annotation or a finalizer."""
    parts = text.split("/")
    if len(parts) > 2:
        words = (
            f"a valid label key {_KEY_WORDS} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )
        return [words]
    faults, name = [], parts[-1]
    if len(parts) == 2:
        found = subdomain_faults(parts[0], "bytes") if parts[0] else ["must be non-empty"]
        faults += [f"prefix part {words}" for words in found]
    if not name:
        faults.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        faults.append("name part must be no more than 63 bytes")
    return faults if re.fullmatch(_KEY, name) else [*faults, f"name part {_KEY_WORDS}"]


def label_value_faults(text: str) -> list[str]:
    """The faults of the value of a label."""
    faults = ["must be no more than 63 bytes"] if len(text.encode()) > 63 else []
    return faults if re.fullmatch(f"({_KEY})?", text) else [*faults, _VALUE_WORDS]


def validate_metadata(body: Mapping[str, Any]) -> list[FieldError]:
    """The errors of an object's own metadata."""
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        return [error_at(("metadata", "name"), detail="name or generateName is required", kind=ErrorType.REQUIRED)]
    if errors := list(_wrong_types(metadata, ("metadata",))):
        return errors
    errors = []
    name, prefix = metadata.get("name") or "", metadata.get("generateName") or ""
    if prefix:
        masked = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
        errors += [error_at(("metadata", "generateName"), prefix, w) for w in subdomain_faults(masked)]
    if name:
        errors += [error_at(("metadata", "name"), name, words) for words in subdomain_faults(name)]
    elif not prefix:
        errors.append(
            error_at(("metadata", "name"), detail="name or generateName is required", kind=ErrorType.REQUIRED)
        )
    return [*errors, *_common(metadata, ("metadata",))]


def validate_metadata_values(metadata: Any, path: FieldPath) -> list[FieldError]:
    """The errors of a built-in object's metadata, or that of a template in it, without the name. Fields of wrong types
    are not looked at: the schema says what they must be.
    """
    if not isinstance(metadata, Mapping) or any(_wrong_types(metadata, path)):
        return []
    return list(_common(metadata, path))


def validate_embedded(schema: Schema, value: Any) -> Iterator[FieldError]:
    """The errors of apiVersion, kind and metadata of the embedded resources in an object."""
    for inner, item, place in walk(schema, value):
        if isinstance(item, Mapping) and inner.get("x-kubernetes-embedded-resource"):
            begin = len(error_field(place.path))
            for error in _of_embedded(item, place.path):
                yield replace(error, field=f"{place}{error.field[begin:]}")


def _of_embedded(value: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    for key in ("apiVersion", "kind"):
        at, text = (*path, key), value.get(key)
        if key not in value:
            yield error_at(at, kind=ErrorType.REQUIRED)
        elif not isinstance(text, str):
            yield error_at(at, text, "must be a string")
        elif not text:
            yield error_at(at, text, "must not be empty")
        elif key == "apiVersion" and text.count("/") > 1:
            yield error_at(at, text, f"unexpected GroupVersion string: {text}")
        elif key == "kind" and (faults := dns1035_faults(text.lower())):
            words = "may have mixed case, but should otherwise match: " + ",".join(faults)
            yield error_at(at, text, words)
    metadata = value.get("metadata")
    if isinstance(metadata, Mapping):
        at = (*path, "metadata")
        wrong = list(_wrong_types(metadata, at))
        yield from wrong or _common(metadata, at)
        name = metadata.get("name")
        if not wrong and name:
            yield from (error_at((*at, "name"), name, words) for words in segment_faults(name))
    elif metadata is not None:
        yield error_at((*path, "metadata"), metadata, "must be an object")


def segment_faults(name: str) -> list[str]:
    """What is wrong with a name that is a segment of a path."""
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in name]


_STRINGS = ("name", "generateName", "namespace", "uid", "resourceVersion", "selfLink")


def _wrong_types(metadata: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    for key in _STRINGS:
        if metadata.get(key) is not None and not isinstance(metadata[key], str):
            yield error_at((*path, key), metadata[key], "must be a string")
    for key in ("labels", "annotations"):
        entries = metadata.get(key)
        if entries is not None and not isinstance(entries, Mapping):
            yield error_at((*path, key), entries, "must be a mapping of strings")
            continue
        for name, text in (entries or {}).items():
            if text is not None and not isinstance(text, str):
                yield error_at((*path, key, name), text, "must be a string")
    for key, kind in (("finalizers", str), ("ownerReferences", Mapping)):
        items = metadata.get(key)
        if items is not None and not (isinstance(items, list) and all(isinstance(item, kind) for item in items)):
            yield error_at((*path, key), items, "must be a list")


def _common(metadata: Mapping[str, Any], path: FieldPath) -> Iterator[FieldError]:
    """The errors of everything but the name."""
    if namespace := metadata.get("namespace"):
        yield from (error_at((*path, "namespace"), namespace, w) for w in label_faults(namespace))
    at = (*path, "labels")
    for key, value in (metadata.get("labels") or {}).items():
        yield from (error_at((*at, key), key, words, shown=at) for words in key_faults(key))
        yield from (error_at((*at, key), value, w, shown=at) for w in label_value_faults(value or ""))
    at = (*path, "annotations")
    annotations = metadata.get("annotations") or {}
    for key in annotations:
        yield from (error_at((*at, key), key, words, shown=at) for words in key_faults(key.lower()))
    if sum(len(key.encode()) + len((text or "").encode()) for key, text in annotations.items()) > ANNOTATIONS_LIMIT:
        yield error_at(at, detail=f"may not be more than {ANNOTATIONS_LIMIT} bytes", kind=ErrorType.TOO_LONG)
    at = (*path, "ownerReferences")
    for position, owner in enumerate(metadata.get("ownerReferences") or ()):
        if not _version(written := owner.get("apiVersion")):
            place = (*at, position, "apiVersion")
            yield error_at(place, written or "", "version must not be empty", shown=(*at, "apiVersion"))
        for key in ("kind", "name", "uid"):
            if not owner.get(key):
                yield error_at((*at, position, key), "", "must not be empty", shown=(*at, key))
    at = (*path, "finalizers")
    for position, name in enumerate(metadata.get("finalizers") or ()):
        yield from (error_at((*at, position), name, words, shown=at) for words in key_faults(name))


def _version(api_version: Any) -> str:
    """The version in an owner's apiVersion, as the API server reads it; '' if it reads none."""
    text = api_version if isinstance(api_version, str) else ""
    return text.rpartition("/")[2] if text.count("/") < 2 else ""
