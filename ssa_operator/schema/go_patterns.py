"""Go's regular expressions: RE2, the same language.

Promises:
- A pattern matches what Go matches: classes like `\\d` are ASCII, and `$` is the very end.
- A pattern that RE2 refuses is unknown, and no answer is given for it.

https://github.com/google/re2/wiki/Syntax
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2


@lru_cache(maxsize=4096)
def go_pattern(pattern: str) -> Any:
    """The compiled pattern, with the methods of `re.Pattern`; None if RE2 refuses it."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error:
        return None
