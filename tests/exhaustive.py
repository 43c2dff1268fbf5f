"""Which tests `make test` leaves to `make test-exhaustive`: those that show a promise in more cases than one.

Promises:
- A test marked `exhaustive` is one of these with all its cases, a test marked `more_cases` with all but the first.
- A case is the first or not whichever tests are selected, so the second run of a failed test (tests/rerun.py) finds it.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("more_cases") and not _is_first_case(item):
            item.add_marker("exhaustive")


def _is_first_case(item: pytest.Item) -> bool:
    indices: dict[str, int] = getattr(item, "callspec").indices  # noqa: B009 - a test without cases is an error
    return not any(indices.values())
