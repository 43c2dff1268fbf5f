"""The Secret values that a parent's reconciles know, so that no message shows them.

Promises:
- Parents whose templates read no Secret, and generate none, pay nothing.
- A value stays known for a while after its Secret changed: messages may still quote what was made of it.
- Each content of a Secret is decoded once for all parents, and is in memory once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import ReferenceType, ref

from ssa_operator.core.objects.cluster_view import Body
from ssa_operator.core.redaction.secret_content import FormerContents, SecretContent
from ssa_operator.core.redaction.secret_values import NO_SECRETS, Redactor, content_of, secret_parts

VERSIONS = 256
"""Earlier contents that one parent knows at most, and Secrets that it no longer reads; the oldest are forgotten first.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSecrets:
    """What a parent knows of Secrets, and the redactor of all of it."""

    current: Mapping[str, SecretContent] = field(default_factory=dict, repr=False)
    """The last content of each Secret that was read, by the Secret's uid; those of generated values by ''."""
    former: tuple[ReferenceType[SecretContent], ...] = field(default=(), repr=False)
    """The contents that were current before, the oldest first. `FormerContents` keeps them in memory."""
    redactor: Redactor = NO_SECRETS
    spelled_in: tuple[int | None, str] = (None, "")
    """The parent's generation and the template set whose text is no secret."""


# The process keeps them, and not the parents: parents that skip some contents would keep all of them together.
_former_contents = FormerContents()


def with_secrets(
    known: KnownSecrets,
    secrets: Collection[Body],
    generated_values: Sequence[str],
    spelled_in: tuple[int | None, str],
    public: Callable[[], str],
) -> KnownSecrets:
    """The known values with those of more Secrets, and with generated values. `public` returns the text of the parent
    and its templates, which `spelled_in` identifies: a value in that text is no secret.
    """
    if not (known.current or secrets or generated_values):
        return known
    read: dict[str, SecretContent] = {}
    replaced: list[SecretContent] = []

    def learn(uid: str, content: SecretContent) -> None:
        before = read.get(uid) or known.current.get(uid)
        if before is not None and before is not content:
            replaced.append(before)
        read[uid] = content

    for body in secrets:
        if uid := body["metadata"].get("uid", ""):
            learn(uid, content_of(body))
    if generated_values:
        values = frozenset(part for value in generated_values for part in secret_parts(value))
        before = known.current.get("")
        learn("", before if before is not None and before.has_values(values) else SecretContent(values))
    current = {uid: content for uid, content in known.current.items() if uid not in read} | read
    while len(current) > max(VERSIONS, len(read)):
        replaced.append(current.pop(next(iter(current))))
    former = known.former
    if replaced:
        _former_contents.keep(replaced)
        former = tuple(dict.fromkeys(each for each in (*former, *map(ref, replaced)) if each() is not None))[-VERSIONS:]
    contents = tuple(content for content in current.values() if content)
    redactor = known.redactor
    if (contents, former, spelled_in) != (redactor.contents, redactor.former, known.spelled_in):
        redactor = Redactor(public=public, contents=contents, former=former)
    return KnownSecrets(current=current, former=former, redactor=redactor, spelled_in=spelled_in)
