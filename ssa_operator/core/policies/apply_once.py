"""What was made once, and is not made again: the words that a parent keeps of it.

Promises:
- The word for a manifest names what its author wrote, and not what we make of it: a newer operator finds the word of an
  older one. A generated value is no part of it, nor are instructions to the operator.
- It holds for one parent: one that is made again under the same name, also with all annotations of the old one, begins
  anew.
- It says how the object ended, as far as that was seen: whoever waits for it need not wait for what is gone.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ssa_operator.core.objects.annotations import PREFIX
from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.live_object import LiveObject
from ssa_operator.core.objects.render_result import Document
from ssa_operator.core.policies.parent_records import HOOK, ParentRecords, identity_from_key, identity_key
from ssa_operator.core.readiness.rules import Readiness, ReadinessState, readiness

KEPT_UNRENDERED = 100
"""Words that are kept of manifests which are no longer rendered, should they come back; the oldest go first."""

_FOUND = "found"


class FinalState(StrEnum):
    """What became of an object, as far as it was seen."""

    UNSEEN = ""
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class OnceRecord:
    """That a manifest was made: the digest of what its author wrote, and what became of the object.

    found: whether somebody else had made it before we looked, so that no watch of ours shows it.
    """

    digest: str
    end: FinalState = FinalState.UNSEEN
    found: bool = field(default=False, kw_only=True)

    def __str__(self) -> str:
        return " ".join(filter(None, (self.digest, self.end, _FOUND if self.found else "")))

    @property
    def origin(self) -> str:
        """Where the object came from, in words."""
        return "existed before it would have been made once" if self.found else "was made once"

    @property
    def standing(self) -> Readiness:
        """What the object counts as once it is gone."""
        again = "it is made again when its manifest changes"
        match self.end:
            case FinalState.READY:
                return Readiness(ReadinessState.CURRENT, f"{self.origin}, became ready and went; {again}")
            case FinalState.FAILED:
                return Readiness(ReadinessState.FAILED, f"{self.origin}, failed and went; {again}")
            case FinalState.UNSEEN:
                return Readiness(ReadinessState.CURRENT, f"{self.origin}, and went; {again}")


def digest(document: Document, parent: LiveObject) -> str:
    """Names what the author of a manifest wrote for this very parent."""
    metadata = dict(document.body["metadata"])
    annotations = {name: text for name, text in (metadata.pop("annotations", None) or {}).items() if not _is_ours(name)}
    if annotations:
        metadata["annotations"] = annotations
    text = json.dumps({**document.body, "metadata": metadata}, sort_keys=True, separators=(",", ":"))
    for value in document.generated_values:
        for spelling in (value, base64.b64encode(value.encode()).decode()):
            text = text.replace(spelling, "")
    return hashlib.blake2b(f"{parent.uid} {text}".encode(), digest_size=8).hexdigest()


def once_record(records: ParentRecords, identity: Identity) -> OnceRecord | None:
    """What is on record of a manifest, None where it was never made."""
    word = records.once.get(identity_key(identity))
    return _parsed(word) if word is not None else None


def is_done(words: Mapping[str, str], kind: str, name: str) -> bool:
    """Whether something of that kind and name was made once and, if it is gone, need not be waited for."""
    for each, word in words.items():
        identity = identity_from_key(each)
        if (identity.kind, identity.name) == (kind, name) and not each.startswith(HOOK):
            return _parsed(word).end is not FinalState.FAILED
    return False


def with_once_record(records: ParentRecords, identity: Identity, word: OnceRecord) -> ParentRecords:
    """The records with what was made of one manifest; what is newest stands last."""
    if records.once.get(identity_key(identity)) == str(word):
        return records
    others = {each: text for each, text in records.once.items() if each != identity_key(identity)}
    return replace(records, once={**others, identity_key(identity): str(word)})


def with_final_states(
    records: ParentRecords, last_seen: Callable[[Identity], LiveObject | None], now: float
) -> ParentRecords:
    """The records with what is known now of what wasn't seen to end; `last_seen` gives the last state of an object,
    also of one that went, as far as it is known. `now` is in seconds since the epoch.
    """
    for each, word in records.once.items():
        before = _parsed(word)
        if each.startswith(HOOK) or before.end is not FinalState.UNSEEN:
            continue
        identity = identity_from_key(each)
        end = final_state(last_seen(identity), before.end, now)
        if end is not before.end:
            records = with_once_record(records, identity, replace(before, end=end))
    return records


def trim_once_records(records: ParentRecords, rendered: Collection[Identity]) -> ParentRecords:
    """The records without the oldest words of what is no longer rendered."""
    wanted = {identity_key(identity) for identity in rendered}
    left = [each for each in records.once if each not in wanted and not each.startswith(HOOK)]
    forgotten = set(left[:-KEPT_UNRENDERED])
    if not forgotten:
        return records
    return replace(records, once={each: text for each, text in records.once.items() if each not in forgotten})


def final_state(live: LiveObject | None, before: FinalState, now: float) -> FinalState:
    """What became of an object: of one that was ready once, that stays true. `now` is in seconds since the epoch."""
    if live is None or before is FinalState.READY:
        return before
    metadata = {name: value for name, value in live.body["metadata"].items() if name != "deletionTimestamp"}
    match readiness({**live.body, "metadata": metadata}, now).state:
        case ReadinessState.CURRENT:
            return FinalState.READY
        case ReadinessState.FAILED:
            return FinalState.FAILED
        case _:
            return FinalState.UNSEEN


def _is_ours(annotation: str) -> bool:
    return annotation.startswith(PREFIX)


def _parsed(word: str) -> OnceRecord:
    name, *rest = word.split(" ")
    end = next((each for each in FinalState if each in rest), FinalState.UNSEEN)
    return OnceRecord(name, end, found=_FOUND in rest)
