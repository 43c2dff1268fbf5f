"""The API server's warnings, each of which is shown once.

Promises:
- A warning of a child is shown once, as long as the child is rendered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable


def new_warnings(warnings: Iterable[str], shown: Collection[str]) -> tuple[str, ...]:
    """The warnings that were not shown yet."""
    return tuple(text for text in warnings if text not in shown)
