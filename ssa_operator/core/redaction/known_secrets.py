"""The Secret values that a parent's reconciles know, so that no message shows them.

Promises:
- Parents whose templates read no Secret, and generate none, pay nothing.
- A value stays known for a while after its Secret changed: messages may still quote what was made of it.
- Each version of a Secret is decoded once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ssa_operator.core.objects.cluster_view import Body
from ssa_operator.core.redaction.secret_values import NO_SECRETS, Redactor, secret_parts, union, values_of

VERSIONS = 256
"""Versions of Secrets that are remembered for one parent at most; the oldest are forgotten first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSecrets:
    """The values of each version of a Secret that was read, and the redactor of all of them."""

    values: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict, repr=False)
    """The values by the Secret's uid and resourceVersion."""
    redactor: Redactor = NO_SECRETS
    spelled_in: tuple[int | None, str] = (None, "")
    """The parent's generation and the template set whose text is no secret."""


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
    if not (known.values or secrets or generated_values):
        return known
    values = dict(known.values)
    for body in secrets:
        metadata = body["metadata"]
        version = metadata.get("uid", ""), metadata.get("resourceVersion", "")
        if all(version):
            values[version] = values.pop(version) if version in values else values_of(body)
    if generated_values:
        values["", "generated"] = frozenset(part for value in generated_values for part in secret_parts(value))
    while len(values) > VERSIONS:
        del values[next(iter(values))]
    together = union(values.values())
    if (together, spelled_in) == (known.redactor.values, known.spelled_in):
        return KnownSecrets(values=values, redactor=known.redactor, spelled_in=spelled_in)
    return KnownSecrets(values=values, redactor=Redactor(together, public), spelled_in=spelled_in)
