"""Amounts as Kubernetes writes them: `1Gi`, `500m`, `1e3`.

Promises:
- Two quantities compare by their amount, whatever their spelling.
- What is no quantity is None, never a guess.

https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d{1,3})|(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E))?")
_FACTORS: Mapping[str, Decimal] = {
    **{suffix: Decimal(10) ** (3 * power) for suffix, power in zip("num", (-3, -2, -1), strict=True)},
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}


def amount(quantity: object) -> Decimal | None:
    """The amount of a quantity, a string or a number; None where it is none."""
    found = _QUANTITY.fullmatch(str(quantity)) if isinstance(quantity, str | int | float) else None
    if found is None:
        return None
    number, exponent, suffix = found.groups()
    return Decimal(number).scaleb(int(exponent or 0)) * _FACTORS.get(suffix or "", Decimal(1))
