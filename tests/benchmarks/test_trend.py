"""The soak's judgement: what counts as growth."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.trend import growth, tenths


def test_a_figure_that_stays_does_not_grow_however_much_it_varies() -> None:
    chance = random.Random(1)
    samples = [(float(number), 100.0 + chance.choice((-3.0, 0.0, 3.0))) for number in range(60)]
    assert abs(growth(samples)) < 1


def test_a_figure_that_grows_slowly_is_seen_through_its_noise() -> None:
    chance = random.Random(1)
    samples = [(float(number), 100.0 + number / 10 + chance.choice((-1.0, 0.0, 1.0))) for number in range(60)]
    assert 5 < growth(samples) < 7


def test_one_high_sample_is_no_growth() -> None:
    assert growth([(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (4.0, 50.0)]) == 0


def test_a_step_that_stays_is_growth() -> None:
    assert growth([(float(number), 10.0 if number < 30 else 20.0) for number in range(60)]) > 5


def test_too_few_samples_show_no_growth() -> None:
    assert growth([]) == 0
    assert growth([(0.0, 1.0)]) == 0


@given(st.lists(st.floats(0, 1000), min_size=1, max_size=95))
def test_the_tenths_are_medians_of_parts_that_have_every_value(values: list[float]) -> None:
    found = tenths(values)
    assert len(found) == min(10, len(values))
    assert min(values) <= min(found) <= max(found) <= max(values)


def test_the_tenths_follow_the_time() -> None:
    assert tenths([float(number) for number in range(30)]) == [1.0, 4.0, 7.0, 10.0, 13.0, 16.0, 19.0, 22.0, 25.0, 28.0]
    assert tenths([3.0, 1.0]) == [3.0, 1.0]
