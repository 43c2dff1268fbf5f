"""The changes between two states of a CRD by which stored objects, or objects that users write, are refused or lose
something.

Promises:
- What was valid is refused or loses a field only by a change that is named here, as far as schemas alone tell.
- A change that only permits more has no entry: an optional field, another value of an enum, a wider bound.
- A change names the field and what to do, and has its place in the new CRD.

Source: the rules of Kubernetes for compatible changes of an API (sig-architecture's api_changes.md) and for versions of
CRDs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from ssa_operator.objects.json_schema import PRESERVED, RULES, Schema, fields
from ssa_operator.objects.source_location import FieldPath, value_at

_EITHER = "x-kubernetes-int-or-string"
_LISTS = ("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")
_LOWER = ("minLength", "minItems", "minProperties")
_UPPER = ("maxLength", "maxItems", "maxProperties")
_OTHERS = ("pattern", "format", "multipleOf", "uniqueItems", "allOf", "anyOf", "oneOf", "not")


class CRDChange(Struct, frozen=True, kw_only=True):
    """A change that can refuse or lose objects."""

    code: str
    """A code of findings."""
    message: str
    """The field, what changed, and what to do."""
    path: FieldPath = ()
    """The place in the new CRD."""


class _Field(Struct, frozen=True):
    """A field of a version in both states."""

    version: str
    words: str
    """`spec.replicas`."""
    path: FieldPath
    """The schema of the field in the new CRD."""

    def below(self, name: str, *path: str) -> _Field:
        return _Field(self.version, f"{self.words}.{name}" if self.words else name, (*self.path, *path))

    def changed(self, code: str, what: str, *path: str) -> CRDChange:
        words = f"{self.words or 'the object'} of version {self.version} {what}"
        return CRDChange(code=code, message=words, path=(*self.path, *path))


def crd_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[CRDChange]:
    """The changes of one CRD that can refuse or lose objects."""
    old, new = before["spec"], after["spec"]
    for path, what in ((("scope",), "scope"), (("names", "kind"), "kind"), (("names", "listKind"), "list kind")):
        was, now = value_at(old, path), value_at(new, path)
        if was is not None and now is not None and was != now:
            words = f"its {what} was {was} and is {now}; it can't be changed, so give the new one another name"
            yield CRDChange(code="crd-names-changed", message=words, path=("spec", *path))
    versions = {version["name"]: (position, version) for position, version in enumerate(new["versions"])}
    for was in old["versions"]:
        position, now = versions.get(was["name"], (-1, None))
        if now is None:
            words = f"version {was['name']} is gone; keep it, with `served: false` when no client uses it any more"
            yield CRDChange(code="crd-version-removed", message=words, path=("spec", "versions"))
        else:
            yield from _version_changes(was, now, ("spec", "versions", position))


def _version_changes(before: Mapping[str, Any], after: Mapping[str, Any], path: FieldPath) -> Iterator[CRDChange]:
    name = after["name"]
    for field, words in (
        ("served", "is no longer served: clients that use it fail; serve it until none does"),
        ("storage", "is no longer the stored one; objects are stored in it until they are written again"),
    ):
        if before.get(field) and not after.get(field):
            yield CRDChange(code="crd-version-removed", message=f"version {name} {words}", path=(*path, field))
    if "status" in (before.get("subresources") or {}) and "status" not in (after.get("subresources") or {}):
        words = f"version {name} has no status subresource any more: a write of an object replaces its status; keep it"
        yield CRDChange(code="crd-status-removed", message=words, path=path)
    was, now = (value_at(each, ("schema", "openAPIV3Schema")) or {} for each in (before, after))
    yield from _changes(was, now, _Field(name, "", (*path, "schema", "openAPIV3Schema")))


def _changes(before: Schema, after: Schema, field: _Field) -> Iterator[CRDChange]:
    """The changes of a field and of all below it."""
    if type_change := _type_change(before, after):
        yield field.changed("crd-type-changed", type_change, "type")
        return
    yield from _narrowed(before, after, field)
    yield from _bounds(before, after, field)
    for name in _LISTS:
        was, now = (_list_setting(each, name) for each in (before, after))
        if was != now and before:
            words = (
                f"has another {name} ({was or 'none'}, now {now or 'none'}): applies merge its items otherwise; keep it"
            )
            yield field.changed("crd-list-type-changed", words, *([name] if name in after else []))
    yield from _default_changes(before, after, field)
    known = {str(rule.get("rule")) for rule in before.get(RULES) or ()}
    for rule in after.get(RULES) or ():
        if str(rule.get("rule")) not in known:
            words = f"has a new rule, {rule.get('rule')}: objects that break it can't be written any more"
            yield field.changed("crd-rule-added", f"{words}; see what is stored before you install it", RULES)
    yield from _children(before, after, field)


def _types(schema: Schema) -> frozenset[str]:
    """The types of values that a schema permits, empty for any."""
    if schema.get(_EITHER):
        return frozenset({"integer", "string"})
    kind = schema.get("type")
    return frozenset({"number", "integer"}) if kind == "number" else frozenset({kind} if kind else ())


def _type_change(before: Schema, after: Schema) -> str | None:
    was, now = _types(before), _types(after)
    if not now or (was and was <= now):
        return None
    old = " or ".join(sorted(was)) or "any type"
    return (
        f"was {old} and is {' or '.join(sorted(now))}: stored values are refused; add a field of another name instead"
    )


def _narrowed(before: Schema, after: Schema, field: _Field) -> Iterator[CRDChange]:
    if before.get("nullable") and not after.get("nullable"):
        yield field.changed("crd-narrowed", "may not be null any more; keep `nullable: true`")
    if before.get(PRESERVED) and not after.get(PRESERVED):
        words = "loses the fields that it doesn't declare; declare them, or keep x-kubernetes-preserve-unknown-fields"
        yield field.changed("crd-field-removed", words)
    if "enum" in after:
        lost = [value for value in before.get("enum", ()) if value not in after["enum"]]
        if "enum" not in before:
            yield field.changed("crd-narrowed", "has an enum now: other values are refused; leave it out", "enum")
        elif lost:
            words = f"may not be {', '.join(map(str, lost))} any more; keep the value, and deprecate it in words"
            yield field.changed("crd-narrowed", words, "enum")
    for name in _OTHERS:
        if after.get(name) not in (None, False, []) and after[name] != before.get(name):
            how = "another" if before.get(name) else "a"
            words = f"has {how} {name} now: values that were valid may be refused; keep what was valid"
            yield field.changed("crd-narrowed", words, name)
    for name in after.get("required") or ():
        if name not in (before.get("required") or ()) and "default" not in fields(after).get(name, {}):
            below = field.below(name, "required")
            words = "is required now: objects without it are refused; give it a default, or leave it optional"
            yield below.changed("crd-field-required", words)


def _bounds(before: Schema, after: Schema, field: _Field) -> Iterator[CRDChange]:
    for name in _LOWER:
        was, now = before.get(name) or 0, after.get(name) or 0
        if now > was:
            yield field.changed("crd-narrowed", f"has {name} {now}, before {was}; keep the old bound", name)
    for name in _UPPER:
        was, now = before.get(name), after.get(name)
        if now is not None and (was is None or now < was):
            old = "none" if was is None else was
            yield field.changed("crd-narrowed", f"has {name} {now}, before {old}; keep the old bound", name)
    for name, exclusive, sign in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
        was, now = before.get(name), after.get(name)
        if now is None:
            continue
        excludes = bool(after.get(exclusive)) and not before.get(exclusive) and now == was
        if was is None or sign * now > sign * was or excludes:
            old = "none" if was is None else was
            words = f"has {'an exclusive ' if excludes else ''}{name} {now}, before {old}; keep the old bound"
            yield field.changed("crd-narrowed", words, name)


def _list_setting(schema: Schema, name: str) -> Any:
    default = {"x-kubernetes-list-type": "atomic", "x-kubernetes-map-type": "granular"}.get(name)
    found = schema.get(name, default)
    return sorted(found) if isinstance(found, list) else found


def _default_changes(before: Schema, after: Schema, field: _Field) -> Iterator[CRDChange]:
    if "default" not in before or before["default"] == after.get("default"):
        return
    now = f"is {after['default']}" if "default" in after else "is gone"
    words = f"had the default {before['default']}, which {now}: objects that leave the field out mean something else"
    yield field.changed("crd-default-changed", words, *(["default"] if "default" in after else []))


def _children(before: Schema, after: Schema, field: _Field) -> Iterator[CRDChange]:
    was, now = fields(before), fields(after)
    others = after.get("additionalProperties")
    for name, old in was.items():
        if name in now:
            yield from _changes(old, now[name], field.below(name, "properties", name))
        elif isinstance(others, Mapping):
            yield from _changes(old, others, field.below(name, "additionalProperties"))
        elif not (others or after.get(PRESERVED)):
            gone = _Field(field.version, f"{field.words}.{name}" if field.words else name, field.path)
            words = "is gone: its stored values are lost with the next write; keep it, and deprecate it in words"
            yield gone.changed("crd-field-removed", words)
    values = before.get("additionalProperties")
    if values:
        if isinstance(values, Mapping) and isinstance(others, Mapping):
            yield from _changes(values, others, field.below("*", "additionalProperties"))
        elif not others and not after.get(PRESERVED):
            words = "has no entries of any name any more: stored ones are lost with the next write; keep them"
            yield field.changed("crd-field-removed", words)
    items = before.get("items")
    if isinstance(items, Mapping) and isinstance(after.get("items"), Mapping):
        yield from _changes(items, after["items"], field.below("*", "items"))
