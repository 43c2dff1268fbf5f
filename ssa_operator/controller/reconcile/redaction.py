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

from ssa_operator.controller.watches.parent_cache import Memory, Parent
from ssa_operator.core.objects.cluster_view import Body
from ssa_operator.core.redaction.secret_values import Redactor, secret_parts, union, values_of
from ssa_operator.rendering.status_redaction import spelled

VERSIONS = 256
"""Versions of Secrets that a parent's passes remember at most; the first ones are forgotten."""


def remember_secrets(
    memory: Memory, subject: Parent, secrets: Iterable[Body], generated_values: Sequence[str] = ()
) -> Redactor:
    """Take the Secrets that a render looked at, and the values that it generated, into what is known."""
    known = memory.confided
    for body in (*secrets, subject.parent.body) if subject.resource.confidential else secrets:
        metadata = body["metadata"]
        version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
        if all(version):
            known[version] = known.pop(version) if version in known else values_of(body)
    if generated_values:
        known["", "drawn"] = frozenset(piece for value in generated_values for piece in secret_parts(value))
    if not known:
        return memory.redactor
    while len(known) > VERSIONS:
        del known[next(iter(known))]
    values = union(known.values())
    spelling = subject.parent.metadata.generation, subject.folder.digest
    if (values, spelling) != (memory.redactor.values, memory.spelling):
        public = partial(spelled, subject.folder.templates, subject.parent.body)
        memory.redactor, memory.spelling = Redactor(values, public), spelling
    return memory.redactor
