"""The pauses between retries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.kube.api.backoff import BACKOFF_CAP, backoff


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_backoff_grows_to_its_cap_and_never_ends(failures: int, jitter: float) -> None:
    wait = backoff(failures, jitter)
    assert 0.25 <= wait <= BACKOFF_CAP
    assert backoff(failures + 1, 0) >= backoff(failures, 0)
