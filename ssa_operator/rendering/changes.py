"""Changes of the templates folder, for hot reload.

Promises:
- A burst of changes is one change.
- The folder need not exist yet, and may be replaced as a whole, as a ConfigMap's mount is.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from watchfiles import awatch


async def changes(root: Path) -> AsyncIterator[None]:
    """Yields after each burst of changes below `root`."""
    async for _ in awatch(root):
        yield None
