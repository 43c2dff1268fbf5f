"""What a parent's passes know of Secrets, so that none of it is said.

Promises:
- Parents whose templates look at no Secret, and generate none, pay nothing.
- What was known stays known for a while: a Secret may change between two passes, and something is still to be said of
  what was made of the former one.
- Each version of a Secret is taken apart once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from ssa_operator.controller.reconcile.parent_cache import Memory, Subject
from ssa_operator.core.redaction.secret_values import Secrecy, pieces, union, values_of
from ssa_operator.core.objects.cluster_view import Body
from ssa_operator.rendering.status_redaction import spelled

VERSIONS = 256
"""Versions of Secrets that a parent's passes remember at most; the first ones are forgotten."""


def learn(memory: Memory, subject: Subject, secrets: Iterable[Body], drawn: Sequence[str] = ()) -> Secrecy:
    """Take the Secrets that a render looked at, and the values that it generated, into what is known."""
    known = memory.confided
    for body in (*secrets, subject.parent.body) if subject.resource.confidential else secrets:
        metadata = body["metadata"]
        version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
        if all(version):
            known[version] = known.pop(version) if version in known else values_of(body)
    if drawn:
        known["", "drawn"] = frozenset(piece for value in drawn for piece in pieces(value))
    if not known:
        return memory.secrecy
    while len(known) > VERSIONS:
        del known[next(iter(known))]
    values = union(known.values())
    spelling = subject.parent.metadata.generation, subject.folder.digest
    if (values, spelling) != (memory.secrecy.values, memory.spelling):
        public = partial(spelled, subject.folder.templates, subject.parent.body)
        memory.secrecy, memory.spelling = Secrecy(values, public), spelling
    return memory.secrecy
