"""Decides whether another client removed the operator's records from a parent by mistake.

`kubectl replace` and Argo CD with `Replace=true` overwrite a parent with its manifest: without the finalizer and the
annotations of the operator.

Promises:
- If one write removed all records, the operator restores them from memory. If only some records are gone, a user
  removed them on purpose, as the documentation describes.
- If the parent is in a state from before the records, as after a restore of etcd, the records of memory don't count:
  what they say happened in a state of the cluster that no longer exists.
- A process without memory, because it has just started, recognizes a parent that has lost its records by its children.
  Manifests that were applied once count as applied; a user decides whether to apply them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec import Struct

from ssa_operator.kube.watch.cache import version_number
from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.json_codec import NOTHING
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.messages import sentence
from ssa_operator.reconcile.parent_records.rules import (
    ONCE_ANNOTATION,
    RECORD_ANNOTATIONS,
    SHARED_LENGTH,
    shown_text,
)

SHOWN_SECONDS = 600.0
"""Seconds for which the status names a loss."""


class RecordsNotice(Struct, frozen=True):
    """What the status reports about a loss, and until when, by the monotonic clock."""

    message: str = ""
    until: float = 0.0


NO_NOTICE = RecordsNotice()

RecordTexts = Mapping[str, str]
"""The annotations in which the operator records something on a parent, by name, and its finalizer with the text ''."""


def record_texts(parent: LiveObject) -> RecordTexts:
    """The records on a live parent, as they are written there."""
    annotations = parent.metadata.annotations
    texts = {name: annotations[name] for name in RECORD_ANNOTATIONS & annotations.keys()}
    if FINALIZER in parent.metadata.finalizers:
        texts[FINALIZER] = ""
    if sum(map(len, texts.values())) > SHARED_LENGTH:
        return texts
    return _shared(frozenset(texts.items())) if texts else NOTHING


@lru_cache(maxsize=1000)
def _shared(texts: frozenset[tuple[str, str]]) -> RecordTexts:
    """The records with these texts, one value for all parents that have them."""
    return dict(texts)


def _has_records(parent: LiveObject) -> bool:
    metadata = parent.metadata
    return FINALIZER in metadata.finalizers or not RECORD_ANNOTATIONS.isdisjoint(metadata.annotations)


def are_lost(known: RecordTexts, parent: LiveObject) -> bool:
    """Whether all records that a parent is known to have are gone. A parent that is being deleted gets no finalizer any
    more.
    """
    return bool(known) and not (parent.deleting or _has_records(parent))


def are_from_future(version: str, parent: LiveObject) -> bool:
    """Whether the cluster went back to a state of the parent from before this resourceVersion. A restored object keeps
    its version, whatever the versions of later writes.
    """
    known, now = version_number(version), version_number(parent.resource_version)
    return known is not None and now is not None and now < known


def were_lost(parent: LiveObject, *, has_children: bool) -> bool:
    """Whether the records of a parent that this process does not know were lost. `has_children`: whether the parent
    has children, or its status names one that existed: the operator records what it applies before the first apply. If
    that is in the status, the parent had no other records.
    """
    return has_children and not (parent.deleting or _has_records(parent) or shown_text(parent))


def restored_notice(known: RecordTexts, now: float) -> RecordsNotice:
    """The notice after records were put back; `now` is of the monotonic clock."""
    names = ", ".join(sorted(known))
    return RecordsNotice(f"{_REMOVED} ({names}); they are put back. {_INSTEAD}", now + SHOWN_SECONDS)


def unknown_notice(unrecorded: Iterable[Identity], now: float) -> RecordsNotice:
    """The notice of a process that has no memory of the records. `unrecorded` are the objects outside of the parent's
    scope that have its label and that no template renders. `now` is of the monotonic clock.
    """
    message = (
        f"{_REMOVED} while no operator knew them. What its templates apply once counts as applied; to apply it again, "
        f"remove the annotation {ONCE_ANNOTATION}."
    )
    names = [str(identity) for identity in unrecorded]
    if names:
        message += f" These have its label, no template renders them, and they stay: {sentence(names)}."
    return RecordsNotice(f"{message} {_INSTEAD}", now + SHOWN_SECONDS)


_REMOVED = "another client removed the operator's records from the parent"
_INSTEAD = "Change the parent by `kubectl apply` or `kubectl patch`, not by `replace`"
