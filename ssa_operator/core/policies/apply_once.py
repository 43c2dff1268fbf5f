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

from ssa_operator.core.objects.identity import Identity
from ssa_operator.core.objects.annotations import PREFIX
from ssa_operator.core.objects.live_object import Live
from ssa_operator.core.planning.outcome import Outcome, Result
from ssa_operator.core.readiness.rules import Readiness, State, readiness
from ssa_operator.core.objects.render_result import Document
from ssa_operator.core.planning.step import Action, Problem
from ssa_operator.core.policies.parent_records import HOOK, Records, from_key, key

FORGOTTEN = 100
"""Words that are kept of manifests which are no longer rendered, should they come back; the oldest go first."""

_FOUND = "found"


class End(StrEnum):
    """What became of an object, as far as it was seen."""

    UNSEEN = ""
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Made:
    """That a manifest was made: the digest of what its author wrote, and what became of the object.

    found: whether somebody else had made it before we looked, so that no watch of ours shows it.
    """

    digest: str
    end: End = End.UNSEEN
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
            case End.READY:
                return Readiness(State.CURRENT, f"{self.origin}, became ready and went; {again}")
            case End.FAILED:
                return Readiness(State.FAILED, f"{self.origin}, failed and went; {again}")
            case End.UNSEEN:
                return Readiness(State.CURRENT, f"{self.origin}, and went; {again}")


def digest(document: Document, parent: Live) -> str:
    """Names what the author of a manifest wrote for this very parent."""
    metadata = dict(document.body["metadata"])
    annotations = {name: text for name, text in (metadata.pop("annotations", None) or {}).items() if not _is_ours(name)}
    if annotations:
        metadata["annotations"] = annotations
    text = json.dumps({**document.body, "metadata": metadata}, sort_keys=True, separators=(",", ":"))
    for value in document.drawn:
        for spelling in (value, base64.b64encode(value.encode()).decode()):
            text = text.replace(spelling, "")
    return hashlib.blake2b(f"{parent.uid} {text}".encode(), digest_size=8).hexdigest()


def made(records: Records, identity: Identity) -> Made | None:
    """What is on record of a manifest, None where it was never made."""
    word = records.once.get(key(identity))
    return _parsed(word) if word is not None else None


def is_done(words: Mapping[str, str], kind: str, name: str) -> bool:
    """Whether something of that kind and name was made once and, if it is gone, need not be waited for."""
    for each, word in words.items():
        identity = from_key(each)
        if (identity.kind, identity.name) == (kind, name) and not each.startswith(HOOK):
            return _parsed(word).end is not End.FAILED
    return False


def with_made(records: Records, identity: Identity, word: Made) -> Records:
    """The records with what was made of one manifest; what is newest stands last."""
    if records.once.get(key(identity)) == str(word):
        return records
    others = {each: text for each, text in records.once.items() if each != key(identity)}
    return replace(records, once={**others, key(identity): str(word)})


def with_ends(records: Records, last_seen: Callable[[Identity], Live | None], now: float) -> Records:
    """The records with what is known now of what wasn't seen to end; `last_seen` gives the last state of an object,
    also of one that went, as far as it is known. `now` is in seconds since the epoch.
    """
    for each, word in records.once.items():
        before = _parsed(word)
        if each.startswith(HOOK) or before.end is not End.UNSEEN:
            continue
        identity = from_key(each)
        end = seen(last_seen(identity), before.end, now)
        if end is not before.end:
            records = with_made(records, identity, replace(before, end=end))
    return records


def without_forgotten(records: Records, rendered: Collection[Identity]) -> Records:
    """The records without the oldest words of what is no longer rendered."""
    wanted = {key(identity) for identity in rendered}
    left = [each for each in records.once if each not in wanted and not each.startswith(HOOK)]
    forgotten = set(left[:-FORGOTTEN])
    if not forgotten:
        return records
    return replace(records, once={each: text for each, text in records.once.items() if each not in forgotten})


def seen(live: Live | None, before: End, now: float) -> End:
    """What became of an object: of one that was ready once, that stays true. `now` is in seconds since the epoch."""
    if live is None or before is End.READY:
        return before
    metadata = {name: value for name, value in live.body["metadata"].items() if name != "deletionTimestamp"}
    match readiness({**live.body, "metadata": metadata}, now).state:
        case State.CURRENT:
            return End.READY
        case State.FAILED:
            return End.FAILED
        case _:
            return End.UNSEEN


def noted(records: Records, outcome: Outcome, parent: Live, now: float) -> Records:
    """The records with what became of a manifest that is made"""
    step = outcome.step
    is_kept = step.action is Action.KEEP or (
        step.action is Action.APPLY
        and outcome.result in (Result.CREATED, Result.CONFIGURED, Result.UNCHANGED, Result.RECREATED)
    )
    if step.manifest is None or not is_kept or not step.manifest.once:
        return records
    before = made(records, step.identity)
    if before is None or step.action is Action.APPLY:
        found = step.action is Action.KEEP and outcome.live is not None and outcome.live.parent_uid != parent.uid
        before = Made(digest(step.manifest.document, parent), found=found)
    return with_made(records, step.identity, replace(before, end=seen(outcome.live, before.end, now)))


def unrecorded(outcome: Outcome, error: str) -> Outcome:
    """What to say of a manifest that was made once and may be made again, as it could not be put on record."""
    if outcome.step.manifest is None or not outcome.step.manifest.once:
        return outcome
    message = f"{outcome.step.identity} is made once, which can't be recorded on its parent: {error}"
    return replace(outcome, result=Result.FAILED, message=message, problem=Problem.APPLY_FAILED, passing=True)


def _is_ours(annotation: str) -> bool:
    return annotation.startswith(PREFIX)


def _parsed(word: str) -> Made:
    name, *rest = word.split(" ")
    end = next((each for each in End if each in rest), End.UNSEEN)
    return Made(name, end, found=_FOUND in rest)
