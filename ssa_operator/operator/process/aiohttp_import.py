"""Imports aiohttp without the system's certificate authorities.

aiohttp makes two TLS contexts when it is imported, and reads the system's certificate authorities into both. That takes
as long as a fifth of the other imports of `run`. The operator gives every request a TLS context of its own.

Promises:
- Only the import is changed. The two contexts trust no certificate, so that a request without its own one fails.
"""

from __future__ import annotations

import ssl
import sys


def import_aiohttp() -> None:
    """Import aiohttp. Only a program of ssa-operator calls this: in a user's own process, aiohttp stays unchanged."""
    if "aiohttp" in sys.modules:
        return
    ssl.SSLContext.set_default_verify_paths = _read_nothing  # type: ignore[assignment,method-assign]
    try:
        import aiohttp  # noqa: F401 - the other modules find it imported
    finally:
        # The method itself is that of a base class, and shows again.
        del ssl.SSLContext.set_default_verify_paths


def _read_nothing(_: ssl.SSLContext) -> None:
    """Read no certificate authorities."""
