"""What a process remembers about an apply that does not make the object as the manifest says, although the manifest is
not at fault: values of others that stay, changes by admission, and fields that other managers keep.

Promises:
- A value that stays is left out of the manifest, so that resyncs write nothing and the other manager keeps the field.
- The memory is valid for one manifest and one object only. A process that loses it finds it out again.
- The status names what stays and the template's value, or what admission changes, in a bounded text. It quotes no value
  that may be a Secret's content.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.field_set import Path, has, path_text
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.managed_fields import owned_by
from ssa_operator.objects.manifest import Manifest
from ssa_operator.objects.merge_keys import IndexedBody
from ssa_operator.objects.messages import bounded, shortened
from ssa_operator.objects.scalars import amounts
from ssa_operator.objects.source_location import FieldPath, without_value
from ssa_operator.reconcile.field_changes import LeftField, left_fields

DENIAL_LIMIT = 300
"""Characters of a denial in a message."""

VALUE_LIMIT = 80
"""Characters of a value in a message."""

FIELD_LIMIT = 160
"""Characters of a field in a message."""

LISTED = 4
"""Fields in one message."""

_SECRET = GroupKind("", "Secret")


class KeptValue(Struct, frozen=True, kw_only=True):
    """A value of a manifest that gives way to the live one."""

    path: FieldPath
    """Its place in the manifest."""
    steps: Path
    """Its place in the object, as managedFields name it."""
    wanted: Any
    """The manifest's value."""


class KnownRefusal(Struct, frozen=True, kw_only=True):
    """How an apply was refused, and what the operator does since."""

    digest: bytes
    """The digest of the manifest."""
    uid: str
    """The uid of the object."""
    kept: tuple[KeptValue, ...] = ()
    """What is left out of the manifest."""
    denial: str = ""
    """How admission denies the values that are left out, '' if the API server itself refuses them."""
    admission: str = ""
    """What admission changes in each apply, '' where something else is refused."""
    left: tuple[LeftField, ...] = ()
    """What an apply of this process gave up, and other managers keep. A process that loses it can't find it out again.
    """


def after_apply(
    known: KnownRefusal | None, manifest: Manifest, before: LiveObject, after: LiveObject
) -> tuple[KnownRefusal | None, str]:
    """What is known after an apply that succeeded, and the message about fields that it gave up and that stay."""
    given_up: tuple[LeftField, ...] = ()
    if before.owned_fields() != after.owned_fields() and before.own_api_version() == after.own_api_version():
        given_up = tuple(each for each in left_fields(before, after) if not each.handed_over)
    fields = (*(() if known is None else known.left), *given_up)
    if known is None or known.admission:
        known = KnownRefusal(digest=manifest.digest, uid=after.uid) if fields else None
    return known and replace(known, left=fields), left_text(given_up)


def left_text(left: Sequence[LeftField], denial: str = "") -> str:
    """The message about fields that stay, because others own them or because of a denial."""
    shown = []
    for each in left[:LISTED]:
        owners = " and ".join(dict.fromkeys(map(str, each.owners)))
        why = f", because {owners} owns it, too" if owners else f"; whether it is a default is unknown: {denial}"
        shown.append(f"{field_shown(each.path)} is no longer in the template, and stays{why}")
    return "; ".join([*shown, *([f"and {len(left) - LISTED} more"] if len(left) > LISTED else [])])


def recalled(known: KnownRefusal, manifest: Manifest, live: LiveObject | None, *, resyncs: bool) -> KnownRefusal | None:
    """What is known, None if it is about another manifest, another object, or a value that has changed back. A
    resync (`resyncs`) tries again what admission denied: no event tells when a policy is gone. Fields that others keep
    are known until they go, or until a manifest has them again.
    """
    if live is None or known.uid != live.uid:
        return None
    body, own = IndexedBody(live.body), owned_by(live) if known.left else {}
    left = tuple(each for each in known.left if body.value_at(each.path) is not None and not has(own, each.path))
    stands = known.digest == manifest.digest and not (known.denial and resyncs)
    stands = stands and all(_is_moved(each.wanted, body.value_at(each.steps)) for each in known.kept)
    if stands and (known.kept or known.admission or left):
        return known if left == known.left else replace(known, left=left)
    return KnownRefusal(digest=manifest.digest, uid=live.uid, denial=known.denial, left=left) if left else None


def _is_moved(wanted: object, live: object) -> bool:
    found = amounts(wanted, live)
    return found is not None and found[0] != found[1]


def without_kept(manifest: Manifest, kept: Sequence[KeptValue]) -> Manifest:
    """The manifest without the values that stay. It counts as the same manifest."""
    if not kept:
        return manifest
    body: Any = manifest.body
    for each in kept:
        body = without_value(body, each.path)
    return replace(manifest, body=body, encoded=encode(body))


def refusal_notice(known: KnownRefusal | None, manifest: Manifest | None, live: LiveObject | None) -> str | None:
    """The status's addition to the readiness of the object, None if there is none."""
    if known is None or manifest is None or live is None:
        return None
    body = IndexedBody(live.body)
    notices = [_stays(each, body.value_at(each.steps), manifest) for each in known.kept[:LISTED]]
    more = len(known.kept) - LISTED
    text = "; ".join([*notices, *([f"and {more} more"] if more > 0 else [])])
    if known.kept and known.denial:
        text += f", because admission denies the template's ({known.denial})"
    return "; ".join(filter(None, (known.admission, text, left_text(known.left, known.denial))))


def _stays(kept: KeptValue, live: object, manifest: Manifest) -> str:
    found = amounts(kept.wanted, live)
    than = "larger" if found is not None and found[1] > found[0] else "smaller"
    field = field_shown(kept.steps)
    if manifest.identity.group_kind == _SECRET or manifest.document.secret.covers(field):
        return f"{field}: the live value, {than} than the template's, stays"
    return f"{field}: {value_shown(live)}, {than} than the template's {value_shown(kept.wanted)}, stays"


def field_shown(path: Path) -> str:
    """A field as a message shows it."""
    return shortened(path_text(path), FIELD_LIMIT)


def value_shown(value: object) -> str:
    """A value as a message shows it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return shortened(text, VALUE_LIMIT)


def admission_notice(manifest: Manifest, field: str, changes: Sequence[tuple[Path, Any, Any]], causes: str) -> str:
    """The message about a change that admission makes within each apply. `changes` are fields with the manifest's value
    and admission's, as far as a dry run shows them; `causes` are the API server's words.
    """
    secret, identity = manifest.document.secret, manifest.identity
    # Admission may copy content into any field, and the API server quotes refused values.
    quotes = not secret and identity.group_kind != _SECRET
    shown = []
    for path, wanted, made in changes[:LISTED]:
        where = secret.shown(field_shown(path))
        if not quotes:
            shown.append(where)
        elif wanted is None:
            shown.append(f"{where} to {value_shown(made)}")
        else:
            shown.append(f"{where} from {value_shown(wanted)} to {value_shown(made)}")
    more = f" and {len(changes) - LISTED} more" if len(changes) > LISTED else ""
    immutable = bounded(field, FIELD_LIMIT)
    changed = (
        f"changes {', '.join(shown)}{more} in each apply"
        if shown
        else f"changes something in {immutable} in each apply, or a rule refuses every update"
    )
    said = f" ({causes})" if quotes else ""
    return (
        f"admission (a mutating policy or webhook) {changed}: the API server refuses it, because {immutable} is "
        "immutable; the manifest changes nothing there, so the object stays as it is; exempt it from the "
        f"policy{said}"
    )
