"""Kubernetes quantities: `1Gi`, `500m`, `1e3`.

Promises:
- Two spellings of one quantity have the same amount.
- A text that is no quantity, or longer than QUANTITY_LIMIT, has no amount.
- Only two quantities, or two percentages, can be compared.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import TypeGuard

QUANTITY_LIMIT = 256
"""Characters of a quantity: Kubernetes' largest one has 19 digits."""

_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:[eE]([+-]?\d{1,3})|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E))?")
_FACTORS: Mapping[str, Decimal] = {
    **{suffix: Decimal(10) ** (3 * power) for suffix, power in zip("num", (-3, -2, -1), strict=True)},
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}


def amount(quantity: object) -> Decimal | None:
    """The amount of a quantity, which is a string or a number; None for anything else."""
    if not isinstance(quantity, str | int | float) or (isinstance(quantity, int) and quantity.bit_length() > 512):
        return None
    text = str(quantity)
    match = _QUANTITY.fullmatch(text) if len(text) <= QUANTITY_LIMIT else None
    if match is None:
        return None
    number, exponent, suffix = match.groups()
    return Decimal(number).scaleb(int(exponent or 0)) * _FACTORS.get(suffix or "", Decimal(1))


def amounts(one: object, other: object) -> tuple[Decimal, Decimal] | None:
    """The amounts of two quantities, or of two percentages (`25%`, as of `maxUnavailable`); None for anything else."""
    if isinstance(one, bool) or isinstance(other, bool) or is_percentage(one) is not is_percentage(other):
        return None
    found = [amount(each[:-1] if is_percentage(each) else each) for each in (one, other)]
    return None if found[0] is None or found[1] is None else (found[0], found[1])


def is_percentage(value: object) -> TypeGuard[str]:
    """Whether a value may be a percentage."""
    return isinstance(value, str) and value.endswith("%")
