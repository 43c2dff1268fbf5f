"""The amounts of Kubernetes quantities."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.objects.quantity import amount


@pytest.mark.parametrize(
    ("one", "other"),
    [("1Gi", "1024Mi"), ("1", "1000m"), ("1k", "1e3"), ("1.5Gi", "1536Mi"), ("2", 2), ("0.5", "500m"), ("1E", "1e18")],
)
def test_two_spellings_of_one_quantity_have_the_same_amount(one: object, other: object) -> None:
    assert amount(one) == amount(other) is not None


@pytest.mark.parametrize("text", ["", "x", "1 Gi", "1gi", "Gi", None, True, "1e", "1..2"])
def test_a_text_that_is_no_quantity_has_no_amount(text: object) -> None:
    assert amount(text) is None


@given(st.integers(0, 10**15), st.sampled_from(["Ki", "Mi", "Gi", "Ti"]))
def test_a_larger_suffix_is_a_larger_amount(number: int, suffix: str) -> None:
    assert amount(f"{number}{suffix}") == Decimal(number) * 1024 ** (1 + ["Ki", "Mi", "Gi", "Ti"].index(suffix))
