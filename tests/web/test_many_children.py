"""The page of a parent with ten thousand children."""

from __future__ import annotations

import pytest

from tests.benchmarks.web import shown
from tests.docs.browser import BROWSER

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome")]


async def test_a_page_has_elements_for_what_is_seen_alone() -> None:
    found = await shown(10_000, BROWSER)
    assert found.elements < 800
