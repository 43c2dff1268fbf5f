"""Every code of a finding, from the modules of the rules."""

from __future__ import annotations

from collections.abc import Mapping

from ssa_operator.objects.messages import did_you_mean
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.tools import schema_rules
from ssa_operator.tools.checks import (
    conversion_rules,
    crd_rules,
    field_rules,
    manifest_rules,
    name_rules,
    parent_choices,
    refusal_rules,
    template_checks,
    text_rules,
)
from ssa_operator.tools.findings import Code

_RULES = (
    conversion_rules,
    crd_rules,
    field_rules,
    manifest_rules,
    name_rules,
    parent_choices,
    refusal_rules,
    schema_rules,
    template_checks,
    text_rules,
)

CODES: Mapping[str, Code] = {
    code: code for code in sorted(each for rules in _RULES for each in vars(rules).values() if isinstance(each, Code))
}
"""Every code by its name, in the order of the names."""


def explanation(code: str) -> str:
    """What a code means, and what to do. Raises CommandError."""
    for found in CODES.values():
        if code == found:
            return f"{found} ({found.severity}): {found.problem}\n\n{found.explanation}"
        if code in found.replaces:
            raise CommandError(f"{found} replaces the code {code}", code=2)
    hint = did_you_mean(code, CODES, f"the codes are {', '.join(CODES)}")
    raise CommandError(f"there is no code {code}; {hint}", code=2)
